#!/usr/bin/env python3
"""PyTorch's side of bench/table: commands and answers as in serve.c, with `make` and a case's "torch" as
JSON. Calls write to outputs that are given where PyTorch lets them.

usage: torch_side.py [cuda | cpu]
"""
import json
import math
import statistics
import sys
import time

import torch
import torch.nn.functional as F

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cuda"
BLOCK = 1 << 20  # numbers of a large tensor on the CPU, whose generator is slow, repeat after so many
DTYPES = {"f32": torch.float32, "tf32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
CALLS = {
    "neg": torch.neg, "exp": torch.exp, "sigmoid": torch.sigmoid, "tanh": torch.tanh, "sqrt": torch.sqrt,
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "maximum": torch.maximum,
    "matmul": torch.mm,
}


def drawn(dtype, *shape):
    count = math.prod(shape)
    if DEVICE == "cpu" and count > BLOCK and count % BLOCK == 0:
        return drawn(dtype, BLOCK).repeat(count // BLOCK).view(shape)
    return (torch.rand(*shape, device=DEVICE) * 2 - 1).to(DTYPES[dtype])


def last_channels(t):
    return t.contiguous(memory_format=torch.channels_last)


def product(dtype, m, n, k, batch, trans_a, trans_b):
    if dtype == "i8":  # torch._int_mm wants the right operand in columns
        a = torch.randint(-100, 100, (m, k), device=DEVICE, dtype=torch.int8)
        b = torch.randint(-100, 100, (n, k), device=DEVICE, dtype=torch.int8).t()
        return lambda: torch._int_mm(a, b)
    lead = [batch] if batch > 1 else []
    a = drawn(dtype, *lead, *((k, m) if trans_a else (m, k)))
    b = drawn(dtype, *lead, *((n, k) if trans_b else (k, n)))
    a, b = (a.mT if trans_a else a), (b.mT if trans_b else b)
    out = torch.empty(*lead, m, n, device=DEVICE, dtype=DTYPES[dtype])
    return lambda: torch.matmul(a, b, out=out)


def scaled_product(m, n, k):
    a, b = (drawn("f32", *shape).to(torch.float8_e4m3fn) for shape in ((m, k), (n, k)))
    one = torch.ones((), device=DEVICE)
    return lambda: torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)


def cast_float8(to, n):
    x = drawn("f32", n)
    if to == "f32":
        x = x.to(torch.float8_e4m3fn)
    return lambda: x.to(torch.float32 if to == "f32" else torch.float8_e4m3fn)


def conv(dtype, x_shape, w_shape, stride, padding, dilation, groups, way, last):
    x, w = drawn(dtype, *x_shape), drawn(dtype, *w_shape)
    if last:
        x, w = last_channels(x), last_channels(w)
    axes = len(w_shape) - 2
    convolve = {2: F.conv2d, 3: F.conv3d}[axes]
    if way == "forward":
        return lambda: convolve(x, w, None, stride, padding, dilation, groups)
    y = convolve(x, w, None, stride, padding, dilation, groups)
    dy = torch.rand_like(y)
    mask = [way == "by input", way == "by weight", False]
    return lambda: torch.ops.aten.convolution_backward(
        dy, x, w, None, [stride] * axes, [padding] * axes, [dilation] * axes, False, [0] * axes, groups, mask)


def block(dtype, x_shape, w_shape, padding, after, adds, last):
    x, w, bias = drawn(dtype, *x_shape), drawn(dtype, *w_shape), drawn(dtype, w_shape[0])
    if last:
        x, w = last_channels(x), last_channels(w)
    activate = getattr(F, after)
    addend = torch.rand_like(F.conv2d(x, w, bias, padding=padding)) if adds else None
    if adds:
        return lambda: activate(F.conv2d(x, w, bias, padding=padding) + addend)
    return lambda: activate(F.conv2d(x, w, bias, padding=padding))


def attention(dtype, b, h, g, s, t, d, causal, backward):
    q, k, v = drawn(dtype, b, h, s, d), drawn(dtype, b, g, t, d), drawn(dtype, b, g, t, d)
    grouped = dict(enable_gqa=True) if g != h else {}

    def forward():
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, **grouped)
    if not backward:
        return forward
    for x in (q, k, v):
        x.requires_grad_(True)
    with torch.enable_grad():
        y = forward()
    dy = torch.rand_like(y)
    return lambda: torch.autograd.grad(y, (q, k, v), dy, retain_graph=True)


def call(name, dtype, shape):
    x = drawn(dtype, *shape)
    if name == "transpose":  # of what lies the other way round in memory
        stored, out = drawn(dtype, *shape[::-1]), x
        return lambda: out.copy_(stored.mT)
    out = torch.empty_like(x)
    if name in ("exp", "neg"):
        return lambda: CALLS[name](x, out=out)
    if name == "add":
        y = drawn(dtype, *shape)
        return lambda: torch.add(x, y, out=out)
    if name == "layer_norm":
        gamma, beta = drawn(dtype, shape[-1]), drawn(dtype, shape[-1])
        return lambda: F.layer_norm(x, (shape[-1],), gamma, beta)
    given = {"relu": lambda: torch.clamp_min(x, 0, out=out), "gelu": lambda: torch._C._nn.gelu(x, out=out),
             "softmax": lambda: torch.softmax(x, -1, out=out)}
    # On the CPU an output that is made anew costs several times what is computed: its pages come one by one.
    if DEVICE == "cpu" and name in given:
        return given[name]
    half = torch.empty_like(x, dtype=torch.float16) if name == "cast" else None
    return {"copy": lambda: out.copy_(x), "relu": lambda: torch.relu(x), "gelu": lambda: F.gelu(x),
            "sum": lambda: torch.sum(x), "row_sum": lambda: torch.sum(x, 1),
            "softmax": lambda: torch.softmax(x, -1), "cumsum": lambda: torch.cumsum(x, 0, out=out),
            "cast": lambda: half.copy_(x)}[name]


