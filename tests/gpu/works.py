"""The work that is timed on a GPU: each shape once, for our benchmarks and for their peers.

A `moebius bench` command verifies its result against sums in f64 before it times anything; `tests/gpu/peers.py` does the same with
the peer's. Times are medians in milliseconds, of runs of which each waits for the device; peers are timed both ways, by the
device's events and with a wait.
"""

from typing import Callable, NamedTuple, Optional


class Moe(NamedTuple):
    """A layer of experts: `tokens` rows of `hidden` values, each to `top_k` of `experts` experts of width `inter`."""

    tokens: int
    hidden: int
    inter: int
    experts: int
    top_k: int
    dtype: str
    gated: bool = False
    backward: bool = False

    def arguments(self):
        """The options of `moebius bench` for this work."""
        words = ["bench", "moe", "--hidden", self.hidden, "--inter", self.inter, "--experts", self.experts, "--top-k", self.top_k]
        words += ["--batch", self.tokens // SEQUENCE, "--seq", SEQUENCE, "--dtype", self.dtype]
        words += ["--gated"] if self.gated else []
        # The balance with the least time: both products are kept, and nothing is computed again.
        words += ["--backward", "--keep", "first-product"] if self.backward else []
        return [str(word) for word in words]

    def flops(self):
        """Floating-point operations of the experts' products; a backward pass has two products for each of the forward's."""
        products = 3 if self.gated else 2
        return 2 * self.tokens * self.top_k * self.hidden * self.inter * products * (3 if self.backward else 1)


class Attention(NamedTuple):
    """Causal attention: `batch` sequences of `tokens` tokens, `heads` query heads on `kv_heads` of `head_dim` values."""

    batch: int
    heads: int
    kv_heads: int
    tokens: int
    head_dim: int
    dtype: str
    backward: bool = False

    def arguments(self):
        words = ["bench", "attention", "--causal", "--batch", self.batch, "--heads", self.heads, "--kv-heads", self.kv_heads]
        words += ["--tokens", self.tokens, "--head-dim", self.head_dim, "--dtype", self.dtype]
        words += ["--backward"] if self.backward else []
        return [str(word) for word in words]

    def flops(self):
        """4 · pairs · head size, over the pairs of a query and a key that it sees; with a backward pass three times as many."""
        pairs = self.batch * self.heads * self.tokens * (self.tokens + 1) // 2
        return 4 * pairs * self.head_dim * (3 if self.backward else 1)


class Linear(NamedTuple):
    """A linear layer: x [m, k] and weights [n, k]. `weights` and `activations` are `float` or `fp8`."""

    m: int
    n: int
    k: int
    dtype: str
    weights: str = "float"
    activations: str = "float"

    def arguments(self):
        words = ["bench", "linear", "--m", self.m, "--n", self.n, "--k", self.k, "--dtype", self.dtype]
        words += ["--activations", "dynamic-row"] if self.activations == "fp8" else []
        return [str(word) for word in words]

    def flops(self):
        return 2 * self.m * self.n * self.k


class Decode(NamedTuple):
    """One token over `tokens` kept ones."""

    heads: int
    kv_heads: int
    tokens: int
    head_dim: int
    format: str

    def arguments(self):
        words = ["bench", "decode", "--heads", self.heads, "--kv-heads", self.kv_heads, "--tokens", self.tokens]
        words += ["--head-dim", self.head_dim, "--format", self.format]
        return [str(word) for word in words]

    def flops(self):
        return 4 * self.heads * self.tokens * self.head_dim


class Generate(NamedTuple):
    """Text of the model that travels inside the program."""

    tokens: int

    def arguments(self):
        return ["generate", "--prompt", "Call me", "--max-tokens", str(self.tokens)]


# Tokens of a sequence in layers of experts, which don't look across tokens.
SEQUENCE = 128


class Work(NamedTuple):
    """A row of the table."""

    key: str
    what: str
    shape: NamedTuple
    # The figure in the command's JSON, and its unit.
    figure: Callable
    unit: str = "ms"
    # The peer's shape, where it has not our types.
    peer: Optional[NamedTuple] = None
    devices: tuple = ("cuda", "rocm")


class Absent(Exception):
    """A result has no figure, because it did not verify or has another form."""


def verified(result):
    """Raises Absent unless the result, and each of its runs, verified."""
    for one in [result, *result.get("runs", [])]:
        if one.get("verified") is False:
            raise Absent(f"does not verify: relative L2 {one.get('max_rel_l2')}")
    return result


def number(value):
    """The figure itself; Absent where the JSON has none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Absent(f"expected a number, got {value!r}")
    return float(value)


def median(result):
    return number(verified(result).get("median_ms"))


def median_of_run(result):
    runs = verified(result).get("runs") or [{}]
    return number(runs[0].get("median_ms"))


def fp8_layer(result):
    return number((verified(result).get("fp8") or {}).get("median_ms"))


def float_layer(result):
    """The fastest of our own layers without codes; Burn's and PyTorch's have other names."""
    own = [path for path in verified(result).get("own") or [] if path["name"].startswith("our ")]
    return min((number(path.get("median_ms")) for path in own), default=None) or number(None)


def first_format(result):
    formats = verified(result).get("formats") or [{}]
    return number(formats[0].get("median_ms"))


def decode_speed(result):
    return number(result.get("decode_tokens_per_s"))


WIDE = Moe(4096, 2048, 8192, 8, 2, "bf16")
FINE = Moe(4096, 2048, 768, 128, 8, "bf16", gated=True)
BOTH = Moe(4096, 1024, 4096, 8, 2, "bf16", backward=True)
EXACT = Moe(4096, 1024, 4096, 8, 2, "f32")
HALF = Moe(4096, 1024, 4096, 8, 2, "f16")
LONG = Attention(4, 32, 8, 4096, 128, "f16")
SQUARE = Linear(4096, 4096, 4096, "bf16")
ONE = Linear(1, 4096, 4096, "f16")
CACHE = Decode(32, 8, 32768, 64, "e4m3")

WORKS = (
    Work("moe-bf16", "MoE forward bf16, 4096 tokens, hidden 2048, 8 experts", WIDE, median),
    Work("moe-128-bf16", "the same, 128 experts, top-8, inter 768, gated", FINE, median),
    Work("moe-both-bf16", "MoE forward and backward bf16, hidden 1024", BOTH, median_of_run),
    Work("moe-f32", "MoE forward f32, hidden 1024", EXACT, median),
    Work("moe-f16", "MoE forward f16, hidden 1024", HALF, median, devices=("cuda", "rocm", "vulkan", "wgpu"),
         peer=HALF._replace(dtype="bf16")),
    Work("attention-f16", "attention f16 causal 4 × 32/8 × 4096 × 128", LONG, median),
    Work("attention-both-f16", "the same, forward and backward", LONG._replace(backward=True), median),
    Work("linear-bf16", "linear 4096³ bf16", SQUARE, float_layer),
    Work("linear-fp8", "linear 4096³ bf16, FP8 weights", SQUARE._replace(weights="fp8"), fp8_layer, peer=SQUARE),
    Work("linear-fp8-both", "linear 4096³, FP8 weights and activations", SQUARE._replace(weights="fp8", activations="fp8"), fp8_layer),
    Work("token-f16", "linear 1 × 4096 × 4096 f16", ONE, float_layer),
    Work("token-fp8", "linear 1 × 4096 × 4096 f16, FP8 weights", ONE._replace(weights="fp8"), fp8_layer, peer=ONE),
    Work("decode-e4m3", "one token over 32,768 in an E4M3 cache, 32/8 heads of 64", CACHE, first_format,
         peer=CACHE._replace(format="bf16")),
    Work("generate", "the bundled model", Generate(256), decode_speed, unit="tokens/s", devices=("cuda", "rocm", "vulkan", "wgpu")),
)


def commands(devices):
    """The commands for these devices, each once, with the works that read its result: [(device, arguments, [Work])]."""
    found = {}
    for device in devices:
        for work in WORKS:
            if device in work.devices:
                found.setdefault((device, tuple(work.shape.arguments())), []).append(work)
    return [(device, list(arguments), works) for (device, arguments), works in found.items()]


def peers():
    """The shapes that peers measure, each once, with the keys of the works that are compared with it: [(shape, [key])]."""
    found = {}
    for work in WORKS:
        shape = work.peer or work.shape
        if not isinstance(shape, Generate):
            found.setdefault(shape, []).append(work.key)
    return list(found.items())
