"""Writes small GGUF files, and what they stand for, with the Python package gguf, which decodes by code of its own.

blocks.safetensors         blocks of every type: T.bytes, and T.values as the package decodes them
llama_f32.gguf, ..._f16    the case decoder_llama; the others of MODELS likewise. Vectors are F32, as converters leave them
quantized.gguf             a model of one layer in all quantised types, with logits.safetensors: tokens, and logits by forward()
Usage: python make_gguf.py
Needs: gguf 0.19, numpy, safetensors.
"""
import json, math, os
import numpy as np
from gguf import ExpertGatingFuncType, GGMLQuantizationType as T, GGUFWriter, RopeScalingType
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize, quantize
from safetensors import deserialize
from safetensors.numpy import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = [("llama", "f32"), ("llama", "f16"), ("mixtral", "f32"), ("olmoe", "f16"), ("qwen2_moe", "f16"), ("qwen3_moe", "f16"),
          ("gpt_oss", "f16"), ("granitemoe", "f32"), ("qwen2", "f16"), ("phi3", "f32"), ("ministral3", "f32"), ("granite", "f32"), ("deepseek_v2", "f32"),
          ("deepseek_v2_lite", "f32"), ("glm4_moe", "f16"), ("ernie4_5_moe", "f32"), ("dots1", "f16"), ("minimax_m2", "f16"),
          ("gemma3", "f32"), ("hunyuan_v1_dense", "f32"), ("hunyuan_v1_moe", "f32"), ("llama4", "f32"), ("lfm2", "f32"), ("lfm2_moe", "f32")]
ARCHITECTURES = {"llama": "llama", "mixtral": "llama", "olmoe": "olmoe", "qwen2_moe": "qwen2moe", "qwen3_moe": "qwen3moe", "qwen3": "qwen3",
                 "gpt_oss": "gpt-oss", "granitemoe": "granitemoe", "qwen2": "qwen2", "phi3": "phi3", "ministral3": "mistral3", "granite": "granite",
                 "deepseek_v2": "deepseek2", "glm4_moe": "glm4moe", "ernie4_5_moe": "ernie4_5-moe", "dots1": "dots1", "minimax_m2": "minimax-m2",
                 "gemma3_text": "gemma3", "hunyuan_v1_dense": "hunyuan-dense", "hunyuan_v1_moe": "hunyuan-moe", "llama4_text": "llama4",
                 "lfm2": "lfm2", "lfm2_moe": "lfm2moe"}
# Architectures in which rows of q and k that rotate together are neighbours.
NEIGHBOURS = ("llama", "granite", "granitemoe", "mistral3")
OUTER = {"model.embed_tokens.": "token_embd.", "model.norm.": "output_norm.", "model.embedding_norm.": "token_embd_norm.", "lm_head.": "output."}
LAYER = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "mlp.gate": "ffn_gate_inp",
    "block_sparse_moe.gate": "ffn_gate_inp", "mlp.shared_expert_gate": "ffn_gate_inp_shexp", "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
    "mlp.shared_expert.up_proj": "ffn_up_shexp", "mlp.shared_expert.down_proj": "ffn_down_shexp", "mlp.shared_experts.gate_proj": "ffn_gate_shexp",
    "mlp.shared_experts.up_proj": "ffn_up_shexp", "mlp.shared_experts.down_proj": "ffn_down_shexp", "self_attn.qkv_proj": "attn_qkv",
    "mlp.gate_up_proj": "ffn_up", "self_attn.q_a_proj": "attn_q_a", "self_attn.q_a_layernorm": "attn_q_a_norm", "self_attn.q_b_proj": "attn_q_b",
    "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.kv_a_layernorm": "attn_kv_a_norm", "self_attn.kv_b_proj": "attn_kv_b",
    "self_attn.query_layernorm": "attn_q_norm", "self_attn.key_layernorm": "attn_k_norm", "mlp.gate.wg": "ffn_gate_inp", "feed_forward.router": "ffn_gate_inp",
    "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
    "operator_norm": "attn_norm", "ffn_norm": "ffn_norm", "self_attn.out_proj": "attn_output", "self_attn.q_layernorm": "attn_q_norm",
    "self_attn.k_layernorm": "attn_k_norm", "feed_forward.gate": "ffn_gate_inp", "feed_forward.w1": "ffn_gate", "feed_forward.w3": "ffn_up",
    "feed_forward.w2": "ffn_down", **{f"conv.{part}": f"shortconv.{part}" for part in ("in_proj", "conv", "out_proj")},
    **{f"mlp.shared_mlp.{part}_proj": f"ffn_{part}_shexp" for part in ("gate", "up", "down")},
    **{f"feed_forward.shared_expert.{part}_proj": f"ffn_{part}_shexp" for part in ("gate", "up", "down")},
    **{f"feed_forward.{part}_proj": f"ffn_{part}" for part in ("gate", "up", "down")},
}
EXPERTS = {"gate_proj": "gate", "up_proj": "up", "down_proj": "down", "w1": "gate", "w3": "up", "w2": "down"}


