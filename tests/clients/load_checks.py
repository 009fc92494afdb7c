"""Checks of what a load generator counts and measures: that counts agree, that overload costs nothing, and that HTTP costs little."""

import asyncio
import json
import os
import random
import time

import asked
import figures
import load
import served
import wire
from report import Found, Wrong

# Requests of the comparison of counts, at how many connections, and where their draws begin.
COUNTED, CONNECTIONS, SEED = 400, 24, 7

# Answers at the same time and waiting ones of the server that is overloaded, tokens of each answer, and how much more than it can do is
# asked of it.
RUNNING, QUEUED, TOKENS, TIMES = 8, 8, 256, 4
# Connections of the peak: where one ends, another already waits, and the queue has room for all.
PEAK = RUNNING + QUEUED // 2
# Seconds before and of a measurement, how often both are measured in turns, an odd number, and seconds in which the queue must fill.
FILL, WINDOW, ROUNDS, FILLED_WITHIN = 2.0, 8.0, 3, 60
KEPT = 0.95

# Answers of a full queue that are timed, how long each may take, and tokens of the answers that fill it.
FULL, FULL_WITHIN, FULL_TOKENS = 100, 0.05, 400

# The work that server and library both do: requests at a time, tokens of each prompt and answer, tokens of the prompt before a first token.
STREAMS, PROMPT, ANSWER, FIRST = 8, 32, 256, 264
# How often both do it in turns, an odd number, and how often in each turn, as the library's own program does.
TURNS, RUNS = 5, 3
SLOWER, LATER = 0.03, 0.002


def judged(judgement, **measured):
    """What a check found; Wrong if it isn't good."""
    if not judgement.good:
        raise Wrong(judgement.said, measured)
    return Found(judgement.said, measured)


async def counts(kit):
    """Counts of the load generator and of the server agree exactly."""
    async with served.Served(kit, "--running", 4, "--queued", 8) as server:
        before = await server.metrics()
        counted = await load.counted(server, random.Random(SEED), COUNTED, CONNECTIONS)
        await server.until_idle(10)
        different = await load.differences(server, before, counted)
    if different:
        raise Wrong("; ".join(different))
    if not counted.refused:
        raise Wrong(f"expected some of {COUNTED} requests at {CONNECTIONS} connections to be refused, got none")
    said = f"{counted.requests} requests, {counted.told['prompt_tokens_total']} and {counted.told['generation_tokens_total']} tokens, "
    return Found(f"{said}{counted.refused} refused, each as counted by the server", {"requests": counted.requests, **counted.told})


async def rate(server, seconds):
    """Tokens a second that a server generates for some time."""
    readings = []
    for _ in range(2):
        if readings:
            await asyncio.sleep(seconds)
        metrics = await server.metrics()
        readings.append((time.monotonic(), metrics.total("moebius_generation_tokens_total")))
    (begun, before), (ended, after) = readings
    return (after - before) / (ended - begun)


async def full_rate(server):
    """Tokens a second that a server generates while answers wait. A slow server takes longer than a moment to have that many."""
    begun = time.monotonic()
    while not (await server.metrics()).total("moebius_num_requests_waiting"):
        if time.monotonic() - begun > FILLED_WITHIN:
            raise Wrong(f"expected answers that wait within {FILLED_WITHIN} s, got none")
        await asyncio.sleep(0.05)
    return await rate(server, WINDOW)


async def during(busy, work, measurement):
    """Measures after some time of a load, which then ends."""
    going = asyncio.ensure_future(work)
    try:
        await asyncio.sleep(FILL)
        measured = await measurement
        busy.going = False
        await going
        return measured
    finally:
        busy.going = False
        going.cancel()
        measurement.close()


