"""Bodies that a server must refuse with 400: deep, cut off, in no encoding, or with values that no request can have. Pure."""

import json
from typing import NamedTuple

import served

DEEP = 100_000

CHAT, TEXT, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"


class Hostile(NamedTuple):
    """A body, and what is wrong with it."""

    what: str
    path: str
    body: bytes


def with_field(text):
    """A conversation with another field, as bytes: the field is text that json.dumps would not write."""
    whole = json.dumps({"model": served.MODEL, "messages": [{"role": "user", "content": "Who"}]})
    return f"{whole[:-1]},{text}}}".encode()


def content(data):
    """A conversation whose text is these bytes as they are."""
    whole = json.dumps({"model": served.MODEL, "messages": [{"role": "user", "content": "@"}]}).encode()
    return whole.replace(b"@", data)


def hostile():
    """All of the bodies."""
    fields = {
        "lists 100,000 deep": '"more":' + "[" * DEEP + "]" * DEEP,
        "objects 100,000 deep": '"more":' + '{"a":' * DEEP + "1" + "}" * DEEP,
        "lists 100,000 deep for tools": '"tools":' + "[" * DEEP + "]" * DEEP,
        "a lone surrogate": r'"stop":"\ud800"',
        "a lone low surrogate": r'"stop":"a\udc00b"',
        "surrogates in the wrong order": r'"stop":"\udc00\ud800"',
        "NaN": '"temperature":NaN',
        "Infinity": '"temperature":Infinity',
        "-Infinity": '"top_p":-Infinity',
        "a number beyond f64": '"temperature":1e999',
        "a number beyond f32": '"temperature":1e39',
        "a negative limit": '"max_tokens":-5',
        "a negative temperature": '"temperature":-0.5',
        "a negative number of answers": '"n":-1',
        "negative top_logprobs": '"logprobs":true,"top_logprobs":-1',
        "a limit beyond 64 bits": '"max_tokens":99999999999999999999',
        "a limit with decimals": '"max_tokens":1.5',
        "a seed twice": '"seed":1,"seed":2',
        "a model twice": f'"model":"{served.MODEL}"',
        "messages twice": '"messages":[]',
        "a text for a flag": '"stream":"yes"',
        "five stop strings": '"stop":["a","b","c","d","e"]',
        "an empty stop string": '"stop":""',
    }
    texts = {
        "bytes of no encoding": b"\xff\xfe",
        "half of a character": b"\xe2\x82",
        "a surrogate in UTF-8": b"\xed\xa0\x80",
        "an overlong character": b"\xc0\xaf",
        "a control character": b"a\x00b",
        "an escape of nothing": b"\\x",
    }
    wholes = {
        "nothing": b"",
        "half of an object": b'{"model":',
        "lists 100,000 deep that do not end": b"[" * DEEP,
        "objects 100,000 deep that do not end": b'{"a":' * DEEP,
        "a text": b'"model"',
        "null": b"null",
        "zeros": b"\x00" * 100,
        "two objects": with_field('"n":1') * 2,
        "a comma too many": with_field('"n":1')[:-1] + b",}",
        "a byte order mark": b"\xef\xbb\xbf" + with_field('"n":1'),
        "UTF-16": with_field('"n":1').decode().encode("utf-16"),
    }
    bodies = [Hostile(what, CHAT, with_field(text)) for what, text in fields.items()]
    bodies += [Hostile(what, CHAT, content(data)) for what, data in texts.items()]
    bodies += [Hostile(what, path, data) for path in (CHAT, TEXT, RESPONSES, "/tokenize") for what, data in wholes.items()]
    prompts = {"ids beyond the vocabulary": [1 << 31], "negative ids": [-1], "no prompt": [], "an object": {"a": 1},
               "a prompt longer than the context": [1] * 100_000}
    bodies += [Hostile(what, TEXT, json.dumps(served.completion(prompt)).encode()) for what, prompt in prompts.items()]
    bodies.append(Hostile("ids beyond the vocabulary", "/detokenize", b'{"tokens":[4294967295]}'))
    return bodies