def folder(path):
    """Configuration and values of a checkpoint. numpy has no bf16, which is the upper half of an f32."""
    widen = {"F32": lambda data: np.frombuffer(data, np.float32), "F16": lambda data: np.frombuffer(data, np.float16).astype(np.float32),
             "BF16": lambda data: (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32)}
    tensors = {}
    for file in sorted(os.listdir(path)):
        if file.startswith("model") and file.endswith(".safetensors"):
            for name, info in deserialize(open(os.path.join(path, file), "rb").read()):
                tensors[name] = widen[info["dtype"]](bytes(info["data"])).reshape(info["shape"])
    config = json.load(open(os.path.join(path, "config.json")))
    if "text_config" in config:
        before = "language_model."
        tensors = {name.removeprefix(before): value for name, value in tensors.items() if name.startswith(before)}
        config = config["text_config"]
    return config, tensors


def is_apart(config):
    """Whether keys and values of latent attention have a tensor each, as in newer files; older ones have one for both."""
    return config["model_type"] == "deepseek_v2" and bool(config.get("q_lora_rank"))


def parted(config, rest, value):
    """Gate and up of experts that a checkpoint stacks, and tensors that GGUF calls otherwise, by their names; none of other tensors."""
    if rest == "conv.conv.weight":
        return {"shortconv.conv.weight": value.squeeze(1)}
    if rest.endswith(("e_score_correction_bias", "expert_bias")):
        return {"exp_probs_b.bias": value.reshape(-1)}
    if config["model_type"] == "glm4_moe" and rest == "post_attention_layernorm.weight":
        return {"post_attention_norm.weight": value}
    if rest == "self_attn.kv_b_proj.weight" and is_apart(config):
        still = config["qk_nope_head_dim"]
        heads = value.reshape(config["num_attention_heads"], still + config["v_head_dim"], -1)
        return {"attn_k_b.weight": heads[:, :still].swapaxes(1, 2), "attn_v_b.weight": heads[:, still:]}
    if config["model_type"] == "granitemoe":
        if rest == "block_sparse_moe.input_linear.weight":
            gate, up = np.split(value, 2, 1)
            return {"ffn_gate_exps.weight": gate, "ffn_up_exps.weight": up}
        return {GRANITE[rest]: value} if rest in GRANITE else {}
    if config["model_type"] == "gpt_oss":
        if rest == "mlp.experts.gate_up_proj":
            value = value.swapaxes(1, 2)
            return {"ffn_gate_exps.weight": value[:, ::2], "ffn_up_exps.weight": value[:, 1::2]}
        if rest == "mlp.experts.gate_up_proj_bias":
            return {"ffn_gate_exps.bias": value[:, ::2], "ffn_up_exps.bias": value[:, 1::2]}
        if rest == "mlp.experts.down_proj":
            return {"ffn_down_exps.weight": value.swapaxes(1, 2)}
        return {GPT_OSS[rest]: value} if rest in GPT_OSS else {}
    if config["model_type"] == "gemma3_text" and rest == "post_attention_layernorm.weight":
        return {"post_attention_norm.weight": value}
    if config["model_type"] == "llama4_text":
        if rest == "feed_forward.experts.gate_up_proj":
            gate, up = np.split(value.swapaxes(1, 2), 2, 1)
            return {"ffn_gate_exps.weight": gate, "ffn_up_exps.weight": up}
        if rest == "feed_forward.experts.down_proj":
            return {"ffn_down_exps.weight": value.swapaxes(1, 2)}
    return {}


