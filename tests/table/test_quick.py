"""Runs a bench with --quick and looks at its lines, not at its figures.

usage: test_quick.py PROGRAM
"""
import json
import math
import os
import subprocess
import sys

NAMES = ("bench", "device", "case")


def fault_of(row, name):
    """What is wrong with one line, or nothing."""
    figures = [value for key, value in row.items() if key not in NAMES]
    if row.get("bench") != name or not row.get("case") or not row.get("device"):
        return "does not say what was measured"
    if not any(isinstance(value, (int, float)) and math.isfinite(value) and value > 0 for value in figures):
        return "has no figure"
    return ""


def main():
    program = sys.argv[1]
    done = subprocess.run([program, "--quick"], stdout=subprocess.PIPE, text=True, check=True)
    lines = done.stdout.splitlines()
    cases = set()
    for line in lines:
        row = json.loads(line)
        fault = fault_of(row, os.path.basename(program))
        if fault:
            raise SystemExit(f"{line}: {fault}")
        cases.add(row["case"])
    if not lines or len(cases) != len(lines):
        raise SystemExit(f"{len(lines)} lines about {len(cases)} cases")
    refused = subprocess.run([program, "--nonsense"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if refused.returncode != 2 or "--quick" not in refused.stderr:
        raise SystemExit(f"--nonsense: {refused.returncode} {refused.stderr}")
    print(f"{len(lines)} lines")


if __name__ == "__main__":
    main()
