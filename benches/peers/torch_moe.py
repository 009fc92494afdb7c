"""PyTorch's per-expert loop for one mixture-of-experts layer, as the benchmark's peer.

Usage: python torch_moe.py HIDDEN INTER EXPERTS TOP_K TOKENS DTYPE gated|plain forward|backward
Prints one line of JSON: version with the instruction set, median_ms, gflops, runs, and the quartiles q1_ms, q3_ms.
One warm-up, median of at least 5 runs.
A backward run is a forward and the gradients of sum(y * dy) for x and all weights, 3 times the forward's FLOPs.
"""
import json
import statistics
import sys
import time

import torch

hidden, inter, experts, top_k, tokens = map(int, sys.argv[1:6])
dtype, gated, backward = getattr(torch, sys.argv[6]), sys.argv[7] == "gated", sys.argv[8] == "backward"
torch.manual_seed(0)


def version():
    # Includes the name of the instruction set that ATen's kernels use.
    return f"{torch.__version__} ({torch.backends.cpu.get_cpu_capability()})"


def quartiles(seconds):
    ordered = sorted(seconds)
    runs = len(ordered)
    return {"runs": runs, "q1_ms": ordered[runs // 4] * 1e3, "q3_ms": ordered[3 * runs // 4] * 1e3}


def weights(*shape):
    return ((torch.rand(*shape) * 2 - 1) / shape[-1] ** 0.5).to(dtype)


x = torch.randn(tokens, hidden).to(dtype)
dy = torch.randn(tokens, hidden).to(dtype)
router = weights(experts, hidden)
# Each expert has its own tensor, since the gradient of a slice would be as large as the whole stack.
w_in = [weights(inter, hidden) for _ in range(experts)]
w_up = [weights(inter, hidden) for _ in range(experts if gated else 0)]
w_out = [weights(hidden, inter) for _ in range(experts)]
leaves = [x, router, *w_in, *w_up, *w_out]


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


def both():
    for leaf in leaves:
        leaf.grad = None
    (forward() * dy).sum().backward()


for leaf in leaves:
    leaf.requires_grad_(backward)
run = both if backward else forward
with torch.set_grad_enabled(backward):
    run()
    seconds, begin = [], time.perf_counter()
    while len(seconds) < 5 or (len(seconds) < 50 and time.perf_counter() - begin < 3):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
median = statistics.median(seconds)
flops = 2 * (3 if gated else 2) * tokens * top_k * hidden * inter * (3 if backward else 1)
gflops = flops / median / 1e9
figures = {"version": version(), "median_ms": median * 1e3, "gflops": gflops, **quartiles(seconds)}
print(json.dumps(figures))
