"""Pictures of figures as SVG: panels of curves, and bars; no library needed."""
import math
from xml.sax.saxutils import escape

# Of a series: what stands before the comma of its name. "…, 1 thread" is drawn in dashes.
COLOURS = {"Tenon": "#0b6e99", "PyTorch": "#d9730d", "bare library": "#787774"}
ONE_THREAD = ", 1 thread"
PANEL, HIGH, LEFT, TOP = 300, 190, 46, 26
BLACK, GREY = "#222", "#bbb"


def text(x, y, words, size=11, anchor="start", colour=BLACK):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
            f'fill="{colour}">{escape(words)}</text>')


def line(x1, y1, x2, y2, colour=GREY, dashes=""):
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
            f'stroke-width="1"{dashed}/>')


def document(width, height, parts):
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" font-family="sans-serif">')
    return "\n".join([head, f'<rect width="{width}" height="{height}" fill="#fff"/>', *parts, "</svg>\n"])


def nice(value):
    """A round number at or above it."""
    if value <= 0:
        return 1
    power = 10 ** math.floor(math.log10(value))
    return next(power * step for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if power * step >= value * 0.999)


def colour_of(name):
    return COLOURS.get(name.split(",")[0], BLACK)


def scale(values, logarithmic):
    """Where lines are drawn across, and how high from 0 to 1 a value stands."""
    if not logarithmic:
        top = nice(max(values))
        return [0, top / 2, top], lambda y: y / top
    least, most = (round_to(math.log10(y)) for y, round_to in ((min(values), math.floor), (max(values), math.ceil)))
    span = max(1, most - least)
    return [10.0 ** (least + i) for i in range(span + 1)], lambda y: (math.log10(y) - least) / span


def panel(x0, y0, title, series, x_name, y_name, bound, bound_name, logarithmic=False):
    points = [p for line_ in series.values() for p in line_]
    low, high = min(x for x, _ in points), max(x for x, _ in points)
    ticks, height = scale([y for _, y in points] + ([bound] if bound else []), logarithmic)
    wide, tall = PANEL - LEFT - 14, HIGH - TOP - 34

    def place(x, y):
        return (x0 + LEFT + (x - low) / ((high - low) or 1) * wide, y0 + TOP + tall * (1 - height(y)))
    parts = [text(x0 + LEFT, y0 + TOP - 10, title, 13)]
    for tick in ticks:
        x, y = place(low, tick)
        parts += [line(x, y, x + wide, y), text(x - 4, y + 4, f"{tick:g}", 10, "end")]
    for x in sorted({p[0] for p in points})[::max(1, len({p[0] for p in points}) // 6)]:
        parts.append(text(place(x, ticks[0])[0], y0 + TOP + tall + 13, f"{x:.3g}", 10, "middle"))
    parts.append(text(x0 + LEFT + wide / 2, y0 + TOP + tall + 26, f"{x_name}; {y_name}", 10, "middle", "#666"))
    if bound:
        x, y = place(low, bound)
        parts += [line(x, y, x + wide, y, BLACK, "2 3"),  # with small loads a curve begins below
                  text(x, y - 3, bound_name, 10) if logarithmic else text(x + wide, y - 3, bound_name, 10, "end")]
    for name, dots in series.items():
        places = [place(*p) for p in sorted(dots)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        dashed = ' stroke-dasharray="5 3"' if name.endswith(ONE_THREAD) else ""
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour_of(name)}" '
                     f'stroke-width="2"{dashed}/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour_of(name)}"/>'
                  for x, y in places if len(places) < 3]
    return parts


def curves(panels, x_name, y_name, bound=None, bound_name="", logarithmic=False):
    """panels: title -> series -> [(x, y)...]; two panels in each line. "" where there is nothing."""
    if not panels:
        return ""
    parts, names = [], list(dict.fromkeys(name for series in panels.values() for name in series))
    head = 6 + 18 * ((len(names) + 2) // 3)
    for i, (title, series) in enumerate(panels.items()):
        parts += panel(i % 2 * PANEL, head + i // 2 * HIGH, title, series, x_name, y_name, bound, bound_name,
                       logarithmic)
    for i, name in enumerate(names):
        dashes = " (dashed)" if name.endswith(ONE_THREAD) else ""
        parts.append(text(LEFT + 180 * (i % 3), 18 * (i // 3 + 1), name + dashes, 12, colour=colour_of(name)))
    return document(2 * PANEL, head + (len(panels) + 1) // 2 * HIGH, parts)


def bars(values, title):
    """values: (ratio, name); the axis is a logarithm, so that half and twice are equally far from 1."""
    left, wide, each = 210, 340, 17
    span = max(1, math.ceil(max(abs(math.log2(value)) for value, _ in values)))
    height = 44 + each * len(values)

    def place(value):
        return left + (math.log2(value) / span + 1) / 2 * wide
    parts = [text(left, 16, title, 12)]
    for power in range(-span, span + 1):
        x = place(2.0 ** power)
        if span > 4 and power % 2:
            continue
        parts += [line(x, 34, x, height, BLACK if power == 0 else GREY),
                  text(x, 30, f"{2.0 ** power:g}", 10, "middle")]
    for i, (value, name) in enumerate(values):
        y, x = 40 + each * i, place(value)
        parts.append(f'<rect x="{min(x, place(1)):.1f}" y="{y}" width="{max(0.5, abs(x - place(1))):.1f}" '
                     f'height="{each - 5}" fill="{COLOURS["Tenon" if value >= 1 else "PyTorch"]}"/>')
        parts += [text(left - 8, y + 10, name, 10, "end"),
                  text(left + wide + 6, y + 10, f"{value:.2f}", 10)]
    return document(left + wide + 50, height, parts)
