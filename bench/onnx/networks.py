"""ResNet-50 and MobileNetV2 with random weights, as plain lists of ONNX nodes, and as files.

The networks are those of torchvision as they are exported for inference: batch normalisation is
folded into the convolutions before it. Needs NumPy alone; the few messages of the ONNX format that
a file takes are written here.
"""
import numpy as np

FLOAT, FLOAT16, BFLOAT16 = 1, 10, 16
DTYPES = {"f32": FLOAT, "f16": FLOAT16, "bf16": BFLOAT16}


class Network:
    def __init__(self, name, size=224):
        self.name, self.size = name, size
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

    def conv(self, x, into, out, kernel, stride=1, groups=1, gain=1.0):
        taps = into // groups * kernel * kernel
        w = self.weight((out, into // groups, kernel, kernel), gain * (2 / taps) ** 0.5)
        b = self.weight((out,), 0.01)
        pad = kernel // 2
        return self.node("Conv", [x, w, b], kernel_shape=[kernel] * 2, strides=[stride] * 2,
                         pads=[pad] * 4, group=groups)

    def relu(self, x):
        return self.node("Relu", [x])

    def relu6(self, x):
        if "low" not in self.weights:
            self.weights["low"] = np.zeros((), np.float32)
            self.weights["high"] = np.full((), 6, np.float32)
        return self.node("Clip", [x, "low", "high"])

    def classify(self, x, into):
        x = self.node("Flatten", [self.node("GlobalAveragePool", [x])], axis=1)
        w = self.weight((1000, into), into ** -0.5)
        return self.node("Gemm", [x, w, self.weight((1000,), 0.01)], transB=1)


def resnet50():
    n = Network("resnet50")
    x = n.relu(n.conv("x", 3, 64, 7, 2))
    x = n.node("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    into = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            y = n.relu(n.conv(x, into, width, 1))
            y = n.relu(n.conv(y, width, width, 3, stride))
            y = n.conv(y, width, 4 * width, 1, gain=0.3)
            if not block:
                x = n.conv(x, into, 4 * width, 1, stride, gain=0.7)
            x, into = n.relu(n.node("Add", [y, x])), 4 * width
    n.classify(x, into)
    return n


def mobilenet_v2():
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


NETWORKS = {"resnet50": resnet50, "mobilenet_v2": mobilenet_v2}


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
    if dtype == BFLOAT16:
        bits = np.ascontiguousarray(array).view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16).tobytes()
    return array.astype(np.float16 if dtype == FLOAT16 else np.float32).tobytes()


def tensor(name, array, dtype):
    dims = b"".join(number(1, d) for d in array.shape)
    return dims + number(2, dtype) + message(8, name) + message(9, raw(array, dtype))


def attribute(name, value):
    if isinstance(value, list):
        return message(1, name) + b"".join(number(8, v) for v in value) + number(20, 7)
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
    graph += message(12, value_info(network.nodes[-1][2], (batch, 1000), kind))
    model = number(1, 8) + message(2, "bench/onnx") + message(7, graph)
    with open(path, "wb") as file:
        file.write(model + message(8, message(1, "") + number(2, 17)))