GRANITE = {"block_sparse_moe.output_linear.weight": "ffn_down_exps.weight", "block_sparse_moe.router.layer.weight": "ffn_gate_inp.weight"}
GPT_OSS = {"self_attn.sinks": "attn_sinks.weight", "mlp.router.weight": "ffn_gate_inp.weight", "mlp.router.bias": "ffn_gate_inp.bias",
           "mlp.experts.down_proj_bias": "ffn_down_exps.bias", "post_attention_layernorm.weight": "post_attention_norm.weight"}


def renamed(config, tensors):
    """The tensors by their names in a GGUF file: experts stacked, rows of q and k of Llama in pairs that turn together."""
    out, stacks = {}, {}
    for name, value in tensors.items():
        if config["model_type"] == "gemma3_text" and name.endswith("norm.weight"):
            value = value + np.float32(1)
        outer = [(a, b) for a, b in OUTER.items() if name.startswith(a)]
        if outer:
            out[name.replace(*outer[0])] = value
            continue
        _, _, layer, rest = name.split(".", 3)
        parts = parted(config, rest, value)
        if parts:
            out.update({f"blk.{layer}.{part}": np.ascontiguousarray(of) for part, of in parts.items()})
            continue
        stem, ending = rest.rsplit(".", 1)
        if ".experts." in stem:
            _, expert, which = stem.rsplit(".", 2)
            stacks.setdefault(f"blk.{layer}.ffn_{EXPERTS[which]}_exps.weight", {})[int(expert)] = value
            continue
        if ARCHITECTURES[config["model_type"]] in NEIGHBOURS and stem.endswith(("q_proj", "k_proj")):
            heads = config["num_attention_heads" if stem.endswith("q_proj") else "num_key_value_heads"]
            value = value.reshape(heads, 2, value.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(value.shape)
        out[f"blk.{layer}.{LAYER[stem]}.{ending}"] = value
    for name, stack in stacks.items():
        out[name] = np.stack([stack[expert] for expert in range(len(stack))])
    return out


def dense_width(config):
    """The width of dense networks; in LFM2 it follows from the one that is stated."""
    if not config.get("block_auto_adjust_ff_dim"):
        return config.get("intermediate_size_mlp", config["intermediate_size"])
    multiple = config["block_multiple_of"]
    return -(-int(config["block_ffn_dim_multiplier"] * int(2 * config["intermediate_size"] / 3)) // multiple) * multiple


def describe(w, config):
    """Hyperparameters, as llama.cpp's converter writes them."""
    w.add_context_length(config["max_position_embeddings"]); w.add_embedding_length(config["hidden_size"]); w.add_block_count(config["num_hidden_layers"])
    w.add_feed_forward_length(dense_width(config)); w.add_head_count(config["num_attention_heads"])
    if "conv_L_cache" in config:
        w.add_head_count_kv([config["num_key_value_heads"] if kind == "full_attention" else 0 for kind in config["layer_types"]])
        w.add_shortconv_l_cache(config["conv_L_cache"])
    else:
        w.add_head_count_kv(1 if is_apart(config) else config["num_key_value_heads"])
    w.add_layer_norm_rms_eps(config.get("rms_norm_eps") or config["norm_eps"]); w.add_vocab_size(config["vocab_size"])
    rope = config.get("rope_parameters") or {"rope_theta": config["rope_theta"]}
    # Hunyuan's dynamic scaling is a larger theta.
    d = config.get("head_dim") or 1
    w.add_rope_freq_base(rope["rope_theta"] * rope.get("alpha", 1.0) ** (d / (d - 2)))
    if config["model_type"] == "gemma3_text":
        w.add_sliding_window(config["sliding_window"]); w.add_uint32("gemma3.attention.sliding_window_pattern", config["sliding_window_pattern"])
        w.add_rope_scaling_type(RopeScalingType.LINEAR); w.add_rope_scaling_factor(config["rope_scaling"]["factor"])
    if config["model_type"] == "llama4_text":
        w.add_interleave_moe_layer_step(config["interleave_moe_layer_step"]); w.add_expert_feed_forward_length(config["intermediate_size"])
    if config["model_type"] == "hunyuan_v1_moe":
        w.add_expert_feed_forward_length(config["intermediate_size"]); w.add_expert_shared_feed_forward_length(config["intermediate_size"])
        w.add_expert_shared_count(1)
    if rope.get("rope_type") == "yarn":
        w.add_rope_scaling_type(RopeScalingType.YARN); w.add_rope_scaling_factor(rope["factor"])
        w.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if config["model_type"] == "gpt_oss":
        w.add_sliding_window(config["sliding_window"]); w.add_expert_feed_forward_length(config["intermediate_size"])
    if config["model_type"] in ("granite", "granitemoe"):
        w.add_attention_scale(config["attention_multiplier"]); w.add_embedding_scale(config["embedding_multiplier"])
        w.add_residual_scale(config["residual_multiplier"]); w.add_logit_scale(config["logits_scaling"])
    if "kv_lora_rank" in config:
        describe_latent(w, config, rope)
    else:
        width = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
        part = rope.get("partial_rotary_factor") or config.get("partial_rotary_factor") or 1.0
        w.add_rope_dimension_count(int(width * part))
        if config.get("head_dim"):
            w.add_key_length(width); w.add_value_length(width)
    if config["model_type"] == "ministral3":
        w.add_rope_scaling_yarn_log_mul(rope["mscale_all_dim"]); w.add_attn_temperature_scale(rope["llama_4_scaling_beta"])
    if config["model_type"] == "phi3":
        w.add_rope_scaling_orig_ctx_len(config["original_max_position_embeddings"]); w.add_sliding_window(config["sliding_window"] or 0)
        original = config["original_max_position_embeddings"]
        w.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(config["max_position_embeddings"] / original) / math.log(original)))
    describe_experts(w, config)


