#!/usr/bin/env python3
"""Says what bounds the operators that are slower than the device's copy, by ncu's counters.

Reads the JSON lines of `tenon bench --device cuda`, takes each operator's slowest call of more than
some time, and runs those below a part of the copy's speed once under ncu. A call's figures are those of
its kernels, weighed by their time: what part they use of the memory's bandwidth, of the caches' and of
the multiprocessors' instructions, and the bytes that the memory moved over those that the call must move.

usage: bounds.py JSON [--tenon build/tools/tenon] [--device cuda] [--below 0.95] [--least US] [--seconds S]
                 [--skip GLOB,...] [--json FILE] [--markdown FILE]
"""
import argparse
import csv
import fnmatch
import io
import json
import re
import subprocess
import sys
import time

DURATION, MOVED = "gpu__time_duration.sum", "dram__bytes.sum"
PARTS = {  # of their peaks, in percent
    "memory": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "L2": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "L1": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "issue": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "fma": "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active",
    "alu": "sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active",
    "xu": "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active",
    "fp64": "sm__inst_executed_pipe_fp64.avg.pct_of_peak_sustained_active",
    "tensor": "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",
}
NS = {"ns": 1, "nsecond": 1, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9}
BYTES = {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}
ENOUGH = 75  # percent of a peak that count as its bound


def slowest(path, least_us, below, skipped):
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
    return sorted((r for r in worst.values() if r["of_copy"] < below), key=lambda r: r["of_copy"])


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
    if start < 0:
        return []
    rows = list(csv.reader(io.StringIO(text[start:])))
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


def profile(options, row):
    """The kernels of one call; None where ncu or the call failed, which was said."""
    metrics = ",".join([DURATION, MOVED, *PARTS.values()])
    case = re.sub(r"([\[\]*?\\])", r"\\\1", row["case"])
    command = ["ncu", "--clock-control", "none", "--metrics", metrics, "--csv", "--page", "raw",
               "--print-units", "base", options.tenon, "bench", "--device", options.device, "--op", row["op"],
               "--dtype", row["dtype"], "--case", case, "--once"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        print(f"bounds.py: {row['case']}: took too long", file=sys.stderr)
        return None
    kernels = last_call(figures_of(run.stdout))  # one to warm up, and one more
    if not kernels:
        print(f"bounds.py: {row['case']}: nothing profiled: {(run.stderr or run.stdout)[:300]}", file=sys.stderr)
        return None
    return kernels


def summary(row, kernels):
    """One call's figures: its kernels' time, and the parts that they use weighed by it."""
    total = sum(k[DURATION] for k in kernels) or 1.0
    parts = {name: sum(k.get(metric, 0) * k[DURATION] for k in kernels) / total for name, metric in PARTS.items()}
    must = row["gbytes_s"] * row["time_us"] * 1e3
    return {"bench": "bounds", "op": row["op"], "dtype": row["dtype"], "case": row["case"], "of_copy": row["of_copy"],
            "time_us": row["time_us"], "kernels_us": total / 1e3, "kernels": len(kernels),
            "moved": sum(k.get(MOVED, 0) for k in kernels) / must if must else None,
            **{name: round(value, 1) for name, value in parts.items()}, "bound": bound_of(parts, row, total, kernels)}


def bound_of(parts, row, total_ns, kernels):
    """The resource that is used up; else what the time goes to."""
    name = max(parts, key=parts.get)
    if parts[name] >= ENOUGH:
        return name
    if total_ns < 0.8e3 * row["time_us"] and len(kernels) > 1:
        return "launches"
    return f"latency ({name} {parts[name]:.0f} %)"


def markdown(rows):
    """A table for people."""
    lines = ["| call | of the copy | us | kernels | moved | memory | L2 | L1 | issue | greatest pipe | bound |",
             "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    for r in rows:
        pipe = max(("fma", "alu", "xu", "fp64", "tensor"), key=lambda name: r[name])
        moved = "" if r["moved"] is None else f"{r['moved']:.2f}"
        lines.append(f"| {r['case']} | {r['of_copy']:.2f} | {r['time_us']:.0f} | {r['kernels']} | {moved} | "
                     f"{r['memory']:.0f} % | {r['L2']:.0f} % | {r['L1']:.0f} % | {r['issue']:.0f} % | "
                     f"{pipe} {r[pipe]:.0f} % | {r['bound']} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lines")
    parser.add_argument("--tenon", default="build/tools/tenon")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--below", type=float, default=0.95)
    parser.add_argument("--least", type=float, default=30)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after about so long")
    parser.add_argument("--skip", default="")
    parser.add_argument("--json")
    parser.add_argument("--markdown")
    options = parser.parse_args()
    began, done = time.monotonic(), []
    rows = slowest(options.lines, options.least, options.below, [g for g in options.skip.split(",") if g])
    for row in rows:
        if time.monotonic() - began > options.seconds:
            print(f"bounds.py: out of time at {row['case']}", file=sys.stderr)
            break
        kernels = profile(options, row)
        if kernels:
            done.append(summary(row, kernels))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as out:
            out.writelines(json.dumps(r) + "\n" for r in done)
    text = markdown(done)
    if options.markdown:
        with open(options.markdown, "w", encoding="utf-8") as out:
            out.write(text)
    print(text, end="")
    return 0 if len(done) == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
