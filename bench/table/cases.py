"""What bench/table measures: one dictionary per row, by sections.

section, row   where it stands in the table, and under which name: the row's key everywhere
kind           time (one call of a loop), host (until a call is submitted), churn (no time: reserved
               over live), between (two GPUs), step (of the CNN's training), peak (bytes resident in it)
tenon          what serve.c makes, torch what torch_side.py makes, bare what bare.cu makes; None: no such
               side
math           ieee or tf32
bytes, flops   that one call must move or compute: what its speed is said in; neither: microseconds
limit          which of the device's figures bounds it: copy, launch, or a product's type
threads        that it runs on, where the device is the CPU
"""
SIZES = {"f32": 4, "f16": 2, "bf16": 2, "i8": 1, "u8": 1, "f8_e4m3": 1}


def text(dtype, *shape, layout=""):
    return f"{dtype}:{'x'.join(map(str, shape))}" + (f":{layout}" if layout else "")


def case(section, row, tenon, torch, bare=None, kind="time", math="ieee", size=None, flops=None,
         limit=None):
    return dict(section=section, row=row, kind=kind, tenon=tenon, torch=torch, bare=bare, math=math,
                bytes=size, flops=flops, limit=limit)


def product(section, dtype, m, n, k, batch=1, trans_a=0, trans_b=0, row=None):
    """dtype f32, tf32, f16, bf16 or i8; the last is matmul_integer, which has no transposes: tb then
    says how its right operand lies, as PyTorch's and the bare call's always do."""
    stored, lead = ("f32" if dtype == "tf32" else dtype), ([batch] if batch > 1 else [])
    a = text(stored, *lead, *((k, m) if trans_a else (m, k)))
    b = text(stored, *lead, *((n, k) if trans_b and dtype != "i8" else (k, n)),
             layout="swapped" if trans_b and dtype == "i8" else "")
    attributes = f" trans_a={trans_a} trans_b={trans_b}" if dtype != "i8" else ""
    shape = f"{batch} x " * (batch > 1) + f"{m}x{n}x{k}" + " ta" * trans_a + " tb" * trans_b
    return case(section, row or f"{shape} {dtype}",
                f"matmul{'_integer' * (dtype == 'i8')}{attributes} : {a} {b}",
                ["product", dtype, m, n, k, batch, trans_a, trans_b],
                f"gemm {dtype} {m} {n} {k} {batch} {trans_a} {1 if dtype == 'i8' else trans_b}",
                math="tf32" if dtype == "tf32" else "ieee", flops=2 * batch * m * n * k, limit=dtype)


def scaled_product(section, m, n, k):
    """8-bit floats, the right operand in columns, to bfloat16; torch._scaled_mm calls cuBLASLt."""
    a, b = text("f8_e4m3", m, k), text("f8_e4m3", k, n, layout="swapped")
    return case(section, f"{m}x{n}x{k} f8_e4m3", f"matmul_scaled dtype=8 : {a} {b}",
                ["scaled product", m, n, k], flops=2 * m * n * k, limit="f8_e4m3")


