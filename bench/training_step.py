"""The CNN's training step: of examples/train, and of peers/torch_mnist.py, the same in PyTorch. Each runs in
a process of its own; a function gives microseconds of a step and the most bytes that were resident."""
import json
import os
import re
import subprocess
import sys

PEERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers")


def output_of(command, environment):
    """What it printed, and the most bytes that it had resident."""
    process = subprocess.Popen(command, env=dict(os.environ, **environment), stdout=subprocess.PIPE, text=True)
    printed = process.stdout.read()
    process.stdout.close()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return printed, used.ru_maxrss * 1024


def pictures_in(folder):
    """The folder with the four files: this one, or mnist/ or fashion-mnist/ in it."""
    for name in ("mnist", "fashion-mnist"):
        if os.path.isdir(os.path.join(folder, name)):
            return os.path.join(folder, name)
    return folder


def ours(build, data, device, steps=None, environment=None):
    """An epoch, or so many steps."""
    command = [f"{build}/examples/train", "--data", pictures_in(data), "--epochs", "1"]
    printed, peak = output_of(command + (["--steps", str(steps)] if steps else []),
                              {"TENON_DEVICE": device, **(environment or {})})
    return float(re.findall(r"([\d.]+) ms/step", printed)[-1]) * 1e3, peak


def theirs(kind, steps, rounds=3, environment=None):
    """kind: cuda or cpu. The median of rounds of so many steps."""
    command = [sys.executable, f"{PEERS}/torch_mnist.py", "--device", kind, "--steps", str(steps),
               "--rounds", str(rounds)]
    printed, peak = output_of(command, environment or {})
    rows = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    return next(row["time_ms"] for row in rows if row["what"].endswith("eager")) * 1e3, peak
