"""What llama.cpp makes of a GGUF file, for perplexity.py to compare with: the perplexity of a text.

Usage: python llama_cpp.py FILE.gguf TEXT TOKENS CONTEXT STRIDE THREADS  -> {"version": v, "tokens": n, "perplexity": p}
llama.cpp cuts the text into tokens by the file's tokenizer, and computes as it does by itself: keys and values in f16, what it multiplies with
weights in blocks rounded to 8 bits. Windows and judged tokens are those of `moebius perplexity`. The package xllamacpp has no function for
logits of a whole text, but its library exports llama.cpp's interface in C, which is called here.
Needs: numpy, xllamacpp.
"""
import ctypes, importlib.metadata, json, math, pathlib, sys
from ctypes import POINTER, c_bool, c_char_p, c_float, c_int, c_int8, c_int32, c_uint32, c_void_p

import numpy as np
import xllamacpp

# GGML_LOG_LEVEL_ERROR.
ERROR = 4
# Rows of logits that are widened to f64 at a time.
ROWS = 64


class Parameters(ctypes.Structure):
    """Parameters of a model or of a context as llama.cpp fills them, handed on unread, because versions have other fields. They are fewer bytes
    than these in each version; a function is given a copy, and reads its own fields at the beginning of it.
    """

    _fields_ = [("content", ctypes.c_uint64 * 512)]


class Batch(ctypes.Structure):
    """llama_batch. Without positions and sequences its tokens follow those that the context has."""

    _fields_ = [("n_tokens", c_int32), ("token", POINTER(c_int32)), ("embd", c_void_p), ("pos", c_void_p), ("n_seq_id", c_void_p),
                ("seq_id", c_void_p), ("logits", POINTER(c_int8))]


LOG = ctypes.CFUNCTYPE(None, c_int, c_char_p, c_void_p)
# What each function returns and takes.
FUNCTIONS = {
    "llama_log_set": (None, LOG, c_void_p),
    "llama_backend_init": (None,),
    "llama_print_system_info": (c_char_p,),
    "llama_model_default_params": (Parameters,),
    "llama_model_load_from_file": (c_void_p, c_char_p, Parameters),
    "llama_model_get_vocab": (c_void_p, c_void_p),
    "llama_vocab_n_tokens": (c_int32, c_void_p),
    "llama_tokenize": (c_int32, c_void_p, c_char_p, c_int32, POINTER(c_int32), c_int32, c_bool, c_bool),
    "llama_context_default_params": (Parameters,),
    "llama_init_from_model": (c_void_p, c_void_p, Parameters),
    "llama_n_ctx": (c_uint32, c_void_p),
    "llama_n_batch": (c_uint32, c_void_p),
    "llama_set_n_threads": (None, c_void_p, c_int32, c_int32),
    "llama_get_memory": (c_void_p, c_void_p),
    "llama_memory_clear": (None, c_void_p, c_bool),
    "llama_decode": (c_int32, c_void_p, Batch),
    "llama_get_logits": (POINTER(c_float), c_void_p),
}


@LOG
def say_errors(level, text, _data):
    if level == ERROR:
        sys.stderr.write(text.decode(errors="replace"))


def library():
    found = ctypes.CDLL(xllamacpp.xllamacpp.__file__)
    for name, (result, *taken) in FUNCTIONS.items():
        function = getattr(found, name)
        function.restype, function.argtypes = result, taken
    found.llama_log_set(say_errors, None)
    found.llama_backend_init()
    return found


class Model:
    """A GGUF file, loaded, with a context of the size that llama.cpp takes by itself."""

    def __init__(self, path, threads):
        self.lib = library()
        self.model = self.lib.llama_model_load_from_file(str(path).encode(), self.lib.llama_model_default_params())
        if not self.model:
            sys.exit(f"llama.cpp can't load {path}")
        self.vocabulary = self.lib.llama_model_get_vocab(self.model)
        self.words = self.lib.llama_vocab_n_tokens(self.vocabulary)
        self.context = self.lib.llama_init_from_model(self.model, self.lib.llama_context_default_params())
        if not self.context:
            sys.exit(f"llama.cpp can't make a context for {path}")
        self.lib.llama_set_n_threads(self.context, threads, threads)

    def longest(self):
        """Tokens that a call of `logits` takes at most."""
        return min(self.lib.llama_n_ctx(self.context), self.lib.llama_n_batch(self.context))

    def ids(self, text):
        # No token is less than a byte of the text, but one that the tokenizer adds before it and one behind it.
        room = len(text) + 2
        ids = (c_int32 * room)()
        count = self.lib.llama_tokenize(self.vocabulary, text, len(text), ids, room, True, True)
        if count < 0:
            sys.exit(f"expected at most {room} tokens of a text of {len(text)} bytes, got {-count}")
        return ids[:count]

    def logits(self, ids, count):
        """The logits [count, words] behind each of the last `count` of the tokens `ids`, of which the first begins a text. The next call overwrites them."""
        self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), True)
        tokens = (c_int32 * len(ids))(*ids)
        wanted = (c_int8 * len(ids))(*[at >= len(ids) - count for at in range(len(ids))])
        status = self.lib.llama_decode(self.context, Batch(n_tokens=len(ids), token=tokens, logits=wanted))
        if status:
            sys.exit(f"llama.cpp failed with status {status} in a window of {len(ids)} tokens")
        return np.ctypeslib.as_array(self.lib.llama_get_logits(self.context), shape=(count, self.words))


def nats(logits, chosen):
    """The sum of the negative log probabilities of the tokens `chosen`, one for each row of `logits`."""
    total = 0.0
    for at in range(0, len(chosen), ROWS):
        rows = logits[at:at + ROWS].astype(np.float64)
        rows -= rows.max(axis=1, keepdims=True)
        total += float((np.log(np.exp(rows).sum(axis=1)) - rows[np.arange(len(rows)), chosen[at:at + ROWS]]).sum())
    return total


def perplexity(model, ids, context, stride):
    if context - 1 > model.longest():
        sys.exit(f"expected windows of at most {model.longest() + 1} tokens, got {context}")
    total, judged = 0.0, 1
    for first in range(0, len(ids), stride):
        end = min(first + context, len(ids))
        total += nats(model.logits(ids[first:end - 1], end - judged), ids[judged:end])
        judged = end
        if end == len(ids):
            break
    return {"tokens": len(ids) - 1, "perplexity": math.exp(total / (len(ids) - 1))}


def main(path, text, count, context, stride, threads):
    model = Model(path, int(threads))
    ids = model.ids(pathlib.Path(text).read_bytes())[:int(count)]
    # A wheel from PyPI is built for AVX2; its own list says so.
    about = model.lib.llama_print_system_info().decode().strip(" |")
    version = f"by xllamacpp {importlib.metadata.version('xllamacpp')} ({about})"
    print(json.dumps({"version": version, **perplexity(model, ids, int(context), int(stride))}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
