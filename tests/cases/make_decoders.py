"""Writes decoders beside those of make_cases.py: dense ones, latent attention, corrected routers, fused matrices, norms after parts, chunks, text models of
models that also see, and weights as they are published: sharded, in 16 bits, FP8 and MXFP4.

Each folder has config.json, weights, and logits.case.safetensors with tokens and the logits that Hugging Face transformers computes in float64
of the values that the stored weights stand for.
Usage: python make_decoders.py OUT_DIR [--seed N] [--only NAME ...]
Needs: torch, numpy, ml_dtypes, safetensors, transformers 5.24.
"""
import argparse, json, os
import numpy as np, torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

from make_cases import REL, n, write

BASE = dict(vocab_size=99, hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=256, tie_word_embeddings=False)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=16, beta_fast=32.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=0.707)
LATENT = dict(num_key_value_heads=4, kv_lora_rank=24, qk_rope_head_dim=8, qk_nope_head_dim=16, v_head_dim=12, n_routed_experts=8, n_shared_experts=1,
              num_experts_per_tok=2, n_group=4, topk_group=2, routed_scaling_factor=2.5, norm_topk_prob=True, first_k_dense_replace=1, num_nextn_predict_layers=0)
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)
# DeepSeek-V2 and GLM-4.7-Flash, without groups and without a stretched context.
PLAIN_LATENT = {name: value for name, value in LATENT.items() if name not in ("n_group", "topk_group", "first_k_dense_replace", "num_nextn_predict_layers")}
ROUTED = dict(n_routed_experts=8, n_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=24, first_k_dense_replace=1, norm_topk_prob=True)
# Ids of tokens by default lie beyond the small vocabulary.
IDS = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2)
# For sequences of 41 tokens: the long divisors count beyond 32, the short ones up to 64.
LONGROPE = dict(rope_type="longrope", rope_theta=10000.0, partial_rotary_factor=0.5, short_factor=[1.0, 1.1, 1.3], long_factor=[1.0, 2.5, 6.0])
GROWING = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=16, beta_fast=32.0, beta_slow=1.0, mscale=1.0,
               mscale_all_dim=1.0, llama_4_scaling_beta=0.3)

LOCAL = {"full_attention": dict(rope_type="linear", rope_theta=1000000.0, factor=4.0), "sliding_attention": dict(rope_type="default", rope_theta=10000.0)}
ALPHA = dict(rope_type="dynamic", rope_theta=10000.0, factor=1.0, alpha=50.0)
THREE = dict(num_hidden_layers=3, sliding_window=8, layer_types=["sliding_attention", "full_attention", "sliding_attention"])
GEMMA = dict(**THREE, num_key_value_heads=2, head_dim=16, tie_word_embeddings=True)
LLAMA4 = dict(num_hidden_layers=4, num_key_value_heads=2, head_dim=16, intermediate_size=40, intermediate_size_mlp=64, num_local_experts=4, rope_parameters=LLAMA3)

