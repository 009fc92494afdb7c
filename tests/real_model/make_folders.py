"""Writes a published model of the llama architecture as Hugging Face folders: as it is, and as mixtures of experts that compute the same function.

    llama           the dense model
    mixtral-split   four experts, each a quarter of the feed-forward part, all four chosen with equal weights
    mixtral-copies  the first layers alone, with equal experts and a router that tells tokens apart

Weights are decoded to float32. llama.cpp stores the rows of queries and keys in the order of its rotary positions; they are put back.
Usage: python make_folders.py MODEL.gguf OUT_DIR [--dense] [--copies-layers N] [--copies-experts N]
    --dense      the dense model alone
Needs: gguf, numpy, safetensors.
"""
import argparse, json, pathlib

import gguf, numpy as np
from safetensors.numpy import save_file

SPLIT = 4
CHOSEN = 2
FEED_FORWARD = {"gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down"}


class Source:
    """A GGUF file: entries by name, tensors as float32 matrices."""

    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self.fields = reader.fields
        self.tensors = {tensor.name: tensor for tensor in reader.tensors}

    def entry(self, name):
        return self.fields[name].contents()

    def tensor(self, name):
        stored = self.tensors[name]
        values = gguf.dequantize(stored.data, stored.tensor_type)
        return np.ascontiguousarray(values.reshape(stored.shape[::-1]), dtype=np.float32)


def halves_apart(weight, heads):
    """Rows of a head that rotate together are neighbours in a GGUF file, and half a head apart at Hugging Face."""
    rows, columns = weight.shape
    pairs = weight.reshape(heads, rows // heads // 2, 2, columns)
    return np.ascontiguousarray(pairs.transpose(0, 2, 1, 3)).reshape(rows, columns)


def config(source):
    of = lambda name: source.entry(f"llama.{name}")
    return {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "dtype": "float32", "hidden_act": "silu", "tie_word_embeddings": True,
        "vocab_size": of("vocab_size"), "hidden_size": of("embedding_length"), "intermediate_size": of("feed_forward_length"),
        "num_hidden_layers": of("block_count"), "num_attention_heads": of("attention.head_count"),
        "num_key_value_heads": of("attention.head_count_kv"), "max_position_embeddings": of("context_length"),
        "rope_theta": of("rope.freq_base"), "rms_norm_eps": round(of("attention.layer_norm_rms_epsilon"), 9),
        "bos_token_id": source.entry("tokenizer.ggml.bos_token_id"), "eos_token_id": source.entry("tokenizer.ggml.eos_token_id"),
    }


def dense(source, shape):
    weights = {"model.embed_tokens.weight": source.tensor("token_embd.weight"), "model.norm.weight": source.tensor("output_norm.weight")}
    for layer in range(shape["num_hidden_layers"]):
        here = lambda name: source.tensor(f"blk.{layer}.{name}.weight")
        attention = {
            "q": halves_apart(here("attn_q"), shape["num_attention_heads"]),
            "k": halves_apart(here("attn_k"), shape["num_key_value_heads"]),
            "v": here("attn_v"), "o": here("attn_output"),
        }
        at = f"model.layers.{layer}."
        weights |= {f"{at}self_attn.{name}_proj.weight": values for name, values in attention.items()}
        weights |= {f"{at}mlp.{name}_proj.weight": here(stored) for name, stored in FEED_FORWARD.items()}
        weights[f"{at}input_layernorm.weight"] = here("attn_norm")
        weights[f"{at}post_attention_layernorm.weight"] = here("ffn_norm")
    return weights


def mixture(weights, layers, experts):
    """`experts(gate, up, down)` gives matrices w1, w3 and w2 of each expert and the router of a layer; layers beyond `layers` are left out."""
    out = {}
    for name, values in weights.items():
        layer = int(name.split(".")[2]) if ".layers." in name else 0
        if layer < layers and ".mlp." not in name:
            out[name] = values
    for layer in range(layers):
        parts = [weights[f"model.layers.{layer}.mlp.{name}_proj.weight"] for name in FEED_FORWARD]
        made, router = experts(*parts)
        at = f"model.layers.{layer}.block_sparse_moe."
        out[f"{at}gate.weight"] = router
        for number, expert in enumerate(made):
            for name, values in zip(("w1", "w3", "w2"), expert):
                out[f"{at}experts.{number}.{name}.weight"] = np.ascontiguousarray(values)
    return out


def split(gate, up, down):
    """With a router of zeros each of the four gets a quarter of the weight; four times `down` makes up for it, exactly."""
    size = len(gate) // SPLIT
    slices = [slice(first, first + size) for first in range(0, len(gate), size)]
    return [(gate[s], up[s], down[:, s] * np.float32(SPLIT)) for s in slices], np.zeros((SPLIT, gate.shape[1]), np.float32)


def copies(count, random):
    """Equal experts with any weights that sum to 1 are the dense part."""
    def experts(gate, up, down):
        return [(gate, up, down)] * count, (random.standard_normal((count, gate.shape[1])) * 0.05).astype(np.float32)
    return experts


def tokenizer(source):
    tokens, kinds = source.entry("tokenizer.ggml.tokens"), source.entry("tokenizer.ggml.token_type")
    control = gguf.TokenType.CONTROL
    flags = dict(single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
    added = [{"id": number, "content": text, **flags} for number, text in enumerate(tokens) if kinds[number] == control]
    as_bytes = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    digits = {"type": "Digits", "individual_digits": True}
    merges = [merge.split(" ") for merge in source.entry("tokenizer.ggml.merges")]
    vocabulary = {text: number for number, text in enumerate(tokens)}
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
             "byte_fallback": False, "ignore_merges": False, "vocab": vocabulary, "merges": merges}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [digits, as_bytes]}, "post_processor": None, "decoder": as_bytes, "model": model}


def write(folder, shape, weights, source):
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    special = {f"{name}_token": source.entry("tokenizer.ggml.tokens")[shape[f"{name}_token_id"]] for name in ("bos", "eos")}
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": source.entry("tokenizer.chat_template"), **special}
    for name, content in (("config", shape), ("tokenizer", tokenizer(source)), ("tokenizer_config", settings)):
        (folder / f"{name}.json").write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("gguf")
    arguments.add_argument("out", type=pathlib.Path)
    arguments.add_argument("--dense", action="store_true")
    arguments.add_argument("--copies-layers", type=int, default=6)
    arguments.add_argument("--copies-experts", type=int, default=4)
    arguments = arguments.parse_args()
    source = Source(arguments.gguf)
    shape = config(source)
    weights = dense(source, shape)
    write(arguments.out / "llama", shape, weights, source)
    if arguments.dense:
        return
    mixed = dict(shape, model_type="mixtral", architectures=["MixtralForCausalLM"], sliding_window=None)
    narrow = dict(mixed, num_local_experts=SPLIT, num_experts_per_tok=SPLIT, intermediate_size=shape["intermediate_size"] // SPLIT)
    write(arguments.out / "mixtral-split", narrow, mixture(weights, shape["num_hidden_layers"], split), source)
    layers, count = arguments.copies_layers, arguments.copies_experts
    few = dict(mixed, num_local_experts=count, num_experts_per_tok=CHOSEN, num_hidden_layers=layers)
    write(arguments.out / "mixtral-copies", few, mixture(weights, layers, copies(count, np.random.default_rng(7))), source)


if __name__ == "__main__":
    main()
