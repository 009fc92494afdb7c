"""PyTorch's per-expert loop for one mixture-of-experts layer, as the benchmark's peer.

Usage: python torch_moe.py HIDDEN INTER EXPERTS TOP_K TOKENS DTYPE gated|plain
Prints one line of JSON: version, median_ms, gflops. One warm-up, median of at least 5 runs.
"""
import json
import statistics
import sys
import time

import torch

hidden, inter, experts, top_k, tokens = map(int, sys.argv[1:6])
dtype, gated = getattr(torch, sys.argv[6]), sys.argv[7] == "gated"
torch.manual_seed(0)


def weights(*shape):
    return ((torch.rand(*shape) * 2 - 1) / shape[-1] ** 0.5).to(dtype)


x = torch.randn(tokens, hidden).to(dtype)
router = weights(experts, hidden)
w_in = weights(experts, inter, hidden)
w_up = weights(experts, inter, hidden) if gated else None
w_out = weights(experts, hidden, inter)


def forward():
    probs = (x @ router.T).float().softmax(-1)
    weight, index = probs.topk(top_k, -1)
    weight = (weight / weight.sum(-1, keepdim=True)).to(dtype)
    y = torch.zeros_like(x)
    for e in range(experts):
        token, slot = (index == e).nonzero(as_tuple=True)
        if not len(token):
            continue
        rows = x[token]
        if gated:
            h = torch.nn.functional.silu(rows @ w_in[e].T) * (rows @ w_up[e].T)
        else:
            h = torch.relu(rows @ w_in[e].T)
        y.index_add_(0, token, (h @ w_out[e].T) * weight[token, slot, None])
    return y


with torch.no_grad():
    forward()
    seconds, begin = [], time.perf_counter()
    while len(seconds) < 5 or (len(seconds) < 50 and time.perf_counter() - begin < 3):
        start = time.perf_counter()
        forward()
        seconds.append(time.perf_counter() - start)
median = statistics.median(seconds)
flops = 2 * (3 if gated else 2) * tokens * top_k * hidden * inter
print(json.dumps({"version": torch.__version__, "median_ms": median * 1e3, "gflops": flops / median / 1e9}))
