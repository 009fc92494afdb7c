"""PyTorch's linear layer in f32 on the CPU, without bias, as the benchmark's peer.

Usage: python torch_linear.py M N K COPIES
Runs go over as many copies of the weights in turn.
Prints one line of JSON: version with the instruction set, median_ms, gflops, runs, and the quartiles q1_ms, q3_ms.
One warm-up, median of at least 5 runs, with as many threads as PyTorch takes by default.
"""
import json
import statistics
import sys
import time

import torch

m, n, k, copies = map(int, sys.argv[1:5])
torch.manual_seed(0)


def version():
    # Includes the name of the instruction set that ATen's kernels use.
    return f"{torch.__version__} ({torch.backends.cpu.get_cpu_capability()})"


def quartiles(seconds):
    ordered = sorted(seconds)
    runs = len(ordered)
    return {"runs": runs, "q1_ms": ordered[runs // 4] * 1e3, "q3_ms": ordered[3 * runs // 4] * 1e3}


x, weights = torch.randn(m, k), [torch.randn(n, k) for _ in range(copies)]
with torch.inference_mode():
    for weight in weights:
        torch.nn.functional.linear(x, weight)
    seconds, begin = [], time.perf_counter()
    while len(seconds) < 5 or (len(seconds) < 50 and time.perf_counter() - begin < 3):
        weight = weights[len(seconds) % copies]
        start = time.perf_counter()
        torch.nn.functional.linear(x, weight)
        seconds.append(time.perf_counter() - start)
median = statistics.median(seconds)
gflops = 2 * m * n * k / median / 1e9
figures = {"version": version(), "median_ms": median * 1e3, "gflops": gflops, **quartiles(seconds)}
print(json.dumps(figures))
