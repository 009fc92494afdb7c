"""PyTorch's linear layer in f32 on the CPU, without bias, as the benchmark's peer.

Usage: python torch_linear.py M N K
Prints one line of JSON: version, median_ms, gflops. One warm-up, median of at least 5 runs, with as many threads as
PyTorch takes by default.
"""
import json
import statistics
import sys
import time

import torch

m, n, k = map(int, sys.argv[1:4])
torch.manual_seed(0)
x, weight = torch.randn(m, k), torch.randn(n, k)
with torch.inference_mode():
    torch.nn.functional.linear(x, weight)
    seconds, begin = [], time.perf_counter()
    while len(seconds) < 5 or (len(seconds) < 50 and time.perf_counter() - begin < 3):
        start = time.perf_counter()
        torch.nn.functional.linear(x, weight)
        seconds.append(time.perf_counter() - start)
median = statistics.median(seconds)
print(json.dumps({"version": torch.__version__, "median_ms": median * 1e3, "gflops": 2 * m * n * k / median / 1e9}))
