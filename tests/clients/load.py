"""A load generator: requests at a number of connections, or at a rate whatever becomes of them. Bounded in number and in time."""

import asyncio
import json
import time

import asked
import served
import wire
from report import Wrong

# Most requests at a time, whatever the rate.
MOST_AT_ONCE = 2000

# Seconds before a refused request is sent again, and how often all are refused at most.
PAUSE, MOST_REFUSED = 0.05, 100


async def answered(server, one):
    """Sends a request, and returns its status, headers and answers, and its usage; no answers for an error. Raises Broken and Wrong."""
    connection = await wire.Wire.open(server.address)
    try:
        await connection.send(wire.request("POST", one.path, one.body))
        status, headers = await connection.head()
        if status != 200:
            body = b"".join([piece async for piece in connection.pieces(headers)])
            return status, headers, check_error(status, body), None
        if one.body.get("stream"):
            parts = asked.parts_of([event async for event in connection.events(headers)])
        else:
            parts = [json.loads(b"".join([piece async for piece in connection.pieces(headers)]))]
        return status, headers, *asked.answers_of(one, parts)
    finally:
        connection.close()


def check_error(status, body):
    """Checks that a body tells an error in OpenAI's form; returns no answers. Raises Wrong."""
    try:
        error = json.loads(body)["error"]
        good = isinstance(error["message"], str) and isinstance(error["type"], str) and {"param", "code"} <= error.keys()
    except (ValueError, KeyError, TypeError):
        good = False
    if not good:
        raise Wrong(f"status {status}: expected an error in OpenAI's form, got {body[:200]!r}")
    return []


def retry_after(headers):
    """The seconds that a refused client is told to wait. Raises Wrong."""
    value = headers.get("retry-after", "none")
    if not value.isdecimal() or not 1 <= int(value) <= 60:
        raise Wrong(f"retry-after: expected 1 to 60 seconds, got {value}")
    return int(value)


class Prompts:
    """Numbers of tokens of prompts, each asked for once."""

    def __init__(self, server):
        self.server, self.known = server, {}

    async def tokens(self, one):
        counts = []
        for question in one.tokenized():
            key = json.dumps(question)
            if key not in self.known:
                self.known[key] = (await self.server.answer("/tokenize", question))["count"]
            counts.append(self.known[key])
        return counts


async def count(server, one, tokens, counts):
    """Sends a request whose prompts have so many tokens each, and counts what comes; returns the status and the answers, none for an error.

    Raises Wrong for a response that isn't as it must be.
    """
    counts.requests += 1
    status, headers, answers, usage = await answered(server, one)
    if status == 429:
        retry_after(headers)
    elif status != one.status:
        raise Wrong(f"{one.path}: expected status {one.status} or 429, got {status} for {one.body}")
    if status != 200:
        counts.failed(status)
        return status, []
    counts.answered(tokens, answers)
    expected = {"prompt_tokens": sum(tokens), "completion_tokens": sum(answer.tokens for answer in answers)}
    got = {name: usage[name] for name in expected}
    if got != expected:
        raise Wrong(f"usage: expected {expected}, got {got} for {one.body}")
    return status, answers


async def counted(server, random, requests, connections):
    """Sends drawn requests, `connections` at a time, and counts what comes; a refused one is sent again after a moment. Raises Wrong as
    `count` does, and where too many are refused.
    """
    counts, prompts = asked.Counts(), Prompts(server)
    drawn = [asked.drawn(random) for _ in range(requests)]
    lengths = [await prompts.tokens(one) for one in drawn]
    todo = list(zip(drawn, lengths))

    async def work():
        while todo:
            one, tokens = todo.pop()
            status, _ = await count(server, one, tokens, counts)
            if status == 429:
                todo.insert(0, (one, tokens))
                if counts.refused > MOST_REFUSED * requests:
                    raise Wrong(f"{requests} requests were refused {counts.refused} times")
                await asyncio.sleep(PAUSE)

    await all_of(work() for _ in range(connections))
    return counts


async def differences(server, before, counts):
    """What the server counted otherwise since a reading of its metrics, a text for each count. A failed request is counted when its
    connection has taken all of its response, which may be after the client has it, so that a difference gets a moment to go.
    """
    for _ in range(20):
        told = asked.told(before, await server.metrics())
        different = counts.differences(told)
        if not different:
            break
        await asyncio.sleep(0.05)
    return different


async def all_of(works):
    """Runs all of these until they have ended; the first failure ends the others."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Busy:
    """A load that goes on until it is stopped: whole answers of a number of tokens, at a number of connections or at a rate."""

    def __init__(self, server, tokens):
        self.server, self.tokens = server, tokens
        self.statuses, self.waits, self.going, self.number = {}, [], True, 0

    def body(self):
        """A request that no other one shares pages with."""
        self.number += 1
        text = asked.TEXTS[self.number % len(asked.TEXTS)]
        return {**served.completion(text), "max_tokens": self.tokens, "ignore_eos": True, "cache_salt": str(self.number)}

    async def one(self):
        reply = await self.server.post(asked.TEXT, self.body(), seconds=300)
        self.statuses[reply.status] = self.statuses.get(reply.status, 0) + 1
        if reply.status == 429:
            self.waits.append(retry_after(reply.headers))
        elif reply.status != 200:
            raise Wrong(f"expected status 200 or 429, got {reply.status}: {reply.body[:200]!r}")
        return reply.status

    async def closed(self, connections, pause=0.0):
        """A request after the other at each connection; a refused one is followed after a pause."""
        async def work():
            while self.going:
                if await self.one() == 429:
                    await asyncio.sleep(pause)

        await all_of(work() for _ in range(connections))

    async def at_rate(self, rate):
        """So many requests a second, as they would come from many clients that know nothing of each other."""
        begun, tasks = time.monotonic(), set()
        try:
            while self.going:
                due = int(rate * (time.monotonic() - begun)) + 1
                while self.number < due and len(tasks) < MOST_AT_ONCE:
                    tasks.add(asyncio.ensure_future(self.one()))
                    await asyncio.sleep(0)
                ended = {task for task in tasks if task.done()}
                tasks -= ended
                for task in ended:
                    task.result()
                await asyncio.sleep(0.002)
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