def function(name, dtype, n):
    """Of one tensor, or of a gradient and what the function took or gave."""
    a, b, out, aten = drawn(dtype, n), drawn(dtype, n), torch.empty(n, device=DEVICE, dtype=DTYPES[dtype]), torch.ops.aten
    if name in CALLS:
        return lambda: CALLS[name](*((a, b) if name in ("add", "maximum") else (a,)), out=out)
    return {"relu": lambda: torch.clamp_min(a, 0, out=out), "sum": lambda: torch.sum(a),
            "silu": lambda: aten.silu.out(a, out=out), "elu": lambda: aten.elu.out(a, out=out),
            "hardswish": lambda: aten.hardswish.out(a, out=out),
            "silu_grad": lambda: aten.silu_backward.grad_input(a, b, grad_input=out),
            "elu_grad": lambda: aten.elu_backward.grad_input(a, 1, 1, 1, False, b, grad_input=out),
            "sigmoid_grad": lambda: aten.sigmoid_backward.grad_input(a, b, grad_input=out),
            "tanh_grad": lambda: aten.tanh_backward.grad_input(a, b, grad_input=out)}[name]


def small(name):
    x, y, out = (drawn("f32", 32, 32) for _ in range(3))
    if name == "conv2d":
        return conv("f32", [1, 8, 16, 16], [8, 8, 3, 3], 1, 1, 1, 1, "forward", False)
    if name in ("add", "sub", "mul", "div", "maximum", "matmul"):
        return lambda: CALLS[name](x, y, out=out)
    if name in CALLS:
        return lambda: CALLS[name](x, out=out)
    if name == "mean":
        return lambda: torch.mean(x, 1)
    return call(name, "f32", [32, 32])


def between(size):
    if torch.cuda.device_count() < 2:
        raise ValueError("there is one GPU")
    x = drawn("f32", size // 4)
    return lambda: x.to("cuda:1")


def churn(count):
    """The draws of serve.c."""
    x, word = 88172645463325252, (1 << 64) - 1
    held, live, most, reserved = {}, 0, 0, 0
    torch.cuda.empty_cache()
    base = torch.cuda.memory_reserved()
    for _ in range(count):
        x ^= x << 13 & word
        x ^= x >> 7
        x ^= x << 17 & word
        power = (x >> 20) % 16
        size = (256 << power) + (x >> 30) % (256 << power)
        slot = x % 1000
        live -= held.pop(slot).numel() if slot in held else 0
        held[slot] = torch.empty(size, dtype=torch.uint8, device=DEVICE)
        live += size
        most, reserved = max(most, live), max(reserved, torch.cuda.memory_reserved() - base)
    return reserved / most

TRIES, LONG_NS = 4, 5e7  # as in serve.c

class Side:
    def __init__(self):
        self.call, self.calls = None, 0

    def synchronize(self):
        for device in range(torch.cuda.device_count() if DEVICE == "cuda" else 0):
            torch.cuda.synchronize(device)

    def round_ns(self, calls):
        begin = time.perf_counter_ns()
        for _ in range(calls):
            self.call()
        self.synchronize()
        return (time.perf_counter_ns() - begin) / calls

    def drop(self):
        self.call, self.calls = None, 0
        if DEVICE == "cuda":
            torch.cuda.empty_cache()

    def make(self, text):
        self.drop()
        kind, *rest = json.loads(text)
        self.call = {"product": product, "conv": conv, "block": block, "attention": attention, "call": call,
                     "small": small, "between": between, "scaled product": scaled_product,
                     "float8 cast": cast_float8, "function": function}[kind](*rest)
        self.round_ns(2)

    def about_ns(self):
        """The least of some tries: threads that went to sleep meanwhile make the first ones longer."""
        least = self.round_ns(1)
        for _ in range(TRIES):
            if least < LONG_NS:
                least = min(least, self.round_ns(20 if least < 1e6 else 1))
        return least

    def time(self, ms):
        if not self.calls:
            self.calls = int(1e6 / self.about_ns()) + 1
        calls = int(self.calls * ms) + 1 if self.calls > 1 else 1 + (ms > 10)
        if self.calls > 1:
            self.round_ns(calls // 4 + 1)
        return self.round_ns(calls)

    def host(self):
        found = []
        for _ in range(15):
            self.round_ns(10)
            begin = time.perf_counter_ns()
            for _ in range(60):
                self.call()
            found.append((time.perf_counter_ns() - begin) / 60)
            self.synchronize()
        return statistics.median(found)

    def obey(self, line):
        word, _, rest = line.strip().partition(" ")
        if word == "open":
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = rest == "tf32"
            return ""
        if word in ("time", "host", "churn"):
            return f"{self.time(float(rest)) if word == 'time' else self.host() if word == 'host' else churn(int(rest)):.6g}"
        if word == "make":
            self.make(rest)
        elif word == "drop":
            self.drop()
        else:
            raise ValueError("no such command")
        return ""


def main():
    side = Side()
    if DEVICE == "cuda":
        torch.backends.cudnn.benchmark = True
        torch.cuda.init()
    with torch.no_grad():
        for line in sys.stdin:
            try:
                print("ok", side.obey(line), flush=True)
            except Exception as error:  # whatever it is, the table says so and goes on
                side.call = None
                print("error", str(error).splitlines()[0] if str(error) else repr(error), flush=True)


if __name__ == "__main__":
    main()