def conv(section, dtype, n, c, h, w, k, size, stride=1, padding=0, groups=1, dilation=1,
         way="forward", last=True, row=None):
    stored, layout = ("f32" if dtype == "tf32" else dtype), "last" if last else ""
    oh, ow = ((x + 2 * padding - dilation * (size - 1) - 1) // stride + 1 for x in (h, w))
    x, y = text(stored, n, c, h, w, layout=layout), text(stored, n, k, oh, ow, layout=layout)
    weight = text(stored, k, c // groups, size, size, layout=layout)
    attributes = (f"stride={stride},{stride} padding={padding},{padding} "
                  f"dilation={dilation},{dilation} groups={groups}")
    call = {"forward": f"conv2d {attributes} : {x} {weight}",
            "by input": f"conv2d_grad_input {attributes} size={h},{w} : {y} {weight}",
            "by weight": f"conv2d_grad_weight {attributes} kernel={size},{size} : {y} {x}" +
                         f" => {weight}" * last}[way]  # torch's gradient, too, lies as the weight does
    name = row or (f"{n}x{c}x{h}x{w} to {k}, {size}x{size}" + f" /{stride}" * (stride > 1) +
                   f" dilated {dilation}" * (dilation > 1) + f" in {groups} groups" * (groups > 1) +
                   f", {way}, {dtype}" + ", channels last" * last)
    return case(section, name, call,
                ["conv", stored, [n, c, h, w], [k, c // groups, size, size], stride, padding, dilation,
                 groups, way, last],
                math="tf32" if dtype == "tf32" else "ieee",
                flops=2 * n * k * oh * ow * (c // groups) * size * size, limit=dtype)


def volume(section, dtype, n, c, d, h, w, k, way):
    """A convolution by 3x3x3 that keeps its size, row-major."""
    x, y, weight = text(dtype, n, c, d, h, w), text(dtype, n, k, d, h, w), text(dtype, k, c, 3, 3, 3)
    call = {"forward": f"conv3d padding=1,1,1 : {x} {weight}",
            "by input": f"conv3d_grad_input padding=1,1,1 size={d},{h},{w} : {y} {weight}",
            "by weight": f"conv3d_grad_weight padding=1,1,1 kernel=3,3,3 : {y} {x}"}[way]
    return case(section, f"{n}x{c}x{d}x{h}x{w} to {k}, 3x3x3, {way}, {dtype}", call,
                ["conv", dtype, [n, c, d, h, w], [k, c, 3, 3, 3], 1, 1, 1, 1, way, False],
                flops=2 * n * k * d * h * w * c * 27, limit=dtype)


ACTIVATIONS = {"relu": 1, "gelu": 2, "hardswish": 5, "silu": 6}


def block(section, dtype, n, c, h, w, k, size, after, adds=False, last=True):
    """A convolution that keeps its size, a bias, what is added, if `adds`, and an activation."""
    layout, padding = "last" if last else "", size // 2
    x, y, weight = (text(dtype, *shape, layout=layout)
                    for shape in ((n, c, h, w), (n, k, h, w), (k, c, size, size)))
    call = (f"conv2d{'_add' * adds} padding={padding},{padding} activation={ACTIVATIONS[after]} : "
            f"{x} {weight} {text(dtype, k)}" + f" {y}" * adds)
    name = (f"{n}x{c}x{h}x{w} to {k}, {size}x{size}, bias" + ", sum" * adds + f", {after}, {dtype}" +
            ", channels last" * last)
    return case(section, name, call,
                ["block", dtype, [n, c, h, w], [k, c, size, size], padding, after, adds, last],
                flops=2 * n * k * h * w * c * size * size, limit=dtype)


def attention(section, b, h, g, s, t, d, dtype="bf16", causal=False, backward=False, row=None):
    q, k = text(dtype, b, h, s, d), text(dtype, b, g, t, d)
    lse = text("f32", b, h, s)
    call = (f"scaled_dot_product_attention_grad causal={int(causal)} : {q} {q} {k} {k} {q} {lse}"
            if backward else f"scaled_dot_product_attention causal={int(causal)} : {q} {k} {k}")
    name = row or (f"b{b} h{h}" + f"/{g}" * (g != h) + f" s{s}" + f"/{t}" * (t != s) + f" d{d} {dtype}" +
                   " causal" * causal + (" backward" if backward else " forward"))
    flops = 4 * b * h * s * t * d * (0.5 if causal else 1) * (2.5 if backward else 1)
    return case(section, name, call, ["attention", dtype, b, h, g, s, t, d, causal, backward],
                flops=flops, limit=dtype if dtype != "f32" else None)  # which tensor cores compute, too


def moves(section, op, dtype, shape, attributes="", extra=(), parts=2, torch=None, out=None, layout="",
          row=None):
    """A call that memory binds: `parts` times the tensor's bytes."""
    count = 1
    for size in shape:
        count *= size
    args = " ".join([text(dtype, *shape, layout=layout), *extra])
    return case(section, row or f"{op} {'x'.join(map(str, shape))} {dtype}",
                f"{op} {attributes} : {args}" + (f" => {out}" if out else ""),
                torch or ["call", op, dtype, list(shape)], size=int(parts * count * SIZES[dtype]),
                limit="copy")


def issue():
    name = "issue"
    yield attention(name, 4, 16, 16, 4096, 4096, 128, row="attention forward b4 h16 s4096 d128 bf16")
    for dtype, last in (("bf16", True), ("tf32", False), ("f32", False)):
        yield conv(name, dtype, 64, 64, 56, 56, 64, 3, padding=1, last=last,
                   row=f"convolution 64 to 64 3x3, 56x56, batch 64, {dtype}")
    giant = [1 << 28]
    for dtype in ("bf16", "f32"):
        rows = [65536, 4096]
        yield moves(name, "sum", dtype, rows, "axes=1", parts=1, torch=["call", "row_sum", dtype, rows],
                    row=f"row sum 65536x4096 {dtype}")
        yield moves(name, "layer_norm", dtype, rows, "axis=1", [text(dtype, 4096)] * 2)
        yield moves(name, "softmax", dtype, rows)
        yield moves(name, "copy", dtype, rows, layout="swapped", out=text(dtype, *rows),
                    torch=["call", "transpose", dtype, rows], row=f"transpose 65536x4096 {dtype}")
    yield moves(name, "sum", "f32", giant, parts=1, row="whole sum of 1 GiB")
    yield moves(name, "gelu", "f32", giant, row="gelu 1 GiB")
    yield dict(moves(name, "copy", "f32", giant, row="copy 1 GiB"), bare=f"copy {4 << 28}")
    yield case(name, "copy from GPU 0 to GPU 1, 1 GiB", 1 << 30, ["between", 1 << 30],
               f"between {1 << 30}", kind="between", size=1 << 30)
    small = product(name, "f32", 16, 16, 16, row="16x16 matmul, loop")
    yield dict(small, flops=None, limit="launch")
    picture = conv(name, "f32", 1, 1, 512, 512, 1, 3, padding=1, last=False,
                   row="3x3 convolution of a 512x512 picture, loop")
    yield dict(picture, flops=None, limit="launch")
    yield product(name, "i8", 8192, 8192, 8192, row="int8 product 8192x8192x8192")
    yield case(name, "reserved over live, 20,000 tensors", 20000, ["churn", 20000], kind="churn")


def products():
    for dtype in ("f32", "tf32", "bf16"):
        for n in (128, 512, 1024, 2048, 4096, 8192):
            if n < 8192 or dtype != "f32":
                yield product("products", dtype, n, n, n)
    for n in (1024, 4096, 8192):
        yield product("products", "f16", n, n, n)
        yield product("products", "i8", n, n, n)
        yield product("products", "i8", n, n, n, trans_b=1)
    for dtype in ("f32", "bf16"):
        yield product("products", dtype, 16, 4096, 4096)
        yield product("products", dtype, 1, 4096, 4096)
        yield product("products", dtype, 4096, 16, 4096)
        yield product("products", dtype, 65536, 64, 64)
        yield product("products", dtype, 64, 64, 65536)
        yield product("products", dtype, 1024, 1024, 1024, trans_b=1)
        yield product("products", dtype, 1024, 1024, 1024, trans_a=1)
        yield product("products", dtype, 512, 512, 64, batch=64)
        yield product("products", dtype, 64, 64, 64, batch=512, trans_b=1)
        yield product("products", dtype, 64, 64, 4096, batch=16, trans_a=1)  # linear attention
    yield product("products", "f16", 512, 50304, 768, trans_b=1)
    yield product("products", "tf32", 64, 128, 9216, trans_b=1)
    yield product("products", "tf32", 2048, 3072, 768)
    yield product("products", "bf16", 2048, 3072, 768, trans_b=1)
    yield product("products", "i8", 16, 4096, 4096)


NETWORKS = [  # of ResNet-50, DeepLabV3 and the CNN: n c h w k size, and what else
    (32, 3, 224, 224, 64, 7, dict(stride=2, padding=3)), (32, 64, 56, 56, 64, 3, dict(padding=1)),
    (32, 256, 56, 56, 64, 1, {}), (32, 128, 28, 28, 128, 3, dict(padding=1)),
    (32, 256, 14, 14, 1024, 1, {}), (32, 512, 7, 7, 512, 3, dict(padding=1)),
    (4, 256, 65, 65, 256, 3, dict(padding=12, dilation=12)),
    (32, 256, 28, 28, 256, 3, dict(padding=1, groups=256)),
    (64, 1, 28, 28, 32, 3, {}), (64, 32, 26, 26, 64, 3, {}),
]


def float8():
    for n in (1024, 4096, 8192):
        yield scaled_product("float8", n, n, n)
    yield scaled_product("float8", 16, 4096, 4096)
    for to, number in (("f32", 9), ("f8_e4m3", 11)):
        from_, bytes_ = ("f32", "f8_e4m3")[to == "f32"], 5 << 28
        yield case("float8", f"cast {from_} to {to}, 2^28", f"cast dtype={number} : {text(from_, 1 << 28)}",
                   ["float8 cast", to, 1 << 28], size=bytes_, limit="copy")


def convolutions():
    for n, c, h, w, k, size, more in NETWORKS:
        for way in ("forward", "by input", "by weight"):
            if (c, way) not in ((3, "by input"), (1, "by input")):
                yield conv("convolutions", "bf16", n, c, h, w, k, size, way=way, **more)
    for way in ("forward", "by input", "by weight"):
        yield conv("convolutions", "f32", 32, 256, 28, 28, 256, 3, padding=1, groups=256, way=way)
        yield conv("convolutions", "f32", 32, 256, 28, 28, 256, 3, padding=1, groups=256, way=way, last=False)
        yield conv("convolutions", "bf16", 32, 144, 56, 56, 144, 3, stride=2, padding=1, groups=144, way=way)
        yield conv("convolutions", "f16", 32, 240, 28, 28, 240, 5, padding=2, groups=240, way=way)
    for n, c, h, w, k, size, more in NETWORKS[1:6:4] + NETWORKS[8:]:
        for dtype in ("f32", "tf32"):
            yield conv("convolutions", dtype, n, c, h, w, k, size, last=False, **more)
    for way in ("forward", "by input", "by weight"):
        for dtype in ("f32", "bf16"):
            yield volume("convolutions", dtype, 4, 64, 16, 28, 28, 64, way)
    for size, after, adds, last in ((3, "relu", True, True), (3, "silu", False, True), (1, "silu", False, True),
                                    (3, "silu", True, True), (3, "silu", False, False),
                                    (1, "hardswish", False, True), (1, "gelu", False, True)):
        yield block("convolutions", "f16", 16, 128, 40, 40, 128, size, after, adds, last)


def attentions():
    shapes = [(4, 16, 16, 4096, 4096, 128, "bf16", False), (4, 16, 16, 4096, 4096, 128, "bf16", True),
              (4, 16, 16, 2048, 2048, 64, "bf16", True), (8, 32, 8, 2048, 2048, 128, "bf16", True),
              (16, 12, 12, 1024, 1024, 64, "bf16", True), (2, 8, 8, 4096, 4096, 256, "bf16", True),
              (4, 16, 16, 2048, 2048, 64, "f16", False), (4, 16, 16, 2048, 2048, 128, "f16", True),
              (32, 8, 8, 256, 256, 64, "bf16", False), (1, 16, 16, 16384, 16384, 128, "bf16", True),
              (8, 32, 8, 1, 8192, 128, "bf16", False), (1, 32, 8, 1, 32768, 128, "bf16", False),
              (32, 16, 16, 1, 2048, 64, "f16", False), (64, 4, 4, 77, 77, 64, "f16", False),
              (4, 16, 16, 2048, 2048, 64, "f32", False), (4, 16, 16, 2048, 2048, 64, "f32", True),
              (4, 16, 16, 2048, 2048, 128, "f32", True)]
    for shape in shapes:
        for backward in (False, True):
            if shape[3] > 1 or not backward:
                yield attention("attention", *shape, backward=backward)


def host():
    """The commonest operators on tensors so small that only the call costs, beside a launch with as many bytes of
    parameters as their kernels have."""
    parameters = {"softmax": 128, "layer_norm": 128, "sum": 832, "mean": 832, "matmul": 352, "conv2d": 352}

    def small(op, *args, attributes="", torch=None):
        return case("host", op, f"{op} {attributes} : {' '.join(args)}", torch or ["small", op],
                    f"launch {parameters.get(op, 48)}", kind="host")
    x, row = text("f32", 32, 32), text("f32", 32)
    for op in ("copy", "neg", "exp", "relu", "gelu", "sigmoid", "tanh", "sqrt", "softmax"):
        yield small(op, x)
    for op in ("add", "sub", "mul", "div", "maximum"):
        yield small(op, x, x)
    yield small("sum", x)
    yield small("mean", x, attributes="axes=1")
    yield small("layer_norm", x, row, row)
    yield small("cast", x, attributes="dtype=7")
    yield small("matmul", x, x)
    yield small("conv2d", text("f32", 1, 8, 16, 16), text("f32", 8, 8, 3, 3), attributes="padding=1,1")


STREAMED = ("copy", "add", "relu", "gelu", "exp", "sum", "softmax", "layer_norm", "cumsum", "cast")


def streamed(section, op, power):
    n = 1 << power
    last = min(n, 4096)
    shape = [n // last, last] if op in ("softmax", "layer_norm") else [n]
    return moves(section, op, "f32", shape, row=f"{op} 2^{power}",
                 attributes={"layer_norm": "axis=1", "cast": "dtype=7"}.get(op, ""),
                 extra={"add": [text("f32", *shape)], "layer_norm": [text("f32", last)] * 2}.get(op, []),
                 parts={"add": 3, "sum": 1, "cast": 1.5}.get(op, 2))


def bandwidth():
    for power in (0, 4, 8, 12, 15, 18, 20, 22, 24, 26, 28, 30):
        for op in STREAMED:
            yield streamed("bandwidth", op, power)


SECTIONS = {"issue": issue, "products": products, "float8": float8, "convolutions": convolutions,
            "attention": attentions, "host": host, "bandwidth": bandwidth}


# ---------------------------------------------------------- the CPU's, for so many of `most` threads ---

AT_ALL_COUNTS = 24  # 2^24 elements: beyond the caches, and short enough


def elements(threads, most):
    powers = (0, 4, 8, 12, 15, 18, 20, 22, 24, 26, 28) if threads in (1, most) else (AT_ALL_COUNTS,)
    for power in powers:
        for op in STREAMED:
            bare = {"copy": f"copy {4 << power}", "add": f"add {1 << power}"}.get(op)
            yield dict(streamed("elements", op, power), bare=bare)


# Of one tensor and of two, which are the gradient and the input or the output.
OF_ONE = ("relu", "neg", "silu", "sigmoid", "tanh", "exp", "elu", "hardswish", "sum")
OF_TWO = ("add", "maximum", "silu_grad", "elu_grad", "sigmoid_grad", "tanh_grad")


def functions(threads, most):
    n = 1 << 20
    for op in OF_ONE + OF_TWO if threads in (1, most) else ():
        for dtype in ("f32", "f16", "bf16"):
            yield moves("functions", op, dtype, [n], extra=[text(dtype, n)] * (op in OF_TWO),
                        parts=1 if op == "sum" else 3 if op in OF_TWO else 2,
                        torch=["function", op, dtype, n], row=f"{op} {dtype}")


def cpu_products(threads, most):
    for n in (16, 64, 128, 256, 512, 1000, 2048) if threads in (1, most) else (1000,):
        yield product("products", "f32", n, n, n)
    for m, n, k in ((1, 4096, 4096), (64, 128, 9216), (4096, 16, 64)) if threads in (1, most) else ():
        yield product("products", "f32", m, n, k, trans_b=1)
    for n in (256, 1000) if threads in (1, most) else ():
        yield dict(product("products", "bf16", n, n, n), bare=None)


def cpu_convolutions(threads, most):
    shapes = [(8, 3, 112, 112, 64, 7, dict(stride=2, padding=3)), (8, 64, 56, 56, 64, 3, dict(padding=1)),
              (8, 64, 56, 56, 256, 1, {}), (8, 128, 28, 28, 128, 3, dict(padding=1)),
              (8, 512, 7, 7, 512, 3, dict(padding=1)), (8, 256, 28, 28, 256, 3, dict(padding=1, groups=256)),
              (64, 1, 28, 28, 32, 3, {}), (64, 32, 26, 26, 64, 3, {}), (8, 512, 28, 28, 128, 1, {}),
              (8, 1024, 14, 14, 256, 1, {}), (8, 2048, 7, 7, 512, 1, {}),
              (8, 128, 56, 56, 128, 3, dict(stride=2, padding=1)), (8, 512, 28, 28, 1024, 1, dict(stride=2))]
    for n, c, h, w, k, size, more in shapes if threads in (1, most) else shapes[1:2]:
        for way in ("forward", "by input", "by weight"):
            if way != "forward" and (c in (1, 3) or threads < most):
                continue
            found = conv("convolutions", "f32", n, c, h, w, k, size, way=way, last=False, **more)
            if way == "forward" and "groups" not in more:
                numbers = [n, c, h, w, k, size, size, more.get("stride", 1), more.get("padding", 0)]
                found["bare"] = "conv " + " ".join(map(str, numbers))
            yield found


def step(threads, most):
    for kind, name in (("step", "training step of the CNN"), ("peak", "peak memory of the CNN's training")):
        yield case("step", name, kind, kind, kind=kind)


def of_threads(section, threads, most):
    """A section's cases with the count of threads in them, and in their names."""
    words = f", {threads} thread" + "s" * (threads > 1)
    return [dict(c, row=c["row"] + words, threads=threads) for c in CPU_SECTIONS[section](threads, most)]


# The longest last, of which its largest are left out where time ends.
CPU_SECTIONS = {"step": step, "products": cpu_products, "convolutions": cpu_convolutions, "functions": functions,
                "elements": elements}
