"""Products and attention in Triton, as peers of ours: tiles in the way of Triton's tutorials, each tuned over a few sizes.

Each function takes and returns tensors of PyTorch on the device; sums are f32.
"""

import torch
import triton
import triton.language as tl

TILES = [
    triton.Config({"ROWS": 128, "COLUMNS": 256, "INNER": 64}, num_warps=8, num_stages=3),
    triton.Config({"ROWS": 128, "COLUMNS": 128, "INNER": 64}, num_warps=8, num_stages=3),
    triton.Config({"ROWS": 128, "COLUMNS": 128, "INNER": 32}, num_warps=4, num_stages=4),
]
# The rows of a tile of one expert, fixed because the list of tiles is made for it.
GROUP_ROWS = 64
GROUP_TILES = [
    triton.Config({"COLUMNS": 256, "INNER": 64}, num_warps=8, num_stages=3),
    triton.Config({"COLUMNS": 128, "INNER": 64}, num_warps=4, num_stages=3),
]
QUERY_TILES = [
    triton.Config({"QUERIES": 128, "KEYS": 128}, num_warps=8, num_stages=2),
    triton.Config({"QUERIES": 128, "KEYS": 64}, num_warps=8, num_stages=3),
    triton.Config({"QUERIES": 64, "KEYS": 64}, num_warps=4, num_stages=3),
]


@triton.autotune(configs=TILES, key=["m", "n", "k"])
@triton.jit
def _product(x, w, y, m, n, k, ROWS: tl.constexpr, COLUMNS: tl.constexpr, INNER: tl.constexpr, BAND: tl.constexpr):
    # Tiles of BAND rows of tiles follow one another, so that what they read of w is still in the cache.
    tile = tl.program_id(0)
    down, across = tl.cdiv(m, ROWS), tl.cdiv(n, COLUMNS)
    band = tile // (BAND * across)
    height = tl.minimum(down - band * BAND, BAND)
    inside = tile % (BAND * across)
    row = (band * BAND + inside % height) * ROWS + tl.arange(0, ROWS)
    column = (inside // height) * COLUMNS + tl.arange(0, COLUMNS)
    inner = tl.arange(0, INNER)
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, k, INNER):
        along = start + inner
        left = tl.load(x + row[:, None] * k + along[None, :], mask=(row[:, None] < m) & (along[None, :] < k), other=0.0)
        right = tl.load(w + column[None, :] * k + along[:, None], mask=(column[None, :] < n) & (along[:, None] < k), other=0.0)
        total = tl.dot(left, right, total)
    mask = (row[:, None] < m) & (column[None, :] < n)
    tl.store(y + row[:, None] * n + column[None, :], total.to(y.dtype.element_ty), mask=mask)


def product(x, w):
    """x [m, k] times the transpose of w [n, k]."""
    (m, k), n = x.shape, w.shape[0]
    y = torch.empty(m, n, dtype=x.dtype, device=x.device)
    grid = lambda tile: (triton.cdiv(m, tile["ROWS"]) * triton.cdiv(n, tile["COLUMNS"]),)
    _product[grid](x, w, y, m, n, k, BAND=8)
    return y


@triton.autotune(configs=GROUP_TILES, key=["n", "k"])
@triton.jit
def _grouped(x, w, y, experts, starts, ends, n, k, ROWS: tl.constexpr, COLUMNS: tl.constexpr, INNER: tl.constexpr):
    tile = tl.program_id(0)
    start, end = tl.load(starts + tile), tl.load(ends + tile)
    # The list of tiles is as long as it could be for any routing: those past the last one have no rows.
    if start >= end:
        return
    weights = w + tl.load(experts + tile).to(tl.int64) * n * k
    row = start + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inner = tl.arange(0, INNER)
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for begin in range(0, k, INNER):
        along = begin + inner
        left = tl.load(x + row[:, None].to(tl.int64) * k + along[None, :], mask=(row[:, None] < end) & (along[None, :] < k), other=0.0)
        right = tl.load(weights + column[None, :] * k + along[:, None], mask=(column[None, :] < n) & (along[:, None] < k), other=0.0)
        total = tl.dot(left, right, total)
    mask = (row[:, None] < end) & (column[None, :] < n)
    tl.store(y + row[:, None].to(tl.int64) * n + column[None, :], total.to(y.dtype.element_ty), mask=mask)


