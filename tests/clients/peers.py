"""`moebius serve` beside servers of other projects: the same weights, the same conversations, on the same machine and as many threads.

The programs take turns, each in a process of its own that loads and warms up before. Answers are greedy and of the same length, and are
compared before anything is told: a server that computes in f32 and says something else computes something else. With 8 bits programs round
differently, weights or what they multiply with them, so that there only first tokens must agree. A server whose package isn't installed is
left out.
"""

import asyncio
import functools
import json
import os
import time
from typing import NamedTuple

import asked
import figures
import load
import served
import wire
from report import Found, LeftOut, Wrong

# Conversations at the same time, tokens of each answer, those that are compared, and how often each program is measured.
STREAMS, TOKENS, COMPARED, TURNS = (1, 4, 8), 96, 32, 3
# Tokens that a conversation may have, characters of what its user says, and tokens of an answer before the first that counts.
CONTEXT, SAID, WARM_UP = 512, 300, 8
# Seconds in which a server must have loaded its model, in which all answers must be there, and in which it may end by itself.
START, ANSWERED, END = 300, 600, 10

SYSTEM = "You go on with texts."


class Weights(NamedTuple):
    """What programs read of the folder of models: ours, with these options, and by their names the others that can."""

    ours: str
    options: tuple
    theirs: dict


# With "8 bits" the weights of ours are FP8 (E4M3) and theirs Q8_0; with "Q8_0" both have the values of the same file.
WEIGHTS = {
    "f32": Weights("llama", ("--dtype", "f32"), {"llama.cpp": "f32.gguf", "mistral.rs": "llama"}),
    "8 bits": Weights("llama", ("--dtype", "fp8"), {"llama.cpp": "q8_0.gguf", "mistral.rs": "llama"}),
    "Q8_0": Weights("q8_0.gguf", ("--dtype", "f32", "--weights", "file"), {"llama.cpp": "q8_0.gguf"}),
}
# The environments of the others.
PEERS = {"llama.cpp": "xllamacpp", "mistral.rs": "mistralrs"}
# What a server of another project can't do, in the version that is installed: the numbers of conversations at the same time that it is
# measured with, ours as well, and why not with all.
LIMITED = {("mistral.rs", "8 bits"): ((1,), 'only one conversation at a time: mistral.rs 0.9.5 answers several at once with an error on a '
                                            'processor ("input tensor is not contiguous", in the prompt\'s step)')}


class Answer(NamedTuple):
    """An answer: its text, its tokens and the prompt's, and the seconds to the first and the last of it."""

    text: str
    tokens: int
    prompt_tokens: int
    first_s: float
    last_s: float
    # The texts as they came; none where the program tells only all.
    pieces: tuple = ()


async def by_http(address, bodies):
    """The answers to requests that are sent together, as streams."""
    wires = [await wire.Wire.open(address) for _ in bodies]
    begun = time.perf_counter()

    async def one(connection, body):
        await connection.send(wire.request("POST", asked.CHAT, body))
        status, headers = await connection.head()
        if status != 200:
            refusal = b"".join([piece async for piece in connection.pieces(headers)])
            raise Wrong(f"expected status 200, got {status}: {refusal[:300]!r}")
        pieces, first, usage = [], None, {}
        async for name, data in connection.events(headers):
            if data == "[DONE]":
                continue
            part = json.loads(data)
            if name == "error" or "error" in part:
                raise Wrong(f"an error in a stream: {data[:300]}")
            piece = part["choices"][0]["delta"].get("content") if part["choices"] else None
            if piece:
                first = first or time.perf_counter() - begun
                pieces.append(piece)
            usage = part.get("usage") or usage
        last = time.perf_counter() - begun
        return Answer("".join(pieces), usage.get("completion_tokens"), usage.get("prompt_tokens"), first, last, tuple(pieces))

    try:
        return await load.all_of(one(connection, body) for connection, body in zip(wires, bodies))
    finally:
        for connection in wires:
            connection.close()


class Ours(served.Served):
    """`moebius serve` with a kind of weights."""

    def __init__(self, kit, weights):
        kind = WEIGHTS[weights]
        super().__init__(kit, *kind.options, "--running", STREAMS[-1], "--context", CONTEXT,
                         model=os.path.join(kit.cache, "models", kind.ours))

    async def answers(self, bodies):
        return await by_http(self.address, bodies)


