"""Reads a LoRA adapter that `moebius train --lora` wrote with PEFT, and compares the logits of the model with it to those of `moebius logits --adapter`.

GOT is the JSON of `moebius logits` after a prompt. No logit in it may be off by more than LIMIT of the largest, and the adapter must change the same logits
by at least a hundred times LIMIT, so that one without effect doesn't pass. Prints both.
Usage: python read_adapter.py FOLDER ADAPTER GOT LIMIT
Needs: torch, transformers, peft.
"""
import json, sys

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM


def logits(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0, -1]


def main(folder, adapter, got, limit):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True).eval()
    plain = logits(model, got["prompt_ids"])
    want = logits(PeftModel.from_pretrained(model, adapter).eval(), got["prompt_ids"])
    ids = [token["id"] for token in got["tokens"]]
    if not ids:
        sys.exit("no logits")
    largest = float(want.abs().max())
    off = float((torch.tensor([token["logit"] for token in got["tokens"]]) - want[ids]).abs().max()) / largest
    changed = float((want - plain)[ids].abs().max()) / largest
    print(f"largest difference {off:.2e} of at most {limit} in {len(ids)} logits, which the adapter changes by up to {changed:.2e}")
    # Written so that NaN fails.
    if not (off <= limit and changed >= 100 * limit):
        sys.exit(1)


main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), float(sys.argv[4]))
