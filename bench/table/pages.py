#!/usr/bin/env python3
"""Writes the page of a device's speed, with its pictures, from the JSON lines of table.py.

Lines of the CPU, which tell threads, make docs/performance-cpu.md, others docs/performance-cuda.md.

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
SIDES = {"tenon": "Tenon", "torch": "PyTorch", "bare": "bare library"}
ENOUGH = 0.97  # below that a row falls short: less is the spread of a median


class Cuda:
    """What a GPU's page is called, and what stands in it."""
    name, title, listed, reasons = "performance-cuda", "Speed on CUDA", "speed on CUDA", "reasons.txt"
    products_unit = "TFLOP/s"
    drawn = ("bandwidth",)  # sections that have a picture and no table
    first_headings = {}
    last_headings = {"issue": "Some work", "host": "The host's cost of a call"}
    captions = {"bandwidth": ("Bandwidth", "Bandwidth of operators by elements")}


class Cpu:
    name, title, listed, reasons = "performance-cpu", "Speed on the CPU", "speed on the CPU", "reasons_cpu.txt"
    products_unit = "GFLOP/s"
    drawn = ("elements",)
    first_headings = {"step": "The training step of the CNN"}
    last_headings = {"functions": "Functions of 2^20 elements"}
    captions = {"elements": ("From 1 to 2^28 elements", "Bandwidth of operators by elements, on one and all threads"),
                "threads": ("From one thread to all", "Speed of operators and of the training step by threads")}


def read(path):
    """What the lines about the run say, and the rows. In heads["copy_by_threads"] copies by threads."""
    head, rows, copies = {}, [], {}
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
                copies[row.get("threads", 0)] = row.get("copy")
    if not rows:
        raise SystemExit(f"pages.py: {path} has no rows of table.py")
    head["copy_by_threads"] = copies
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


def words_of(threads):
    return f", {threads} thread" + "s" * (threads > 1) if threads else ""


def shortened(row):
    """Its name, without the threads."""
    return row["row"].removesuffix(words_of(row.get("threads")))


# ------------------------------------------------------------------- pictures ---

def panels_of(rows, place, sides=SIDES):
    """Panels of series of points; place(row): (panel, x), or None where the row is not drawn. A series is a
    side, on the CPU on so many threads: on one and all."""
    panels, most = {}, max((row.get("threads", 0) for row in rows), default=0)
    for row in rows:
        at, threads = place(row), row.get("threads", 0)
        if at is None or threads not in (0, 1, most):
            continue
        for side, name in sides.items():
            if side in row:
                series = name + (words_of(threads) if threads else "")
                panels.setdefault(at[0], {}).setdefault(series, []).append((at[1], row[side]))
    return panels


def by_elements(row):
    op, _, power = shortened(row).partition(" 2^")
    return (op, float(power)) if power else None


def bandwidth(rows, head):
    """One panel per operator: GB/s by the logarithm of the elements."""
    panels = panels_of(rows, by_elements, {side: SIDES[side] for side in ("tenon", "torch")})
    return curves(panels, "elements, 2^n", "GB/s", head.get("copy"), "copy")


def elements(rows, head):
    """The same where caches are many times as fast as memory, and calls many times as short."""
    copies = head["copy_by_threads"]
    return curves(panels_of(rows, by_elements), "elements, 2^n", "GB/s", copies.get(max(copies)), "addition in memory",
                  True)


def threads(rows):
    """Speed by threads: of operators at the size that was measured with every count, and of the step."""
    counts = {row["threads"] for row in rows if row.get("threads")}
    if len(counts) < 2:
        return ""
    panels = {}
    for row in rows:
        named = by_elements(row) if row["section"] == "elements" else ("training steps, 1/s", None)
        if not row.get("threads") or row["unit"] == "MB" or row["section"] not in ("elements", "step"):
            continue
        panels.setdefault(named, []).append(row)
    drawn = {}
    for (name, power), found in panels.items():
        if {row["threads"] for row in found} != counts or power not in (None, 24):
            continue
        for row in found:
            for side, words in SIDES.items():
                if side in row:
                    y = 1e3 / row[side] if row["unit"] == "ms" else row[side]
                    title = name + (f" of 2^{power:g}, GB/s" if power else "")
                    drawn.setdefault(title, {}).setdefault(words, []).append((math.log2(row["threads"]), y))
    return curves(drawn, "threads, 2^n", "more is faster")


