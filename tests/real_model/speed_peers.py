"""One run of another program that generates text, for speed.py: it loads a model, warms up with a few tokens, takes prompts and goes on greedily.

Usage: python speed_peers.py transformers FOLDER f32|bf16 PROMPTS TOKENS THREADS
       python speed_peers.py llama.cpp FILE.gguf WEIGHTS PROMPTS TOKENS THREADS
       python speed_peers.py mistral.rs FOLDER f32 PROMPTS TOKENS THREADS
PROMPTS is a file with a JSON text a line; transformers and mistral.rs take one. llama.cpp goes on with all together, TOKENS each: one batch
for all prompts, and then one for each token of all answers. It keeps keys and values in f32 beside weights in f32, else as by itself.
The last line that it prints is JSON: version, prompt_tokens of all, prefill_tokens_per_s, decode_tokens_per_s, and the answers' ids or texts.
Prefill ends with the first token of each, which therefore doesn't count in decoding, as `moebius generate` has it.
Needs: torch and transformers, or xllamacpp, or mistralrs.
"""
import importlib.metadata, json, pathlib, sys, time

WARM_PROMPT, WARM_TOKENS = "The captain stood at the rail and looked at the sea. He", 4


def speeds(prompt_tokens, prefill_s, decoded, decode_s):
    """Tokens a second of all prompts, and of the answers' tokens that came after their first ones."""
    return {"prompt_tokens": prompt_tokens, "prefill_tokens_per_s": prompt_tokens / prefill_s, "decode_tokens_per_s": decoded / decode_s}


def transformers(folder, weights, _prompts, _count, threads):
    import torch
    from second import load
    from transformers.utils import logging

    torch.set_grad_enabled(False)
    torch.set_num_threads(threads)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    model, tokenizer = load(folder, {"f32": torch.float32, "bf16": torch.bfloat16}[weights])
    version = f"{importlib.metadata.version('transformers')}, torch {torch.__version__} ({torch.backends.cpu.get_cpu_capability()})"

    def run(prompts, count):
        step, cache, ids, times = torch.tensor([tokenizer(prompts[0])["input_ids"]]), None, [], [time.perf_counter()]
        prompt_tokens = step.shape[1]
        while len(ids) < count:
            # Of a prompt the last row's logits alone, as its own generate() asks for.
            result = model(step, cache=cache, use_cache=True, logits_to_keep=1)
            token = int(result.logits[0, -1].argmax())
            times.append(time.perf_counter())
            if token == model.config.eos_token_id:
                break
            ids.append(token)
            step, cache = torch.tensor([[token]]), result.cache
        return speeds(prompt_tokens, times[1] - times[0], len(ids) - 1, times[len(ids)] - times[1]) | {"answers": [{"ids": ids}]}

    return version, run


def llama_cpp(path, weights, prompts, count, threads):
    from llama_cpp import F32, Model, Streams

    model = Model(path, threads)
    longest = max(len(model.ids(prompt.encode())) for prompt in [*prompts, WARM_PROMPT])
    cache = {"type_k": F32, "type_v": F32} if weights == "f32" else {}
    streams = Streams(model, len(prompts), longest + max(count, WARM_TOKENS), **cache)

    def run(prompts, count):
        ids = [model.ids(prompt.encode()) for prompt in prompts]
        answers, prefill_s, decode_s = streams.go_on(ids, count)
        decoded = sum(len(answer) - 1 for answer in answers)
        return speeds(sum(map(len, ids)), prefill_s, decoded, decode_s) | {"answers": [{"ids": answer} for answer in answers]}

    return model.version, run


def mistral_rs(folder, _weights, _prompts, _count, _threads):
    import mistralrs

    # As many threads as the caller says (RAYON_NUM_THREADS) and as the process may use processors.
    family = json.loads((pathlib.Path(folder) / "config.json").read_text(encoding="utf-8"))["model_type"]
    which = mistralrs.Which.Plain(model_id=folder, arch=getattr(mistralrs.Architecture, family.capitalize()), dtype=mistralrs.ModelDType.F32)
    runner = mistralrs.Runner(which=which, token_source="none", prefix_cache_n=0, max_seqs=1)

    def run(prompts, count):
        request = mistralrs.CompletionRequest(prompt=prompts[0], model="default", max_tokens=count, temperature=0.0)
        answer = runner.send_completion_request(request)
        used = answer.usage
        measured = speeds(used.prompt_tokens, used.total_prompt_time_sec, used.completion_tokens - 1, used.total_completion_time_sec)
        return measured | {"answers": [{"text": answer.choices[0].text, "tokens": used.completion_tokens}]}

    return f"by mistralrs {importlib.metadata.version('mistralrs')}", run


def main(program, model, weights, prompts, count, threads):
    prompts = [json.loads(line) for line in pathlib.Path(prompts).read_text(encoding="utf-8").splitlines()]
    load = {"transformers": transformers, "llama.cpp": llama_cpp, "mistral.rs": mistral_rs}[program]
    version, run = load(model, weights, prompts, int(count), int(threads))
    run([WARM_PROMPT] * len(prompts), WARM_TOKENS)
    result = run(prompts, int(count))
    # Programs that log to standard output end their line first.
    print("\n" + json.dumps({"version": version, **result}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
