"""Writes small FP8 checkpoints as other programs leave them, and the values that their codes stand for.

The oracle is PyTorch: torch.float8_* decodes the codes, float32 multiplies by the scales. Each checkpoint has beside it
`expected_NAME.safetensors` with the dequantised f32 values of every FP8 weight under the weight's own name.
  blocks/              DeepSeek-V3's and Qwen3's form: two files, an index, weight_block_size in config.json, *_scale_inv in f32 and bf16
  schemes.safetensors  compressed-tensors' and ModelOpt's forms, stacked experts, MX, E5M2; no config.json
Usage: python make_weights.py OUT_DIR
Needs: torch, safetensors.
"""
import json, math, os, sys
import torch
from safetensors.torch import save_file

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


def spread(scale, r, c, shape):
    """Scales of blocks r x c, repeated over the values of a matrix."""
    return scale.float().repeat_interleave(r, -2).repeat_interleave(c, -1)[..., :shape[-2], :shape[-1]]


def weight(g, shape, dtype, grid, r, c, scale_dtype=torch.float32):
    """Codes of random values that reach the ends of the format, random scales, and their products."""
    values = torch.randn(shape, generator=g) * torch.exp(2 * torch.randn(shape, generator=g))
    values = values.clamp(-torch.finfo(dtype).max, torch.finfo(dtype).max)
    values.flatten()[:4] = torch.tensor([torch.finfo(dtype).max, -torch.finfo(dtype).max, 0.0, torch.finfo(dtype).smallest_normal / 4])
    codes = values.to(dtype)
    scale = (torch.rand(grid, generator=g) + 0.01).to(scale_dtype)
    return codes, scale, codes.float() * spread(scale, r, c, shape)


def blocks(out, g):
    folder, b = f"{out}/blocks", 16
    os.makedirs(folder, exist_ok=True)
    files, expected, where = ({}, {}), {}, {}
    for i, (name, shape, scale_dtype) in enumerate([("q_proj", (24, 40), torch.float32), ("k_proj", (33, 16), torch.bfloat16), ("o_proj", (16, 31), torch.float32)]):
        name = f"model.layers.0.self_attn.{name}.weight"
        grid = (math.ceil(shape[0] / b), math.ceil(shape[1] / b))
        codes, scale, expected[name] = weight(g, shape, E4M3, grid, b, b, scale_dtype)
        # The scales of one weight lie in the other file, as in DeepSeek's own checkpoints.
        files[i % 2][name], files[(i + (i == 1)) % 2][name + "_scale_inv"] = codes, scale
    files[0]["model.norm.weight"] = torch.ones(40, dtype=torch.bfloat16)
    files[1]["lm_head.weight"] = torch.randn((20, 40), generator=g).bfloat16()
    for i, tensors in enumerate(files):
        name = f"model-{i + 1:05}-of-00002.safetensors"
        where |= {t: name for t in tensors}
        save_file(tensors, f"{folder}/{name}", metadata={"format": "pt"})
    size = sum(t.nbytes for f in files for t in f.values())
    json.dump({"metadata": {"total_size": size}, "weight_map": where}, open(f"{folder}/model.safetensors.index.json", "w"), indent=1)
    quantization = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [b, b]}
    json.dump({"model_type": "test", "quantization_config": quantization}, open(f"{folder}/config.json", "w"), indent=1)
    save_file(expected, f"{out}/expected_blocks.safetensors")


def schemes(out, g):
    t, expected = {}, {}

    def add(name, codes, scale, value, ending="weight_scale"):
        t[f"{name}.weight"], t[f"{name}.{ending}"], expected[f"{name}.weight"] = codes, scale, value

    n, k = 9, 70
    for dtype, tag in ((E4M3, "e4m3"), (E5M2, "e5m2")):
        add(f"row_column_{tag}", *weight(g, (n, k), dtype, (n, 1), 1, k))
        codes, scale, value = weight(g, (n, k), dtype, (n, 1), 1, k, torch.bfloat16)
        add(f"row_flat_{tag}", codes, scale.flatten().contiguous(), value)
        codes, scale, value = weight(g, (n, k), dtype, (1, 1), n, k)
        add(f"tensor_one_{tag}", codes, scale.reshape(1), value)
        codes, scale, value = weight(g, (n, k), dtype, (1, 1), n, k)
        add(f"tensor_scalar_{tag}", codes, scale.reshape(()), value)
    t["tensor_scalar_e4m3.input_scale"] = torch.tensor(0.125)
    # 128 x 128 without a configuration, and its last row and column of blocks cut short.
    add("inferred", *weight(g, (130, 129), E4M3, (2, 2), 128, 128), ending="weight_scale_inv")
    for name, dtype in (("mx_bytes", torch.uint8), ("mx_typed", torch.float8_e8m0fnu)):
        exponents = torch.randint(100, 140, (n, math.ceil(k / 32)), generator=g, dtype=torch.uint8)
        scale = torch.exp2(exponents.float() - 127)
        codes, _, _ = weight(g, (n, k), E4M3, (1, 1), n, k)
        add(name, codes, exponents.view(dtype), codes.float() * spread(scale, 1, 32, (n, k)))
    # Stacked experts, named as in Hugging Face's fused layers.
    codes, scale, value = weight(g, (3, 8, 48), E4M3, (3, 2, 3), 4, 16)
    t["mlp.experts.gate_up_proj"], t["mlp.experts.gate_up_proj_scale_inv"], expected["mlp.experts.gate_up_proj"] = codes, scale, value
    codes, scale, value = weight(g, (3, 8, 24), E5M2, (3, 1, 1), 8, 24)
    t["mlp.experts.down_proj"], t["mlp.experts.down_proj_scale"], expected["mlp.experts.down_proj"] = codes, scale.flatten().contiguous(), value
    t["norm.weight"] = torch.ones(k, dtype=torch.float16)
    save_file(t, f"{out}/schemes.safetensors", metadata={"format": "pt"})
    save_file(expected, f"{out}/expected_schemes.safetensors")


if __name__ == "__main__":
    g = torch.Generator().manual_seed(4)
    os.makedirs(sys.argv[1], exist_ok=True)
    blocks(sys.argv[1], g)
    schemes(sys.argv[1], g)