SPECS = {
    "llama": ("llama", dict(num_key_value_heads=2, tie_word_embeddings=True, attention_bias=True, mlp_bias=True, rope_parameters=LLAMA3)),
    "qwen3": ("qwen3", dict(num_key_value_heads=2, head_dim=16, use_sliding_window=True, sliding_window=7, layer_types=["full_attention", "sliding_attention"])),
    "deepseek_v3": ("deepseek_v3", dict(**LATENT, q_lora_rank=20, moe_intermediate_size=24, rope_parameters=YARN)),
    # Blocks of 128: experts go side by side as codes, the dense network's gate ends within a block.
    "deepseek_v3_fp8": ("deepseek_v3", dict(**{**LATENT, "n_routed_experts": 4, "n_group": 2, "topk_group": 1}, hidden_size=128, intermediate_size=72,
                                            q_lora_rank=None, moe_intermediate_size=128)),
    "gpt_oss_mxfp4": ("gpt_oss", dict(num_local_experts=4, num_experts_per_tok=2, num_key_value_heads=2, head_dim=16, hidden_size=64, intermediate_size=32,
                                      sliding_window=8, layer_types=["sliding_attention", "full_attention"])),
    "gemma2": ("gemma2", dict(**GEMMA, query_pre_attn_scalar=24, attn_logit_softcapping=4.0, final_logit_softcapping=5.0)),
    "gemma3_text": ("gemma3_text", dict(**GEMMA, query_pre_attn_scalar=24, final_logit_softcapping=5.0, rope_parameters=LOCAL)),
    # The same as a GGUF file can say it, inside of a model for images and text and with the keys of transformers 4.
    "gemma3": ("gemma3_text", dict(**GEMMA, query_pre_attn_scalar=16, rope_parameters=LOCAL)),
    "hunyuan_v1_dense": ("hunyuan_v1_dense", dict(num_key_value_heads=2, head_dim=16, rope_parameters=ALPHA)),
    "hunyuan_v1_moe": ("hunyuan_v1_moe", dict(num_key_value_heads=2, head_dim=16, num_experts=4, moe_topk=2, intermediate_size=40, rope_parameters=ALPHA)),
    # Chunks, steps of the temperature, layers without positions and dense layers within 41 tokens.
    "llama4_text": ("llama4_text", dict(**LLAMA4, attention_chunk_size=16, floor_scale=8, attn_scale=0.3, no_rope_layers=[1, 0, 1, 1], interleave_moe_layer_step=2)),
    # As a GGUF file can say it, inside of a model for images and text.
    "llama4": ("llama4_text", dict(**LLAMA4)),
    "olmo2": ("olmo2", dict(num_key_value_heads=2)),
    "olmo3": ("olmo3", dict(**THREE, num_key_value_heads=2, rope_parameters={
        "full_attention": dict(rope_type="yarn", rope_theta=500000.0, factor=4.0, original_max_position_embeddings=16),
        "sliding_attention": dict(rope_type="default", rope_theta=500000.0)})),
    "qwen2": ("qwen2", dict(num_key_value_heads=2, tie_word_embeddings=True)),
    "phi3": ("phi3", dict(**IDS, num_key_value_heads=2, original_max_position_embeddings=32, sliding_window=9, rope_parameters=LONGROPE)),
    "phi3_short": ("phi3", dict(**IDS, num_key_value_heads=4, original_max_position_embeddings=64, tie_word_embeddings=True, rope_parameters=LONGROPE)),
    "mistral": ("mistral", dict(num_key_value_heads=2, head_dim=16, sliding_window=7)),
    "ministral3": ("ministral3", dict(**IDS, num_key_value_heads=2, head_dim=16, tie_word_embeddings=True, rope_parameters=GROWING)),
    # Inside of a model for images and text.
    "mistral3": ("mistral", dict(num_key_value_heads=2, head_dim=16, sliding_window=None)),
    # Of two layers the second has no positions, and a window.
    "smollm3": ("smollm3", dict(**IDS, num_key_value_heads=2, tie_word_embeddings=True, no_rope_layers=[1, 0], use_sliding_window=True, sliding_window=7)),
    "seed_oss": ("seed_oss", dict(**IDS, num_key_value_heads=2, head_dim=16, attention_bias=True, attention_out_bias=True, mlp_bias=True)),
    "ernie4_5": ("ernie4_5", dict(**IDS, num_key_value_heads=2, head_dim=16, tie_word_embeddings=True, use_bias=True)),
    "granite": ("granite", dict(num_key_value_heads=2, embedding_multiplier=6.0, attention_multiplier=0.2, residual_multiplier=0.4, logits_scaling=3.0)),
    # Both factors of YaRN's attention are equal, as in the published model.
    "deepseek_v2": ("deepseek_v2", dict(**PLAIN_LATENT, first_k_dense_replace=1, topk_method="group_limited_greedy", n_group=4, topk_group=2, q_lora_rank=20,
                                        moe_intermediate_size=24, rope_parameters={**YARN, "mscale": 0.707})),
    "deepseek_v2_lite": ("deepseek_v2", dict(**{**PLAIN_LATENT, "n_shared_experts": 2}, first_k_dense_replace=1, topk_method="greedy", q_lora_rank=None,
                                             moe_intermediate_size=24)),
    "glm4_moe": ("glm4_moe", dict(**ROUTED, num_key_value_heads=2, head_dim=16, attention_bias=True, use_qk_norm=True, n_group=2, topk_group=1,
                                  routed_scaling_factor=1.5)),
    "solar_open": ("solar_open", dict(**{name: value for name, value in ROUTED.items() if name != "first_k_dense_replace"}, num_key_value_heads=2,
                                      head_dim=16, attention_bias=True, routed_scaling_factor=1.5)),
    "glm4_moe_lite": ("glm4_moe_lite", dict(**PLAIN_LATENT, q_lora_rank=20, moe_intermediate_size=24)),
    # Of three layers only the second has experts.
    "ernie4_5_moe": ("ernie4_5_moe", dict(**IDS, num_hidden_layers=3, num_key_value_heads=2, moe_num_experts=8, moe_k=2, moe_num_shared_experts=2,
                                          moe_intermediate_size=24, moe_layer_start_index=1, moe_layer_interval=2)),
    "dots1": ("dots1", dict(**ROUTED, num_key_value_heads=2, head_dim=16, routed_scaling_factor=2.5, sliding_window=None)),
    # Dense networks of 2/3 of the stated width, rounded up to 64.
    "lfm2": ("lfm2", dict(**IDS, num_hidden_layers=3, num_key_value_heads=2, tie_word_embeddings=True, conv_bias=True, conv_L_cache=4, full_attn_idxs=[1],
                          block_multiple_of=16)),
    "lfm2_moe": ("lfm2_moe", dict(**IDS, num_hidden_layers=4, num_key_value_heads=2, tie_word_embeddings=True, num_dense_layers=1, num_experts=8,
                                  num_experts_per_tok=2, moe_intermediate_size=24, layer_types=["conv", "full_attention", "conv", "conv"],
                                  rope_parameters=dict(rope_type="default", rope_theta=10000.0))),
    "minimax_m2": ("minimax_m2", dict(**IDS, num_local_experts=8, num_experts_per_tok=2, num_key_value_heads=2, head_dim=16, intermediate_size=24,
                                      rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))),
}

