#!/usr/bin/env python3
"""Tenon, PyTorch and bare library calls side by side on one GPU, or on the CPU, in one table.

Each side is a process of its own that makes one call and times it when told to, so the three take turns
ROUNDS times for each row, on random inputs; a figure is the median of its rounds. Prints the table as
Markdown and writes a JSON line for each row to --json. A side that is not there, or cannot, has no figure;
a row that failed says why in the JSON. On the CPU everything is measured on some numbers of threads, by
default 1, all, and the powers of 2 between.

usage: table.py [--build build] [--json FILE] [--rounds 3] [--seconds 340] [--device cuda] [SECTION...]
       table.py --device cpu [--threads N,...] [--data FOLDER] ...
       table.py ... [--only TEXT]
       table.py [--device cpu] --list
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

from cases import CPU_SECTIONS, SECTIONS, of_threads

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, os.path.dirname(HERE))
import training_step  # noqa: E402

SIDES = ("tenon", "torch", "bare")
# OpenMP's threads spin for some 15 ms when their work is done: on the cores that the next side measures on.
IDLE_SECONDS = 0.025
# Dense products in TFLOP/s as the vendor states them, by what a device's name holds.
PEAKS = {"H100": {"f32": 67, "tf32": 494.7, "f16": 989.4, "bf16": 989.4, "i8": 1978.9, "f8_e4m3": 1978.9},
         "H200": {"f32": 67, "tf32": 494.7, "f16": 989.4, "bf16": 989.4, "i8": 1978.9, "f8_e4m3": 1978.9},
         "A100": {"f32": 19.5, "tf32": 156, "f16": 312, "bf16": 312, "i8": 624}}


class Side:
    """One process that answers a line to each command; None in place of what it cannot."""

    def __init__(self, command, environment=None):
        self.fault = ""
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=dict(os.environ, **(environment or {})))

    def tell(self, line):
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        word, _, rest = answer.strip().partition(" ")
        if word == "ok":
            return rest
        self.fault = rest or "the process has ended"
        return None

    def alive(self):
        return self.process.poll() is None

    def close(self):
        try:
            self.process.stdin.close()
            self.process.wait(timeout=20)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self.process.kill()


def torch_there(options):
    """PyTorch's version, or "" where it is not there or has no such device."""
    text = "import torch; print(torch.__version__)"
    if on_gpu(options):
        text += "; assert torch.cuda.is_available()"
    found = subprocess.run([sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return "" if found.returncode else found.stdout.strip()


def on_gpu(options):
    return options.device.startswith("cuda")


def held_to(threads):
    """The environment in which every side has so many threads."""
    names = ("TENON_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return {name: str(threads) for name in names} if threads else {}


def open_sides(options, threads=0):
    """threads: 0 where that is not asked, on a GPU and on devices that have no peer."""
    environment = held_to(threads)
    bare = os.path.join(options.build, "bench/table/bare" if on_gpu(options) else "bench/table/bare_cpu")
    sides = {"tenon": Side([os.path.join(options.build, "bench/table/serve")],
                           dict(environment, TENON_DEVICE=options.device))}
    if on_gpu(options) or threads:
        if options.torch:
            sides["torch"] = Side([sys.executable, os.path.join(HERE, "torch_side.py"), "cpu" if threads else "cuda"],
                                  environment)
        if os.path.exists(bare):
            sides["bare"] = Side([bare], environment)
    return sides


def command_of(case, side):
    """What makes the case on that side."""
    if side == "tenon":
        return f"between {case['tenon']}" if case["kind"] == "between" else f"make {case['tenon']}"
    return f"make {json.dumps(case['torch'])}" if side == "torch" else case["bare"]


def churned(case, sides):
    found = {s: sides[s].tell(f"churn {case['tenon']}") for s in ("tenon", "torch") if s in sides}
    return {s: [float(x)] for s, x in found.items() if x}


def trained(case, sides, options):
    """Training steps by turns, each side a process: nanoseconds of a step, or bytes at most. Both come from one
    run, so the second case to ask gets what the first has measured."""
    environment, kept = held_to(case["threads"]), options.trained
    if case["threads"] not in kept:
        kept[case["threads"]] = [[], []]
        for _ in range(options.rounds):
            found = {"tenon": training_step.ours(options.build, options.data, options.device, 30, environment)}
            if "torch" in sides:
                found["torch"] = training_step.theirs("cpu", 6, 1, environment)
            for i in range(2):
                kept[case["threads"]][i].append({side: both[i] for side, both in found.items()})
    times, peaks = kept[case["threads"]]
    rounds = [{s: us * 1e3 for s, us in r.items()} for r in times] if case["kind"] == "step" else peaks
    return {side: [r[side] for r in rounds] for side in rounds[0]}


def measured(case, sides, options):
    """Rounds of each side that can, by turns: nanoseconds. And the kernel that Tenon took."""
    if case["kind"] == "churn":
        return churned(case, sides), "", {}
    if case["kind"] in ("step", "peak"):
        return trained(case, sides, options), "", {}
    faults, kernel, ready = {}, "", []
    for name, side in sides.items():
        if case[name] is None:
            continue
        answer = side.tell(command_of(case, name))
        if answer is None:
            faults[name] = side.fault
            continue
        kernel = answer if name == "tenon" else kernel
        ready.append(name)
    ask = "host" if case["kind"] == "host" else f"time {options.ms:g}"
    rounds = {name: [] for name in ready}
    for turn in range(options.rounds):
        for name in ready[turn % max(1, len(ready)):] + ready[:turn % max(1, len(ready))]:
            if case.get("threads", 0) > 1:
                time.sleep(IDLE_SECONDS)
            answer = sides[name].tell(ask)
            if answer is None:
                faults[name] = sides[name].fault
            else:
                rounds[name].append(float(answer))
    for side in sides.values():
        side.tell("drop")
    return {s: r for s, r in rounds.items() if r}, kernel, faults


class Limits:
    """What bounds a row: the copy (on the CPU STREAM's addition) and the launch of this run, products as
    the vendor states them."""

    def __init__(self, sides, device, threads=0):
        self.copy = self.launch = None
        self.peaks = {} if threads else next((p for known, p in PEAKS.items() if known in device), {})
        if threads and "bare" in sides:
            self.copy = 3 * (4 << 25) / self.best(sides["bare"], f"add {1 << 25}")
            return
        if "bare" in sides:
            self.copy = 2 * (1 << 30) / self.best(sides["bare"], f"copy {1 << 30}")
            self.launch = self.best(sides["bare"], "launch 4")

    @staticmethod
    def best(side, what):
        if side.tell(what) is None:
            return float("inf")
        found = [float(side.tell("time 10") or "inf") for _ in range(5)]
        side.tell("drop")
        return statistics.median(found)

    def of(self, case):
        """In the row's unit; None where nothing is known."""
        if case["kind"] == "churn":
            return 1
        if case["kind"] != "time":
            return None
        if case["limit"] == "copy":
            return self.copy
        if case["limit"] == "launch":
            return self.launch / 1e3 if self.launch else None
        return self.peaks.get(case["limit"])


def unit_of(case):
    named = {"churn": "times", "step": "ms", "peak": "MB"}.get(case["kind"])
    if named:
        return named
    if case["flops"] and case.get("threads"):
        return "GFLOP/s"
    return "TFLOP/s" if case["flops"] else "GB/s" if case["bytes"] else "us"


def in_unit(case, ns):
    """A row's figure from the time of a call; small is good for us, ms, MB and times alone."""
    unit = unit_of(case)
    if unit.endswith("FLOP/s"):
        return case["flops"] / ns / (1e3 if unit == "TFLOP/s" else 1)
    return {"times": ns, "us": ns / 1e3, "ms": ns / 1e6, "MB": ns / 1e6}.get(unit) or case["bytes"] / ns


def row_of(case, found, kernel, faults, limits):
    row = dict(bench="table", section=case["section"], row=case["row"], unit=unit_of(case), kernel=kernel)
    row["op"] = str(case["tenon"]).split()[0] if case["kind"] in ("time", "host") else case["kind"]
    if case.get("threads"):
        row["threads"] = case["threads"]
    medians = {side: statistics.median(times) for side, times in found.items()}
    for side in SIDES:
        if side in medians:
            row[side] = round(in_unit(case, medians[side]), 6)
            row[side + "_spread"] = round(max(found[side]) / min(found[side]), 3) if min(found[side]) else None
    row["limit"] = limits.of(case)
    peers = [medians[s] for s in ("torch", "bare") if s in medians and case["kind"] != "host"]
    if "torch" in medians and case["kind"] == "host":
        peers = [medians["torch"]]
    if case["kind"] == "host" and "bare" in medians and "tenon" in medians:
        row["of_launch"] = round(medians["tenon"] / medians["bare"], 3)
    if peers and "tenon" in medians:
        row["ratio"] = round(min(peers) / medians["tenon"], 4)  # above 1: Tenon is the fastest
    if faults:  # where there is one GPU nothing can be copied between two
        row["absent" if case["kind"] == "between" else "faults"] = faults
    return row


def figure(value):
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def print_head(section):
    print(f"\n### {section}\n\n| work | unit | Tenon | PyTorch | bare | limit | ratio |\n"
          "| --- | --- | --- | --- | --- | --- | --- |")


def print_row(row):
    cells = [figure(row.get(side)) for side in SIDES] + [figure(row["limit"])]
    ratio = f"{row['ratio']:.2f}" if "ratio" in row else "–"
    print(f"| {row['row']} | {row['unit']} | {' | '.join(cells)} | {ratio} |", flush=True)


def memory_free():
    """Bytes that processes may still take, without swapping."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return float("inf")


def run_section(name, cases, sides, limits, options, out):
    """Its rows, and how many rows there was no time, or no memory, for."""
    rows, late, math = [], 0, None
    print_head(name)
    for case in sorted(cases, key=lambda case: case["math"]):
        # Tensors of all sides are there at once, and some calls make one more.
        crowded = case.get("threads") and 1.5 * len(sides) * (case["bytes"] or 0) > memory_free()
        if time.monotonic() > options.until or crowded:
            late += 1
            continue
        if case["math"] != math:
            math = case["math"]
            for side in ("tenon", "torch"):
                if side in sides:
                    sides[side].tell(f"open {math}")
        row = row_of(case, *measured(case, sides, options), limits)
        print_row(row)
        out.write(json.dumps(row) + "\n")
        out.flush()
        rows.append(row)
    return rows, late


def summary(rows, late, sides):
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    if ratios:
        print(f"\n{len(rows)} rows; of {len(ratios)} that have a peer Tenon is at least as fast in "
              f"{sum(r >= 1 for r in ratios)}, within 5 % in {sum(r >= 0.95 for r in ratios)}; geometric mean "
              f"of the ratios {statistics.geometric_mean(ratios):.2f}")
    launches = sorted((row["of_launch"], row["row"]) for row in rows if "of_launch" in row)
    if launches:
        print(f"calls cost the host {launches[0][0]:.2f} ({launches[0][1]}) to {launches[-1][0]:.2f} "
              f"({launches[-1][1]}) of a bare launch with as many bytes of parameters, in the median "
              f"{statistics.median(part for part, _ in launches):.2f}")
    if late:
        print(f"no time, or no memory, was left for {late} rows: run their sections alone")
    for name in SIDES:
        if name not in sides:
            print(f"no {name} side here")
    for row in rows:
        for side, fault in row.get("faults", {}).items():
            print(f"{row['row']}: {side}: {fault}")
    return not any("tenon" in row.get("faults", {}) for row in rows)


def processor_name():
    try:
        with open("/proc/cpuinfo", encoding="ascii") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return "processor"


def device_name(options):
    if not on_gpu(options):
        return processor_name() if options.threads else options.device
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return options.device


def counts_of_threads(most):
    """All, one, and powers of 2 between: should time end, the ends were measured."""
    between = [1 << i for i in range(1, most.bit_length()) if 1 < 1 << i < most]
    return list(dict.fromkeys([most, 1, *between[::-1]]))


def read_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--json", default=os.devnull)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ms", type=float, default=15, help="that a round of calls takes")
    parser.add_argument("--seconds", type=float, default=340)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--threads", type=lambda text: [int(n) for n in text.split(",")], help="on the CPU: 1,2,4")
    parser.add_argument("--data", help="folder with mnist/ or fashion-mnist/: for the training step")
    parser.add_argument("--only", action="append", default=[], help="rows that have this text in their names")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("sections", nargs="*")
    options = parser.parse_args()
    there = CPU_SECTIONS if options.device == "cpu" else SECTIONS
    wrong = [name for name in options.sections if name not in there]
    if wrong:
        parser.error(f"no section {wrong[0]}; there are: {' '.join(there)}")
    if options.device == "cpu":
        options.threads = options.threads or counts_of_threads(len(os.sched_getaffinity(0)))
    elif options.threads:
        parser.error("--threads is for --device cpu")
    options.sections = options.sections or list(there)
    if options.device == "cpu" and not options.data:
        options.sections = [name for name in options.sections if name != "step"]
    options.trained = {}
    return options


def cases_of(section, options, threads):
    cases = of_threads(section, threads, max(options.threads)) if threads else SECTIONS[section]()
    return [case for case in cases if not options.only or any(text in case["row"] for text in options.only)]


def run_all(options, threads, name, out):
    """All sections on so many threads: rows, rows that were left out, and the sides; None where Tenon fails."""
    sides, rows, late = open_sides(options, threads), [], 0
    try:
        if sides["tenon"].tell("open ieee") is None:
            print(f"table.py: Tenon: {sides['tenon'].fault}", file=sys.stderr)
            return None
        limits = Limits(sides, name, threads)
        print(f"{name}; rounds {options.rounds}; " + (f"threads {threads}; STREAM's addition" if threads else "copy") +
              f" {figure(limits.copy)} GB/s, launch {figure(limits.launch and limits.launch / 1e3)} us")
        head = dict(bench="table", device=name, rounds=options.rounds, copy=limits.copy, launch_ns=limits.launch)
        if threads:
            head.update(threads=threads, torch=options.torch)
        out.write(json.dumps(head) + "\n")
        for section in options.sections:
            found, missed = run_section(section, cases_of(section, options, threads), sides, limits, options, out)
            rows, late = rows + found, late + missed
    finally:
        for side in sides.values():
            side.close()
    return rows, late, sides


def main():
    options = read_options()
    if options.list:
        for threads in options.threads or [0]:
            for section in options.sections:
                for case in cases_of(section, options, threads):
                    print(f"{section}\t{case['row']}\t{case['tenon']}")
        return 0
    begin, counts = time.monotonic(), options.threads or [0]
    options.torch = torch_there(options) if options.threads or on_gpu(options) else ""
    rows, late, sides, name = [], 0, {}, device_name(options)
    with open(options.json, "w", encoding="utf-8") as out:
        for i, threads in enumerate(counts):
            options.until = begin + options.seconds * (i + 1) / len(counts)
            found = run_all(options, threads, name, out)
            if found is None:
                return 1
            rows, late, sides = rows + found[0], late + found[1], found[2]
    return 0 if summary(rows, late, sides) else 1


if __name__ == "__main__":
    sys.exit(main())
