"""Writes what transformers takes for each key that a config.json of a family leaves out: runtime/model/src/families/defaults.json.

A default of None is left out: the family then says what it means. Keys that no forward pass reads are left out, too.
Usage: python make_defaults.py
Needs: transformers 5.24; no PyTorch.
"""
import dataclasses, importlib, inspect, json, os

HERE = os.path.dirname(os.path.abspath(__file__))
TARGET = os.path.join(HERE, "..", "..", "runtime", "model", "src", "families", "defaults.json")
FAMILIES = [
    "deepseek_v2", "deepseek_v3", "dots1", "ernie4_5", "ernie4_5_moe", "gemma2", "gemma3_text", "glm4_moe", "glm4_moe_lite", "gpt_oss", "granite",
    "granitemoe", "hunyuan_v1_dense", "hunyuan_v1_moe", "lfm2", "lfm2_moe", "llama", "llama4_text", "minimax_m2", "ministral3", "mistral", "mixtral", "olmo2", "olmo3", "olmoe",
    "phi3", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "seed_oss", "smollm3", "solar_open",
]
# Text models whose classes stand in the module of a model for images and text.
MODULES = {"gemma3_text": "gemma3", "llama4_text": "llama4"}
UNREAD = {
    "attention_dropout", "bos_token_id", "chunk_size_feed_forward", "embd_pdrop", "eod_token_id", "eos_token_id", "initializer_range",
    "is_encoder_decoder", "num_mtp_layers", "num_nextn_predict_layers", "output_attentions", "output_hidden_states",
    "output_router_logits", "pad_token_id", "pretraining_tp", "resid_pdrop", "residual_dropout", "return_dict", "router_aux_loss_coef",
    "router_jitter_noise", "sep_token_id", "use_cache",
}


def configuration(family):
    """The class of the family's configurations."""
    home = MODULES.get(family, family)
    module = importlib.import_module(f"transformers.models.{home}.configuration_{home}")
    classes = [c for c in vars(module).values() if inspect.isclass(c) and getattr(c, "model_type", None) == family]
    return next(c for c in classes if c.__module__ == module.__name__)


def rotation(family):
    """What the class sets for rotary positions beyond a plain rotation of whole heads; the family knows its θ."""
    rope = getattr(configuration(family)(), "rope_parameters", None) or {}
    if rope.get("rope_type", "default") != "default":
        # The family's own θ gives way to one that stands outside of the object.
        own = ("rope_theta", configuration(family).default_theta)
        return {"rope_parameters": dict(item for item in sorted(rope.items()) if item != own)}
    part = rope.get("partial_rotary_factor", 1.0)
    return {"partial_rotary_factor": part} if part != 1.0 else {}


def defaults(family):
    fields = {f.name: f.default for f in dataclasses.fields(configuration(family))}
    kept = {name: value for name, value in fields.items() if name not in UNREAD and isinstance(value, (bool, int, float, str))}
    return dict(sorted({**kept, **rotation(family)}.items()))


def main():
    with open(TARGET, "w") as file:
        json.dump({family: defaults(family) for family in FAMILIES}, file, indent=2)
        file.write("\n")


main()