async def overload(kit):
    """A server that is asked for a multiple of what it can do keeps doing what it can, and refuses the rest.

    Its peak is what it does while answers always wait and the queue has room.
    """
    pairs, statuses, waits = [], {}, []
    async with served.Served(kit, "--running", RUNNING, "--queued", QUEUED) as server:
        for _ in range(ROUNDS):
            busy = load.Busy(server, TOKENS)
            peak = await during(busy, busy.closed(PEAK), full_rate(server))
            busy = load.Busy(server, TOKENS)
            now = await during(busy, busy.at_rate(TIMES * peak / TOKENS), full_rate(server))
            pairs.append((peak, now))
            waits += busy.waits
            for status, number in busy.statuses.items():
                statuses[status] = statuses.get(status, 0) + number
        await server.until_idle(10)
    if not statuses.get(429):
        raise Wrong(f"expected refusals under {TIMES} times the capacity, got {statuses}")
    peak, now = figures.typical(pairs, figures.ratio)
    judgement = figures.kept(peak, now, KEPT)
    told = f"; {statuses.get(200, 0)} answered, {statuses[429]} refused and told to wait {min(waits)} to {max(waits)} s"
    return judged(judgement._replace(said=judgement.said + told), peak_tokens_per_s=peak, tokens_per_s=now, turns=pairs,
                  statuses=statuses)


async def full_queue(kit):
    """A full queue refuses at once."""
    times = []
    async with served.Served(kit, "--running", 2, "--queued", 2) as server:
        busy = load.Busy(server, FULL_TOKENS)
        body = {**served.completion("Who"), "max_tokens": 1}

        async def probe():
            # Some come when there is room for a moment, and are answered.
            for _ in range(5):
                lines = await kit.probe(server.address, "POST", asked.TEXT, FULL, 0.01, json.dumps(body))
                times.extend(line["seconds"] for line in lines if line["status"] == 429)
                if len(times) >= FULL:
                    return

        await during(busy, busy.closed(6, 0.02), probe())
    if len(times) < FULL:
        raise Wrong(f"expected {FULL} refusals of a full queue, got {len(times)}")
    return judged(figures.within("a refusal", times, 1, FULL_WITHIN), slowest_s=max(times), median_s=figures.median(times))


async def same_text(kit):
    """The server says what the library says, to the byte."""
    prompt, tokens = "The captain stood at the rail and looked at the sea. He", 64
    said = await kit.moebius_json("generate", "--device", kit.device, "--prompt", prompt, "--max-tokens", tokens, "--temperature", 0)
    async with served.Served(kit, bundled=True) as server:
        reply = await server.answer(asked.TEXT, served.completion(prompt, max_tokens=tokens))
    text = reply["choices"][0]["text"]
    if text != said["text"]:
        raise Wrong(f"expected {said['text']!r}, got {text!r}")
    return Found(f"{reply['usage']['completion_tokens']} tokens of the bundled model agree")


