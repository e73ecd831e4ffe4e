#!/usr/bin/env python3
"""The training step of examples/train in PyTorch: the peer to be measured in the same run.

The same network, batch and optimiser, in float32 without tf32, on random data that lies on
the device, so that neither side pays for reading files. Prints one JSON line per way of
running it: eager, and replayed as a CUDA graph.

usage: torch_mnist.py [--device cuda] [--batch 64] [--steps 300] [--rounds 5] [--tf32]
"""
import argparse
import json
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    """conv 1-32, relu, conv 32-64, relu, maxpool 2, dropout, fc 128, relu, dropout, fc 10."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3), nn.Conv2d(32, 64, 3)
        self.fc1, self.fc2 = nn.Linear(9216, 128), nn.Linear(128, 10)

    def forward(self, x):
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        x = F.dropout(F.max_pool2d(x, 2), 0.25, self.training)
        x = F.dropout(F.relu(self.fc1(x.flatten(1))), 0.5, self.training)
        return F.log_softmax(self.fc2(x), 1)


class Trainer:
    def __init__(self, device, batch, capturable):
        torch.manual_seed(1)
        self.net = Net().to(device).train()
        fused = device.type == "cuda"
        self.optimiser = torch.optim.Adam(self.net.parameters(), lr=1e-3, fused=fused,
                                          capturable=capturable)
        count = 64  # batches in rotation: more than the caches hold
        self.images = torch.randn(count, batch, 1, 28, 28, device=device)
        self.labels = torch.randint(0, 10, (count, batch), device=device)

    def step(self, images, labels):
        self.optimiser.zero_grad(set_to_none=True)
        F.nll_loss(self.net(images), labels).backward()
        self.optimiser.step()

    def eager(self):
        return lambda i: self.step(self.images[i % 64], self.labels[i % 64])

    def graph(self):
        images, labels = self.images[0].clone(), self.labels[0].clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.step(images, labels)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step(images, labels)

        def replay(i):
            images.copy_(self.images[i % 64])
            labels.copy_(self.labels[i % 64])
            graph.replay()

        return replay


def synchronize(device):
    if device.type == "cuda":
        torch.cuda.synchronize()


def measure(device, run, steps, rounds):
    """Milliseconds per step of every round, after a round of warming up."""
    times = []
    for r in range(rounds + 1):
        synchronize(device)
        begin = time.perf_counter()
        for i in range(steps):
            run(i)
        synchronize(device)
        if r > 0:
            times.append((time.perf_counter() - begin) / steps * 1e3)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tf32", action="store_true", help="let products round to tf32")
    options = parser.parse_args()
    device = torch.device(options.device)
    torch.backends.cuda.matmul.allow_tf32 = options.tf32
    torch.backends.cudnn.allow_tf32 = options.tf32
    for mode in ["eager", "graph"] if device.type == "cuda" else ["eager"]:
        trainer = Trainer(device, options.batch, capturable=mode == "graph")
        times = measure(device, getattr(trainer, mode)(), options.steps, options.rounds)
        print(json.dumps({
            "bench": "torch_mnist", "what": f"training step, {mode}", "batch": options.batch,
            "math": "tf32" if options.tf32 else "ieee",
            "time_ms": round(statistics.median(times), 5), "least_ms": round(min(times), 5),
            "most_ms": round(max(times), 5), "torch": torch.__version__,
            "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        }), flush=True)


if __name__ == "__main__":
    main()