def tiles(ends, rows):
    """The tiles of sorted rows, without a read-back: expert, first row and the row after the last, for as many tiles as any routing of
    `rows` rows may need. `ends` has the row after each expert's last one.
    """
    count = ends.shape[0]
    begins = torch.cat([ends.new_zeros(1), ends[:-1]])
    last = ((ends - begins + GROUP_ROWS - 1) // GROUP_ROWS).cumsum(0)
    tile = torch.arange(triton.cdiv(rows, GROUP_ROWS) + count, device=ends.device)
    expert = torch.searchsorted(last, tile, right=True)
    real = expert < count
    expert = expert.clamp(max=count - 1)
    before = torch.cat([last.new_zeros(1), last[:-1]])[expert]
    start = begins[expert] + (tile - before) * GROUP_ROWS
    end = torch.minimum(start + GROUP_ROWS, ends[expert])
    none = torch.zeros_like(start)
    return expert.int(), torch.where(real, start, none).int(), torch.where(real, end, none).int()


def grouped_product(x, w, ends):
    """Sorted rows x [r, k], each times the transpose of its expert's weights in w [E, n, k]."""
    (rows, k), n = x.shape, w.shape[1]
    y = torch.empty(rows, n, dtype=x.dtype, device=x.device)
    experts, starts, stops = tiles(ends, rows)
    grid = lambda tile: (experts.shape[0], triton.cdiv(n, tile["COLUMNS"]))
    _grouped[grid](x, w, y, experts, starts, stops, n, k, ROWS=GROUP_ROWS)
    return y


@triton.autotune(configs=QUERY_TILES, key=["tokens"])
@triton.jit
def _attention(q, k, v, o, scale, heads, group, tokens, DIM: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr):
    # The last queries see the most keys and begin first.
    block = tl.num_programs(0) - 1 - tl.program_id(0)
    head = tl.program_id(1)
    key_head = (head // heads) * (heads // group) + (head % heads) // group
    query, dim, key = block * QUERIES + tl.arange(0, QUERIES), tl.arange(0, DIM), tl.arange(0, KEYS)
    place = (head.to(tl.int64) * tokens + query[:, None]) * DIM + dim[None, :]
    queries = tl.load(q + place, mask=query[:, None] < tokens, other=0.0)
    of_keys = key_head.to(tl.int64) * tokens * DIM
    largest = tl.full((QUERIES,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((QUERIES,), dtype=tl.float32)
    sums = tl.zeros((QUERIES, DIM), dtype=tl.float32)
    for start in range(0, tl.minimum((block + 1) * QUERIES, tokens), KEYS):
        at = start + key
        keys = tl.load(k + of_keys + at[None, :] * DIM + dim[:, None], mask=at[None, :] < tokens, other=0.0)
        scores = tl.dot(queries, keys) * scale
        scores = tl.where((at[None, :] <= query[:, None]) & (at[None, :] < tokens), scores, float("-inf"))
        # The first keys are seen by all queries, so the largest score is finite from the first round on.
        new = tl.maximum(largest, tl.max(scores, 1))
        weights = tl.exp2(scores - new[:, None])
        keep = tl.exp2(largest - new)
        total = total * keep + tl.sum(weights, 1)
        values = tl.load(v + of_keys + at[:, None] * DIM + dim[None, :], mask=at[:, None] < tokens, other=0.0)
        sums = tl.dot(weights.to(values.dtype), values, sums * keep[:, None])
        largest = new
    tl.store(o + place, (sums / total[:, None]).to(o.dtype.element_ty), mask=query[:, None] < tokens)


def causal_attention(q, k, v):
    """Causal attention of q [B, H, S, D] on k and v [B, HK, S, D], contiguous."""
    batch, heads, tokens, dim = q.shape
    o = torch.empty_like(q)
    # Powers of two in place of powers of e, as the processor of the card computes them.
    scale = dim**-0.5 * 1.4426950408889634
    grid = lambda tile: (triton.cdiv(tokens, tile["QUERIES"]), batch * heads)
    _attention[grid](q, k, v, o, scale, heads, heads // k.shape[1], tokens, DIM=dim)
    return o