def products(rows, unit):
    """Square products only: by the size, a panel for each type."""
    def place(row):
        size, _, dtype = shortened(row).partition(" ")
        m, *others = size.split("x")
        if not m.isdigit() or others != [m, m] or " " in dtype:
            return None
        return dtype, math.log2(int(m))
    return curves(panels_of(rows, place), "size, 2^n", unit)


def by_operator(rows):
    """Geometric means of the ratios, the least first."""
    logs = {}
    for row in rows:
        if row.get("ratio", 0) > 0:
            logs.setdefault((row.get("op") or row["row"]) + words_of(row.get("threads")), []).append(
                math.log(row["ratio"]))
    return sorted(((math.exp(sum(x) / len(x)), op) for op, x in logs.items()))


# ----------------------------------------------------------------------- page ---

def groups_of(rows):
    """Rows that one line can tell of: of an operator over the elements, on so many threads; else each alone."""
    groups = {}
    for row in rows:
        curve = row["section"] == "elements"
        groups.setdefault((row["section"], row["op"], row["threads"]) if curve else row["row"], []).append(row)
    return groups.values()


def short_line(group, why):
    worst = min(group, key=lambda row: row["ratio"])
    begin = f"- **{worst['row']}** ({worst['section']}): {worst['ratio']:.2f} of the best other"
    others = sorted((by_elements(row)[1], row["ratio"]) for row in group if row is not worst)
    if others:
        begin += "; " + ", ".join(f"2^{power:g} {ratio:.2f}" for power, ratio in others)
    return f"{begin}. {why}."


def short_rows(rows, reasons):
    """Lines about rows that fall short, the worst first; and the reasons that none of them needed."""
    used, lines = set(), []
    groups = groups_of(row for row in rows if row.get("ratio", 1) < ENOUGH)
    for group in sorted(groups, key=lambda g: min(row["ratio"] for row in g)):
        why, row = "no reason is known yet", min(group, key=lambda r: r["ratio"])
        for i, (section, glob, reason) in enumerate(reasons):
            if section == row["section"] and fnmatch.fnmatchcase(row["row"], glob):
                why = reason
                used.add(i)
                break
        lines.append(short_line(group, why))
    return lines, [f"{s} {g}" for i, (s, g, _) in enumerate(reasons) if i not in used]


def sections_of(rows):
    return list(dict.fromkeys(row["section"] for row in rows))


def introduction(kind, head, rows):
    turns = (f"figures are medians of {head.get('rounds', 'some')} rounds. A ratio above 1 says how many times less "
             "time Tenon takes than the best of the others.\n")
    if kind is Cuda:
        yield (f"Measured on one {head.get('device', 'GPU')} in one run of `./dev gpu table`, and written by "
               "`./dev gpu pages`. Tenon, PyTorch and the bare library call take turns, each in a process of its "
               f"own, on random inputs; {turns}")
        if head.get("copy"):
            yield (f"A copy on the device runs at {figure(head['copy'])} GB/s, and a loop of bare launches takes "
                   f"{figure(head.get('launch_ns', 0) / 1e3)} µs each.\n")
        yield ("Convolutions with channels last have weights that lie so, too, as PyTorch's do, and gradients by weight go "
               "to tensors that do. Those that a call makes are row-major, which takes a copy more.\n")
        return
    counts = sorted(head["copy_by_threads"])
    torch = f"PyTorch {head['torch']}" if head.get("torch") else "no PyTorch was there"
    yield (f"Measured on {head.get('device', 'a processor')} with {' and '.join(map(str, counts))} threads, and "
           "written, by one run of `./dev bench --curves`. Tenon, PyTorch and the bare library take turns, each in "
           f"a process of its own, on random inputs; {turns}")
    yield (f"Beside Tenon are {torch}; an addition and a copy as STREAM makes them, in OpenMP; OpenBLAS; and "
           "oneDNN, of the layouts that it likes best. Outputs are given, but for PyTorch's `layer_norm` and "
           "convolutions, which it makes itself. The limit is the addition of 2^25 elements: " +
           ", ".join(f"{figure(head['copy_by_threads'][n])} GB/s on {n}" for n in counts) + ".\n")


