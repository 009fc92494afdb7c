"""Writes a GGUF file again with its matrices as Q8_0, in bf16 or in f32, from the same values that make_folders.py gives the folders.

Whatever isn't a matrix stays float32, and every entry of the file is kept, its tokenizer included. A matrix that is of the kind already stays as
it is.
Usage: python make_gguf.py q8_0|bf16|f32 MODEL.gguf OUT.gguf
Needs: gguf, numpy, pyyaml.
"""
import os, sys

import gguf
import numpy as np

# What the writer, or the other kind of matrices, says by itself.
WRITTEN = {"general.architecture", "general.file_type", "general.quantization_version"}
KINDS = {"q8_0": (gguf.GGMLQuantizationType.Q8_0, gguf.LlamaFileType.MOSTLY_Q8_0),
         "bf16": (gguf.GGMLQuantizationType.BF16, gguf.LlamaFileType.MOSTLY_BF16),
         "f32": (gguf.GGMLQuantizationType.F32, gguf.LlamaFileType.ALL_F32)}


def copy_entries(reader, writer, file_type):
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in WRITTEN:
            continue
        elements = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), field.types[0], elements)
    writer.add_file_type(file_type)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)


def copy_tensors(reader, writer, kind):
    for tensor in reader.tensors:
        values = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if values.ndim < 2 or kind == gguf.GGMLQuantizationType.F32:
            writer.add_tensor(tensor.name, values)
        elif tensor.tensor_type == kind:
            writer.add_tensor(tensor.name, np.array(tensor.data), raw_dtype=kind)
        else:
            writer.add_tensor(tensor.name, gguf.quantize(values, kind), raw_dtype=kind)


def main(kind, source, out):
    kind, file_type = KINDS[kind]
    reader = gguf.GGUFReader(source)
    # A file that is there is whole: another name until then.
    unfinished = f"{out}.unfinished"
    writer = gguf.GGUFWriter(unfinished, reader.fields["general.architecture"].contents())
    copy_entries(reader, writer, file_type)
    copy_tensors(reader, writer, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.replace(unfinished, out)


if __name__ == "__main__":
    main(*sys.argv[1:])