class Peer:
    """Another project's server, from `async with` to its end."""

    def __init__(self, kit, name, weights):
        self.kit, self.name, self.weights, self.process, self.told = kit, name, weights, None, {}

    async def __aenter__(self):
        threads = str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count())
        path = os.path.join(self.kit.cache, "models", WEIGHTS[self.weights].theirs[self.name])
        words = [self.kit.python(PEERS[self.name]), os.path.join(self.kit.here, "peer.py"), self.name, path,
                 "f32" if self.weights == "f32" else "Q8_0", str(self.kit.free_port()), str(STREAMS[-1]), str(CONTEXT), threads]
        variables = {"OMP_NUM_THREADS": threads, "RAYON_NUM_THREADS": threads, "HF_HUB_OFFLINE": "1"}
        if self.weights == "f32":
            # mistral.rs keeps keys and values in f16 otherwise.
            variables["MISTRALRS_CPU_KV_F32"] = "1"
        self.log = self.kit.log_path()
        with open(self.log, "wb") as log:
            pipe = asyncio.subprocess.PIPE
            self.process = await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe, stderr=log, limit=wire.LONGEST,
                                                                env={**os.environ, **variables})
        try:
            self.told = await self.line(START)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_):
        self.process.stdin.close()
        try:
            await asyncio.wait_for(self.process.wait(), END)
        except asyncio.TimeoutError:
            self.process.kill()
            await self.process.wait()

    async def line(self, seconds):
        """The next object that the program tells; other lines are a library's. Raises Wrong."""
        try:
            while line := await asyncio.wait_for(self.process.stdout.readline(), seconds):
                try:
                    told = json.loads(line)
                except ValueError:
                    continue
                if isinstance(told, dict):
                    return told
        except asyncio.TimeoutError as error:
            raise Wrong(f"{self.name} told nothing for {seconds} s: {served.last_words(self.log)}") from error
        raise Wrong(f"{self.name} ended with {await self.process.wait()}: {served.last_words(self.log)}")

    async def answers(self, bodies):
        if "address" in self.told:
            return await by_http(self.told["address"], bodies)
        self.process.stdin.write(json.dumps({"bodies": bodies}).encode() + b"\n")
        await self.process.stdin.drain()
        answers = (await self.line(ANSWERED))["answers"]
        if None in answers:
            raise Wrong(f"{self.name} failed: {served.last_words(self.log)}")
        return [Answer(**one) for one in answers]


def conversations(kit):
    """What the users of all streams say, one beginning of a page each."""
    with open(os.path.join(kit.tree, "runtime", "model", "text", "moby-dick.txt"), encoding="utf-8") as file:
        text = file.read(4 * SAID * (STREAMS[-1] + 1))
    pages = [" ".join(text[at:at + SAID].split()) for at in range(0, len(text), 4 * SAID)]
    return [[{"role": "system", "content": SYSTEM}, {"role": "user", "content": page}] for page in pages]


def body(messages, tokens, salt):
    """A request for an answer of so many tokens. No server may know its beginning: ours tells prompts apart by the salt, and llama.cpp
    keeps none.
    """
    return {"model": served.MODEL, "messages": messages, "temperature": 0, "max_tokens": tokens, "ignore_eos": True, "stream": True,
            "stream_options": {"include_usage": True}, "cache_salt": salt, "cache_prompt": False}


async def together(running, talks, streams, salt):
    """The answers to conversations, so many at the same time. Seconds to the end of an answer count from the first request of all, without
    the time between an answer and the next request.
    """
    answers = []
    for at in range(0, len(talks), streams):
        bodies = [body(talk, TOKENS, f"{salt} {at}") for talk in talks[at:at + streams]]
        begun = max((answer.last_s for answer in answers), default=0)
        some = await asyncio.wait_for(running.answers(bodies), ANSWERED)
        answers += [answer._replace(last_s=begun + answer.last_s) for answer in some]
    return answers


async def turn(program, talks, numbers):
    """The answers of a program that has just been loaded, for each number of streams. With the last number, the largest, all conversations
    are answered, because their texts are compared.
    """
    async with program as running:
        await asyncio.wait_for(running.answers([body(talks[-1], WARM_UP, "warm-up")]), ANSWERED)
        return {streams: await together(running, talks[:-1] if streams == numbers[-1] else talks[:streams], streams, str(streams))
                for streams in numbers}


def agreement(pieces, text):
    """How many of the leading pieces of a text, of those that are compared, are the beginning of another text."""
    agree = 0
    for count in range(1, min(len(pieces), COMPARED) + 1):
        if not text.startswith("".join(pieces[:count])):
            break
        agree = count
    return agree


