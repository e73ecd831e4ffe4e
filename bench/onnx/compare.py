#!/usr/bin/env python3
"""`tenon run` and another runtime on the same models, in turns; a JSON line for each model.

    compare.py [--against onnxruntime] [--threads 2] [--batch 1] [MODEL...]     on the CPU
    compare.py --against torch [--dtype bf16] [--batch 1] [MODEL...]            on CUDA

MODEL: resnet50, mobilenet_v2, deeplab_v3 (random weights; all where none is named), or, against onnxruntime,
an .onnx file, whose open sizes are 1 or as --shape NAME=1x2x3 says. Each round times --repeat runs
of each side; the line has the medians of the rounds' medians in ms, `ratio`, by which Tenon is
faster, and how far its numbers are from the other's. Needs NumPy, and onnxruntime or torch: put them
into a virtual environment to be thrown away.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "peers")]
import networks  # noqa: E402


class Tenon:
    def __init__(self, o, model, inputs, wanted, folder):
        files = []
        for name, array in inputs.items():
            path = os.path.join(folder, "in_%d.npy" % len(files))
            np.save(path, array)
            files += ["-i", "%s=%s" % (name, path)]
        for i, array in enumerate(wanted):
            np.save(os.path.join(folder, "output_%d.npy" % i), array)
        self.command = [o.tenon, "run", model, *files, "-d", "cuda" if o.against == "torch" else "cpu"]
        self.again = ["--compare", folder, "--tolerance", "0.05" if o.against == "torch" else "1e-3"]
        self.environment = dict(os.environ)
        if o.against != "torch":
            self.environment["TENON_NUM_THREADS"] = str(o.threads)

    def run(self, repeat):
        """The median of some runs, and what is said of the outputs."""
        done = subprocess.run([*self.command, *self.again, "--repeat", str(repeat)],
                              env=self.environment, capture_output=True, text=True)
        median = re.search(r"runs: median ([0-9.]+) ms", done.stdout)
        if done.returncode or not median:
            sys.exit("tenon run: " + done.stdout + done.stderr)
        return float(median.group(1)), re.findall(r"greatest difference ([0-9.e+-]+)", done.stdout)


def timed(call, repeat):
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(times)


def numbers(shape, dtype):
    random = np.random.default_rng(2)
    if np.issubdtype(dtype, np.integer):
        return random.integers(0, 2, shape).astype(dtype)
    return random.random(shape, np.float32).astype(dtype)


def onnxruntime_sides(o, path, shapes):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = o.threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    types = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}
    inputs = {}
    for i in session.get_inputs():
        shape = shapes.get(i.name) or [d if isinstance(d, int) and d > 0 else 1 for d in i.shape]
        inputs[i.name] = numbers(shape, types[i.type])
    return inputs, session.run(None, inputs), {"onnxruntime": lambda: session.run(None, inputs)}


def torch_sides(o, network):
    import torch_resnet
    x = numbers((o.batch, 3, network.size, network.size), np.float32)
    sides, result = torch_resnet.sides(network, x, o.dtype)
    # NumPy has no bfloat16; `tenon run` takes float32 for it.
    return {"x": x.astype(np.float16) if o.dtype == "f16" else x}, [result], sides


def compare(o, model, shapes, folder):
    path, name = model, os.path.basename(model)
    network = networks.NETWORKS[model](o.batch) if model in networks.NETWORKS else None
    if network:
        path = os.path.join(folder, model + ".onnx")
        networks.write(network, path, o.batch, o.dtype)
    if o.against == "torch":
        inputs, wanted, sides = torch_sides(o, network)
    else:
        inputs, wanted, sides = onnxruntime_sides(o, path, shapes)
    tenon = Tenon(o, path, inputs, wanted, folder)
    times = {"tenon": [], **{side: [] for side in sides}}
    for call in sides.values():
        timed(call, 3)
    for _ in range(o.rounds):
        ms, far = tenon.run(o.repeat)
        times["tenon"].append(ms)
        for side, call in sides.items():
            times[side].append(timed(call, o.repeat))
    medians = {side: statistics.median(t) for side, t in times.items()}
    line = {"model": name, "batch": o.batch, "dtype": o.dtype}
    line.update({side + "_ms": round(t, 3) for side, t in medians.items()})
    line["ratio"] = {side: round(medians[side] / medians["tenon"], 3) for side in sides}
    line["difference"] = far
    print(json.dumps(line), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(networks.NETWORKS), metavar="MODEL")
    parser.add_argument("--against", choices=("onnxruntime", "torch"), default="onnxruntime")
    parser.add_argument("--tenon", default="build/tools/tenon")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--dtype", choices=networks.DTYPES)
    parser.add_argument("--shape", action="append", default=[], metavar="NAME=1x2x3")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=20)
    o = parser.parse_args()
    o.dtype = o.dtype or ("bf16" if o.against == "torch" else "f32")
    shapes = {name: [int(d) for d in sizes.split("x")]
              for name, sizes in (s.split("=") for s in o.shape)}
    for model in o.models:
        if o.against != "torch" and o.dtype != "f32":
            parser.error("onnxruntime's CPU computes in f32")
        if o.against == "torch" and model not in networks.NETWORKS:
            parser.error("against torch: resnet50 and mobilenet_v2")
        with tempfile.TemporaryDirectory() as folder:
            compare(o, model, shapes, folder)


if __name__ == "__main__":
    main()
