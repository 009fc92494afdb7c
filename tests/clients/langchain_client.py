"""Checks of LangChain's adapter, `langchain-openai`, in an environment that has it.

Usage: python langchain_client.py --plain URL --model NAME CHECK...
"""

import asyncio

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI

import told
from told import expect, same

TOKENS = 16
MESSAGES = [SystemMessage("Be brief."), HumanMessage("What is a whale?")]


def model(given, **more):
    return ChatOpenAI(base_url=given.plain, api_key="none", model=given.model, temperature=0, max_tokens=TOKENS, max_retries=0,
                      extra_body={"ignore_eos": True}, **more)


def invoke(given):
    answer = model(given).invoke(MESSAGES)
    expect(answer.content, f"an answer without a text: {answer}")
    used = answer.usage_metadata
    expect(0 < used["output_tokens"] <= TOKENS and used["input_tokens"] > 0, f"usage {used}")
    expect(answer.response_metadata["finish_reason"] in ("stop", "length"), f"{answer.response_metadata}")
    return f"{used['output_tokens']} tokens: {answer.content!r}"


def stream(given):
    whole = model(given).invoke(MESSAGES)
    chunks = list(model(given, stream_usage=True).stream(MESSAGES))
    added = chunks[0]
    for chunk in chunks[1:]:
        added += chunk
    same("text of the stream", added.content, whole.content)
    same("tokens", added.usage_metadata["output_tokens"], whole.usage_metadata["output_tokens"])
    return f"{len(chunks)} chunks"


def together(given):
    want = model(given).invoke(MESSAGES).content
    answers = asyncio.run(model(given).abatch([MESSAGES] * 4))
    same("four answers together", [answer.content for answer in answers], [want] * 4)
    return "four answers together are the one alone"


def completions(given):
    texts = OpenAI(base_url=given.plain, api_key="none", model=given.model, temperature=0, max_tokens=8, max_retries=0)
    want = texts.invoke("Call me")
    expect(want, "no text")
    same("text of the stream", "".join(texts.stream("Call me")), want)
    return f"{want!r}"


@tool
def weather(city: str) -> str:
    """Tells the weather of a city."""
    return f"rain in {city}"


def tools(given):
    plain = model(given).invoke(MESSAGES).usage_metadata["input_tokens"]
    bound = model(given).bind_tools([weather])
    more = bound.invoke(MESSAGES).usage_metadata["input_tokens"] - plain
    expect(more > 0, "the template was not told of the tools")
    call = AIMessage("", tool_calls=[{"name": "weather", "args": {"city": "Bern"}, "id": "call_1"}])
    bound.invoke([*MESSAGES, call, ToolMessage("rain", tool_call_id="call_1")])
    return f"{more} tokens of the prompt tell of the tool; a call and its answer are taken"


CHECKS = {"invoke": invoke, "stream": stream, "async": together, "completions": completions, "tools": tools}

if __name__ == "__main__":
    GIVEN = told.arguments(__doc__, "plain", "model")
    told.run(CHECKS, GIVEN.checks, GIVEN, ["langchain-openai", "langchain-core", "openai"])
