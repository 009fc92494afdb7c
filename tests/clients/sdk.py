"""Checks of the `openai` package of Python, in an environment that has it.

Usage: python sdk.py --plain URL --keyed URL --key KEY --narrow URL --model NAME CHECK...
The servers: one that everybody may use, one that wants the key, and one that takes one request at a time and none that waits.
"""

import asyncio
import threading
import time

import openai

import told
from told import expect, same

QUESTION = [{"role": "user", "content": "What is a whale?"}]
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "Tells the weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]
TOKENS = 16


def client(given, **more):
    return openai.OpenAI(**({"base_url": given.plain, "api_key": "none", "max_retries": 0, "timeout": 60} | more))


def question(given, **more):
    """What is asked for: the likeliest answer, as long as it may be, unless told otherwise."""
    asked = {"model": given.model, "messages": QUESTION, "temperature": 0, "max_completion_tokens": TOKENS}
    return asked | {"extra_body": {"ignore_eos": True}} | more


def chat(given, **more):
    return client(given).chat.completions.create(**question(given, **more))


def text(answer, choice=0):
    return answer.choices[choice].message.content


def check_usage(usage, most=TOKENS):
    expect(usage.prompt_tokens > 0 and 0 < usage.completion_tokens <= most, f"usage {usage}")
    same("total_tokens", usage.total_tokens, usage.prompt_tokens + usage.completion_tokens)


def one_chat(given):
    answer = chat(given)
    expect(text(answer), f"an answer without a text: {answer}")
    same("role", answer.choices[0].message.role, "assistant")
    same("object", answer.object, "chat.completion")
    same("model", answer.model, given.model)
    expect(answer.choices[0].finish_reason in ("stop", "length"), f"finish_reason {answer.choices[0].finish_reason}")
    check_usage(answer.usage)
    expect(answer._request_id, "no x-request-id")
    return f"{answer.usage.completion_tokens} tokens: {text(answer)!r}"


def chat_async(given):
    want = text(chat(given))

    async def ask():
        async with openai.AsyncOpenAI(base_url=given.plain, api_key="none", max_retries=0) as asking:
            return await asyncio.gather(*(asking.chat.completions.create(**question(given)) for _ in range(4)))

    same("four answers together", [text(answer) for answer in asyncio.run(ask())], [want] * 4)
    return "four answers together are the one alone"


def check_chunks(chunks, whole):
    """Checks a stream with usage against the whole answer."""
    same("role", chunks[0].choices[0].delta.role, "assistant")
    said = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    same("text of the stream", said, text(whole))
    *parts, last = chunks
    same("choices of the last event", last.choices, [])
    same("usage", last.usage.model_dump(), whole.usage.model_dump())
    expect(all(part.usage is None for part in parts), "usage before the last event")
    same("finish_reason", parts[-1].choices[0].finish_reason, whole.choices[0].finish_reason)
    same("ids", {chunk.id for chunk in chunks}, {chunks[0].id})
    return f"{len(chunks)} events"


def stream(given):
    whole = chat(given)
    plain = list(chat(given, stream=True))
    expect(all(chunk.usage is None and chunk.choices for chunk in plain), "usage that nobody asked for")
    return check_chunks(list(chat(given, stream=True, stream_options={"include_usage": True})), whole)


def stream_async(given):
    async def ask():
        async with openai.AsyncOpenAI(base_url=given.plain, api_key="none", max_retries=0) as asking:
            asked = question(given, stream=True, stream_options={"include_usage": True})
            return [event async for event in await asking.chat.completions.create(**asked)]

    return check_chunks(asyncio.run(ask()), chat(given))


def completions(given):
    asked = {"model": given.model, "prompt": ["Call me", "The whale"], "max_tokens": 8, "temperature": 0}
    both = client(given).completions.create(**asked)
    same("choices", [choice.index for choice in both.choices], [0, 1])
    alone = client(given).completions.create(**(asked | {"prompt": "Call me"}))
    same("the same prompt alone", alone.choices[0].text, both.choices[0].text)
    check_usage(both.usage, 16)
    events = client(given).completions.create(**(asked | {"prompt": "Call me", "stream": True}))
    same("text of the stream", "".join(choice.text for event in events for choice in event.choices), alone.choices[0].text)
    return f"two prompts, {both.usage.completion_tokens} tokens, streamed the same"


