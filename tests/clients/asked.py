"""Requests that a load generator draws, and what their answers count to: prompts, tokens, answers by their ends, refusals. Pure.

Tokens are counted by their entries in the answers' probabilities, one for each, and prompts by what /tokenize says; the server's own
`usage` is compared with both.
"""

import json
from typing import NamedTuple

import figures
import served
from report import Wrong

TEXTS = ("What is a whale?", "The captain stood at the rail and", "Call me", "Tell of the sea, the ship, and the men.", "Who are you?",
         "The white whale swam before him as", "It was a clear steel-blue day.", "Ahab", "There she blows!", "Now, the harpooneers ate")

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


class Asked(NamedTuple):
    """A request: its path and body, its prompts, and the status that it must get if there is room."""

    path: str
    body: dict
    prompts: tuple
    status: int = 200

    @property
    def is_chat(self):
        return self.path == CHAT

    def tokenized(self):
        """The requests to /tokenize that tell how many tokens the prompts have."""
        if self.is_chat:
            return [{"model": served.MODEL, "messages": self.body["messages"]}]
        return [{"model": served.MODEL, "prompt": prompt} for prompt in self.prompts]


def drawn(random):
    """A request of any kind, among them some that are at fault."""
    text = random.choice(TEXTS)
    more = {"seed": random.randrange(1000), "temperature": random.choice((0, 1.0)), "n": random.choice((1, 1, 1, 2)),
            "stop": random.choice((None, ["the", "."])), "stream": random.choice((False, True))}
    if more["stream"]:
        more["stream_options"] = {"include_usage": True}
    kind = random.random()
    if kind < 0.05:
        return Asked(CHAT, served.chat(text, temperature=9), (text,), 400)
    if kind < 0.1:
        return Asked(TEXT, {**served.completion(text), "model": "another"}, (text,), 404)
    if kind < 0.55:
        body = served.chat(text, **{**more, "max_completion_tokens": random.randint(1, 24), "logprobs": True})
        return Asked(CHAT, body, (text,))
    prompts = (text, random.choice(TEXTS)) if random.random() < 0.3 else (text,)
    prompt = list(prompts) if len(prompts) > 1 else text
    return Asked(TEXT, served.completion(prompt, **{**more, "max_tokens": random.randint(1, 24), "logprobs": 0}), prompts)


class Answer(NamedTuple):
    """What one choice of a response has: the number of its tokens, its text, and why it ended."""

    tokens: int
    text: str
    finish: str


def answers_of(asked, parts):
    """The choices of a response and its usage, from its body or from the data of a stream's events, `[DONE]` left out. Raises Wrong."""
    tokens, texts, ends, usage = {}, {}, {}, None
    for part in parts:
        if "error" in part:
            raise Wrong(f"an error in a response of status 200: {part['error']}")
        usage = part.get("usage") or usage
        for choice in part["choices"]:
            at = choice["index"]
            said = choice.get("message") or choice.get("delta") or {}
            logprobs = choice.get("logprobs") or {}
            tokens[at] = tokens.get(at, 0) + len(logprobs.get("content" if asked.is_chat else "tokens") or ())
            texts[at] = texts.get(at, "") + (said.get("content") or choice.get("text") or "")
            ends[at] = choice.get("finish_reason") or ends.get(at)
    if usage is None or None in ends.values() or len(ends) != len(asked.prompts) * asked.body.get("n", 1):
        raise Wrong(f"an incomplete response: ends {ends}, usage {usage}")
    return [Answer(tokens[at], texts[at], ends[at]) for at in sorted(ends)], usage


def parts_of(events):
    """The data of a stream's events, whose last one must be the mark of the end. Raises Wrong."""
    if not events or events[-1] != (None, "[DONE]"):
        raise Wrong(f"expected a stream that ends with [DONE], got {events[-1:]}")
    return [json.loads(data) for _, data in events[:-1]]


class Counts:
    """What a load generator counted, under the names of the server's metrics."""

    def __init__(self):
        self.told, self.requests, self.refused = {}, 0, 0
        # Streams that were left, the tokens that were read of them, and those that they would have had.
        self.left, self.read, self.most = 0, 0, 0

    def add(self, name, amount=1):
        self.told[name] = self.told.get(name, 0) + amount

    def failed(self, status):
        """Counts a response that is an error."""
        self.add(f"request_failures_total code={status}")
        if status == 429:
            self.refused += 1
            self.add("admission_rejections_total")

    def abandoned(self, prompt, read, most):
        """Counts a stream of `most` tokens that was left after `read` of them, one at least: its prompt has been computed, and no answer
        ends. How many tokens it got until the server noticed isn't told.
        """
        self.failed(499)
        self.add("prompt_tokens_total", prompt)
        self.add("time_to_first_token_seconds_count")
        self.left, self.read, self.most = self.left + 1, self.read + read, self.most + most

    def answered(self, prompts, answers):
        """Counts a response with prompts of so many tokens each, and its answers."""
        self.add("prompt_tokens_total", sum(prompts))
        each = len(answers) // len(prompts)
        self.add("request_prompt_tokens_sum", each * sum(prompts))
        for answer in answers:
            self.add("generation_tokens_total", answer.tokens)
            self.add("request_generation_tokens_sum", answer.tokens)
            self.add("inter_token_latency_seconds_count", max(0, answer.tokens - 1))
            self.add("time_to_first_token_seconds_count", int(answer.tokens > 0))
            self.add(f"request_success_total finished_reason={answer.finish}")
            self.add("e2e_request_latency_seconds_count")
            self.add("request_generation_tokens_count")

    def differences(self, told):
        """What the server counted otherwise, a text for each count.

        The tokens of streams that were left are what the server counted beyond the others': at least those that were read, and fewer than
        the streams would have had. Each of them but a stream's first one came after another.
        """
        own, name = dict(self.told), "generation_tokens_total"
        beyond = told.get(name, 0) - own.get(name, 0)
        if self.left:
            if not self.read <= beyond < self.most:
                return [f"{name}: expected {self.read} to {self.most - 1} of {self.left} streams that were left, told {beyond:g}"]
            for name, amount in ((name, beyond), ("inter_token_latency_seconds_count", beyond - self.left)):
                own[name] = own.get(name, 0) + amount
        return figures.differences(own, told)


# Counted by label, and counted as a whole.
BY_LABEL = (("request_failures_total", "code"), ("request_success_total", "finished_reason"))
WHOLE = ("admission_rejections_total", "prompt_tokens_total", "generation_tokens_total", "request_prompt_tokens_sum",
         "request_generation_tokens_sum", "request_generation_tokens_count", "inter_token_latency_seconds_count",
         "time_to_first_token_seconds_count", "e2e_request_latency_seconds_count")


def told(before, after):
    """What the server counted between two readings of its metrics, under the names of `Counts`."""
    counts = {name: after.total(f"moebius_{name}") - before.total(f"moebius_{name}") for name in WHOLE}
    for name, label in BY_LABEL:
        earlier, later = (one.by(f"moebius_{name}", label) for one in (before, after))
        counts |= {f"{name} {label}={value}": total - earlier.get(value, 0) for value, total in later.items()}
    return {name: count for name, count in counts.items() if count}
