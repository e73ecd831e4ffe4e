"""ResNet-50, MobileNetV2 and DeepLabV3 with random weights, as plain lists of ONNX nodes, and as files.

The networks are those of torchvision as they are exported for inference: batch normalisation is
folded into the convolutions before it. Needs NumPy alone; the few messages of the ONNX format that
a file takes are written here.
"""
import numpy as np

FLOAT, INT64, FLOAT16, BFLOAT16 = 1, 7, 10, 16
DTYPES = {"f32": FLOAT, "f16": FLOAT16, "bf16": BFLOAT16}


class Network:
    def __init__(self, name, size=224):
        self.name, self.size, self.result = name, size, (1000,)
        self.nodes, self.weights = [], {}
        self.random = np.random.default_rng(1)

    def node(self, op, inputs, **attributes):
        output = "v%d" % len(self.nodes)
        self.nodes.append((op, inputs, output, attributes))
        return output

    def weight(self, shape, scale):
        name = "w%d" % len(self.weights)
        self.weights[name] = self.random.standard_normal(shape, np.float32) * np.float32(scale)
        return name

    def conv(self, x, into, out, kernel, stride=1, groups=1, gain=1.0, dilation=1):
        taps = into // groups * kernel * kernel
        w = self.weight((out, into // groups, kernel, kernel), gain * (2 / taps) ** 0.5)
        b = self.weight((out,), 0.01)
        pad = kernel // 2 * dilation
        return self.node("Conv", [x, w, b], kernel_shape=[kernel] * 2, strides=[stride] * 2,
                         pads=[pad] * 4, group=groups, dilations=[dilation] * 2)

    def relu(self, x):
        return self.node("Relu", [x])

    def relu6(self, x):
        if "low" not in self.weights:
            self.weights["low"] = np.zeros((), np.float32)
            self.weights["high"] = np.full((), 6, np.float32)
        return self.node("Clip", [x, "low", "high"])

    def resize(self, x, batch, channels, size):
        name = "w%d" % len(self.weights)
        self.weights[name] = np.array([batch, channels, size, size], np.int64)
        return self.node("Resize", [x, "", "", name], mode="linear")

    def classify(self, x, into):
        x = self.node("Flatten", [self.node("GlobalAveragePool", [x])], axis=1)
        w = self.weight((1000, into), into ** -0.5)
        return self.node("Gemm", [x, w, self.weight((1000,), 0.01)], transB=1)


def residual_stages(n, dilations):
    """The stages of ResNet-50; one with a dilation keeps the size of the picture."""
    x = n.relu(n.conv("x", 3, 64, 7, 2))
    x = n.node("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    into, before = 64, 1
    for stage, (blocks, dilation) in enumerate(zip((3, 4, 6, 3), dilations)):
        width = 64 << stage
        for block in range(blocks):
            stride = 2 if stage and not block and dilation == 1 else 1
            apart = dilation if block else before  # the first is as far apart as the stage before
            y = n.relu(n.conv(x, into, width, 1))
            y = n.relu(n.conv(y, width, width, 3, stride, dilation=apart))
            y = n.conv(y, width, 4 * width, 1, gain=0.3)
            if not block:
                x = n.conv(x, into, 4 * width, 1, stride, gain=0.7)
            x, into = n.relu(n.node("Add", [y, x])), 4 * width
        before = dilation
    return x


def resnet50(batch):
    n = Network("resnet50")
    n.classify(residual_stages(n, (1, 1, 1, 1)), 2048)
    return n


def deeplab_v3(batch):
    n = Network("deeplab_v3", 512)
    x, branches = residual_stages(n, (1, 1, 2, 4)), []
    for kernel, dilation in ((1, 1), (3, 12), (3, 24), (3, 36)):
        branches.append(n.relu(n.conv(x, 2048, 256, kernel, dilation=dilation)))
    pooled = n.relu(n.conv(n.node("GlobalAveragePool", [x]), 2048, 256, 1))
    branches.append(n.resize(pooled, batch, 256, n.size // 8))
    x = n.relu(n.conv(n.node("Concat", branches, axis=1), 5 * 256, 256, 1))
    x = n.conv(n.relu(n.conv(x, 256, 256, 3)), 256, 21, 1)
    n.resize(x, batch, 21, n.size)
    n.result = (21, n.size, n.size)
    return n


def mobilenet_v2(batch):
    n = Network("mobilenet_v2")
    x, into = n.relu6(n.conv("x", 3, 32, 3, 2)), 32
    for expand, out, blocks, first in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
                                       (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for block in range(blocks):
            stride, wide, y = (1 if block else first), into * expand, x
            if expand > 1:
                y = n.relu6(n.conv(y, into, wide, 1))
            y = n.relu6(n.conv(y, wide, wide, 3, stride, groups=wide))
            y = n.conv(y, wide, out, 1, gain=0.6)
            x = n.node("Add", [y, x]) if stride == 1 and into == out else y
            into = out
    n.classify(n.relu6(n.conv(x, into, 1280, 1)), 1280)
    return n


NETWORKS = {"resnet50": resnet50, "mobilenet_v2": mobilenet_v2, "deeplab_v3": deeplab_v3}


# --- the format: a field is its number and kind, then a number or a length and bytes ---

def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def number(field, n):
    return varint(field << 3) + varint(n)


def message(field, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


def raw(array, dtype):
    if dtype == INT64:
        return array.tobytes()
    if dtype == BFLOAT16:
        bits = np.ascontiguousarray(array).view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16).tobytes()
    return array.astype(np.float16 if dtype == FLOAT16 else np.float32).tobytes()


def tensor(name, array, dtype):
    dtype = INT64 if array.dtype == np.int64 else dtype
    dims = b"".join(number(1, d) for d in array.shape)
    return dims + number(2, dtype) + message(8, name) + message(9, raw(array, dtype))


def attribute(name, value):
    if isinstance(value, list):
        return message(1, name) + b"".join(number(8, v) for v in value) + number(20, 7)
    if isinstance(value, str):
        return message(1, name) + message(4, value) + number(20, 3)
    return message(1, name) + number(3, value) + number(20, 2)


def value_info(name, shape, dtype):
    dims = b"".join(message(1, number(1, d)) for d in shape)
    return message(1, name) + message(2, message(1, number(1, dtype) + message(2, dims)))


def node(op, inputs, output, attributes):
    data = b"".join(message(1, i) for i in inputs) + message(2, output) + message(4, op)
    return data + b"".join(message(5, attribute(k, v)) for k, v in attributes.items())


def write(network, path, batch, dtype="f32"):
    kind = DTYPES[dtype]
    graph = b"".join(message(1, node(*n)) for n in network.nodes) + message(2, network.name)
    graph += b"".join(message(5, tensor(k, w, kind)) for k, w in network.weights.items())
    graph += message(11, value_info("x", (batch, 3, network.size, network.size), kind))
    graph += message(12, value_info(network.nodes[-1][2], (batch, *network.result), kind))
    model = number(1, 8) + message(2, "bench/onnx") + message(7, graph)
    with open(path, "wb") as file:
        file.write(model + message(8, message(1, "") + number(2, 17)))