def logprobs(given):
    answer = chat(given, logprobs=True, top_logprobs=3)
    tokens = answer.choices[0].logprobs.content
    same("tokens with a probability", len(tokens), answer.usage.completion_tokens)
    for token in tokens:
        top = token.top_logprobs
        expect(len(top) == 3 and top == sorted(top, key=lambda one: -one.logprob) and top[0].logprob <= 0, f"top_logprobs {top}")
        same("the likeliest token", (top[0].token, top[0].logprob), (token.token, token.logprob))
    older = client(given).completions.create(model=given.model, prompt="Call me", max_tokens=8, temperature=0, logprobs=2)
    told_of = older.choices[0].logprobs
    counts = {len(told_of.tokens), len(told_of.token_logprobs), len(told_of.top_logprobs), len(told_of.text_offset)}
    same("entries", counts, {older.usage.completion_tokens})
    return f"{len(tokens)} tokens with their three likeliest, and {len(told_of.tokens)} of a text"


def several(given):
    asked = {"n": 3, "seed": 5, "temperature": 1.2}
    answer = chat(given, **asked)
    same("choices", [choice.index for choice in answer.choices], [0, 1, 2])
    same("the first of them alone", text(chat(given, **(asked | {"n": 1}))), text(answer))
    expect(len({text(answer, at) for at in range(3)}) > 1, "three answers that are the same")
    check_usage(answer.usage, 3 * TOKENS)
    return f"three answers, {answer.usage.completion_tokens} tokens"


