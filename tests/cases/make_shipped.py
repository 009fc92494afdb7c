"""Writes logits.case.safetensors beside the model that ships: the logits that transformers computes in float32 of what its codes stand for.

Usage: python make_shipped.py FOLDER    (runtime/shipped, or what scripts/shipped-model wrote)
Needs: torch, numpy, ml_dtypes, safetensors, transformers, tokenizers.
"""
import json, shutil, sys, tempfile
import numpy as np, torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

from make_cases import REL, n, write

TEXT = "Call me Ishmael. Some years ago the whale had swum in no water of this sea."


def decoded(folder, into):
    """The model in float32, as a folder."""
    tensors = load_file(f"{folder}/model.safetensors")
    scales = {name: tensors.pop(name) for name in list(tensors) if name.endswith(".weight_scale")}
    for name, scale in scales.items():
        weight = name.removesuffix("_scale")
        tensors[weight] = tensors[weight].float() * scale
    save_file({name: value.float().contiguous() for name, value in tensors.items()}, f"{into}/model.safetensors", metadata={"format": "pt"})
    config = json.load(open(f"{folder}/config.json"))
    del config["quantization_config"]
    json.dump(config, open(f"{into}/config.json", "w"))


def main(folder):
    ids = Tokenizer.from_file(f"{folder}/tokenizer.json").encode(TEXT).ids
    into = tempfile.mkdtemp()
    decoded(folder, into)
    model = AutoModelForCausalLM.from_pretrained(into, dtype=torch.float32, attn_implementation="eager").eval()
    shutil.rmtree(into)
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0]
    write(f"{folder}/logits.case.safetensors", "decoder_logits", {}, {"tokens": np.array(ids, np.int32)}, {"logits": n(logits)}, {"logits": REL(1e-4)})


if __name__ == "__main__":
    main(sys.argv[1])
