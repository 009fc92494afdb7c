"""What the stand-in for `moebius` reads and says: requests as they are checked, answers in words that mean nothing, and their forms.

A token is a word, and the next one follows from all before it, the seed and nothing else, so that what a request gets is the same in any
company.
"""

import asyncio
import json
import re
import zlib

VOCABULARY, CONTEXT = 3072, 512
JSON_DEPTH = 64
# What it says where an answer must follow a schema, in pieces; it knows this one alone.
BY_SCHEMA = ('{"animal": ', '"whale", ', '"count"', ": 3}")


class Refused(Exception):
    """An error for a client."""

    def __init__(self, status, code, message, param=None, after=None):
        super().__init__(message)
        kinds = {401: "authentication_error", 429: "rate_limit_error"}
        kind = kinds.get(status, "server_error" if status >= 500 else "invalid_request_error")
        self.status, self.code, self.headers = status, code, {} if after is None else {"retry-after": str(after)}
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": code}}


def invalid(param, message, code="invalid_value"):
    return Refused(400, code, f"{param}: {message}", param)


def tokens_of(text):
    return [zlib.crc32(word.encode()) % VOCABULARY for word in re.findall(r"\S+", text)]


def word(token):
    return f" w{token}"


def text_of(tokens):
    return "".join(map(word, tokens))


def following(tokens, seed):
    """The token after others; a seed of None stands for the likeliest one."""
    return zlib.crc32(f"{tokens} {seed}".encode()) % VOCABULARY


def rendered(messages, tools):
    lines = [f"Tool: {tool['function']['name']} {json.dumps(tool['function']['parameters'])}" for tool in tools or []]
    return "\n".join([*lines, *(f"{message['role']}: {message.get('content')}" for message in messages), "assistant:"])


def parsed(data, takes_nan):
    """A body as JSON, as strict as the server is."""
    def fault(message):
        return Refused(400, "invalid_json", message)

    def constant(name):
        if not takes_nan:
            raise fault(f"expected JSON, got {name}")

    def pairs(items):
        if len(dict(items)) != len(items):
            raise invalid("", "duplicate field")
        return dict(items)

    try:
        text = data.decode()
        bare = re.sub(r'"(?:[^"\\]|\\.)*"', "", text)
        depth = deepest = 0
        for mark in re.findall(r"[\[\]{}]", bare):
            depth += 1 if mark in "[{" else -1
            deepest = max(deepest, depth)
        if deepest > JSON_DEPTH:
            raise fault(f"expected JSON of at most {JSON_DEPTH} levels, got more")
        value = json.loads(text, parse_constant=constant, object_pairs_hook=pairs)
        json.dumps(value, ensure_ascii=False).encode()
    except ValueError as error:
        raise fault(f"expected JSON: {error}") from error
    if not isinstance(value, dict):
        raise invalid("", "expected an object")
    return value


# Fields with the types that they may have, and their limits.
FIELDS = {"temperature": ((int, float), 0, 2), "top_p": ((int, float), 0, 1), "n": (int, 1, 4), "max_tokens": (int, 1, 1 << 62),
          "max_completion_tokens": (int, 1, 1 << 62), "max_output_tokens": (int, 1, 1 << 62), "top_logprobs": (int, 0, 20),
          "seed": (int, -(1 << 63), 1 << 63)}


class Asked:
    """A request that was read and checked."""

    def __init__(self, path, body, model):
        if body.get("model", model if path == "/tokenize" else None) != model:
            raise Refused(404, "model_not_found", "another model", "model")
        for name, (kinds, least, most) in FIELDS.items():
            value = body.get(name)
            if value is not None and (not isinstance(value, kinds) or isinstance(value, bool) or not least <= value <= most):
                raise invalid(name, f"expected {least} to {most}, got {value}")
        if not isinstance(body.get("stream") or False, bool):
            raise invalid("stream", "expected a flag")
        stops = body.get("stop") or []
        self.stops = [stops] if isinstance(stops, str) else stops
        if body.get("stop") == "" or len(self.stops) > 4:
            raise invalid("stop", "expected up to 4 texts")
        self.path, self.body, self.n = path, body, body.get("n") or 1
        # 0 of a text tells the tokens' own probabilities; false of a conversation tells none.
        told = body.get("logprobs")
        self.stream, self.logprobs = bool(body.get("stream")), None if told is False else told
        options = body.get("stream_options") or {}
        self.usage = bool(options.get("include_usage"))
        self.by_schema = body.get("response_format") is not None
        self.prompts = self.read_prompts()
        if path != "/tokenize":
            self.check_prompts()

    def read_prompts(self):
        body = self.body
        if "messages" in body:
            if not body["messages"]:
                raise invalid("messages", "expected at least one")
            tools = body.get("tools") if body.get("tool_choice") != "none" else None
            return [tokens_of(rendered(body["messages"], tools))]
        if "input" in body:
            if body.get("previous_response_id"):
                raise invalid("previous_response_id", "unsupported")
            given = body["input"]
            return [tokens_of(given if isinstance(given, str) else rendered(given, None))]
        prompt = body.get("prompt")
        if isinstance(prompt, str):
            return [tokens_of(prompt)]
        if not isinstance(prompt, list) or not prompt:
            raise invalid("prompt", "expected a text, several, or ids")
        if all(isinstance(one, str) for one in prompt):
            return [tokens_of(one) for one in prompt]
        if not all(isinstance(one, int) and 0 <= one < VOCABULARY for one in prompt):
            raise invalid("prompt", "expected ids of the vocabulary")
        return [prompt]

    def check_prompts(self):
        name = next((name for name in FIELDS if name.startswith("max_") and self.body.get(name) is not None), None)
        room = CONTEXT - max(map(len, self.prompts))
        if room <= 0 or not all(self.prompts):
            raise invalid("prompt", "expected another length", "context_length_exceeded")
        self.most = self.body[name] if name else 16
        if self.most > room:
            raise invalid(name, f"expected at most {room}, got {self.most}", "context_length_exceeded")


