"""A check of a server under a mixed load for half an hour: nothing grows, and its counters are what the clients counted.

The load comes in laps. After each no answer runs and no page may be in use, all counters are compared, and memory, open files and threads
are read. The readings of the first tenth don't count, in which caches fill. Of the others the median of the last third may be above that
of the first third by the slack of each alone, so that neither one reading nor a burst decides.
"""

import asyncio
import json
import math
import os
import random
import time

import asked
import bodies
import figures
import load
import served
import wire
from load_checks import judged
from report import LeftOut, Wrong

# Minutes of all laps unless told otherwise, the laps, and seconds after each before something is read.
MINUTES, LAPS, SETTLE = 30, 30, 1.0
# Clients, answers at the same time and waiting ones, which are too few for all, and where the draws begin.
CLIENTS, RUNNING, QUEUED, SEED = 16, 8, 8, 11
# Tokens of a stream that is left, after how many of its texts at most, and tokens of an answer in JSON at most.
LEFT_TOKENS, TEXTS_READ, JSON_TOKENS = 400, 12, 96
# Seconds after a lap in which nothing may run any more.
IDLE_WITHIN = 60
# What may be more in the last third: memory by bytes or by this part, files, and threads, which the server keeps for some seconds.
SLACK_BYTES, SLACK_PART, SLACK_FILES, SLACK_THREADS = 8 << 20, 0.02, 4, 8

SIGHTING = {"type": "object", "additionalProperties": False, "required": ["animal", "count"], "properties": {
    "animal": {"enum": ["whale", "shark", "albatross"]}, "count": {"type": "integer", "minimum": 0, "maximum": 99}}}
FORMAT = {"type": "json_schema", "json_schema": {"name": "sighting", "schema": SIGHTING}}


class Mixed:
    """Clients that ask in all ways, and what they count."""

    def __init__(self, server):
        self.server, self.random = server, random.Random(SEED)
        self.counts, self.prompts = asked.Counts(), load.Prompts(server)
        self.hostile = bodies.hostile()
        # Requests that began, those for JSON, and answers in JSON that are whole.
        self.number, self.formed, self.whole = 0, 0, 0

    async def lap(self, seconds):
        """Asks for so long, a request of each kind after the other; a refused client waits for a moment."""
        end = time.monotonic() + seconds

        async def work():
            while time.monotonic() < end:
                kind = KINDS[self.number % len(KINDS)]
                self.number += 1
                if await kind(self) == 429:
                    await asyncio.sleep(load.PAUSE)

        await load.all_of(work() for _ in range(CLIENTS))

    async def ordinary(self):
        """A conversation or texts, whole or as a stream, or a request that is at fault."""
        one = asked.drawn(self.random)
        status, _ = await load.count(self.server, one, await self.prompts.tokens(one), self.counts)
        return status

    async def in_json(self):
        """An answer by a schema, which it must follow unless it is cut."""
        text = self.random.choice(asked.TEXTS)
        body = served.chat(text, temperature=1.0, seed=self.random.randrange(1000), response_format=FORMAT, logprobs=True,
                           max_completion_tokens=JSON_TOKENS)
        one = asked.Asked(asked.CHAT, body, (text,))
        status, answers = await load.count(self.server, one, await self.prompts.tokens(one), self.counts)
        self.formed += len(answers)
        for answer in answers:
            if answer.finish == "stop":
                check_sighting(answer.text)
                self.whole += 1
        return status

    async def leaving(self):
        """A stream that its client leaves in the middle, in one of two ways."""
        text = self.random.choice(asked.TEXTS)
        asked_for = asked.Asked(asked.CHAT, served.long_stream(text, LEFT_TOKENS), (text,))
        prompt = sum(await self.prompts.tokens(asked_for))
        until, resets = self.random.randint(1, TEXTS_READ), self.random.random() < 0.5
        self.counts.requests += 1
        one = await wire.Wire.open(self.server.address)
        try:
            await one.send(wire.request("POST", asked_for.path, asked_for.body))
            status, headers = await one.head()
            if status != 200:
                return self.refused(status, headers, b"".join([piece async for piece in one.pieces(headers)]))
            read = 0
            async for _, data in one.events(headers):
                choices = json.loads(data).get("choices") if data != "[DONE]" else None
                read += bool(choices and choices[0]["delta"].get("content"))
                if read == until:
                    break
            else:
                raise Wrong(f"expected a stream of {LEFT_TOKENS} tokens that goes on, got its end after {read} texts")
            self.counts.abandoned(prompt, read, LEFT_TOKENS)
            if resets:
                one.reset()
            return status
        finally:
            one.close()

    async def at_fault(self):
        """A hostile body."""
        _, path, body = self.random.choice(self.hostile)
        self.counts.requests += 1
        reply = await self.server.post(path, body)
        return self.refused(reply.status, reply.headers, reply.body, 400)

    def refused(self, status, headers, body, expected=429):
        """Counts an error, which is the expected one or says that the queue is full. Raises Wrong."""
        load.check_error(status, body)
        if status == 429:
            load.retry_after(headers)
        elif status != expected:
            raise Wrong(f"expected status {expected} or 429, got {status}: {body[:200]!r}")
        self.counts.failed(status)
        return status


