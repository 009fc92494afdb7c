"""One run of another program that generates text, for speed.py: it loads a model, warms up with a few tokens, takes a prompt and goes on greedily.

Usage: python speed_peers.py transformers FOLDER PROMPT TOKENS THREADS
       python speed_peers.py llama.cpp FILE.gguf PROMPT TOKENS THREADS
       python speed_peers.py mistral.rs FOLDER PROMPT TOKENS THREADS
The last line that it prints is JSON: version, prompt_tokens, tokens, prefill_tokens_per_s, decode_tokens_per_s, and the ids or the text.
Prefill ends with the first token, which therefore doesn't count in decoding, as `moebius generate` has it.
Needs: torch and transformers, or xllamacpp, or mistralrs.
"""
import importlib.metadata, json, pathlib, sys, time

WARM_PROMPT, WARM_TOKENS = "The captain stood at the rail and looked at the sea. He", 4


def speeds(prompt_tokens, prefill_s, tokens, decode_s):
    return {"prompt_tokens": prompt_tokens, "tokens": tokens,
            "prefill_tokens_per_s": prompt_tokens / prefill_s, "decode_tokens_per_s": (tokens - 1) / decode_s}


def transformers(folder, threads):
    import torch
    from second import load
    from transformers.utils import logging

    torch.set_grad_enabled(False)
    torch.set_num_threads(threads)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    model, tokenizer = load(folder)
    version = f"{importlib.metadata.version('transformers')}, torch {torch.__version__} ({torch.backends.cpu.get_cpu_capability()})"

    def run(prompt, count):
        step, cache, ids, times = torch.tensor([tokenizer(prompt)["input_ids"]]), None, [], [time.perf_counter()]
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
        return speeds(prompt_tokens, times[1] - times[0], len(ids), times[len(ids)] - times[1]) | {"ids": ids}

    return version, run


def llama_cpp(path, threads):
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_ctx, params.n_parallel, params.n_gpu_layers, params.offline = 1024, 1, 0, True
    # Nothing is kept between the warm-up and the run.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.cache_ram_mib = 0
    server = xllamacpp.Server(params)
    # A wheel from PyPI is built for AVX2; its own list says so.
    version = f"by xllamacpp {importlib.metadata.version('xllamacpp')} ({xllamacpp.get_system_info().strip(' |')})"

    def run(prompt, count):
        answer = server.handle_completions({"prompt": prompt, "max_tokens": count, "temperature": 0, "cache_prompt": False})
        times, tokens = answer["timings"], answer["usage"]["completion_tokens"]
        measured = speeds(times["prompt_n"], times["prompt_ms"] / 1e3, tokens, times["predicted_ms"] / 1e3)
        return measured | {"text": answer["choices"][0]["text"]}

    return version, run


def mistral_rs(folder, threads):
    import mistralrs

    # As many threads as the caller says (RAYON_NUM_THREADS) and as the process may use processors.
    family = json.loads((pathlib.Path(folder) / "config.json").read_text(encoding="utf-8"))["model_type"]
    which = mistralrs.Which.Plain(model_id=folder, arch=getattr(mistralrs.Architecture, family.capitalize()), dtype=mistralrs.ModelDType.F32)
    runner = mistralrs.Runner(which=which, token_source="none", prefix_cache_n=0, max_seqs=1)

    def run(prompt, count):
        request = mistralrs.CompletionRequest(prompt=prompt, model="default", max_tokens=count, temperature=0.0)
        answer = runner.send_completion_request(request)
        used = answer.usage
        measured = speeds(used.prompt_tokens, used.total_prompt_time_sec, used.completion_tokens, used.total_completion_time_sec)
        return measured | {"text": answer.choices[0].text}

    return f"by mistralrs {importlib.metadata.version('mistralrs')}", run


def main(program, model, prompt, tokens, threads):
    load = {"transformers": transformers, "llama.cpp": llama_cpp, "mistral.rs": mistral_rs}[program]
    version, run = load(model, int(threads))
    run(WARM_PROMPT, WARM_TOKENS)
    result = run(prompt, int(tokens))
    # Programs that log to standard output end their line first.
    print("\n" + json.dumps({"version": version, **result}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
