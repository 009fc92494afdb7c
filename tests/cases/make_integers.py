"""Writes weights of four and eight bits as GPTQ, AWQ and compressed-tensors pack them, and what they stand for.

integers/model.safetensors      gptq, gptq_act_order, awq, packed, packed_zeros: their parts; bytes: I8 codes with scales
integers/expected.safetensors   the same weights [n, k] as floats, by NAME.weight
Usage: python make_integers.py
Needs: numpy, safetensors.
"""
import os
import numpy as np
from safetensors.numpy import save_file

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "integers")
N, K, GROUP = 16, 64, 16
ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def pack(codes, axis, order=range(8)):
    """Words of eight codes that are neighbours along an axis, the first of `order` in the lowest bits."""
    codes = np.moveaxis(codes, axis, -1).astype(np.uint32)
    eights = codes.reshape(*codes.shape[:-1], -1, 8)
    words = np.zeros(eights.shape[:-1], np.uint32)
    for place, lane in enumerate(order):
        words |= eights[..., lane] << np.uint32(4 * place)
    return np.ascontiguousarray(np.moveaxis(words, -1, axis)).view(np.int32)


def main():
    rng = np.random.default_rng(11)
    parts, expected = {}, {}
    groups = K // GROUP

    def keep(name, of_codes, of_zeros, of_scales, group_of, **tensors):
        """Codes [n, k], zeros and scales [n, groups]."""
        value = (of_codes.astype(np.float32) - of_zeros[:, group_of].astype(np.float32)) * of_scales.astype(np.float32)[:, group_of]
        expected[f"{name}.weight"] = np.ascontiguousarray(value)
        parts.update({f"{name}.{key}": np.ascontiguousarray(tensor) for key, tensor in tensors.items()})

    def drawn():
        return rng.integers(0, 16, (N, K)), rng.integers(1, 16, (N, groups)), rng.uniform(0.01, 0.1, (N, groups)).astype(np.float16)

    plain = np.arange(K) // GROUP
    codes, zeros, scales = drawn()
    keep("gptq", codes, zeros, scales, plain, qweight=pack(codes.T, 0), qzeros=pack(zeros.T - 1, 1), scales=scales.T)
    codes, zeros, scales = drawn()
    shuffled = rng.permutation(plain)
    keep("gptq_act_order", codes, zeros, scales, shuffled, qweight=pack(codes.T, 0), qzeros=pack(zeros.T - 1, 1), scales=scales.T,
         g_idx=shuffled.astype(np.int32))
    codes, zeros, scales = drawn()
    keep("awq", codes, zeros, scales, plain, qweight=pack(codes.T, 1, ORDER), qzeros=pack(zeros.T, 1, ORDER), scales=scales.T)
    codes, _, scales = drawn()
    keep("packed", codes, np.full((N, groups), 8), scales, plain, weight_packed=pack(codes, 1), weight_scale=scales,
         weight_shape=np.array([N, K], np.int64))
    codes, zeros, scales = drawn()
    keep("packed_zeros", codes, zeros, scales, plain, weight_packed=pack(codes, 1), weight_scale=scales, weight_zero_point=pack(zeros, 0),
         weight_shape=np.array([N, K], np.int64))
    codes = rng.integers(-127, 128, (N, K)).astype(np.int8)
    scales = rng.uniform(0.001, 0.01, (N, 1)).astype(np.float32)
    keep("bytes", codes, np.zeros((N, 1)), scales, np.zeros(K, int), weight=codes, weight_scale=scales)
    os.makedirs(HERE, exist_ok=True)
    save_file(parts, os.path.join(HERE, "model.safetensors"))
    save_file(expected, os.path.join(HERE, "expected.safetensors"))


main()
