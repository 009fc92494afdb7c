"""Writes LoRA adapters beside decoders of make_decoders.py, with the logits that PEFT computes with them.

Each decoder's folder gets the folder `adapter`, as PEFT saves it, and adapter.case.safetensors with tokens and the logits of the model with the
adapter in float64. Experts of transformers 5 are no linear modules, so that adapters change attention, dense networks and shared experts.
Usage: python make_adapters.py OUT_DIR [--seed N] [--only NAME ...]
Needs: torch, numpy, safetensors, transformers 5.24, peft.
"""
import argparse, json, os
import numpy as np, torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from make_cases import REL, n, write
from make_decoders import logits_of

DENSE = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
SPECS = {
    "llama": dict(r=4, lora_alpha=6, target_modules=DENSE),
    # Ranks of some modules differ, and the factor is that of rsLoRA.
    "deepseek_v3": dict(r=4, lora_alpha=2, use_rslora=True, target_modules=["q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj", "up_proj"],
                        rank_pattern={"o_proj": 2}),
}


def adapter(out, name, seed):
    torch.manual_seed(seed)
    folder = f"{out}/decoder_{name}"
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    words = model.config.vocab_size
    model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **SPECS[name])).eval()
    with torch.no_grad():
        for key, factor in model.named_parameters():
            if "lora_" in key:
                factor.copy_(0.3 * torch.randn_like(factor))
    model.save_pretrained(f"{folder}/adapter")
    for other in os.listdir(f"{folder}/adapter"):
        if not other.startswith("adapter_"):
            os.remove(f"{folder}/adapter/{other}")
    path = f"{folder}/adapter/adapter_config.json"
    config = json.load(open(path))
    config["base_model_name_or_path"] = f"decoder_{name}"
    json.dump(config, open(path, "w"), indent=1)
    ids = torch.randint(0, words, (1, 41))
    logits = logits_of(model.double().merge_and_unload(), ids)
    write(f"{folder}/adapter.case.safetensors", "decoder_logits", {"adapter": "adapter"}, {"tokens": ids[0].numpy().astype(np.int32)},
          {"logits": n(logits)}, {"logits": REL(1e-4)})


if __name__ == "__main__":
    a = argparse.ArgumentParser()
    a.add_argument("out")
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--only", nargs="*", default=list(SPECS))
    a = a.parse_args()
    for name in a.only:
        adapter(a.out, name, a.seed)
