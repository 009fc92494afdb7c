"""JAX's steps of the benchmark's small transformer, as its peer.

Usage: python jax_training_step.py FILE B S H HEADS LAYERS VOCABULARY CLASSES BATCHES COMPARED EVERY ROUNDS RATE
FILE holds little-endian f32 weights in the order of `weights` below, then BATCHES times i32 tokens [B,S] and classes [B].
Prints one line of JSON: version, platform, losses of the first COMPARED steps, and the median and the least
milliseconds of a step, of ROUNDS rounds of EVERY steps that end with a look at the loss.
JAX_PLATFORMS and PJRT_NAMES_AND_LIBRARY_PATHS choose where it runs.
"""
import json
import statistics
import sys
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

batch, seq, hidden, heads, layers, vocabulary, classes, batches, compared, every, rounds = map(int, sys.argv[2:13])
rate = float(sys.argv[13])
data = np.fromfile(sys.argv[1], np.uint8)


def take(shape, dtype):
    global data
    size = int(np.prod(shape)) * 4
    values, data = data[:size].view(dtype).reshape(shape), data[size:]
    return values


def linear(rows, columns):
    return {"w": take((rows, columns), np.float32), "b": take((columns,), np.float32)}


def norm():
    return {"gamma": take((hidden,), np.float32), "beta": take((hidden,), np.float32)}


def block():
    return {
        "norm_attention": norm(),
        "query": linear(hidden, hidden),
        "key": linear(hidden, hidden),
        "value": linear(hidden, hidden),
        "output": linear(hidden, hidden),
        "norm": norm(),
        "up": linear(hidden, 4 * hidden),
        "down": linear(4 * hidden, hidden),
    }


weights = {
    "embedding": take((vocabulary, hidden), np.float32),
    "blocks": [block() for _ in range(layers)],
    "norm": norm(),
    "head": linear(hidden, classes),
}
inputs = [(take((batch, seq), np.int32), take((batch,), np.int32)) for _ in range(batches)]
assert not len(data), "the file is longer than the sizes say"


def apply(layer, x):
    return x @ layer["w"] + layer["b"]


def normal(layer, x):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + 1e-5) * layer["gamma"] + layer["beta"]


def attention(layer, x):
    def split(y):
        return y.reshape(batch, seq, heads, hidden // heads).swapaxes(1, 2)

    query, key, value = (split(apply(layer[name], x)) for name in ("query", "key", "value"))
    scores = query @ key.swapaxes(2, 3) / (hidden // heads) ** 0.5
    context = jax.nn.softmax(scores) @ value
    return apply(layer["output"], context.swapaxes(1, 2).reshape(batch, seq, hidden))


def loss(weights, tokens, labels):
    x = weights["embedding"][tokens]
    for layer in weights["blocks"]:
        x = x + attention(layer, normal(layer["norm_attention"], x))
        h = jax.nn.gelu(apply(layer["up"], normal(layer["norm"], x)), approximate=False)
        x = x + apply(layer["down"], h)
    logits = apply(weights["head"], normal(weights["norm"], x).mean(1))
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1).mean()


@partial(jax.jit, donate_argnums=(0, 1, 2))
def step(weights, first, second, time, tokens, labels):
    value, gradients = jax.value_and_grad(loss)(weights, tokens, labels)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradients)

    def moved(w, m, v):
        return w - rate * (m / (1 - 0.9**time)) / (jnp.sqrt(v / (1 - 0.999**time)) + 1e-8)

    return jax.tree.map(moved, weights, first, second), first, second, value


def zeros():
    return jax.tree.map(jnp.zeros_like, weights)


state = (jax.tree.map(jnp.asarray, weights), zeros(), zeros())
steps = 0


def learn():
    global state, steps
    tokens, labels = inputs[steps % batches]
    steps += 1
    *state, value = step(*state, np.float32(steps), tokens, labels)
    return value


losses = [float(learn()) for _ in range(compared)]
seconds = []
for round in range(rounds + 2):
    start = time.perf_counter()
    for _ in range(every):
        value = learn()
    float(value)
    if round >= 2:
        seconds.append((time.perf_counter() - start) / every)
print(
    json.dumps(
        {
            "version": jax.__version__,
            "platform": jax.devices()[0].platform,
            "losses": losses,
            "median_ms": statistics.median(seconds) * 1e3,
        }
    )
)
