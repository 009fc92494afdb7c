"""Writes weights as compressed-tensors packs them, by its own functions, and what its own functions decode them to.

packings/model.safetensors      pN, pN_zeros: N bits in words, with rows that don't end with a word; bytes_…: I8 codes with zeros, scales by row, group or tensor
packings/expected.safetensors   the same weights [n, k] as floats, by NAME.weight
Usage: python make_packings.py
Needs: torch, safetensors, compressed-tensors 0.20.
"""
import os
import torch
from compressed_tensors.compressors.base import BaseCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from compressed_tensors.quantization.utils import calculate_qparams
from safetensors.torch import save_file

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "packings")
N, K = 5, 44


def extremes(weight, how, group):
    """Least and largest values of what shares a scale."""
    if how == "tensor":
        parts = weight.reshape(1, 1, -1)
    elif how == "channel":
        parts = weight[:, None, :]
    else:
        parts = weight.reshape(N, -1, group)
    least, largest = parts.amin(-1), parts.amax(-1)
    return (least[0], largest[0]) if how == "tensor" else (least, largest)


def main():
    torch.manual_seed(3)
    parts, expected = {}, {}

    def keep(name, kind, **how):
        args = QuantizationArgs(type="int", **how)
        weight = torch.randn(N, K)
        scales, zeros = calculate_qparams(*extremes(weight, how["strategy"], how.get("group_size")), args)
        compressor = BaseCompressor.get_value_from_registry(kind)
        scheme = QuantizationScheme(targets=["Linear"], weights=args)
        stored = compressor.compress({"weight": weight, "weight_scale": scales, "weight_zero_point": zeros}, scheme)
        expected[f"{name}.weight"] = compressor.decompress(dict(stored), scheme)["weight"].float().contiguous()
        parts.update({f"{name}.{key}": tensor.contiguous() for key, tensor in stored.items()})

    for bits in (3, 4, 5, 6, 7):
        keep(f"p{bits}", "pack-quantized", num_bits=bits, symmetric=True, strategy="group", group_size=11)
        keep(f"p{bits}_zeros", "pack-quantized", num_bits=bits, symmetric=False, strategy="channel")
    keep("bytes_rows", "int-quantized", num_bits=8, symmetric=False, strategy="channel")
    keep("bytes_groups", "int-quantized", num_bits=8, symmetric=False, strategy="group", group_size=22)
    keep("bytes_all", "int-quantized", num_bits=8, symmetric=False, strategy="tensor")
    keep("bytes_all_even", "int-quantized", num_bits=8, symmetric=True, strategy="tensor")
    os.makedirs(HERE, exist_ok=True)
    save_file(parts, os.path.join(HERE, "model.safetensors"))
    save_file(expected, os.path.join(HERE, "expected.safetensors"))


main()