def describe_latent(w, config, rope):
    """Widths of latent attention: newer files give those of the narrow vector as the widths of a head."""
    rank, turned, value = config["kv_lora_rank"], config["qk_rope_head_dim"], config["v_head_dim"]
    whole = config["qk_nope_head_dim"] + turned
    if config.get("q_lora_rank"):
        w.add_q_lora_rank(config["q_lora_rank"])
    w.add_kv_lora_rank(rank); w.add_rope_dimension_count(turned)
    if is_apart(config):
        w.add_key_length(rank + turned); w.add_value_length(rank); w.add_key_length_mla(whole); w.add_value_length_mla(value)
    else:
        w.add_key_length(whole); w.add_value_length(value)
    if rope.get("mscale_all_dim"):
        w.add_rope_scaling_yarn_log_mul(0.1 * rope["mscale_all_dim"])


def describe_experts(w, config):
    """Numbers and widths of experts, and how they are chosen."""
    names = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
    experts = next((config[name] for name in names if config.get(name)), None)
    if experts:
        w.add_expert_count(experts)
        w.add_expert_used_count(next(config[name] for name in ("moe_topk", "moe_k", "num_experts_per_tok") if config.get(name)))
    if "moe_intermediate_size" in config:
        w.add_expert_feed_forward_length(config["moe_intermediate_size"])
    if config["model_type"] == "minimax_m2":
        w.add_expert_feed_forward_length(config["intermediate_size"]); w.add_expert_gating_func(ExpertGatingFuncType.SIGMOID)
    if "shared_expert_intermediate_size" in config:
        w.add_expert_shared_feed_forward_length(config["shared_expert_intermediate_size"])
    if config["model_type"] == "ernie4_5_moe":
        w.add_interleave_moe_layer_step(config["moe_layer_interval"]); w.add_leading_dense_block_count(config["moe_layer_start_index"])
        w.add_expert_shared_count(config["moe_num_shared_experts"])
    if config["model_type"] == "lfm2_moe":
        w.add_leading_dense_block_count(config["num_dense_layers"]); w.add_expert_gating_func(ExpertGatingFuncType.SIGMOID)
    if "first_k_dense_replace" in config:
        w.add_leading_dense_block_count(config["first_k_dense_replace"]); w.add_expert_shared_count(config["n_shared_experts"])
        w.add_expert_weights_scale(config["routed_scaling_factor"])
        sigmoid = config["model_type"] != "deepseek_v2"
        w.add_expert_gating_func(ExpertGatingFuncType.SIGMOID if sigmoid else ExpertGatingFuncType.SOFTMAX)
        if sigmoid:
            w.add_expert_weights_norm(config["norm_topk_prob"])
        if config.get("n_group"):
            w.add_expert_group_count(config["n_group"]); w.add_expert_group_used_count(config["topk_group"])


