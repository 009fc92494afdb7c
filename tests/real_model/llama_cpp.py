"""What llama.cpp makes of a GGUF file, for perplexity.py to compare with: the perplexity of a text. For speed_peers.py: how it goes on with prompts.

Usage: python llama_cpp.py FILE.gguf TEXT TOKENS CONTEXT STRIDE THREADS  -> {"version": v, "tokens": n, "perplexity": p}
llama.cpp cuts the text into tokens by the file's tokenizer, and computes as it does by itself: keys and values in f16, what it multiplies with
weights in blocks rounded to 8 bits. Windows and judged tokens are those of `moebius perplexity`. The package xllamacpp has no function for
logits of a whole text, and its server mixes prompts with answers, but its library exports llama.cpp's interface in C, which is called here.
Needs: numpy, xllamacpp.
"""
import ctypes, importlib.metadata, json, math, pathlib, sys, time
from ctypes import POINTER, c_bool, c_char_p, c_float, c_int, c_int8, c_int32, c_uint32, c_void_p

import numpy as np
import xllamacpp

# GGML_LOG_LEVEL_ERROR.
ERROR = 4
# GGML_TYPE_F32 and GGML_TYPE_F16.
F32, F16 = 0, 1
# Rows of logits that are widened to f64 at a time.
ROWS = 64
# Fields of a context's parameters that are set here: their places in 32-bit words, which versions may change, and what llama.cpp fills them with.
FIELDS = {"n_ctx": (0, 512), "n_seq_max": (3, 1), "type_k": (26, F16), "type_v": (27, F16)}


class Parameters(ctypes.Structure):
    """Parameters of a model or of a context as llama.cpp fills them, because versions have other fields. They are fewer bytes than these in each
    version; a function is given a copy, and reads its own fields at the beginning of it.
    """

    _fields_ = [("words", c_int32 * 1024)]

    def change(self, **values):
        """Sets fields of a context's parameters. A version that has them elsewhere is seen by what is there."""
        for name, value in values.items():
            place, usual = FIELDS[name]
            if self.words[place] != usual:
                sys.exit(f"expected {usual} as llama.cpp's own {name}, got {self.words[place]}: this version has its fields elsewhere")
            self.words[place] = value


class Batch(ctypes.Structure):
    """llama_batch. Without positions and sequences its tokens follow those that the context has."""

    _fields_ = [("n_tokens", c_int32), ("token", POINTER(c_int32)), ("embd", c_void_p), ("pos", POINTER(c_int32)),
                ("n_seq_id", POINTER(c_int32)), ("seq_id", POINTER(POINTER(c_int32))), ("logits", POINTER(c_int8))]


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
    "llama_vocab_is_eog": (c_bool, c_void_p, c_int32),
    "llama_tokenize": (c_int32, c_void_p, c_char_p, c_int32, POINTER(c_int32), c_int32, c_bool, c_bool),
    "llama_context_default_params": (Parameters,),
    "llama_init_from_model": (c_void_p, c_void_p, Parameters),
    "llama_n_ctx": (c_uint32, c_void_p),
    "llama_n_ctx_seq": (c_uint32, c_void_p),
    "llama_n_seq_max": (c_uint32, c_void_p),
    "llama_n_batch": (c_uint32, c_void_p),
    "llama_set_n_threads": (None, c_void_p, c_int32, c_int32),
    "llama_get_memory": (c_void_p, c_void_p),
    "llama_memory_clear": (None, c_void_p, c_bool),
    "llama_batch_init": (Batch, c_int32, c_int32, c_int32),
    "llama_decode": (c_int32, c_void_p, Batch),
    "llama_get_logits": (POINTER(c_float), c_void_p),
    "llama_get_logits_ith": (POINTER(c_float), c_void_p, c_int32),
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
    """A GGUF file, loaded, and its context, once it is open."""

    def __init__(self, path, threads):
        self.lib = library()
        self.model = self.lib.llama_model_load_from_file(str(path).encode(), self.lib.llama_model_default_params())
        if not self.model:
            sys.exit(f"llama.cpp can't load {path}")
        self.vocabulary = self.lib.llama_model_get_vocab(self.model)
        self.words = self.lib.llama_vocab_n_tokens(self.vocabulary)
        self.path, self.threads, self.context = path, threads, None
        # A wheel from PyPI is built for AVX2; its own list says so.
        about = self.lib.llama_print_system_info().decode().strip(" |")
        self.version = f"by xllamacpp {importlib.metadata.version('xllamacpp')} ({about})"

    def open(self, **changed):
        """Makes the context: of the size that llama.cpp takes by itself, or as `changed` has its parameters."""
        parameters = self.lib.llama_context_default_params()
        parameters.change(**changed)
        self.context = self.lib.llama_init_from_model(self.model, parameters)
        if not self.context:
            sys.exit(f"llama.cpp can't make a context for {self.path}")
        self.lib.llama_set_n_threads(self.context, self.threads, self.threads)

    def longest(self):
        """Tokens that a call of `logits` takes at most."""
        return min(self.lib.llama_n_ctx(self.context), self.lib.llama_n_batch(self.context))

    def forget(self):
        """Empties the cache of keys and values."""
        self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), True)

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
        self.forget()
        tokens = (c_int32 * len(ids))(*ids)
        wanted = (c_int8 * len(ids))(*[at >= len(ids) - count for at in range(len(ids))])
        status = self.lib.llama_decode(self.context, Batch(n_tokens=len(ids), token=tokens, logits=wanted))
        if status:
            sys.exit(f"llama.cpp failed with status {status} in a window of {len(ids)} tokens")
        return np.ctypeslib.as_array(self.lib.llama_get_logits(self.context), shape=(count, self.words))


