/* The normal distribution's functions of single.cuh, which includes this. */
#ifndef KERNELS_CUDA_SINGLE_NORMAL_CUH
#define KERNELS_CUDA_SINGLE_NORMAL_CUH

namespace {

/* erfc a for 0 <= a: (1 + a) erfc a e^(a^2) is a polynomial of (a - 2) / (a + 2), whose last
 * sum keeps what it loses. Float has only 0 beyond 10.06. */
SINGLE_FN float single_erfc_tail(float x) {
  const float a = fminf(x, 10.2f), h = __fmul_rn(a, a);
  const single_power e = single_power_e(-h, -fmaf(a, a, -h), 48);
  const float u = single_quotient(a - 2.0f, a + 2.0f, 0.0f);
  float p = fmaf(-1.6176948e-4f, u, -6.026029e-4f);
  p = fmaf(p, u, 2.07264602e-4f);
  p = fmaf(p, u, 3.90918786e-3f);
  p = fmaf(p, u, -5.44970797e-4f);
  p = fmaf(p, u, -2.52420064e-2f);
  p = fmaf(p, u, 4.2540215e-2f);
  p = fmaf(p, u, 3.78141589e-2f);
  p = fmaf(p, u, -0.259974986f);
  const float n = fmaf(p, u, 0.766187012f), lost = fmaf(p, u, 0.766187012f - n);
  const float d = 1.0f + a, low = a < 1.0f ? a - (d - 1.0f) : 1.0f - (d - a);
  return single_fallen(e, e.scale, single_ratio(n, lost, d, low));
}

SINGLE_FN float single_erfc(float x) {
  const float y = single_erfc_tail(fabsf(x));
  return x != x ? x : x < 0.0f ? 2.0f - y : y;
}

SINGLE_FN float single_erf(float x) {
  const float a = fabsf(x), z = __fmul_rn(x, x);
  if (a < 1.0f) {
    float p = fmaf(7.91990169e-5f, z, -8.03065428e-4f);
    p = fmaf(p, z, 5.1907259e-3f);
    p = fmaf(p, z, -2.68551242e-2f);
    p = fmaf(p, z, 0.112836182f);
    p = fmaf(p, z, -0.376126289f);
    p = fmaf(p, z, 0.128379166f);
    return fmaf(x, p, x);
  }
  const float b = fminf(a, 4.0f) - 1.0f;
  float p = fmaf(1.59351771e-06f, b, -3.24149696e-05f); /* ln erfc(b + 1) */
  p = fmaf(p, b, 0.000317438738f);
  p = fmaf(p, b, -0.002046715f);
  p = fmaf(p, b, 0.0100661879f);
  p = fmaf(p, b, -0.0415657386f);
  p = fmaf(p, b, -0.84310925f);
  p = fmaf(p, b, -2.6389668f);
  const float l = fmaf(p, b, -1.84960556f), low = fmaf(p, b, -1.84960556f - l);
  const single_power e = single_power_e(l, low, 0);
  return x != x ? x : copysignf(1.0f - fmaf(e.scale, e.rest, e.scale), x);
}

/* gelu(-a), a >= 0, is -a Phi(-a), and gelu(a) is that and a. Up to 3, where nearly all numbers
 * lie, Phi(-a) e^(a^2 / 2) is a polynomial of a - s, which falls by about 0.38 for what that
 * difference loses. */
SINGLE_FN float single_gelu_near(float x) {
  const float a = fabsf(x), c = a - 1.71582031f, low = a - (c + 1.71582031f);
  float p = fmaf(1.15826793e-7f, c, -2.6637025e-7f);
  p = fmaf(p, c, 6.4692523e-7f);
  p = fmaf(p, c, -4.00890804e-6f);
  p = fmaf(p, c, 1.72029559e-5f);
  p = fmaf(p, c, -6.51350638e-5f);
  p = fmaf(p, c, 2.44005016e-4f);
  p = fmaf(p, c, -8.75367725e-4f);
  p = fmaf(p, c, 2.96940026e-3f);
  p = fmaf(p, c, -9.47142392e-3f);
  p = fmaf(p, c, 2.81280223e-2f);
  p = fmaf(p, c, -7.66769573e-2f);
  const float w = fmaf(p, c, 0.187819973f);
  const float lost = fmaf(-0.38f, low, fmaf(p, c, 0.187819973f - w));
  const float half = -0.5f * a, h = __fmul_rn(half, a);
  const single_power e = single_power_e(h, fmaf(half, a, -h), 0);
  const float y = fmaf(a, w, __fmul_rn(a, fmaf(w, e.rest, lost)));
  return fmaf(-e.scale, y, fmaxf(x, 0.0f));
}

/* Beyond, a Phi(-a) e^(a^2 / 2) is a polynomial of u = (a - 3) / (a + 3), whose slope is about
 * 0.2 - 0.31 u. */
SINGLE_FN float single_gelu_far(float x) {
  const float a = fminf(fabsf(x), 15.0f), h = __fmul_rn(a, a);
  const single_power e = single_power_e(-0.5f * h, -0.5f * fmaf(a, a, -h), 48);
  const float n = a - 3.0f, d = a + 3.0f, r = single_reciprocal(d), q = __fmul_rn(n, r);
  const float low = a - (d - 3.0f), u = fmaf(fmaf(-d, q, n), r, q); /* off by off / d */
  const float off = fmaf(-low, u, fmaf(-d, u, n)) + (a - (n + 3.0f));
  float p = fmaf(-5.46874478e-4f, u, -3.85861058e-5f);
  p = fmaf(p, u, 3.96570191e-3f);
  p = fmaf(p, u, -1.73808262e-3f);
  p = fmaf(p, u, -2.88583897e-2f);
  p = fmaf(p, u, 9.13766772e-2f);
  p = fmaf(p, u, -0.139657319f);
  p = fmaf(p, u, 0.109875873f);
  const float g = fmaf(p, u, 0.364541858f);
  const float lost = fmaf(p, u, 0.364541858f - g) +
                     fmaf(__fmul_rn(fmaf(u, -0.31f, 0.2f), r), off, -1.35388385e-8f);
  const float y = __fmul_rn(__fmul_rn(e.scale, g + fmaf(g, e.rest, lost)), 0x1p-48f);
  return x > 0.0f ? x - y : x != x ? x : -y;
}

SINGLE_FN float single_gelu(float x) {
  return fabsf(x) < 3.0f ? single_gelu_near(x) : single_gelu_far(x);
}

} // namespace

#endif /* KERNELS_CUDA_SINGLE_NORMAL_CUH */
