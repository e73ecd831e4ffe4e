#!/usr/bin/env python3
"""Says what bounds the operators that are slower than the device's copy, by the profiler's counters.

Reads the JSON lines of `tenon bench --device cuda`, takes each operator's slowest call of more than
some time, and runs those below a part of the copy's speed once under ncu. A call's figures are those of
its kernels, weighed by their time: what part they use of the memory's bandwidth, of the caches' and of
the multiprocessors' instructions, and the bytes that the memory moved over those that the call must move.
Writes JSON lines, and a page of the manual.

usage: bounds.py JSON [--tenon build/tools/tenon] [--device cuda] [--below 0.95] [--least US] [--seconds S]
                 [--skip GLOB,...] [--json FILE] [--page FILE] [--again FILE]
"""
import argparse
import csv
import fnmatch
import io
import json
import os
import re
import signal
import subprocess
import sys
import time

DURATION, MOVED = "gpu__time_duration.sum", "dram__bytes.sum"
PARTS = {  # of their peaks, in percent
    "memory": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "L2": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "L1": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "issue": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "fmaheavy": "sm__inst_executed_pipe_fmaheavy.avg.pct_of_peak_sustained_active",
    "fma": "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active",
    "alu": "sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active",
    "xu": "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active",
    "fp64": "sm__inst_executed_pipe_fp64.avg.pct_of_peak_sustained_active",
    "tensor": "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",
}
NS = {"ns": 1, "nsecond": 1, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9}
BYTES = {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}
PIPES = ("fma", "fmaheavy", "alu", "xu", "fp64", "tensor")
ENOUGH, LIMITS = 75, {"memory": 70, "L2": 70}  # percent of a peak that count as its bound
COMPUTING = "conv*,matmul*,*attention*,rnn*,gru*,lstm*,qlinear*"  # what arithmetic bounds
INPUTS = r"^(?!.*same<unsigned)"  # all kernels but those that repeat inputs


def slowest(path, least_us, skipped):
    """Of each operator and element type the call that uses the least part of the copy's speed."""
    worst = {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line) if line.strip() else {}
            if row.get("bench") != "ops" or row["time_us"] < least_us or row.get("of_copy") is None:
                continue
            if any(fnmatch.fnmatch(row["op"], glob) for glob in skipped):
                continue
            key = row["op"], row["dtype"]
            if key not in worst or row["of_copy"] < worst[key]["of_copy"]:
                worst[key] = row
    return sorted(worst.values(), key=lambda r: r["of_copy"])


