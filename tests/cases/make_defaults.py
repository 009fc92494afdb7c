"""Writes what transformers takes for each key that a config.json of a family leaves out: runtime/model/src/families/defaults.json.

A default of None is left out: the family then says what it means. Keys that no forward pass reads are left out, too.
Usage: python make_defaults.py
Needs: transformers 5.24; no PyTorch.
"""
import dataclasses, importlib, inspect, json, os

HERE = os.path.dirname(os.path.abspath(__file__))
TARGET = os.path.join(HERE, "..", "..", "runtime", "model", "src", "families", "defaults.json")
FAMILIES = ["deepseek_v3", "gemma2", "gemma3_text", "gpt_oss", "granitemoe", "hunyuan_v1_dense", "hunyuan_v1_moe", "llama", "llama4_text", "mixtral", "olmo2",
            "olmo3", "olmoe", "qwen2_moe", "qwen3", "qwen3_moe"]
# Text models whose classes stand in the module of a model for images and text.
MODULES = {"gemma3_text": "gemma3", "llama4_text": "llama4"}
UNREAD = {
    "attention_dropout", "bos_token_id", "chunk_size_feed_forward", "eod_token_id", "eos_token_id", "initializer_range", "is_encoder_decoder", "num_mtp_layers",
    "output_attentions", "output_hidden_states", "output_router_logits", "pad_token_id", "pretraining_tp", "return_dict", "router_aux_loss_coef",
    "router_jitter_noise", "sep_token_id", "use_cache",
}


def configuration(family):
    """The class of the family's configurations."""
    home = MODULES.get(family, family)
    module = importlib.import_module(f"transformers.models.{home}.configuration_{home}")
    classes = [c for c in vars(module).values() if inspect.isclass(c) and getattr(c, "model_type", None) == family]
    return next(c for c in classes if c.__module__ == module.__name__)


def defaults(family):
    fields = {f.name: f.default for f in dataclasses.fields(configuration(family))}
    kept = {name: value for name, value in fields.items() if name not in UNREAD and isinstance(value, (bool, int, float, str))}
    return dict(sorted(kept.items()))


def main():
    with open(TARGET, "w") as file:
        json.dump({family: defaults(family) for family in FAMILIES}, file, indent=2)
        file.write("\n")


main()
