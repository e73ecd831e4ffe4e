"""The networks of bench/onnx/networks.py in PyTorch, for bench/onnx/compare.py --against torch.

The same nodes, one call each, in channels-last as PyTorch's convolutions are fastest; `eager` and
the same replayed as a CUDA graph. A run ends when the device is done.
"""
import numpy as np
import torch
import torch.nn.functional as F

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def step(op, values, inputs, a):
    x = values[inputs[0]]
    if op == "Conv":
        return F.conv2d(x, values[inputs[1]], values[inputs[2]], a["strides"][0], a["pads"][0],
                        a["dilations"][0], a["group"])
    if op == "Relu":
        return F.relu(x)
    if op == "Clip":
        return F.relu6(x)
    if op == "Add":
        return x + values[inputs[1]]
    if op == "MaxPool":
        return F.max_pool2d(x, a["kernel_shape"][0], a["strides"][0], a["pads"][0])
    if op == "GlobalAveragePool":
        return F.adaptive_avg_pool2d(x, 1)
    if op == "Flatten":
        return x.flatten(1)
    if op == "Concat":
        return torch.cat([values[i] for i in inputs], a["axis"])
    if op == "Resize":
        return F.interpolate(x, size=a["size"], mode="bilinear", align_corners=False)
    if op == "Gemm":
        return F.linear(x, values[inputs[1]], values[inputs[2]])
    raise ValueError(op)


def last_channels(t):
    return t.contiguous(memory_format=torch.channels_last) if t.dim() == 4 else t


def sides(network, image, dtype, device="cuda"):
    """Calls that run the network once, by their names, and its output as float32."""
    kind = DTYPES[dtype]
    constants = {k: last_channels(torch.from_numpy(np.asarray(w)).to(device, kind))
                 for k, w in network.weights.items() if w.dtype != np.int64}
    nodes = [(op, inputs, output, {**a, "size": network.weights[inputs[3]][2:].tolist()}
              if op == "Resize" else a) for op, inputs, output, a in network.nodes]
    x = last_channels(torch.from_numpy(image).to(device, kind))

    @torch.inference_mode()
    def forward():
        values = {**constants, "x": x}
        for op, inputs, output, attributes in nodes:
            values[output] = step(op, values, inputs, attributes)
        return values[nodes[-1][2]]

    def eager():
        forward()
        torch.cuda.synchronize()

    if device != "cuda":
        return {"torch_eager": forward}, forward().float().numpy()
    torch.backends.cudnn.benchmark = True
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(5):
            forward()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = forward()

    def replay():
        graph.replay()
        torch.cuda.synchronize()

    replay()
    return {"torch_eager": eager, "torch_graph": replay}, result.float().cpu().numpy()