def llama3_factors(config, scaling):
    """What frequencies are divided by, as rope_freqs.weight."""
    width = config["head_dim"]
    wave = 2 * np.pi * (scaling.get("rope_theta") or config["rope_theta"]) ** (np.arange(0, width, 2) / width)
    turns = scaling["original_max_position_embeddings"] / wave
    stays = np.clip((turns - scaling["low_freq_factor"]) / (scaling["high_freq_factor"] - scaling["low_freq_factor"]), 0, 1)
    return (1 / ((1 - stays) / scaling["factor"] + stays)).astype(np.float32)


def vocabulary(w, count):
    w.add_tokenizer_model("gpt2"); w.add_tokenizer_pre("smollm")
    w.add_token_list([f"t{i}" for i in range(count)]); w.add_token_types([3 if i < 3 else 1 for i in range(count)])
    w.add_token_merges(["t 1", "t 2"]); w.add_bos_token_id(1); w.add_eos_token_id(2); w.add_add_bos_token(False)
    w.add_chat_template("{% for m in messages %}{{ m.content }}{% endfor %}")


def write(name, config, tensors, types):
    w = GGUFWriter(os.path.join(HERE, name + ".gguf"), ARCHITECTURES[config["model_type"]])
    describe(w, config)
    vocabulary(w, config["vocab_size"])
    for scaling in (config.get("rope_scaling"), config.get("rope_parameters")):
        kind = (scaling or {}).get("rope_type")
        if kind == "llama3":
            w.add_tensor("rope_freqs.weight", llama3_factors(config, scaling))
        if kind == "longrope":
            for length in ("short", "long"):
                w.add_tensor(f"rope_factors_{length}.weight", np.array(scaling[f"{length}_factor"], np.float32))
    for key, value in tensors.items():
        kind = types(key) if value.ndim > 1 and not key.endswith("ffn_gate_inp.weight") else T.F32
        if kind not in (T.F32, T.F16):
            w.add_tensor(key, quantize(value, kind), raw_dtype=kind)
        else:
            w.add_tensor(key, value.astype(np.float16 if kind == T.F16 else np.float32))
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()


# Where blocks have scales of 16 bits, in bytes.
SCALES = {T.Q8_0: [0], T.Q4_0: [0], T.Q4_1: [0, 2], T.Q4_K: [0, 2], T.Q6_K: [208]}
# Later ones, whose blocks are made after all others, so that those keep their bytes.
LATER = {T.Q5_0: [0], T.Q5_1: [0, 2], T.Q2_K: [80, 82], T.Q3_K: [108], T.Q5_K: [0, 2], T.IQ4_NL: [0], T.IQ4_XS: [0], T.MXFP4: []}
# Types that the package decodes without being able to write them.
READ_ONLY = (T.Q4_K, T.Q6_K, T.Q2_K, T.Q3_K, T.Q5_K, T.IQ4_NL, T.IQ4_XS)