class Beside:
    """Server and library, measured in turns with the same work: for each turn the library's figure and the server's, medians of runs."""

    def __init__(self):
        self.rates, self.firsts, self.streamed = [], [], []

    @classmethod
    async def measured(cls, kit):
        both = cls()
        async with served.Served(kit, "--running", STREAMS, bundled=True) as server:
            ids = await cls.ids(kit, server)
            # The server's cache grows to the size that it keeps, and both kinds of prompt are computed once.
            for salt in ("warm-up 1", "warm-up 2"):
                await cls.together(server, ids, salt)
                await cls.first(server, ids[:FIRST], salt)
            for turn in range(TURNS):
                # The one is the first in one turn, the other in the next.
                if turn % 2:
                    rate, first, streamed = await cls.by_server(server, ids, turn)
                    library = await cls.by_library(kit)
                else:
                    library = await cls.by_library(kit)
                    rate, first, streamed = await cls.by_server(server, ids, turn)
                both.rates.append((library[0], rate))
                both.firsts.append((library[1], first))
                both.streamed.append(streamed)
        return both

    @staticmethod
    async def by_library(kit):
        """The library's tokens a second of requests together, and its seconds to a first token."""
        result = await kit.moebius_json("bench", "engine", "--device", kit.device, "--streams", STREAMS, "--prompt", PROMPT,
                                        "--tokens", ANSWER, "--known", FIRST - 8)
        if not result["verified"]:
            raise Wrong("moebius bench engine: the tokens of a request depend on its company")
        return STREAMS * ANSWER / result["alone_and_together"]["fast_s"], result["cold_and_known"]["slow_s"]

    @classmethod
    async def by_server(cls, server, ids, turn):
        """The server's tokens a second of whole answers, its seconds to a first token, and its tokens a second of streams."""
        rates, firsts = [], []
        for run in range(RUNS):
            rates.append(await cls.together(server, ids, f"{turn} {run}"))
            firsts.append(await cls.first(server, ids[:FIRST], f"{turn} {run}"))
        streamed = await cls.together(server, ids, f"streams {turn}", stream=True)
        return figures.median(rates), figures.median(firsts), streamed

    @staticmethod
    async def ids(kit, server):
        """The tokens of the bundled text that the benchmark of the engine takes, too."""
        with open(os.path.join(kit.tree, "runtime", "model", "text", "moby-dick.txt"), encoding="utf-8") as file:
            text = file.read(8000)
        question = {"model": served.MODEL, "prompt": text, "add_special_tokens": False}
        return (await server.answer("/tokenize", question))["tokens"]

    @staticmethod
    async def together(server, ids, salt, stream=False):
        """Tokens a second of requests that are sent together. They are answered whole, because a client that reads events takes a part of
        the processors on which the server computes; with `stream` it does, and its work is in the figure.
        """
        def body(at):
            prompt = ids[at * PROMPT:(at + 1) * PROMPT]
            more = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
            return served.completion(prompt, max_tokens=ANSWER, ignore_eos=True, cache_salt=f"together {salt}", **more)

        wires = [await wire.Wire.open(server.address) for _ in range(STREAMS)]
        begun = time.perf_counter()
        for at, one in enumerate(wires):
            await one.send(wire.request("POST", asked.TEXT, body(at)))
        replies = await load.all_of(one.reply() for one in wires)
        took = time.perf_counter() - begun
        for one in wires:
            one.close()
        parts = [asked.parts_of(wire.split_events(reply.body.decode())[0])[-1] if stream else reply.json() for reply in replies]
        tokens = [(part.get("usage") or {}).get("completion_tokens") for part in parts]
        if tokens != [ANSWER] * STREAMS:
            raise Wrong(f"expected answers of {ANSWER} tokens each, got {tokens}")
        return STREAMS * ANSWER / took

    @staticmethod
    async def first(server, ids, salt):
        """Seconds to the first token of a stream after a prompt that the cache doesn't know."""
        body = served.completion(ids, max_tokens=2, ignore_eos=True, stream=True, cache_salt=f"first {salt}")
        one = await wire.Wire.open(server.address)
        begun = time.perf_counter()
        await one.send(wire.request("POST", asked.TEXT, body))
        _, headers = await one.head()
        took = None
        async for _, data in one.events(headers):
            if took is None:
                took = time.perf_counter() - begun
                if not json.loads(data)["choices"][0]["text"]:
                    raise Wrong(f"expected a first token with a text, got {data}")
        one.close()
        return took


async def beside(kit):
    """The measurement of server and library, which both of its checks share."""
    if kit.beside is None:
        kit.beside = await Beside.measured(kit)
    return kit.beside


async def speed(kit):
    """HTTP costs few tokens a second."""
    both = await beside(kit)
    library, server = figures.typical(both.rates, figures.ratio)
    judgement = figures.slower(library, server, SLOWER)
    streamed = figures.median(both.streamed)
    said = f"{judgement.said}; {streamed:.0f} as streams, this client's work among it"
    return judged(judgement._replace(said=said), library_tokens_per_s=library, tokens_per_s=server, streamed_tokens_per_s=streamed,
                  turns=both.rates)


async def first_token(kit):
    """HTTP costs little time to the first token."""
    both = await beside(kit)
    library, server = figures.typical(both.firsts, figures.difference)
    return judged(figures.later(library, server, LATER), library_s=library, seconds=server, turns=both.firsts)


CHECKS = {"counts": counts, "same text as the library": same_text, "speed of the library": speed,
          "first token of the library": first_token, "overload": overload, "full queue": full_queue}
