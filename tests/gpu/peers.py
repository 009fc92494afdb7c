"""Times the work of the table in PyTorch and Triton, on the same card.

Usage: python3 peers.py
Prints a line of JSON for each shape and way: keys of the works that are compared with it, name, shape, median_ms, q1_ms, q3_ms and
waited_ms, runs, and error, the relative L2 distance of what was compared from sums in f64; or `why` in place of figures. A result that
is too far from f64 is not timed. median_ms is between two events on the device, waited_ms by the host's clock with a wait after each run,
as our benchmarks are timed. PyTorch multiplies f32 without TF32.
"""

import json
import statistics
import sys
import time

import torch
import torch.nn.functional as F

import works

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
# The largest relative L2 distance from f64. Inputs are of the type, so it is the rounding of intermediates and results.
TOLERANCE = {torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 2e-2}
# Values in E4M3 are exact, and so is the sum's type; the result is bf16.
FP8_TOLERANCE = 1e-2
# What is compared: so many rows, spread evenly.
SAMPLES = 16
# At least and at most so many runs, within so many seconds.
LEAST, MOST, SECONDS = 5, 50, 0.3


class Wrong(Exception):
    """A result is too far from f64."""


def distance(got, want):
    """Relative L2 distance of two tensors, in f64."""
    got, want = got.double().flatten(), want.double().flatten()
    return ((got - want).norm() / want.norm()).item()


def within(error, most):
    """The error itself; raises Wrong if it is above `most` or not a number."""
    if not error <= most:
        raise Wrong(f"relative L2 {error:.2e}, expected at most {most:.0e}")
    return error


def random(*shape, dtype, scale=1.0):
    """Normal values, drawn in f32 and rounded to the type."""
    return (torch.randn(*shape, device="cuda") * scale).to(dtype)


def sample(count):
    """Indices of SAMPLES rows of `count`, spread evenly."""
    return torch.linspace(0, count - 1, min(SAMPLES, count), device="cuda").long()


def by_events(run):
    """Milliseconds of one run between two events."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end)


def with_a_wait(run):
    """Milliseconds of one run and a wait for the device, by the host's clock."""
    begin = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) * 1e3