# Models for images and text, and what the names of their vision models begin with.
HOLDERS = {"gemma3": "vision_tower.", "llama4": "vision_model.", "mistral3": "vision_tower."}


def randomize(model):
    """Random values; the factors of norms are around 1, or around 0 where 1 is added to them."""
    middle = 0.0 if model.config.model_type.startswith("gemma") else 1.0
    with torch.no_grad():
        for name, value in [*model.named_parameters(), *model.named_buffers()]:
            if "inv_freq" not in name:
                value.copy_(torch.randn_like(value) * (0.2 if value.ndim > 1 else 0.1) + (middle if "norm" in name else 0.0))


def through(dtype):
    """Every weight in 16 bits; the model computes with what they stand for."""
    def store(tensors):
        stored = {name: value.to(dtype) for name, value in tensors.items()}
        tensors |= {name: value.float() for name, value in stored.items()}
        return stored
    return store


def fp8_blocks(tensors):
    """DeepSeek's form: codes and a scale for each block of 128 x 128, of all linear layers but the router and the head."""
    stored = {}
    for name, value in tensors.items():
        if value.ndim != 2 or any(part in name for part in ("embed", "lm_head", "mlp.gate.")):
            stored[name] = value
            continue
        scale = torch.zeros([-(-extent // 128) for extent in value.shape])
        codes = torch.zeros(value.shape, dtype=torch.float8_e4m3fn)
        for i in range(scale.shape[0]):
            for j in range(scale.shape[1]):
                at = slice(128 * i, 128 * i + 128), slice(128 * j, 128 * j + 128)
                scale[i, j] = value[at].abs().max() / 448
                codes[at] = (value[at] / scale[i, j]).to(codes.dtype)
                value[at] = codes[at].float() * scale[i, j]
        stored[name], stored[f"{name}_scale_inv"] = codes, scale
    return stored


E2M1 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])


def mxfp4(tensors):
    """gpt-oss's form: codes of four bits, two to a byte, and a power of two for 32 of them along the inner dimension."""
    stored = {}
    for name, value in tensors.items():
        if not name.endswith(("gate_up_proj", "down_proj")):
            stored[name] = value
            continue
        rows = value.transpose(1, 2)  # [E, out, in]
        blocks = rows.reshape(*rows.shape[:2], -1, 32)
        scale = torch.floor(torch.log2(blocks.abs().amax(-1, keepdim=True))) - 2
        units = blocks / torch.exp2(scale)
        code = (units.abs()[..., None] - E2M1).abs().argmin(-1)
        decoded = torch.where(units < 0, -E2M1[code], E2M1[code]) * torch.exp2(scale)
        code = (code + 8 * (units < 0)).to(torch.uint8)
        stored[f"{name}_blocks"] = code[..., 0::2] | code[..., 1::2] << 4
        stored[f"{name}_scales"] = (scale[..., 0] + 127).to(torch.uint8)
        value.copy_(decoded.reshape(rows.shape).transpose(1, 2))
    return stored


def four(config):
    """The keys of transformers 4."""
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    if "partial_rotary_factor" in rope:
        config["partial_rotary_factor"] = rope.pop("partial_rotary_factor")
    config["rope_scaling"] = rope if rope["rope_type"] != "default" else None
    config["torch_dtype"] = config.pop("dtype")


def four_gemma(config):
    """The keys of transformers 4, in which layers of two kinds had keys of their own."""
    rope = config.pop("rope_parameters")
    config["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
    config["rope_theta"] = rope["full_attention"].pop("rope_theta")
    config["rope_scaling"] = rope["full_attention"]
    config["sliding_window_pattern"] = config["layer_types"].index("full_attention") + 1
    del config["layer_types"]


STORE = {"llama": through(torch.bfloat16), "qwen3": through(torch.float16), "deepseek_v3_fp8": fp8_blocks, "gpt_oss_mxfp4": mxfp4,
         "qwen2": through(torch.bfloat16), "mistral": through(torch.float16), "mistral3": through(torch.bfloat16)}


def reload(folder, tensors):
    """The model of these values."""
    save(folder, tensors)
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def save(folder, tensors, shards=1):
    """In one file, or in two with an index."""
    if shards == 1:
        return save_file({name: value.contiguous() for name, value in tensors.items()}, f"{folder}/model.safetensors", metadata={"format": "pt"})
    names, where = sorted(tensors), {}
    for i, part in enumerate((names[::2], names[1::2])):
        file = f"model-{i + 1:05}-of-00002.safetensors"
        save_file({name: tensors[name].contiguous() for name in part}, f"{folder}/{file}", metadata={"format": "pt"})
        where |= {name: file for name in part}
    size = sum(value.nbytes for value in tensors.values())
    json.dump({"metadata": {"total_size": size}, "weight_map": where}, open(f"{folder}/model.safetensors.index.json", "w"), indent=1)


def logits_of(model, ids):
    """The logits in float64: also what the model's code casts to float32 stays so."""
    model = model.double()
    # Grouped products of PyTorch take no float64.
    model.set_experts_implementation("eager")
    single, cast = torch.float32, torch.Tensor.float
    torch.float32, torch.Tensor.float = torch.float64, torch.Tensor.double
    try:
        with torch.no_grad():
            return model(ids).logits[0]
    finally:
        torch.float32, torch.Tensor.float = single, cast


def decoder(out, name, seed):
    kind, extra = SPECS[name]
    torch.manual_seed(seed)
    config = AutoConfig.for_model(kind, **{**BASE, **extra})
    config._attn_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config).float().eval()
    randomize(model)
    folder = f"{out}/decoder_{name}"
    os.makedirs(folder, exist_ok=True)
    model.save_pretrained(folder)
    if os.path.exists(f"{folder}/generation_config.json"):
        os.remove(f"{folder}/generation_config.json")
    tensors = load_file(f"{folder}/model.safetensors")
    stored = STORE.get(name, lambda tensors: tensors)(tensors)
    # Stores leave in `tensors` what is stored stands for.
    model = reload(folder, tensors)
    os.remove(f"{folder}/model.safetensors")
    if name in HOLDERS:
        stored = {f"language_model.{key}": value for key, value in stored.items()} | {f"{HOLDERS[name]}patches.weight": torch.ones(2, 3)}
    save(folder, stored, shards=2 if name == "llama" else 1)
    config = json.load(open(f"{folder}/config.json"))
    words = config["vocab_size"]
    if name == "gemma3":
        four_gemma(config)
    if name in HOLDERS:
        config = {"model_type": name, "text_config": config, "vision_config": {"hidden_size": 3}}
    if name in ("llama", "gpt_oss_mxfp4", "phi3"):
        four(config)
    if name.endswith("fp8"):
        config["quantization_config"] = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
    json.dump(config, open(f"{folder}/config.json", "w"), indent=1)
    ids = torch.randint(0, words, (1, 41))
    logits = logits_of(model, ids)
    write(f"{folder}/logits.case.safetensors", "decoder_logits", {}, {"tokens": ids[0].numpy().astype(np.int32)}, {"logits": n(logits)}, {"logits": REL(1e-4)})


if __name__ == "__main__":
    a = argparse.ArgumentParser()
    a.add_argument("out")
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--only", nargs="*", default=list(SPECS))
    a = a.parse_args()
    for name in a.only:
        decoder(a.out, name, a.seed)
