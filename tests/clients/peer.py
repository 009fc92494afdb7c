"""A server of another project, in an environment that has it, for peers.py: it loads a model, says so on a line of JSON, and ends when its
input does.

Usage: python peer.py llama.cpp FILE.gguf f32|Q8_0 PORT STREAMS CONTEXT THREADS
           its own server, inside of this process, at the address that the line tells
       python peer.py mistral.rs FOLDER f32|Q8_0 PORT STREAMS CONTEXT THREADS
           it rounds to Q8_0 itself; its package has no server: a line of input is an object with the bodies of requests, which threads
           give it together, and a line of output has their answers
With f32 keys and values are kept in f32, too; else as the program does by itself.
Needs: xllamacpp, or mistralrs.
"""

import importlib.metadata
import json
import pathlib
import sys
import threading
import time


def say(**told):
    # A program that logs to standard output ends its line first.
    print("\n" + json.dumps(told), flush=True)


def llama_cpp(path, weights, port, streams, context, threads):
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path, params.port, params.offline, params.n_gpu_layers = path, port, True, 0
    # Each of the streams has its part of the context.
    params.n_parallel, params.n_ctx = streams, streams * context
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    # The model's own chat template, and nothing kept of earlier requests.
    params.use_jinja, params.cache_prompt, params.cache_ram_mib = True, False, 0
    if weights == "f32":
        params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    server = xllamacpp.Server(params)
    # A wheel from PyPI is built for any processor with AVX2; the library's own list says so.
    version = f"by xllamacpp {importlib.metadata.version('xllamacpp')} ({xllamacpp.get_system_info().strip(' |')})"
    say(version=version, address=server.listening_address.rsplit("/", 1)[-1])
    sys.stdin.read()


def mistral_rs(folder, weights, _port, streams, _context, _threads):
    import mistralrs

    # As many threads as the caller says in RAYON_NUM_THREADS, and keys and values as in MISTRALRS_CPU_KV_F32.
    family = json.loads((pathlib.Path(folder) / "config.json").read_text(encoding="utf-8"))["model_type"]
    family = getattr(mistralrs.Architecture, family.capitalize())
    which = mistralrs.Which.Plain(model_id=folder, arch=family, dtype=mistralrs.ModelDType.F32)
    runner = mistralrs.Runner(which=which, token_source="none", prefix_cache_n=0, max_seqs=streams,
                              in_situ_quant=None if weights == "f32" else weights)
    say(version=f"by mistralrs {importlib.metadata.version('mistralrs')}, in its process without HTTP")
    # The runner takes one request at a time and answers many: a second thread that asks meanwhile gets "Already borrowed".
    asking = threading.Lock()

    def answer(body, begun, answers, at):
        request = mistralrs.ChatCompletionRequest(messages=body["messages"], model="default", max_tokens=body["max_tokens"],
                                                  temperature=0.0, stream=True, ignore_eos=True)
        text, first, usage = "", None, None
        with asking:
            chunks = runner.send_chat_completion_request(request)
        for chunk in chunks:
            piece = chunk.choices[0].delta.content
            if piece:
                first = first or time.perf_counter() - begun
                text += piece
            usage = chunk.usage or usage
        answers[at] = {"text": text, "tokens": usage.completion_tokens, "prompt_tokens": usage.prompt_tokens, "first_s": first,
                       "last_s": time.perf_counter() - begun}

    for line in sys.stdin:
        bodies = json.loads(line)["bodies"]
        answers, begun = [None] * len(bodies), time.perf_counter()
        threads = [threading.Thread(target=answer, args=(body, begun, answers, at)) for at, body in enumerate(bodies)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        # What a thread failed with is on standard error, and its answer is null.
        say(answers=answers)


def main(program, model, weights, *numbers):
    {"llama.cpp": llama_cpp, "mistral.rs": mistral_rs}[program](model, weights, *map(int, numbers))


if __name__ == "__main__":
    main(*sys.argv[1:])