def tables(kind, rows, pictures):
    """Sections that are printed, in their order; first and last those that the kind wants there."""
    there = sections_of(rows)
    moved = {**kind.first_headings, **kind.last_headings}
    middle = [s for s in there if s not in moved and s not in kind.drawn]
    for section in [*[s for s in kind.first_headings if s in there], *middle,
                    *[s for s in kind.last_headings if s in there]]:
        if section == "products" and "products" in pictures:
            yield f"## Products over sizes\n\n![Square products by size and type]({kind.name}-products.svg)\n"
        else:
            yield f"## {moved.get(section, section.capitalize())}\n"
        yield "\n".join(table([row for row in rows if row["section"] == section])) + "\n"


def page(kind, head, rows, pictures, short):
    measured = [row for row in rows if "ratio" in row]
    yield f"# {kind.title}\n"
    yield from introduction(kind, head, rows)
    if measured:
        faster = sum(row["ratio"] >= 1 for row in measured)
        even = sum(row["ratio"] >= ENOUGH for row in measured)
        yield (f"Of {len(measured)} rows that have a peer, Tenon is as fast or faster in {faster}, and within "
               f"{100 - 100 * ENOUGH:.0f} %, which is the spread of a median, in {even}.\n")
    yield from tables(kind, rows, pictures)
    for name, (title, words) in kind.captions.items():
        if name in pictures:
            yield f"## {title}\n\n![{words}]({kind.name}-{name}.svg)\n"
    if "ratios" in pictures:
        yield f"## Ratio per operator\n\n![Ratios to the best other by operator]({kind.name}-ratios.svg)\n"
    yield "## What falls short\n"
    yield ("\n".join(short) if short else "Nothing that was measured.") + "\n"


def draw(kind, head, rows):
    """Pictures by their names; none that would be empty."""
    of = {section: [r for r in rows if r["section"] == section] for section in sections_of(rows)}
    ratios = by_operator(rows)
    drawn = {"bandwidth": bandwidth(of.get("bandwidth", []), head), "elements": elements(of.get("elements", []), head),
             "threads": threads(rows), "products": products(of.get("products", []), kind.products_unit),
             "ratios": bars(ratios, "ratio to the best other, 1 is even") if ratios else ""}
    return {name: picture for name, picture in drawn.items() if picture}


def write(path, text):
    with open(path, "w", encoding="utf-8") as out:
        out.write(text)
    print(f"wrote {path}")


def add(path, behind, words, name):
    """The manual's lists of pages get the page once."""
    if not os.path.exists(path):
        return
    with open(path, encoding="utf-8") as lines:
        text = lines.read()
    if name not in text and behind in text:
        at = text.index(behind) + len(behind)
        write(path, text[:at] + words + text[at:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("json")
    parser.add_argument("--docs", default="docs")
    parser.add_argument("--reasons")
    options = parser.parse_args()
    head, rows = read(options.json)
    kind = Cpu if head.get("threads") else Cuda
    short, stale = short_rows(rows, read_reasons(options.reasons or os.path.join(HERE, kind.reasons)))
    pictures = draw(kind, head, rows)
    for name, picture in pictures.items():
        write(os.path.join(options.docs, f"{kind.name}-{name}.svg"), picture)
    file = f"{kind.name}.md"
    write(os.path.join(options.docs, file), "\n".join(page(kind, head, rows, pictures, short)))
    add(os.path.join(options.docs, "../mkdocs.yml"), ": devices.md", f"\n      - {kind.title}: {file}", file)
    add(os.path.join(options.docs, "index.md"), "](support.md),", f" [{kind.listed}]({file}),", file)
    for key in stale:
        print(f"pages.py: no row falls short for the reason of '{key}' any more", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