# In their order; a client takes the kind that is due when it asks.
KINDS = (Mixed.ordinary, Mixed.leaving, Mixed.ordinary, Mixed.in_json, Mixed.ordinary, Mixed.at_fault)


def check_sighting(text):
    """Checks that an answer follows its schema. Raises Wrong."""
    try:
        sighting = json.loads(text)
        animals = SIGHTING["properties"]["animal"]["enum"]
        good = sighting.keys() == {"animal", "count"} and sighting["animal"] in animals and type(sighting["count"]) is int
        good = good and 0 <= sighting["count"] <= 99
    except (ValueError, AttributeError):
        good = False
    if not good:
        raise Wrong(f"expected JSON by the schema, got {text!r}")


def judge(readings):
    """Judgements of the readings, each of memory in bytes, files and threads."""
    memory, files, threads = zip(*readings[math.ceil(len(readings) / 10):])
    slack = max(SLACK_BYTES, SLACK_PART * figures.thirds(memory)[0])
    return (figures.steady("memory", memory, slack, figures.mib), figures.steady("files", files, SLACK_FILES),
            figures.steady("threads", threads, SLACK_THREADS))


async def nothing_grows(kit):
    """Memory, files, threads and pages of a server don't grow under a mixed load, and its counters stay those of the clients."""
    if not os.path.isdir("/proc/self/fd"):
        raise LeftOut("memory, files and threads of another process are read in /proc, which isn't here")
    readings = []
    async with served.Served(kit, "--running", RUNNING, "--queued", QUEUED) as server:
        mixed, before = Mixed(server), await server.metrics()
        for lap in range(1, LAPS + 1):
            await mixed.lap(60 * kit.minutes / LAPS)
            # Raises Wrong if a page stays in use.
            await server.until_idle(IDLE_WITHIN)
            different = await load.differences(server, before, mixed.counts)
            if different:
                raise Wrong(f"after lap {lap} of {LAPS}: " + "; ".join(different))
            await asyncio.sleep(SETTLE)
            readings.append((server.resident(), server.files(), server.threads()))
    counts = mixed.counts
    if mixed.number < len(KINDS) or not mixed.whole:
        raise Wrong(f"expected all kinds of requests and whole answers in JSON, got {mixed.number} requests and {mixed.whole} of these")
    judgements = judge(readings)
    said = (f"{counts.requests} requests in {kit.minutes:g} minutes, {counts.refused} refused, {counts.left} streams left, "
            f"{mixed.whole} of {mixed.formed} answers in JSON whole; no page in use after any of {LAPS} laps, all counters as counted; ")
    both = figures.Judged(all(one.good for one in judgements), said + "; ".join(one.said for one in judgements))
    memory, files, threads = zip(*readings)
    return judged(both, requests=counts.requests, refused=counts.refused, left=counts.left, json_answers=mixed.formed,
                  whole_json_answers=mixed.whole, counted=counts.told, memory_bytes=memory, files=files, threads=threads)


CHECKS = {"nothing grows": nothing_grows}
