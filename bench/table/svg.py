"""Pictures of figures as SVG: panels of curves, and bars; no library needed."""
import math
from xml.sax.saxutils import escape

COLOURS = {"Tenon": "#0b6e99", "PyTorch": "#d9730d", "bare library": "#787774"}
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


def panel(x0, y0, title, series, x_name, y_name, bound, bound_name):
    points = [p for line_ in series.values() for p in line_]
    low, high = min(x for x, _ in points), max(x for x, _ in points)
    top = nice(max([y for _, y in points] + ([bound] if bound else [])))
    wide, tall = PANEL - LEFT - 14, HIGH - TOP - 34

    def place(x, y):
        return (x0 + LEFT + (x - low) / ((high - low) or 1) * wide, y0 + TOP + tall * (1 - y / top))
    parts = [text(x0 + LEFT, y0 + TOP - 10, title, 13)]
    for share in (0, 0.5, 1):
        x, y = place(low, top * share)
        parts += [line(x, y, x + wide, y), text(x - 4, y + 4, f"{top * share:g}", 10, "end")]
    for x in sorted({p[0] for p in points})[::max(1, len({p[0] for p in points}) // 6)]:
        parts.append(text(place(x, 0)[0], y0 + TOP + tall + 13, f"{x:g}", 10, "middle"))
    parts.append(text(x0 + LEFT + wide / 2, y0 + TOP + tall + 26, f"{x_name}; {y_name}", 10, "middle", "#666"))
    if bound:
        x, y = place(low, bound)
        parts += [line(x, y, x + wide, y, BLACK, "2 3"), text(x + wide, y - 3, bound_name, 10, "end")]
    for name, dots in series.items():
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*p) for p in sorted(dots)))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS.get(name, BLACK)}" '
                     f'stroke-width="2"/>')
    return parts


def curves(panels, x_name, y_name, bound=None, bound_name=""):
    """panels: title -> series -> [(x, y)...]; two panels in each line. "" where there is nothing."""
    if not panels:
        return ""
    parts, names = [], list(dict.fromkeys(name for series in panels.values() for name in series))
    for i, (title, series) in enumerate(panels.items()):
        parts += panel(i % 2 * PANEL, 24 + i // 2 * HIGH, title, series, x_name, y_name, bound, bound_name)
    for i, name in enumerate(names):
        parts.append(text(LEFT + 110 * i, 18, name, 12, colour=COLOURS.get(name, BLACK)))
    return document(2 * PANEL, 24 + (len(panels) + 1) // 2 * HIGH, parts)


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
        parts += [line(x, 34, x, height, BLACK if power == 0 else GREY),
                  text(x, 30, f"{2.0 ** power:g}", 10, "middle")]
    for i, (value, name) in enumerate(values):
        y, x = 40 + each * i, place(value)
        parts.append(f'<rect x="{min(x, place(1)):.1f}" y="{y}" width="{max(0.5, abs(x - place(1))):.1f}" '
                     f'height="{each - 5}" fill="{COLOURS["Tenon" if value >= 1 else "PyTorch"]}"/>')
        parts += [text(left - 8, y + 10, name, 10, "end"),
                  text(left + wide + 6, y + 10, f"{value:.2f}", 10)]
    return document(left + wide + 50, height, parts)
