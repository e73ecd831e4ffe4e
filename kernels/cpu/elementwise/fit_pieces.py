#!/usr/bin/env python3
"""Prints bell_pieces.inc's tables: gelu and its slope at -a in pieces of width 3/16, polynomials that
interpolate at Chebyshev nodes in 34 digits. Of the centres near the middle of a piece that one is
taken at which the function and its derivative are nearest to floats, so that rounding these costs
nothing. Needs mpmath and numpy."""
from mpmath import cos, erfc, exp, lu_solve, matrix, mp, mpf, pi, sqrt
import numpy

mp.dps = 34
PIECES, DEGREE, WIDTH = 32, 7, mpf(3) / 16


def density(x):
    return exp(-x * x / 2) / sqrt(2 * pi)


def normal(x):
    return erfc(-x / sqrt(mpf(2))) / 2


def gelu(a):
    return -a * normal(-a)


def slope(a):
    return normal(-a) - a * density(a)


def slope_of_slope(a):
    return -density(a) * (2 - a * a)


def lost(x):
    """What rounding x to a float costs, in units in the last place."""
    near = numpy.float32(float(x))
    return abs(float((mpf(float(near)) - x) / mpf(float(numpy.spacing(abs(near))))))


def centre(f, derivative, middle):
    """A multiple of 2^-21, from which distances are exact."""
    best = None
    for k in range(-400, 401):
        c = (mpf(round(float(middle) * 2**21)) + k) / 2**21
        cost = max(lost(f(c)), 0.6 * lost(derivative(c)))
        if best is None or cost < best[0]:
            best = (cost, c)
    return best[1]


def interpolate(g, low, high):
    n, mid, half = DEGREE, (low + high) / 2, (high - low) / 2 * mpf("1.001")
    nodes = [mid + half * cos(pi * (2 * k + 1) / (2 * n)) for k in range(n)]
    a, b = matrix(n, n), matrix(n, 1)
    for i, x in enumerate(nodes):
        for j in range(n):
            a[i, j] = x**j
        b[i] = g(x)
    return list(lu_solve(a, b))


def piece(f, derivative, k):
    middle = k * WIDTH
    c = centre(f, derivative, middle) if k else mpf(0)

    def rise(t):
        return (f(c + t) - f(c)) / t if abs(t) > mpf(10)**-9 else derivative(c)
    found = interpolate(rise, middle - WIDTH / 2 - c if k else mpf(0), middle + WIDTH / 2 - c)
    found[0] = derivative(c)
    return [c, f(c)] + found


def show(name, comment, f, derivative):
    columns = [piece(f, derivative, k) for k in range(PIECES)]
    print("/* %s */\nstatic const float %s[BELL_ROWS][BELL_PIECES] = {" % (comment, name))
    for row in range(DEGREE + 2):
        line = "  {"
        for k in range(PIECES):
            value = float(numpy.float32(float(columns[k][row])))
            if row == 1 and value == 0:
                value = -0.0  # so that gelu(-0) is -0
            text = "%.9g" % value
            text += ("" if "." in text or "e" in text else ".0") + "f" + ("," if k < PIECES - 1 else "},")
            if len(line) + len(text) + 1 > 100:
                print(line.rstrip())
                line = "   "
            line += text + " "
        print(line.rstrip())
    print("};")


show("bell_gelu_pieces", "-a Phi(-a)", gelu, lambda a: -slope(a))
show("bell_slope_pieces", "Phi(-a) - a phi(a)", slope, slope_of_slope)