def timed(run):
    """Warms up, then times both ways."""
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    runs = int(SECONDS * 1e3 / max(by_events(run), 1e-3))
    runs = max(LEAST, min(MOST, runs))
    events = sorted(by_events(run) for _ in range(runs))
    waited = [with_a_wait(run) for _ in range(runs)]
    return {
        "median_ms": statistics.median(events), "q1_ms": events[runs // 4], "q3_ms": events[3 * runs // 4],
        "waited_ms": statistics.median(waited), "runs": runs,
    }


class Layer:
    """A layer of experts with its input: router, first and second weights as [E, out, in]."""

    def __init__(self, shape):
        self.shape, self.dtype = shape, DTYPES[shape.dtype]
        first = shape.inter * (2 if shape.gated else 1)
        self.x = random(shape.tokens, shape.hidden, dtype=self.dtype)
        self.router = random(shape.experts, shape.hidden, dtype=self.dtype, scale=shape.hidden**-0.5)
        self.first = random(shape.experts, first, shape.hidden, dtype=self.dtype, scale=shape.hidden**-0.5)
        self.second = random(shape.experts, shape.hidden, shape.inter, dtype=self.dtype, scale=shape.inter**-0.5)

    def leaves(self):
        return [self.x, self.router, self.first, self.second]

    def route(self, chosen=None):
        """The chosen experts [T, K], or those that are given, and their weights, which sum to 1."""
        logits = F.linear(self.x, self.router)
        shares = torch.softmax(logits if logits.dtype == torch.float64 else logits.float(), dim=-1)
        if chosen is None:
            chosen = shares.topk(self.shape.top_k, dim=-1).indices
        weights = shares.gather(-1, chosen)
        return weights / weights.sum(dim=-1, keepdim=True), chosen

    def activate(self, rows):
        """relu, or for gated experts silu of the first half times the second."""
        if not self.shape.gated:
            return rows.relu()
        gate, up = rows.chunk(2, dim=-1)
        return F.silu(gate) * up

    def forward(self, product):
        """The output; `product` multiplies sorted rows by the weights of their experts, whose last rows are at `ends`."""
        weights, chosen = self.route()
        experts = chosen.flatten()
        order = experts.argsort(stable=True)
        tokens = order // self.shape.top_k
        ends = torch.bincount(experts, minlength=self.shape.experts).cumsum(0).to(torch.int32)
        rows = product(self.activate(product(self.x[tokens], self.first, ends)), self.second, ends)
        weighted = rows * weights.flatten()[order].unsqueeze(-1).to(self.dtype)
        return torch.zeros_like(self.x).index_add(0, tokens, weighted)

    def expected(self, token):
        """The output of one token in f64, with the experts that the layer itself has chosen."""
        weights, chosen = (values[token] for values in self.route())
        total = torch.zeros(self.shape.hidden, dtype=torch.float64, device=self.x.device)
        for weight, expert in zip(weights.double(), chosen.tolist()):
            inner = self.activate(self.first[expert].double() @ self.x[token].double())
            total += weight * (self.second[expert].double() @ inner)
        return total


def grouped(rows, weights, ends):
    """PyTorch's own product of each expert, for bf16."""
    return torch._grouped_mm(rows, weights.transpose(1, 2), offs=ends)


def looped(rows, weights, ends):
    """A product for each expert, one after another."""
    counts = torch.diff(ends, prepend=ends.new_zeros(1)).tolist()
    return torch.cat([F.linear(part, weight) for part, weight in zip(rows.split(counts), weights)])


def moe_ways(shape):
    """The ways to compute a layer: the name, and the product."""
    ways = [("PyTorch, a loop over experts", looped)]
    if shape.dtype == "bf16":
        ways.insert(0, ("PyTorch, _grouped_mm", grouped))
        if not shape.backward and triton_ways() is not None:
            ways.append(("Triton", triton_ways().grouped_product))
    return ways


def measure_moe(shape, product):
    """Compares the outputs of sampled tokens, and with a backward pass their gradients, too; then times."""
    layer = Layer(shape)
    tokens = sample(shape.tokens)
    with torch.no_grad():
        got = layer.forward(product)[tokens]
        want = torch.stack([layer.expected(token) for token in tokens.tolist()])
        error = within(distance(got, want), TOLERANCE[layer.dtype])
    if not shape.backward:
        with torch.no_grad():
            return {"error": error, **timed(lambda: layer.forward(product))}
    dy = random(shape.tokens, shape.hidden, dtype=layer.dtype)
    for leaf in layer.leaves():
        leaf.requires_grad_()

    def both():
        return torch.autograd.grad(layer.forward(product), layer.leaves(), dy)

    error = max(error, within(distance(both()[0][tokens], expected_gradients(layer, dy, tokens)), TOLERANCE[layer.dtype]))
    return {"error": error, **timed(both)}


def expected_gradients(layer, dy, tokens):
    """The gradients of sampled rows of x in f64, with the experts that the layer itself has chosen: near a tie f64 would choose others.
    A token's output depends on its own row alone.
    """
    chosen = layer.route()[1][tokens]
    exact = Layer.__new__(Layer)
    exact.shape, exact.dtype = layer.shape, torch.float64
    exact.x, exact.router, exact.first, exact.second = (leaf.detach() for leaf in layer.leaves())
    exact.x = exact.x.double()[tokens].requires_grad_()
    exact.router = exact.router.double()
    gradients = []
    weights, _ = exact.route(chosen)
    for at, token in enumerate(tokens.tolist()):
        total = torch.zeros(exact.shape.hidden, dtype=torch.float64, device=exact.x.device)
        for weight, expert in zip(weights[at], chosen[at].tolist()):
            inner = exact.activate(exact.first[expert].double() @ exact.x[at])
            total = total + weight * (exact.second[expert].double() @ inner)
        gradients.append(torch.autograd.grad(total, exact.x, dy[token].double(), retain_graph=True)[0][at])
    return torch.stack(gradients)


def sdpa(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])


def attention_ways(shape):
    ways = [("PyTorch, scaled_dot_product_attention", sdpa)]
    if shape.dtype == "f16" and not shape.backward and triton_ways() is not None:
        ways.append(("Triton", triton_ways().causal_attention))
    return ways


def exact_attention(q, k, v):
    """The group of query heads [G, S, D] of one key head [S, D], in the type of the inputs, which is f64 for a comparison."""
    scores = q @ k.T * q.shape[-1] ** -0.5
    later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
    return scores.masked_fill(later, float("-inf")).softmax(dim=-1) @ v


def measure_attention(shape, attend):
    """Compares the first group of heads of the first sequence, all its queries and gradients; then times."""
    dtype, group = DTYPES[shape.dtype], shape.heads // shape.kv_heads
    q = random(shape.batch, shape.heads, shape.tokens, shape.head_dim, dtype=dtype)
    k, v = (random(shape.batch, shape.kv_heads, shape.tokens, shape.head_dim, dtype=dtype) for _ in range(2))
    do = random(*q.shape, dtype=dtype)
    leaves = [leaf.requires_grad_(shape.backward) for leaf in (q, k, v)]

    def both():
        return torch.autograd.grad(attend(q, k, v), leaves, do)

    exact = [part.detach().double().requires_grad_(shape.backward) for part in (q[0, :group], k[0, 0], v[0, 0])]
    with torch.set_grad_enabled(shape.backward):
        want = exact_attention(*exact)
        error = within(distance(attend(q, k, v)[0, :group].detach(), want.detach()), TOLERANCE[dtype])
    if not shape.backward:
        with torch.no_grad():
            return {"error": error, **timed(lambda: attend(q, k, v))}
    wanted = torch.autograd.grad(want, exact, do[0, :group].double())
    dq, dk, dv = both()
    for got, expected in zip((dq[0, :group], dk[0, 0], dv[0, 0]), wanted):
        error = max(error, within(distance(got, expected), TOLERANCE[dtype]))
    return {"error": error, **timed(both)}


