"""PyTorch's scaled_dot_product_attention on the CPU, as the benchmark's peer that takes turns with it.

Usage: python torch_attention.py B HEADS KEY_HEADS QUERIES KEYS D WINDOW DTYPE all|causal forward|backward
WINDOW 0 is none. Prints its version and instruction set as a line of JSON when it is ready; then runs once for each line
it reads, and prints the seconds. A backward run is a forward and the gradients of sum(o * do) for q, k and v. It takes as many threads as
PyTorch takes by default.
"""
import json
import sys
import time

import torch

batch, heads, key_heads, queries, keys, dim, window = map(int, sys.argv[1:8])
dtype, causal, backward = getattr(torch, sys.argv[8]), sys.argv[9] == "causal", sys.argv[10] == "backward"
torch.manual_seed(0)


def version():
    # Includes the name of the instruction set that ATen's kernels use.
    return f"{torch.__version__} ({torch.backends.cpu.get_cpu_capability()})"



def normal(heads, tokens):
    return torch.randn(batch, heads, tokens, dim).to(dtype)


q, k, v, do = normal(heads, queries), normal(key_heads, keys), normal(key_heads, keys), normal(heads, queries)
leaves = [q, k, v]
options = {"enable_gqa": key_heads != heads}
if window or (causal and queries != keys):
    # PyTorch's causal option aligns the first query with the first key; ours aligns the last ones.
    behind = torch.arange(queries)[:, None] + keys - queries - torch.arange(keys)
    options["attn_mask"] = (behind >= 0) & (behind < (window or keys))
else:
    options["is_causal"] = causal


def run():
    o = torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)
    if backward:
        for leaf in leaves:
            leaf.grad = None
        (o * do).sum().backward()


for leaf in leaves:
    leaf.requires_grad_(backward)
with torch.set_grad_enabled(backward):
    print(json.dumps(version()), flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        run()
        print(json.dumps(time.perf_counter() - start), flush=True)
