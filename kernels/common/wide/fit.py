#!/usr/bin/env python3
"""Prints the polynomials of this folder's headers: interpolation at Chebyshev nodes in 60
digits, which is within a small factor of the best polynomial. Needs mpmath.

Each line gives the coefficients from the constant term up and the largest error of the
whole function relative to its value, so that degrees can be chosen."""
from mpmath import mp, mpf, cos, pi, lu_solve, matrix, exp, log, sin, atan, asin, erf, erfc
from mpmath import sqrt, tan

mp.dps = 60


def interpolate(g, low, high, degree):
    n = degree + 1
    mid, half = (mpf(high) + low) / 2, (mpf(high) - low) / 2
    nodes = [mid + half * cos(pi * (2 * k + 1) / (2 * n)) for k in range(n)]
    a = matrix(n, n)
    b = matrix(n, 1)
    for i, x in enumerate(nodes):
        for j in range(n):
            a[i, j] = x**j
        b[i] = g(x)
    return [float(c) for c in lu_solve(a, b)]


def value(c, x):
    y = mpf(0)
    for k in reversed(c):
        y = y * x + mpf(k)
    return y


def show(name, g, low, high, degree, whole, truth):
    """whole(x, p): the function built from polynomial value p at x."""
    c = interpolate(g, low, high, degree)
    worst = mpf(0)
    for i in range(401):
        x = mpf(low) + (mpf(high) - low) * (mpf(i) + mpf("0.37")) / mpf("401.7")
        t = truth(x)
        worst = max(worst, abs(whole(x, value(c, x)) - t) / abs(t))
    print("%s: error 2^%.1f" % (name, float(log(worst, 2))))
    print("  " + ", ".join("%.17g" % k for k in c))


half_ln2 = log(2) / 2 * mpf("1.0001")
show("expm1, r + r^2 p(r)", lambda r: (exp(r) - 1 - r) / r**2, -half_ln2, half_ln2, 5,
     lambda r, p: r + r * r * p, lambda r: exp(r) - 1)
r2 = sqrt(mpf(2))
z_log = ((r2 - 1) / (r2 + 1)) ** 2 * mpf("1.0001")


def log_series(z):
    s = sqrt(z)
    return (log((1 + s) / (1 - s)) - 2 * s) / s**3


show("log, 2 s + s^3 p(s^2)", log_series, mpf(10) ** -12, z_log, 3,
     lambda z, p: 2 * sqrt(z) + sqrt(z) ** 3 * p, lambda z: log((1 + sqrt(z)) / (1 - sqrt(z))))
z_trig = (pi / 4) ** 2 * mpf("1.001")
tiny = mpf(10) ** -12
show("sin, r + r^3 p(r^2)", lambda z: (sin(sqrt(z)) / sqrt(z) - 1) / z, tiny, z_trig, 3,
     lambda z, p: sqrt(z) * (1 + z * p), lambda z: sin(sqrt(z)))
show("cos, 1 - z / 2 + z^2 p(z)", lambda z: (cos(sqrt(z)) - 1 + z / 2) / z**2, tiny, z_trig, 3,
     lambda z, p: 1 - z / 2 + z * z * p, lambda z: cos(sqrt(z)))
z_atan = tan(pi / 8) ** 2 * mpf("1.0001")
show("atan, t + t^3 p(t^2)", lambda z: (atan(sqrt(z)) / sqrt(z) - 1) / z, tiny, z_atan, 6,
     lambda z, p: sqrt(z) * (1 + z * p), lambda z: atan(sqrt(z)))
show("asin, x + x^3 p(x^2)", lambda z: (asin(sqrt(z)) / sqrt(z) - 1) / z, tiny, mpf("0.25"), 7,
     lambda z, p: sqrt(z) * (1 + z * p), lambda z: asin(sqrt(z)))
show("erf, x p(x^2)", lambda z: erf(sqrt(z)) / sqrt(z), tiny, mpf("0.25"), 5,
     lambda z, p: sqrt(z) * p, lambda z: erf(sqrt(z)))
slope = mpf("0.45")
low = 1 / (1 + slope * mpf("10.5"))


def erfc_scaled(t):
    a = (1 / t - 1) / slope
    return erfc(a) * exp(a**2) / t


show("erfc, t p(t) e^(-a^2), t = 1 / (1 + 0.45 a)", erfc_scaled, low, 1, 12,
     lambda t, p: p, erfc_scaled)


# Of kernels/cpu/base/vwide.h.
show("log2, s p(s^2)", lambda z: log((1 + sqrt(z)) / (1 - sqrt(z))) / sqrt(z) / log(2), tiny, z_log, 5,
     lambda z, p: sqrt(z) * p, lambda z: log((1 + sqrt(z)) / (1 - sqrt(z))) / log(2))
show("2^r, 1 + r p(r)", lambda r: (mpf(2)**r - 1) / r, mpf("-0.50001"), mpf("0.50002"), 6,
     lambda r, p: 1 + r * p, lambda r: mpf(2)**r)
show("atan up to 1, t p(t^2)", lambda z: atan(sqrt(z)) / sqrt(z), tiny, mpf("1.0001"), 11,
     lambda z, p: sqrt(z) * p, lambda z: atan(sqrt(z)))

# Of kernels/cpu/elementwise/maths_blocks.h, in float.
show("float log, f - f^2 / 2 + f^3 p(f)",
     lambda f: (log(1 + f) - f + f**2 / 2) / f**3 if f else mpf(1) / 3, 1 / r2 - 1, r2 - 1, 8,
     lambda f, p: f - f**2 / 2 + f**3 * p, lambda f: log(1 + f))
edge = mpf("0.90625")
show("float erf, x + x p(x^2)", lambda z: erf(sqrt(z)) / sqrt(z) - 1, tiny, edge**2, 6,
     lambda z, p: sqrt(z) * (1 + p), lambda z: erf(sqrt(z)))
show("float erfc, e^p(a - 0.90625)", lambda s: log(erfc(s + edge)), 0, 4 - edge, 8,
     lambda s, p: 1 - exp(p), lambda s: erf(s + edge))