class Answer:
    """An answer under way: its tokens go to a queue, and after them None."""

    def __init__(self, asked, prompt, choice, first):
        self.asked, self.prompt, self.first, self.updates = asked, prompt, first, asyncio.Queue()
        seed = None if asked.body.get("temperature", 1) == 0 else (asked.body.get("seed") or 0) + choice
        self.seed, self.said, self.text, self.finish, self.left = seed, [], "", None, False

    def step(self):
        """Adds a token; returns whether the answer has ended."""
        self.said.append(following(self.prompt + self.said, self.seed))
        before, at = self.text, len(self.said) - 1
        self.text += BY_SCHEMA[at] if self.asked.by_schema else word(self.said[-1])
        found = [at for at in (self.text.find(stop) for stop in self.asked.stops) if at >= 0]
        if found:
            self.text, self.finish = self.text[:min(found)], "stop"
        elif self.asked.by_schema and len(self.said) == len(BY_SCHEMA):
            self.finish = "stop"
        elif len(self.said) == self.asked.most:
            self.finish = "length"
        self.updates.put_nowait((self.said[-1], self.text[len(before):]))
        return self.finish is not None


def logprobs(asked, tokens):
    """The probabilities of tokens in the form of the path; None unless they were asked for."""
    if asked.logprobs is None:
        return None
    if asked.path.endswith("/chat/completions"):
        top = asked.body.get("top_logprobs") or 0
        return {"content": [{"token": word(token), "logprob": -0.5, "bytes": list(word(token).encode()), "top_logprobs": [
            {"token": word(token + at), "logprob": -0.5 - at, "bytes": None} for at in range(top)]} for token in tokens]}
    tops = [{word(token + at): -0.5 - at for at in range(asked.logprobs)} for token in tokens]
    count = len(tokens)
    return {"tokens": list(map(word, tokens)), "token_logprobs": [-0.5] * count, "top_logprobs": tops, "text_offset": [0] * count}


class Form:
    """The forms of responses of one request."""

    def __init__(self, asked, every, model):
        self.asked, self.every, self.model = asked, every, model
        self.chat = asked.path.endswith("/chat/completions")
        self.kind = "chat.completion" if self.chat else "text_completion"

    def usage(self):
        prompt, said = sum(map(len, self.asked.prompts)), sum(len(one.said) for one in self.every)
        return {"prompt_tokens": prompt, "completion_tokens": said, "total_tokens": prompt + said}

    def whole(self):
        if self.asked.path == "/v1/responses":
            return self.response()
        choices = []
        for at, one in enumerate(self.every):
            said = {"message": {"role": "assistant", "content": one.text}} if self.chat else {"text": one.text}
            choices.append({"index": at, "logprobs": logprobs(self.asked, one.said), "finish_reason": one.finish, **said})
        return {"id": "cmpl-1", "object": self.kind, "created": 1, "model": self.model, "choices": choices, "usage": self.usage()}

    def part(self, choices, usage=None):
        part = {"id": "cmpl-1", "object": f"{self.kind}.chunk" if self.chat else self.kind, "created": 1, "model": self.model}
        return {**part, "choices": choices, **({"usage": usage} if self.asked.usage else {})}

    def piece(self, at, token, text, finish=None):
        said = {"delta": {"content": text} if text else {}} if self.chat else {"text": text}
        told = logprobs(self.asked, [token]) if token is not None else None
        return self.part([{"index": at, "logprobs": told, "finish_reason": finish, **said}])

    def response(self):
        one, usage = self.every[0], self.usage()
        message = {"id": "msg_1", "type": "message", "status": "incomplete", "role": "assistant",
                   "content": [{"type": "output_text", "text": one.text, "annotations": []}]}
        return {"id": "resp_1", "object": "response", "created_at": 1, "status": "incomplete", "error": None, "model": self.model,
                "incomplete_details": {"reason": "max_output_tokens"}, "output": [message],
                "usage": {"input_tokens": usage["prompt_tokens"], "output_tokens": usage["completion_tokens"],
                          "total_tokens": usage["total_tokens"]}}

    async def events(self):
        """The events of a stream."""
        if self.asked.path == "/v1/responses":
            async for event in self.response_events():
                yield event
            return
        if self.chat:
            for at in range(len(self.every)):
                yield None, self.part([{"index": at, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}])
        for at, one in enumerate(self.every):
            while (update := await one.updates.get()) is not None:
                token, text = update
                if text or self.asked.logprobs is not None:
                    yield None, self.piece(at, token, text)
            yield None, self.piece(at, None, "", one.finish)
        if self.asked.usage:
            yield None, self.part([], self.usage())

    async def response_events(self):
        names, number = ["response.created", "response.in_progress"], 0
        begun = {**self.response(), "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
        for name in names:
            yield name, {"type": name, "sequence_number": number, "response": begun}
            number += 1
        place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
        while (update := await self.every[0].updates.get()) is not None:
            name = "response.output_text.delta"
            yield name, {"type": name, "sequence_number": number, "delta": update[1], "logprobs": [], **place}
            number += 1
        yield "response.incomplete", {"type": "response.incomplete", "sequence_number": number, "response": self.response()}