def last_call(kernels):
    """The kernels of the last of two same calls that end a list: the longest half of such an end."""
    names = [k["kernel"] for k in kernels]
    for count in range(len(names) // 2, 0, -1):
        if names[-count:] == names[-2 * count:-count]:
            return kernels[-count:]
    return []


def figures_of(text):
    """The rows of ncu's table, as {metric: value} in nanoseconds, bytes and percent."""
    start = text.find('"ID"')
    rows = list(csv.reader(io.StringIO(text[start:]))) if start >= 0 else []
    if len(rows) < 2 or DURATION not in rows[0]:
        return []
    names, units, kernels = rows[0], rows[1], []
    for row in rows[2:]:
        if len(row) != len(names):
            continue
        values = {"kernel": row[names.index("Kernel Name")]}
        for name, unit, value in zip(names, units, row):
            if name in (DURATION, MOVED) or name in PARTS.values():
                scale = NS.get(unit, 1) if name == DURATION else BYTES.get(unit, 1) if name == MOVED else 1
                try:
                    values[name] = float(value.replace(",", "")) * scale
                except ValueError:
                    values[name] = 0.0
        kernels.append(values)
    return kernels


def known_metrics():
    """Those that this device counts."""
    try:
        listed = subprocess.run(["ncu", "--query-metrics"], capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        raise SystemExit("bounds.py: there is no ncu here") from None
    names = {line.split()[0] for line in listed.splitlines() if line.strip()}
    return [m for m in (DURATION, MOVED, *PARTS.values()) if not names or m.split(".")[0] in names]


def profile(options, row, metrics):
    """The kernels of one call; None where ncu or the call failed, which was said."""
    case = re.sub(r"([\[\]*?\\])", r"\\\1", row["case"])
    command = ["ncu", "--clock-control", "none", "--metrics", ",".join(metrics), "--csv", "--page", "raw",
               "--print-units", "base", "--kernel-name-base", "demangled", "--kernel-name", f"regex:{INPUTS}",
               options.tenon, "bench", "--device", options.device, "--op", row["op"],
               "--dtype", row["dtype"], "--case", case, "--once"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          start_new_session=True) as run:
        try:
            out, err = run.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)  # what is profiled, too
            print(f"bounds.py: {row['case']}: took too long", file=sys.stderr)
            return None
    calls = sum(line.startswith("begin ") for line in out.splitlines())
    kernels = last_call(figures_of(out)) if calls == 1 else []  # one to warm up, and one more
    if not kernels:
        why = f"{calls} calls are printed so" if calls > 1 else (err or out)[:300]
        print(f"bounds.py: {row['case']}: nothing profiled: {why}", file=sys.stderr)
        return None
    return kernels


def summary(row, kernels):
    """One call's figures: its kernels' time, and the parts that they use weighed by it."""
    total = sum(k[DURATION] for k in kernels) or 1.0
    parts = {name: sum(k.get(metric, 0) * k[DURATION] for k in kernels) / total for name, metric in PARTS.items()}
    must = row["gbytes_s"] * row["time_us"] * 1e3
    figures = {"bench": "bounds", "op": row["op"], "dtype": row["dtype"], "case": row["case"],
               "of_copy": row["of_copy"], "time_us": row["time_us"], "kernels_us": total / 1e3, "kernels": len(kernels),
               "moved": sum(k.get(MOVED, 0) for k in kernels) / must if must else None,
               **{name: round(value, 1) for name, value in parts.items()}}
    return {**figures, "bound": bound_of(figures)}


def bound_of(figures):
    """The resource that a call, as in summary(), uses up; else what its time goes to. Where memory is busy L2 is,
    too: it is the bound where more goes through it than to memory."""
    for name in ("issue", *PIPES, "memory", "L2", "L1"):
        if round(figures[name]) >= LIMITS.get(name, ENOUGH):
            return name
    if figures["kernels_us"] < 0.8 * figures["time_us"] and figures["kernels"] > 1:
        return "launches"
    name = max(PARTS, key=lambda part: figures[part])
    return f"latency ({name} {figures[name]:.0f} %)"


def table(rows):
    lines = ["| call | of the copy | us | kernels | moved | memory | L2 | L1 | issue | greatest pipe | bound |",
             "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    for r in rows:
        if "bound" not in r:
            lines.append(f"| {r['case']} | {r['of_copy']:.2f} | {r['time_us']:.0f} | " + "– | " * 7 + "not counted |")
            continue
        pipe = max(PIPES, key=lambda name: r[name])
        moved = "" if r["moved"] is None else f"{r['moved']:.2f}"
        lines.append(f"| {r['case']} | {r['of_copy']:.2f} | {r['time_us']:.0f} | {r['kernels']} | {moved} | "
                     f"{r['memory']:.0f} % | {r['L2']:.0f} % | {r['L1']:.0f} % | {r['issue']:.0f} % | "
                     f"{pipe} {r[pipe]:.0f} % | {r['bound']} |")
    return "\n".join(lines) + "\n"


def page(rows, timed, below, device):
    """A page of the manual; `timed` is how many operators were."""
    return f"""# What bounds operators on CUDA

Measured on one {device} and written by `./dev gpu bounds`. Of {timed} operators that
`tenon bench --device cuda` times for long enough, matrix products, convolutions, attention and recurrent
networks apart, these run below {100 * below:.0f} % of the speed of the device's copy at their slowest shape, by
the bytes that they must read and write. Beside that stands what NVIDIA's profiler counts of one call: its
kernels, the bytes that memory moved over those that the call must move, what part it used of the bandwidth
of memory, L2 and L1, of the instructions that can be issued, and of the busiest pipe, all weighed by the
kernels' time. The profiler empties the caches before each kernel. A resource of which {ENOUGH} % are used is the
bound, {LIMITS["memory"]} % of the bandwidth of memory or L2: `issue` and pipes are arithmetic, `L2` mostly accesses of
single elements anywhere, of which each takes a sector of 32 bytes. Else it is latency: too little work at once,
steps that wait for each other, or several short kernels.

{table(rows)}"""


def device_name():
    query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        return subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "GPU"


def written_again(options, timed, rows):
    """The page from counters of before; calls without any are said to have none."""
    with open(options.again, encoding="utf-8") as lines:
        counted = {(r["op"], r["dtype"], r["case"]): r for r in map(json.loads, filter(str.strip, lines))}
    if not counted:
        raise SystemExit(f"bounds.py: {options.again} has no counters")
    found = [counted.get((r["op"], r["dtype"], r["case"]), r) for r in rows]
    done = [{**r, "bound": bound_of(r)} if "kernels_us" in r else r for r in found]
    with open(options.page or os.devnull, "w", encoding="utf-8") as out:
        out.write(page(done, len(timed), options.below, next(iter(counted.values()))["device"]))
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lines")
    parser.add_argument("--tenon", default="build/tools/tenon")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--below", type=float, default=0.95)
    parser.add_argument("--least", type=float, default=30)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after about so long")
    parser.add_argument("--skip", default=COMPUTING)
    parser.add_argument("--json")
    parser.add_argument("--page", help="written unless calls were not counted")
    parser.add_argument("--again", help="what --json of an earlier run holds, of which --page is written anew")
    options = parser.parse_args()
    timed = slowest(options.lines, options.least, [g for g in options.skip.split(",") if g])
    rows = [r for r in timed if r["of_copy"] < options.below]
    if options.again:
        return written_again(options, timed, rows)
    began, done, metrics, device = time.monotonic(), [], known_metrics(), device_name()
    if options.json:
        open(options.json, "w", encoding="utf-8").close()
    for row in rows:
        if time.monotonic() - began > options.seconds:
            print(f"bounds.py: out of time at {row['case']}", file=sys.stderr)
            break
        kernels = profile(options, row, metrics)
        if not kernels:
            continue
        done.append({**summary(row, kernels), "device": device})
        if options.json:
            with open(options.json, "a", encoding="utf-8") as out:
                out.write(json.dumps(done[-1]) + "\n")
    if options.page and len(done) == len(rows):  # else the one that is there says more
        with open(options.page, "w", encoding="utf-8") as out:
            out.write(page(done, len(timed), options.below, device))
    print(table(done), end="")
    return 0 if len(done) == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