class Streams:
    """Prompts that a model goes on with together, greedily, each a sequence of its own."""

    def __init__(self, model, count, longest, **changed):
        """Opens the model's context, with room for `count` sequences of `longest` tokens."""
        model.open(n_ctx=count * longest, n_seq_max=count, **changed)
        self.model, self.lib, self.context = model, model.lib, model.context
        got = self.lib.llama_n_seq_max(self.context), self.lib.llama_n_ctx_seq(self.context)
        if got[0] != count or got[1] < longest:
            sys.exit(f"expected a context of {count} sequences with {longest} tokens each, got {got[0]} with {got[1]}")
        self.most = self.lib.llama_n_batch(self.context)
        self.batch = self.lib.llama_batch_init(self.most, 0, 1)

    def likeliest(self, rows):
        """Computes `rows`: a token, its position, its sequence, and whether another is wanted behind it. Returns those, the likeliest each."""
        batch = self.batch
        batch.n_tokens = len(rows)
        for at, (token, position, sequence, wanted) in enumerate(rows):
            batch.token[at], batch.pos[at], batch.n_seq_id[at], batch.logits[at] = token, position, 1, wanted
            batch.seq_id[at][0] = sequence
        status = self.lib.llama_decode(self.context, batch)
        if status:
            sys.exit(f"llama.cpp failed with status {status} in a batch of {len(rows)} tokens")
        rows = [self.lib.llama_get_logits_ith(self.context, at) for at, row in enumerate(rows) if row[3]]
        return [int(np.ctypeslib.as_array(row, shape=(self.model.words,)).argmax()) for row in rows]

    def go_on(self, prompts, count):
        """Goes on with these prompts, lists of ids, for `count` tokens each, or until a first answer ends. Returns the answers' ids, the seconds
        until all had a token, and those from there to the last tokens."""
        self.model.forget()
        rows = [(token, position, sequence, position == len(prompt) - 1)
                for sequence, prompt in enumerate(prompts) for position, token in enumerate(prompt)]
        chunks = [rows[first:first + self.most] for first in range(0, len(rows), self.most)]
        answers, times = [[] for _ in prompts], [time.perf_counter()]
        tokens = [token for chunk in chunks for token in self.likeliest(chunk)]
        while not any(self.lib.llama_vocab_is_eog(self.model.vocabulary, token) for token in tokens):
            times.append(time.perf_counter())
            for answer, token in zip(answers, tokens):
                answer.append(token)
            if len(answers[0]) == count:
                break
            # The last token of each is computed next: it stands behind the prompt and the answer's other tokens.
            rows = [(answer[-1], len(prompt) + len(answer) - 1, sequence, True)
                    for sequence, (prompt, answer) in enumerate(zip(prompts, answers))]
            tokens = self.likeliest(rows)
        if len(times) < 3:
            sys.exit("expected two tokens or more of each answer, got an end")
        return answers, times[1] - times[0], times[-1] - times[1]


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
    model.open()
    ids = model.ids(pathlib.Path(text).read_bytes())[:int(count)]
    print(json.dumps({"version": model.version, **perplexity(model, ids, int(context), int(stride))}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
