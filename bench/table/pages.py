#!/usr/bin/env python3
"""Writes the page of CUDA's speed, with its pictures, from the JSON lines of table.py.

usage: pages.py JSON [--docs docs] [--reasons FILE]
"""
import argparse
import fnmatch
import json
import math
import os
import sys

from svg import bars, curves

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE, TITLE = "performance-cuda.md", "Speed on CUDA"
SIDES = {"tenon": "Tenon", "torch": "PyTorch", "bare": "bare library"}
ENOUGH = 0.97  # below that a row falls short: less is the spread of a median


def read(path):
    """The line about the run, and the rows."""
    head, rows = {}, []
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError:
                raise SystemExit(f"pages.py: {path}: line {number} is no JSON") from None
            if not isinstance(row, dict) or row.get("bench") != "table":
                continue
            if "row" in row:
                rows.append(row)
            else:
                head = row
    if not rows:
        raise SystemExit(f"pages.py: {path} has no rows of table.py")
    return head, rows


def read_reasons(path):
    reasons = []
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.startswith("#"):
                continue
            key, bar, reason = line.partition("|")
            section, _, row = key.strip().partition(" ")
            if not bar or not row or not reason.strip():
                raise SystemExit(f"pages.py: {path}: line {number} is no 'SECTION ROW-GLOB | reason'")
            reasons.append((section, row.strip(), reason.strip()))
    return reasons


def figure(value):
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def table(rows):
    yield "| work | unit | Tenon | PyTorch | bare | limit | ratio |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for row in rows:
        cells = [figure(row.get(key)) for key in (*SIDES, "limit")]
        ratio = f"{row['ratio']:.2f}" if "ratio" in row else "–"
        yield f"| {row['row'].replace('|', '/')} | {row['unit']} | {' | '.join(cells)} | {ratio} |"


# ------------------------------------------------------------------- pictures ---

def bandwidth(rows, head):
    """One panel per operator: GB/s by the logarithm of the elements."""
    panels = {}
    for row in rows:
        op, _, power = row["row"].partition(" 2^")
        for side in ("tenon", "torch"):
            if side in row and power:
                panels.setdefault(op, {}).setdefault(SIDES[side], []).append((float(power), row[side]))
    return curves(panels, "elements, 2^n", "GB/s", head.get("copy"), "copy")


def products(rows):
    """Square products only: TFLOP/s by the size, a panel for each type."""
    panels = {}
    for row in rows:
        size, _, dtype = row["row"].partition(" ")
        m, *others = size.split("x")
        if not m.isdigit() or others != [m, m] or " " in dtype:
            continue
        for side, name in SIDES.items():
            if side in row:
                panels.setdefault(dtype, {}).setdefault(name, []).append((math.log2(int(m)), row[side]))
    return curves(panels, "size, 2^n", "TFLOP/s")


def by_operator(rows):
    """Geometric means of the ratios, the least first."""
    logs = {}
    for row in rows:
        if row.get("ratio", 0) > 0:
            logs.setdefault(row.get("op") or row["row"], []).append(math.log(row["ratio"]))
    return sorted(((math.exp(sum(x) / len(x)), op) for op, x in logs.items()))


# ----------------------------------------------------------------------- page ---

def short_rows(rows, reasons):
    """Lines about rows that fall short, the worst first; and the reasons that none of them needed."""
    used, lines = set(), []
    for row in sorted((r for r in rows if r.get("ratio", 1) < ENOUGH), key=lambda r: r["ratio"]):
        why = "no reason is known yet"
        for i, (section, glob, reason) in enumerate(reasons):
            if section == row["section"] and fnmatch.fnmatchcase(row["row"], glob):
                why = reason
                used.add(i)
                break
        lines.append(f"- **{row['row']}** ({row['section']}): {row['ratio']:.2f} of the best other. {why}.")
    return lines, [f"{s} {g}" for i, (s, g, _) in enumerate(reasons) if i not in used]


def sections_of(rows):
    return list(dict.fromkeys(row["section"] for row in rows))


def page(head, rows, pictures, short):
    measured = [row for row in rows if "ratio" in row]
    yield f"# {TITLE}\n"
    yield (f"Measured on one {head.get('device', 'GPU')} in one run of `./dev gpu table`, and written by "
           "`./dev gpu pages`. Tenon, PyTorch and the bare library call take turns, each in a process of its "
           f"own, on random inputs; figures are medians of {head.get('rounds', 'some')} rounds. A ratio above "
           "1 says how many times less time Tenon takes than the best of the others.\n")
    if head.get("copy"):
        yield (f"A copy on the device runs at {figure(head['copy'])} GB/s, and a loop of bare launches takes "
               f"{figure(head.get('launch_ns', 0) / 1e3)} µs each.\n")
    if measured:
        even = sum(row["ratio"] >= ENOUGH for row in measured)
        yield f"Of {len(measured)} rows that have a peer, Tenon is as fast or faster in {even}.\n"
    for section in sections_of(rows):
        if section in ("bandwidth", "host", "issue"):
            continue
        if section == "products" and "products" in pictures:
            yield "## Products over sizes\n\n![Square products by size and type](performance-cuda-products.svg)\n"
        else:
            yield f"## {section.capitalize()}\n"
        yield "\n".join(table([row for row in rows if row["section"] == section])) + "\n"
    for section, title in (("issue", "Some work"), ("host", "The host's cost of a call")):
        if section in sections_of(rows):
            yield f"## {title}\n\n" + "\n".join(table([r for r in rows if r["section"] == section])) + "\n"
    if "bandwidth" in pictures:
        yield "## Bandwidth\n\n![Bandwidth of operators by elements](performance-cuda-bandwidth.svg)\n"
    if "ratios" in pictures:
        yield "## Ratio per operator\n\n![Ratios to the best other by operator](performance-cuda-ratios.svg)\n"
    yield "## What falls short\n"
    yield ("\n".join(short) if short else "Nothing that was measured.") + "\n"


def write(path, text):
    with open(path, "w", encoding="utf-8") as out:
        out.write(text)
    print(f"wrote {path}")


def add(path, behind, words):
    """The manual's lists of pages get the page once."""
    if not os.path.exists(path):
        return
    with open(path, encoding="utf-8") as lines:
        text = lines.read()
    if PAGE not in text and behind in text:
        at = text.index(behind) + len(behind)
        write(path, text[:at] + words + text[at:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("json")
    parser.add_argument("--docs", default="docs")
    parser.add_argument("--reasons", default=os.path.join(HERE, "reasons.txt"))
    options = parser.parse_args()
    head, rows = read(options.json)
    short, stale = short_rows(rows, read_reasons(options.reasons))
    ratios = by_operator(rows)
    of = {section: [r for r in rows if r["section"] == section] for section in sections_of(rows)}
    drawn = {"bandwidth": bandwidth(of.get("bandwidth", []), head), "products": products(of.get("products", [])),
             "ratios": bars(ratios, "ratio to the best other, 1 is even") if ratios else ""}
    pictures = {name: picture for name, picture in drawn.items() if picture}
    for name, picture in pictures.items():
        write(os.path.join(options.docs, f"performance-cuda-{name}.svg"), picture)
    write(os.path.join(options.docs, PAGE), "\n".join(page(head, rows, pictures, short)))
    add(os.path.join(options.docs, "../mkdocs.yml"), ": devices.md", f"\n      - {TITLE}: {PAGE}")
    add(os.path.join(options.docs, "index.md"), "](support.md),", f" [speed on CUDA]({PAGE}),")
    for key in stale:
        print(f"pages.py: no row falls short for the reason of '{key}' any more", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
