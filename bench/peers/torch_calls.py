#!/usr/bin/env python3
"""Calls and products of bench/dispatch and bench/gemm in PyTorch, under the same names.

An add of one element with its output given and made, an allocation, and square matrix
products in float32 without tf32, on random data. Prints one JSON line each; times are
medians of rounds that end when the device has done its work.

usage: torch_calls.py [--device cuda] [--rounds 9]
"""
import argparse
import json
import statistics
import time

import torch


def measure(device, call, calls, rounds):
    """Seconds per call of every round, after a round of warming up."""
    times = []
    for r in range(rounds + 1):
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        if device.type == "cuda":
            torch.cuda.synchronize()
        if r > 0:
            times.append((time.perf_counter() - begin) / calls)
    return times


def ways(device):
    """What is measured: its name and a function that does it once."""
    x, y, out = (torch.rand(1, device=device) * 2 - 1 for _ in range(3))
    yield "add, output given", lambda: torch.add(x, y, out=out)
    yield "add, output made", lambda: torch.add(x, y)
    yield "tensor empty and release", lambda: torch.empty(1, device=device)
    for n in (64, 256, 1024):
        a, b, c = (torch.rand(n, n, device=device) * 2 - 1 for _ in range(3))
        yield f"matmul {n}", lambda a=a, b=b, c=c: torch.mm(a, b, out=c)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    device = torch.device(options.device)
    torch.backends.cuda.matmul.allow_tf32 = False
    with torch.no_grad():
        for what, call in ways(device):
            once = min(measure(device, call, 10, 2))
            calls = max(5, min(20000, int(0.02 / once)))
            seconds = measure(device, call, calls, options.rounds)
            print(json.dumps({
                "bench": "torch_calls", "case": what,
                "time_us": round(statistics.median(seconds) * 1e6, 4),
                "least_us": round(min(seconds) * 1e6, 4), "most_us": round(max(seconds) * 1e6, 4),
                "torch": torch.__version__,
                "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
            }), flush=True)


if __name__ == "__main__":
    main()
