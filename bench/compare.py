#!/usr/bin/env python3
"""Tenon beside PyTorch on this machine, as a table in Markdown.

Runs the calls, the products and the training step of both by turns, ROUNDS times, and prints
the median of each with their ratio (above 1: Tenon takes less time). Wants a build folder and
a Python with PyTorch; the training step wants a data set: --data FOLDER with mnist/ or
fashion-mnist/, as in ./dev.

usage: compare.py [--build build] [--data FOLDER] [--rounds 3] DEVICE...
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

import training_step

ROWS = ["add, output given", "add, output made", "tensor empty and release",
        "matmul 64", "matmul 256", "matmul 1024"]


def output_of(command, device):
    environment = dict(os.environ, TENON_DEVICE=device)
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True,
                          text=True).stdout


def microseconds(text, wanted):
    """What the JSON lines say of the wanted rows."""
    found = {}
    for line in text.splitlines():
        row = json.loads(line) if line.startswith("{") else {}
        if row.get("case") in wanted:
            found[row["case"]] = row["time_us"] if "time_us" in row else row["time_ns"] / 1e3
    return found


def ours(options, device):
    found = {}
    for bench in ("dispatch", "gemm"):
        found.update(microseconds(output_of([f"{options.build}/bench/{bench}"], device), ROWS))
    if options.data:
        steps = None if device.startswith("cuda") else 100
        found["training step"], _ = training_step.ours(options.build, options.data, device, steps)
    return found


def theirs(options, device):
    kind = device.split(":")[0]
    text = output_of([sys.executable, f"{training_step.PEERS}/torch_calls.py", "--device", kind], device)
    found = microseconds(text, ROWS)
    found["training step"], _ = training_step.theirs(kind, 100 if kind == "cuda" else 20)
    return found


def text_of(us):
    if us < 1:
        return f"{us * 1e3:.0f} ns"
    return f"{us:.1f} µs" if us < 1000 else f"{us / 1e3:.2f} ms"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--data")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("devices", nargs="+")
    options = parser.parse_args()
    print("| float32 | device | Tenon | PyTorch | ratio |\n| --- | --- | --- | --- | --- |")
    for device in options.devices:
        rounds = [(ours(options, device), theirs(options, device)) for _ in range(options.rounds)]
        for what in ROWS + ["training step"]:
            pair = [[r[side][what] for r in rounds if what in r[side]] for side in (0, 1)]
            if not all(pair):
                continue
            a, b = (statistics.median(times) for times in pair)
            print(f"| {what} | {device} | {text_of(a)} | {text_of(b)} | {b / a:.2f} |", flush=True)


if __name__ == "__main__":
    main()
