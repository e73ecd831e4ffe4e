#!/usr/bin/env python3
"""The training step of examples/gpt in PyTorch: the peer to be measured in the same run.

The same transformer (GPT-2's), optimiser and clipping, with products in bfloat16 by autocast, on
random tokens that lie on the device. Prints one JSON line per way of running it: eager, and
compiled by torch.compile. On the CPU it takes as many threads as there are, in float32 where
--float32 says so.

usage: torch_gpt.py [--size tiny|124M] [--batch N] [--length N] [--steps 10] [--rounds 3]
                    [--ways eager,compile] [--float32] [--device cuda|cpu] [--threads N]
"""
import argparse
import contextlib
import json
import math
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

SIZES = {"tiny": dict(layers=4, width=128, heads=4, context=64, rows=256, batch=8),
         "124M": dict(layers=12, width=768, heads=12, context=1024, rows=50304, batch=16)}


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value, self.join = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        h = self.norm1(x)
        q, k, v = (layer(h).view(batch, length, self.heads, -1).transpose(1, 2)
                   for layer in (self.query, self.key, self.value))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.join(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self, layers, width, heads, context, rows, **_):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(rows, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for table in (self.tokens, self.positions):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, tokens, targets):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(places)
        for block in self.blocks:
            x = block(x)
        logits = self.norm(x) @ self.tokens.weight.T
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Trainer:
    def __init__(self, size, batch, length, way, amp, device):
        torch.manual_seed(1)
        self.net = Transformer(**size).to(device)
        weights = list(self.net.parameters())
        self.weights = weights
        self.optimiser = torch.optim.AdamW(
            [dict(params=[w for w in weights if w.ndim == 2], weight_decay=0.1),
             dict(params=[w for w in weights if w.ndim < 2], weight_decay=0.0)],
            lr=1e-4, betas=(0.9, 0.99), fused=True)
        self.forward = torch.compile(self.net) if way == "compile" else self.net
        self.tokens = torch.randint(0, 256, (64, batch, length + 1), device=device)
        self.amp, self.device = amp, device

    def step(self, i):
        tokens = self.tokens[i % 64]
        cast = torch.autocast(self.device, torch.bfloat16) if self.amp else contextlib.nullcontext()
        with cast:
            loss = self.forward(tokens[:, :-1], tokens[:, 1:])
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.weights, 1.0)
        self.optimiser.step()
        return loss


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def milliseconds(trainer, steps, rounds):
    for i in range(5):
        loss = trainer.step(i)
    found = []
    for _ in range(rounds):
        synchronize(trainer.device)
        begin = time.perf_counter()
        for i in range(steps):
            loss = trainer.step(i)
        synchronize(trainer.device)
        found.append((time.perf_counter() - begin) * 1e3 / steps)
    if not math.isfinite(loss.item()):
        raise SystemExit("torch_gpt.py: the loss is no number")
    return statistics.median(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--length", type=int)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ways", default="eager,compile")
    parser.add_argument("--float32", action="store_true")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--threads", type=int, help="of the CPU: default all")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    cuda = options.device == "cuda"
    if cuda and not torch.cuda.is_available():
        print("torch_gpt.py: PyTorch sees no GPU here")
        return
    size = SIZES[options.size]
    batch, length = options.batch or size["batch"], options.length or size["context"]
    torch.backends.cuda.matmul.allow_tf32 = False
    for way in options.ways.split(","):
        trainer = Trainer(size, batch, length, way, not options.float32, options.device)
        if cuda:
            torch.cuda.reset_peak_memory_stats()
        ms = milliseconds(trainer, options.steps, options.rounds)
        row = dict(peer="torch_gpt", device=options.device, size=options.size, way=way, batch=batch,
                   length=length, amp=not options.float32, ms_per_step=round(ms, 4),
                   tokens_per_s=round(batch * length * 1e3 / ms))
        if cuda:
            row["peak_MiB"] = torch.cuda.max_memory_allocated() >> 20
        else:
            row["threads"] = torch.get_num_threads()
        print(json.dumps(row), flush=True)
        del trainer
        if cuda:
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