def scaled_product(x, w):
    """A product of codes with one scale each, which is 1 here."""
    one = torch.ones((), device=x.device)
    return torch._scaled_mm(x, w.T, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)


def linear_ways(shape):
    if shape.activations == "fp8":
        return [("PyTorch, _scaled_mm", scaled_product)]
    ways = [("PyTorch, linear", F.linear)]
    if shape.m > 1 and triton_ways() is not None:
        ways.append(("Triton", triton_ways().product))
    return ways


def measure_linear(shape, product):
    """Compares sampled rows, then times. There is one copy of the weights, which the card's caches may hold, as for ours."""
    codes = shape.activations == "fp8"
    dtype = torch.float8_e4m3fn if codes else DTYPES[shape.dtype]
    x = random(shape.m, shape.k, dtype=dtype)
    w = random(shape.n, shape.k, dtype=dtype, scale=1.0 if codes else shape.k**-0.5)
    rows = sample(shape.m)
    # Through f32, because few operations take codes.
    want = x.float()[rows].double() @ w.float().double().T
    with torch.no_grad():
        error = within(distance(product(x, w)[rows], want), FP8_TOLERANCE if codes else TOLERANCE[dtype])
        return {"error": error, **timed(lambda: product(x, w))}


def cached(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def measure_decode(shape, attend):
    """Compares the first group of heads, then times."""
    dtype, group = DTYPES[shape.format], shape.heads // shape.kv_heads
    q = random(1, shape.heads, 1, shape.head_dim, dtype=dtype)
    k, v = (random(1, shape.kv_heads, shape.tokens, shape.head_dim, dtype=dtype) for _ in range(2))
    scores = (q[0, :group].double() @ k[0, 0].double().T) * shape.head_dim**-0.5
    want = scores.softmax(dim=-1) @ v[0, 0].double()
    with torch.no_grad():
        error = within(distance(attend(q, k, v)[0, :group], want), TOLERANCE[dtype])
        return {"error": error, **timed(lambda: attend(q, k, v))}


def triton_ways():
    """The module of Triton's kernels; None where Triton isn't installed."""
    try:
        import triton_peers
    except ImportError:
        return None
    return triton_peers


def ways(shape):
    """The ways to compute a shape, and what measures one: [(name, way, measure)]."""
    if isinstance(shape, works.Moe):
        return [(name, way, measure_moe) for name, way in moe_ways(shape)]
    if isinstance(shape, works.Attention):
        return [(name, way, measure_attention) for name, way in attention_ways(shape)]
    if isinstance(shape, works.Linear):
        return [(name, way, measure_linear) for name, way in linear_ways(shape)]
    return [("PyTorch, scaled_dot_product_attention", cached, measure_decode)]


def main():
    if not torch.cuda.is_available():
        print(f"PyTorch {torch.__version__} sees no GPU", file=sys.stderr)
        return 2
    torch.backends.cuda.matmul.allow_tf32 = False
    asked = [(shape, keys, *way) for shape, keys in works.peers() for way in ways(shape)]
    # Triton compiles for seconds, so it comes last: the time may end before.
    for shape, keys, name, way, measure in sorted(asked, key=lambda one: one[2].startswith("Triton")):
        print(json.dumps(line_of(shape, keys, name, way, measure)), flush=True)
        torch.cuda.empty_cache()
    return 0


def line_of(shape, keys, name, way, measure):
    """Measures one way to compute a shape; returns what is printed of it."""
    torch.manual_seed(0)
    release = triton_ways().triton.__version__ if name.startswith("Triton") else torch.__version__
    line = {"keys": keys, "name": f"{name} ({release})", "shape": {"kind": type(shape).__name__, **shape._asdict()}}
    try:
        line.update(measure(shape, way))
    except Exception as error:  # pylint: disable=broad-except
        # One work that this card or release can't do, or whose result is wrong, must not end the others; Triton has errors of its own.
        line["why"] = f"{type(error).__name__}: {str(error).strip()[:200]}"
    return line


if __name__ == "__main__":
    sys.exit(main())
