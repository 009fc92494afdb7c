"""Writes LoRA adapters beside decoders of make_cases.py and make_decoders.py, with the logits that PEFT computes with them.

Each decoder's folder gets the folder `adapter` and adapter.case.safetensors with tokens and the logits of the model with the adapter in float64. PEFT
saves the adapters of modules. transformers 5 has the experts of a layer in one tensor, so that the factors of each expert are laid out here as PEFT
saved them with transformers 4, and PEFT reads them.
Usage: python make_adapters.py OUT_DIR [--seed N] [--only NAME ...]
Needs: torch, numpy, ml_dtypes, safetensors, transformers 5.24, peft 0.21.2.
"""
import argparse, json, os
import numpy as np, torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from make_cases import REL, n, write
from make_decoders import logits_of

DENSE = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
SPECS = {
    "llama": dict(r=4, lora_alpha=6, target_modules=DENSE),
    # Ranks of some modules differ, and the factor is that of rsLoRA.
    "deepseek_v3": dict(r=4, lora_alpha=2, use_rslora=True, target_modules=["q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj", "up_proj"],
                        rank_pattern={"o_proj": 2}),
    "mixtral": dict(r=2, lora_alpha=3, target_modules=["q_proj", "o_proj", "w1", "w2", "w3"]),
}
OF_EXPERTS = ["mixtral"]


def drawn(shape):
    return 0.3 * torch.randn(shape)


def of_modules(model, spec, target):
    # PEFT takes up_proj for that of the experts in models that it knows to have some, and then leaves dense networks and shared experts as they are.
    kind, model.config.model_type = model.config.model_type, None
    model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **spec))
    model.config.model_type = kind
    with torch.no_grad():
        for key, factor in model.named_parameters():
            if "lora_" in key:
                factor.copy_(drawn(factor.shape))
    model.save_pretrained(target)
    return model


def of_experts(model, spec, target, folder):
    factors = {}
    for name, weight in load_file(f"{folder}/model.safetensors").items():
        module = name.removesuffix(".weight")
        if module.rsplit(".", 1)[-1] in spec["target_modules"]:
            outputs, inputs = weight.shape
            factors[f"base_model.model.{module}.lora_A.weight"] = drawn((spec["r"], inputs))
            factors[f"base_model.model.{module}.lora_B.weight"] = drawn((outputs, spec["r"]))
    LoraConfig(task_type="CAUSAL_LM", inference_mode=True, **spec).save_pretrained(target)
    save_file(factors, f"{target}/adapter_model.safetensors", metadata={"format": "pt"})
    return PeftModel.from_pretrained(model, target)


def adapter(out, name, seed):
    torch.manual_seed(seed)
    folder = f"{out}/decoder_{name}"
    target = f"{folder}/adapter"
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    words = model.config.vocab_size
    model = of_experts(model, SPECS[name], target, folder) if name in OF_EXPERTS else of_modules(model, SPECS[name], target)
    for other in os.listdir(target):
        if not other.startswith("adapter_"):
            os.remove(f"{target}/{other}")
    path = f"{target}/adapter_config.json"
    config = json.load(open(path))
    config["base_model_name_or_path"] = f"decoder_{name}"
    # PEFT has the names in a set.
    config["target_modules"].sort()
    json.dump(config, open(path, "w"), indent=1)
    ids = torch.randint(0, words, (1, 41))
    logits = logits_of(model.double().merge_and_unload().eval(), ids)
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
