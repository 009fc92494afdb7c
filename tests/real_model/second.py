"""What transformers makes of a model folder in float32, for scripts/real-model to compare with: greedy tokens, or the perplexity of a text.

Usage: python second.py greedy FOLDER PROMPT TOKENS          -> {"prompt_tokens": n, "ids": [...], "narrowest": d}
       python second.py perplexity FOLDER TEXT TOKENS CONTEXT STRIDE  -> {"tokens": n, "perplexity": p}
`narrowest` is the least lead of a chosen token's logit over the next one's: two programs that sum in other orders agree while it is far above 1e-4.
Needs: torch, transformers.
"""
import json, math, sys

import torch
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
from transformers.utils import logging


def load(folder, dtype=torch.float32):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, local_files_only=True)
    return model.eval(), PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)


def greedy(folder, prompt, count):
    model, tokenizer = load(folder)
    ids = tokenizer(prompt, add_special_tokens=True)["input_ids"]
    step, past, chosen, narrowest = torch.tensor([ids]), None, [], math.inf
    while len(chosen) < int(count):
        result = model(step, cache=past, use_cache=True)
        best = result.logits[0, -1].topk(2)
        narrowest = min(narrowest, float(best.values[0] - best.values[1]))
        token = int(best.indices[0])
        if token == model.config.eos_token_id:
            break
        chosen.append(token)
        step, past = torch.tensor([[token]]), result.cache
    return {"prompt_tokens": len(ids), "ids": chosen, "narrowest": narrowest}


def perplexity(folder, text, count, context, stride):
    model, tokenizer = load(folder)
    count, context, stride = int(count), int(context), int(stride)
    with open(text, encoding="utf-8") as file:
        ids = tokenizer(file.read(), add_special_tokens=True)["input_ids"][:count]
    ids, nats, judged = torch.tensor(ids), 0.0, 1
    for first in range(0, len(ids), stride):
        end = min(first + context, len(ids))
        new = end - judged
        window = ids[first:end]
        logits = model(window[None, :-1]).logits[0, -new:]
        nats += float(torch.nn.functional.cross_entropy(logits.double(), window[-new:], reduction="sum"))
        judged = end
        if end == len(ids):
            break
    return {"tokens": len(ids) - 1, "perplexity": math.exp(nats / (len(ids) - 1))}


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    what = {"greedy": greedy, "perplexity": perplexity}[sys.argv[1]]
    print(json.dumps(what(*sys.argv[2:])))
