"""Reads a GGUF file that `moebius convert` wrote with the Python package gguf, and compares its values with those of the folder that it was made of.

Each tensor must have the name and the shape that gguf's own table gives for the folder's, the rows of queries and keys must be those that llama.cpp's converter
makes, and no tensor may be off by more than LIMIT, as a relative error. Vectors must be the same to the bit. Prints the largest error.
Usage: python read_gguf.py MODEL.gguf FOLDER LIMIT
Needs: gguf, numpy, safetensors.
"""
import json, os, sys

import gguf
import numpy as np
from safetensors import deserialize

# numpy has no bf16, which is the upper half of an f32.
WIDEN = {"F32": lambda data: np.frombuffer(data, np.float32), "F16": lambda data: np.frombuffer(data, np.float16).astype(np.float32),
         "BF16": lambda data: (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32)}


def tensors(folder):
    for file in sorted(os.listdir(folder)):
        if file.startswith("model") and file.endswith(".safetensors"):
            with open(os.path.join(folder, file), "rb") as opened:
                for name, info in deserialize(opened.read()):
                    yield name, WIDEN[info["dtype"]](bytes(info["data"])).reshape(info["shape"])


def neighbours(value, heads):
    """Rows of each head in the order of llama.cpp's converter: those that turn together one after the other."""
    return value.reshape(heads, 2, value.shape[0] // heads // 2, *value.shape[1:]).swapaxes(1, 2).reshape(value.shape)


def expected(folder, config, names):
    """The folder's values by their names in a GGUF file; matrices of experts are stacked."""
    stacks = {}
    for name, value in tensors(folder):
        stem, ending = name.rsplit(".", 1)
        if config["model_type"] in ("llama", "mixtral") and stem.endswith(("q_proj", "k_proj")):
            value = neighbours(value, config["num_attention_heads" if stem.endswith("q_proj") else "num_key_value_heads"])
        if ".experts." in stem:
            before, expert, matrix = stem.rsplit(".", 2)
            # What llama.cpp's converter calls the stacked experts of Mixtral.
            before = before.replace("model.layers.", "layers.").replace("block_sparse_moe.", "feed_forward.") if "block_sparse" in before else before
            stacks.setdefault(f"{before}.{matrix}", {})[int(expert)] = value
            continue
        yield f"{names.get_name(stem)}.{ending}", value
    for stem, stack in stacks.items():
        yield f"{names.get_name(stem)}.weight", np.stack([stack[at] for at in range(len(stack))])


def main(path, folder, limit):
    config = json.load(open(os.path.join(folder, "config.json")))
    reader = gguf.GGUFReader(path)
    # The divisors of rotary frequencies follow from the configuration.
    of = {tensor.name: tensor for tensor in reader.tensors if tensor.name != "rope_freqs.weight"}
    architecture = reader.get_field("general.architecture").contents()
    number = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    names = gguf.get_tensor_name_map(number, config["num_hidden_layers"])
    tokens = len(reader.get_field("tokenizer.ggml.tokens").contents())
    if tokens != config["vocab_size"]:
        sys.exit(f"{tokens} tokens for {config['vocab_size']} rows")
    worst = 0.0
    for name, value in expected(folder, config, names):
        if name == "output.weight" and name not in of and config.get("tie_word_embeddings"):
            continue
        tensor = of.pop(name)
        got = gguf.dequantize(tensor.data, tensor.tensor_type).reshape(value.shape)
        if list(tensor.shape)[::-1] != list(value.shape):
            sys.exit(f"{name}: {tensor.shape}, not {value.shape}")
        if value.ndim == 1 and not np.array_equal(got, value):
            sys.exit(f"{name}: other values")
        worst = max(worst, float(np.linalg.norm(got - value) / max(np.linalg.norm(value), 1e-30)))
    if of:
        sys.exit(f"unknown tensors: {sorted(of)}")
    print(f"largest relative error {worst:.2e} of at most {limit}")
    if worst > limit:
        sys.exit(1)


main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
