"""Writes values, and the blocks that other programs make of them, against whose errors this program's are held.

quantized_values.safetensors   values.N: five tensors of values; gguf.T.N: bytes by the Python package gguf, for the types that it can write;
                               ggml.T.N: bytes by ggml's own ggml_quantize_chunk, as llama.cpp's llama-quantize calls it without an importance matrix
Usage: python make_quantized.py FOLDER
FOLDER is where a wheel of pywhispercpp 1.5.1 (MIT) is unpacked, whose ggml 0.13.1 is a library of its own.
Needs: gguf 0.19, numpy, safetensors.
"""
import ctypes, glob, os, sys
import numpy as np
from gguf import GGMLQuantizationType as T
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize, quantize
from safetensors.numpy import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
BY_PACKAGE = (T.Q8_0, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.MXFP4)
BY_LIBRARY = (*BY_PACKAGE, T.Q4_K, T.Q5_K, T.Q6_K, T.IQ4_NL)
ROWS, WIDTH = 4, 512


def library(folder):
    """ggml's function; the library of the base is loaded first, since the names of files in a wheel are not those that it asks for."""
    base = ctypes.CDLL(sorted(glob.glob(os.path.join(folder, "**", "libggml-base*.so*"), recursive=True))[0], mode=ctypes.RTLD_GLOBAL)
    function = base.ggml_quantize_chunk
    function.restype = ctypes.c_size_t
    function.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
    return function


def by_library(function, values, kind):
    per, size = GGML_QUANT_SIZES[kind]
    out = np.zeros(values.size // per * size, np.uint8)
    assert function(int(kind), values.ctypes.data, out.ctypes.data, 0, *values.shape, None) == out.size
    return out


def tensors(rng):
    """Values as weights have them: normal ones, rows of other sizes, long tails, values on one side of 0, and many near 0 with a few far away."""
    shape = (ROWS, WIDTH)
    normal = rng.standard_normal(shape)
    far = 0.02 * rng.standard_normal(shape)
    far[rng.random(shape) < 0.01] *= 40
    all = [0.02 * normal, normal * np.exp(rng.standard_normal((ROWS, 1))), 0.1 * rng.standard_t(3, shape), rng.random(shape), far]
    return [one.astype(np.float32) for one in all]


def main():
    function, out = library(sys.argv[1]), {}
    for number, values in enumerate(tensors(np.random.default_rng(11))):
        out[f"values.{number}"] = values
        for kind in BY_LIBRARY:
            stored = {"ggml": by_library(function, values, kind)}
            if kind in BY_PACKAGE:
                stored["gguf"] = quantize(values, kind).reshape(-1).view(np.uint8)
            for program, blocks in stored.items():
                out[f"{program}.{kind.name}.{number}"] = blocks
                per, size = GGML_QUANT_SIZES[kind]
                decoded = dequantize(blocks.reshape(ROWS, WIDTH // per * size), kind).astype(np.float64)
                print(number, program, kind.name, ((decoded - values) ** 2).mean())
    save_file(out, os.path.join(HERE, "quantized_values.safetensors"))


main()