def verified(ours, theirs, weights):
    """Leading tokens that agree in each conversation. Raises Wrong where the programs didn't do the same."""
    most = max(ours[0])
    reference = ours[0][most]
    for name, turns in (("moebius", ours), ("the other", theirs)):
        for one in turns:
            for streams, answers in one.items():
                prompts = [answer.prompt_tokens for answer in answers]
                expected = [answer.prompt_tokens for answer in (reference if streams == most else reference[:streams])]
                if prompts != expected or {answer.tokens for answer in answers} != {TOKENS}:
                    raise Wrong(f"expected answers of {TOKENS} tokens to prompts of {expected}, {name} gave "
                                f"{[answer.tokens for answer in answers]} to {prompts}")
    for one in ours:
        for answers in one.values():
            if [answer.text for answer in answers] != [answer.text for answer in reference[:len(answers)]]:
                raise Wrong("expected the same of moebius in any company, got different texts")
    agree = [agreement(mine.pieces, other.text) for mine, other in zip(reference, theirs[0][most])]
    # Sums in another order decide between tokens that are as likely to some digits, so that not all texts agree to their ends. With 8 bits
    # the first tokens of most do, where the programs compute the same model. No more is sure with the same Q8_0 either: llama.cpp rounds what
    # it multiplies with the weights to 8 bits, too, and ours doesn't.
    least = COMPARED if weights == "f32" else 1
    if figures.median(agree) < least:
        raise Wrong(f"expected texts of which most have the same first {least} tokens, got {agree}")
    return agree


def speed(turns, streams):
    """Median tokens a second, and median seconds to the first token."""
    rates = [sum(answer.tokens for answer in one[streams]) / max(answer.last_s for answer in one[streams]) for one in turns]
    firsts = [figures.median([answer.first_s for answer in one[streams]]) for one in turns]
    return figures.median(rates), figures.median(firsts)


async def beside(kit, name, weights):
    """A server of another project answers the same conversations, and is measured beside ours."""
    for needed in ("models", PEERS[name]):
        if not os.path.exists(os.path.join(kit.cache, needed, "made-of")):
            raise LeftOut(f"not run: {needed} could not be installed or made here")
    talks = conversations(kit)
    numbers, limit = LIMITED.get((name, weights), (STREAMS, None))
    ours, theirs = [], []
    for number in range(TURNS):
        peer = Peer(kit, name, weights)
        both = [(ours, Ours(kit, weights)), (theirs, peer)]
        for turns, program in both if number % 2 == 0 else reversed(both):
            turns.append(await turn(program, talks, numbers))
    kit.versions[name] = peer.told.get("version")
    agree = verified(ours, theirs, weights)
    rows = []
    for streams in numbers:
        (rate, first), (peer_rate, peer_first) = speed(ours, streams), speed(theirs, streams)
        rows.append({"peer": name, "version": kit.versions[name], "weights": weights, "streams": streams, "limit": limit,
                     "tokens_per_s": rate, "peer_tokens_per_s": peer_rate, "first_s": first, "peer_first_s": peer_first, "agree": agree,
                     "compared": COMPARED})
    said = "; ".join(f"{row['streams']} at once {row['tokens_per_s']:.1f} and {row['peer_tokens_per_s']:.1f} tokens/s, first token "
                     f"{figures.ms(row['first_s'])} and {figures.ms(row['peer_first_s'])}" for row in rows)
    why = f"; {limit}" if limit else ""
    return Found(f"moebius and {name}: {said}; leading tokens that agree: {agree} of {COMPARED}{why}", {"rows": rows})


HEADS = ("beside", "weights", "streams", "tokens/s, ours", "theirs", "ours / theirs", "first token, ours", "theirs", "tokens as ours")


def table(verdicts):
    """The rows of all verdicts as a table in Markdown, the others' versions, and what they can't do; empty without any."""
    lines, versions, limits = [], {}, {}
    for row in (row for verdict in verdicts for row in verdict.figures.get("rows", ())):
        versions[row["peer"]] = row["version"]
        if row["limit"]:
            limits[f"{row['peer']} {row['weights']}"] = row["limit"]
        agree = row["agree"]
        cells = (row["peer"], row["weights"], row["streams"], f"{row['tokens_per_s']:.1f}", f"{row['peer_tokens_per_s']:.1f}",
                 f"{row['tokens_per_s'] / row['peer_tokens_per_s']:.2f}", figures.ms(row["first_s"]), figures.ms(row["peer_first_s"]),
                 f"{figures.median(agree):g} of {row['compared']} (least {min(agree)})")
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    if not lines:
        return ""
    told = [f"{name}: {said}" for name, said in (versions | limits).items()]
    return "\n".join(["| " + " | ".join(HEADS) + " |", "|" + "---|" * len(HEADS), *lines, "", *told])


CHECKS = {f"{name} {weights}": functools.partial(beside, name=name, weights=weights)
          for name in PEERS for weights, kind in WEIGHTS.items() if name in kind.theirs}