def stop(given):
    whole = text(chat(given))
    mark = whole[len(whole) // 2:][:3]
    answer = chat(given, stop=[mark, "\u0001"])
    same("text before the stop string", text(answer), whole[:whole.find(mark)])
    same("finish_reason", answer.choices[0].finish_reason, "stop")
    return f"{text(answer)!r} before {mark!r}"


def seed(given):
    def drawn(number):
        return text(chat(given, seed=number, temperature=1.3, max_completion_tokens=24))

    first = drawn(11)
    same("the same seed", drawn(11), first)
    expect(any(drawn(number) != first for number in (12, 13, 14)), "other seeds give the same")
    return "a seed repeats its answer, others give others"


def tools(given):
    without = chat(given)
    answer = chat(given, tools=TOOLS, tool_choice="auto")
    more = answer.usage.prompt_tokens - without.usage.prompt_tokens
    expect(more > 0, "the template was not told of the tools")
    none = chat(given, tools=TOOLS, tool_choice="none")
    same("prompt without tools", none.usage.prompt_tokens, without.usage.prompt_tokens)
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Bern"}'}}
    answered = QUESTION + [{"role": "assistant", "content": None, "tool_calls": [call]},
                           {"role": "tool", "tool_call_id": "call_1", "content": "rain"}]
    chat(given, messages=answered, tools=TOOLS)
    return f"{more} tokens of the prompt tell of the tool; a call and its answer are taken"


def responses(given):
    asked = {"model": given.model, "input": "What is a whale?", "instructions": "Be brief.", "temperature": 0, "max_output_tokens": TOKENS}
    whole = client(given).responses.create(**asked)
    expect(whole.output_text, f"an answer without a text: {whole}")
    expect(whole.status in ("completed", "incomplete"), f"status {whole.status}")
    same("total_tokens", whole.usage.total_tokens, whole.usage.input_tokens + whole.usage.output_tokens)
    events = list(client(given).responses.create(**asked, stream=True))
    same("numbers of the events", [event.sequence_number for event in events], list(range(len(events))))
    same("the first event", events[0].type, "response.created")
    same("the last event", events[-1].type, f"response.{whole.status}")
    said = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    same("text of the stream", said, whole.output_text)
    same("text of the last event", events[-1].response.output_text, whole.output_text)
    refused = fails(openai.BadRequestError, lambda: client(given).responses.create(**asked, previous_response_id="resp_1"))
    same("param", refused.param, "previous_response_id")
    return f"{whole.usage.output_tokens} tokens, {len(events)} events"


def models(given):
    listed = [model.id for model in client(given).models.list()]
    same("models", listed, [given.model])
    same("model", client(given).models.retrieve(given.model).id, given.model)
    fails(openai.NotFoundError, lambda: client(given).models.retrieve("another"))
    return f"{listed}"


def fails(kind, work):
    """The error of this kind that some work must raise."""
    try:
        got = work()
    except kind as error:
        return error
    raise AssertionError(f"expected {kind.__name__}, got {got!r}"[:300])


def errors(given):
    for more, kind, code, param in (
        ({"temperature": 9}, openai.BadRequestError, "invalid_value", "temperature"),
        ({"messages": []}, openai.BadRequestError, "invalid_value", "messages"),
        ({"max_completion_tokens": 100_000}, openai.BadRequestError, "context_length_exceeded", "max_completion_tokens"),
        ({"model": "another"}, openai.NotFoundError, "model_not_found", "model"),
    ):
        error = fails(kind, lambda: chat(given, **more))
        same("code and param", (error.code, error.param), (code, param))
        expect(error.request_id and error.type, f"{error.request_id} {error.type}")
    large = [{"role": "user", "content": "a" * (3 << 20)}]
    same("status of a large body", fails(openai.APIStatusError, lambda: chat(given, messages=large)).status_code, 413)
    nowhere = client(given, base_url="http://127.0.0.1:9/v1")
    fails(openai.APIConnectionError, nowhere.models.list)
    hasty = client(given, timeout=0.001)
    fails(openai.APITimeoutError, lambda: hasty.completions.create(model=given.model, prompt="Who", max_tokens=200))
    return "400, 404, 413, no connection and no time, each as its exception"


def keys(given):
    def listed(key):
        return client(given, base_url=given.keyed, api_key=key).models.list()

    same("models", [model.id for model in listed(given.key)], [given.model])
    error = fails(openai.AuthenticationError, lambda: listed("sk-ffffffffffffffff"))
    return f"the key is taken, another is not: {error.code}"


def retries(given):
    """While others take the only place, the client is refused, waits as it is told, and is answered in the end."""
    occupied = threading.Event()
    occupied.set()

    def occupy():
        mine = client(given, base_url=given.narrow)
        while occupied.is_set():
            try:
                mine.completions.create(model=given.model, prompt="Who", max_tokens=300, extra_body={"ignore_eos": True})
            except openai.RateLimitError:
                time.sleep(0.01)

    threads = [threading.Thread(target=occupy) for _ in range(3)]
    for thread in threads:
        thread.start()
    release = threading.Timer(2, occupied.clear)
    release.start()
    try:
        refusals, error, begun = 0, None, time.monotonic()
        ask = {"model": given.model, "prompt": "Who", "max_tokens": 1}
        while error is None and time.monotonic() - begun < 1.5:
            try:
                client(given, base_url=given.narrow).completions.create(**ask)
            except openai.RateLimitError as refused:
                error = refused
        expect(error is not None, "no refusal while others took the only place")
        after = int(error.response.headers["retry-after"])
        same("code", error.code, "rate_limit_exceeded")
        patient = client(given, base_url=given.narrow, max_retries=10)
        while refusals == 0 and time.monotonic() - begun < 20:
            raw = patient.completions.with_raw_response.create(**ask)
            refusals = raw.retries_taken
            expect(raw.parse().choices[0].finish_reason, "no answer")
            if not occupied.is_set():
                break
        expect(refusals > 0, "a client that may try again was never refused")
    finally:
        occupied.clear()
        release.cancel()
        for thread in threads:
            thread.join()
    return f"refused with retry-after {after}, answered at try {refusals + 1}"


CHECKS = {"chat": one_chat, "chat async": chat_async, "stream": stream, "stream async": stream_async, "completions": completions,
          "logprobs": logprobs, "n": several, "stop": stop, "seed": seed, "tools": tools, "responses": responses, "models": models,
          "errors": errors, "keys": keys, "retries": retries}

if __name__ == "__main__":
    GIVEN = told.arguments(__doc__, "plain", "keyed", "key", "narrow", "model")
    told.run(CHECKS, GIVEN.checks, GIVEN, ["openai"])