def random_blocks(kind, shape, rng, scale):
    """Bytes of random codes; scales are small numbers."""
    values, size = GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (*shape[:-1], shape[-1] // values, size), dtype=np.uint8)
    for at in (SCALES | LATER).get(kind, []):
        blocks[..., at:at + 2] = (scale * rng.uniform(0.5, 1.5, blocks.shape[:-1])).astype(np.float16)[..., None].view(np.uint8)
    return blocks.reshape(*shape[:-1], -1)


def write_blocks(rng):
    out = {}
    later = np.random.default_rng(8)
    for kind in [*SCALES, T.BF16, T.F16, *LATER]:
        if kind in LATER:
            rng = later
        count = max(4 * GGML_QUANT_SIZES[kind][0], 96)
        if kind in (T.BF16, T.F16):
            stored = rng.standard_normal((1, count)).astype(np.float32)
            stored = quantize(stored, kind).view(np.uint8)
        elif kind in READ_ONLY:
            stored = random_blocks(kind, (1, count), rng, 0.01)
        else:
            stored = np.concatenate([quantize(rng.standard_normal((1, count)).astype(np.float32), kind), random_blocks(kind, (1, count), rng, -3.0)], 1)
        out[f"{kind.name}.bytes"] = stored.reshape(-1)
        out[f"{kind.name}.values"] = dequantize(stored, kind).astype(np.float32).reshape(-1)
    save_file(out, os.path.join(HERE, "blocks.safetensors"))


QUANTIZED = dict(model_type="qwen3", vocab_size=32, hidden_size=256, intermediate_size=256, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=1,
                 head_dim=64, max_position_embeddings=64, rms_norm_eps=1e-6, rope_theta=1e6)
TYPES = {"token_embd": T.Q8_0, "output": T.Q6_K, "blk.0.attn_q": T.Q4_K, "blk.0.attn_k": T.BF16, "blk.0.attn_v": T.Q6_K, "blk.0.attn_output": T.Q4_0,
         "blk.0.ffn_gate": T.Q4_K, "blk.0.ffn_up": T.Q4_1, "blk.0.ffn_down": T.Q4_K}


def write_quantized(rng):
    c = QUANTIZED
    h, q, k, f = c["hidden_size"], 256, 64, c["intermediate_size"]
    shapes = {"token_embd": (c["vocab_size"], h), "output": (c["vocab_size"], h), "blk.0.attn_q": (q, h), "blk.0.attn_k": (k, h), "blk.0.attn_v": (k, h),
              "blk.0.attn_output": (h, q), "blk.0.ffn_gate": (f, h), "blk.0.ffn_up": (f, h), "blk.0.ffn_down": (h, f)}
    vectors = {"output_norm": h, "blk.0.attn_norm": h, "blk.0.ffn_norm": h, "blk.0.attn_q_norm": 64, "blk.0.attn_k_norm": 64}
    w = GGUFWriter(os.path.join(HERE, "quantized.gguf"), "qwen3")
    describe(w, c)
    vocabulary(w, c["vocab_size"])
    weights = {}
    for name, shape in shapes.items():
        kind = TYPES[name]
        # Codes of K blocks are not around 0: minima take half of them away.
        if kind in (T.Q4_K, T.Q6_K):
            stored = random_blocks(kind, shape, rng, 0.0002 if kind == T.Q4_K else 0.00003)
        else:
            stored = quantize((rng.standard_normal(shape) * 0.1).astype(np.float32), kind)
        weights[name] = dequantize(stored, kind).astype(np.float64).reshape(shape)
        w.add_tensor(name + ".weight", stored, raw_dtype=kind)
    for name, width in vectors.items():
        value = (1 + 0.1 * rng.standard_normal(width)).astype(np.float32)
        weights[name] = value.astype(np.float64)
        w.add_tensor(name + ".weight", value)
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()
    tokens = rng.integers(0, c["vocab_size"], 12).astype(np.int32)
    save_file({"tokens": tokens, "logits": forward(weights, c, tokens).astype(np.float32)}, os.path.join(HERE, "logits.safetensors"))


def forward(w, c, ids):
    """Logits of a Qwen3 of one layer, in f64."""
    heads, kv, d, count = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"], len(ids)
    norm = lambda x, g: x / np.sqrt((x * x).mean(-1, keepdims=True) + c["rms_norm_eps"]) * g
    angles = np.arange(count)[:, None] * c["rope_theta"] ** (-np.arange(0, d, 2) / d)
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    def turned(x, g):
        x = norm(x, g)
        a, b = x[..., :d // 2], x[..., d // 2:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)
    x = w["token_embd"][ids]
    n = norm(x, w["blk.0.attn_norm"])
    q, k, v = ((n @ w[f"blk.0.attn_{s}"].T).reshape(count, -1, d) for s in "qkv")
    q, k = turned(q, w["blk.0.attn_q_norm"]), turned(k, w["blk.0.attn_k_norm"])
    k, v = k.repeat(heads // kv, 1), v.repeat(heads // kv, 1)
    s = np.where(np.tri(count, dtype=bool), np.einsum("ihd,jhd->hij", q, k) / np.sqrt(d), -np.inf)
    s = np.exp(s - s.max(-1, keepdims=True))
    x = x + np.einsum("hij,jhd->ihd", s / s.sum(-1, keepdims=True), v).reshape(count, -1) @ w["blk.0.attn_output"].T
    n = norm(x, w["blk.0.ffn_norm"])
    gate = n @ w["blk.0.ffn_gate"].T
    x = x + (gate / (1 + np.exp(-gate)) * (n @ w["blk.0.ffn_up"].T)) @ w["blk.0.ffn_down"].T
    return norm(x, w["output_norm"]) @ w["output"].T


def main():
    rng = np.random.default_rng(7)
    write_blocks(rng)
    write_quantized(rng)
    for family, kind in MODELS:
        config, tensors = folder(os.path.join(HERE, "..", "decoder_" + family))
        tensors = renamed(config, tensors)
        write(f"{family}_{kind}", config, tensors, lambda name: {"f32": T.F32, "f16": T.F16}[kind])


main()
