"""Writes sampler.json: what transformers leaves of logits, to be compared with what moebius-engine does.

Each case has logits, the ids before, settings, and the ids that are left with their probabilities. Those of one setting come from the class
that has it; those of several from the list that `generate` makes of a GenerationConfig, so its order is compared, too.

Made with transformers 5.24.0 and torch 2.15.0 on Python 3.11 (pip install transformers==5.24.0). Usage: python make_vectors.py
"""
import json, pathlib, random

import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM
from transformers.generation.logits_process import (
    MinPLogitsWarper, RepetitionPenaltyLogitsProcessor, SequenceBiasLogitsProcessor, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper)

VOCABULARY = 48
rng = random.Random(1)
MODEL = LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1))


def bias(biases):
    return {(int(id),): value for id, value in biases.items()}


ONE = {
    "logit_bias": lambda value: SequenceBiasLogitsProcessor(bias(value)),
    "repetition_penalty": lambda value: RepetitionPenaltyLogitsProcessor(value),
    "temperature": lambda value: TemperatureLogitsWarper(value),
    "top_k": lambda value: TopKLogitsWarper(value),
    "top_p": lambda value: TopPLogitsWarper(value),
    "min_p": lambda value: MinPLogitsWarper(value),
}


def listed(settings):
    """As `generate` has it."""
    settings = dict(settings)
    if "logit_bias" in settings:
        settings["sequence_bias"] = bias(settings.pop("logit_bias"))
    config = GenerationConfig(do_sample=True, **{"top_k": 0, **settings})
    return MODEL._get_logits_processor(generation_config=config, input_ids_seq_length=1, device="cpu")


def case(logits, ids, settings):
    if len(settings) == 1:
        [(name, value)] = settings.items()
        process = ONE[name](value)
    else:
        process = listed(settings)
    scores = process(torch.tensor([ids]), torch.tensor([logits], dtype=torch.float32))[0]
    shares = torch.softmax(scores.double(), -1)
    left = [id for id in range(VOCABULARY) if scores[id] != -float("inf")]
    # null is -inf, which JSON hasn't.
    logits = [None if logit == -float("inf") else logit for logit in logits]
    return {"logits": logits, "ids": ids, "settings": settings, "left": left, "probabilities": [float(f"{shares[id]:.7g}") for id in left]}


def logits(ties):
    wide = rng.choice([0.5, 1.0, 3.0])
    values = [round(rng.gauss(0, wide), 3) for _ in range(VOCABULARY)]
    if ties:  # Few values, none of which is left or right of a bound of top-p by rounding only.
        values = [float(round(value)) for value in values]
    return [-float("inf") if rng.random() < 0.1 else value for value in values]


def settings():
    biases = {str(id): rng.choice([-100.0, -2.5, 0.75, 2.0]) for id in rng.sample(range(VOCABULARY), 5)}
    return {"logit_bias": biases, "repetition_penalty": rng.choice([0.7, 1.3, 2.0]), "temperature": rng.choice([0.5, 0.8, 1.7]),
            "top_k": rng.choice([1, 5, 20, 100]), "top_p": rng.choice([0.3, 0.7, 0.9, 0.99]), "min_p": rng.choice([0.01, 0.05, 0.2, 0.6])}


cases = []
for name in ONE:
    for i in range(8):
        # Which of several equal ones top-p keeps is chance in torch.
        cases.append(case(logits(ties=i % 2 and name != "top_p"), [rng.randrange(VOCABULARY) for _ in range(6)], {name: settings()[name]}))
for i in range(48):
    chosen = settings()
    kept = sorted(rng.sample(list(chosen), rng.randrange(2, 7)), key=list(chosen).index)
    cases.append(case(logits(ties=False), [rng.randrange(VOCABULARY) for _ in range(6)], {name: chosen[name] for name in kept}))
lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
(pathlib.Path(__file__).parent / "sampler.json").write_text(f"[\n{lines}\n]\n")
