"""Checks of what a server does while clients, networks and supervisors do wrong. Each is bounded and tells what it measured."""

import asyncio
import json
import os
import resource
import select
import signal
import socket
import time

import asked
import bodies
import figures
import load
import served
import wire
from load_checks import judged
from report import Found, LeftOut, Wrong

# Streams when the server is killed; streams when it is told to stop, and tokens of each.
KILLED, DRAINED, DRAINED_TOKENS = 8, 32, 200
# Seconds in which a killed server must be ready again.
READY_WITHIN = 10

# Clients that leave, how many at a time, those that leave before memory is read, and how much more memory there may be after all.
LEAVING, AT_ONCE, WARM_UP = 1000, 20, 1000
# Seconds in which a server must have noticed that all are gone.
IDLE_WITHIN = 20
SLACK_BYTES, SLACK_PART, SLACK_FILES = 8 << 20, 0.05, 4

# Clients that send slowly, the seconds that the server gives them, and those after which all must be gone.
SLOW, GIVEN, GONE = 200, 2, 5

# A body that nobody may send, and the bytes of it that may be on their way before the refusal.
LARGE, EARLY = 1_000_000_000, 16 << 20

# Connections, those of them that do nothing, and what a probe of readiness may take meanwhile.
CONNECTIONS, IDLE, PROBES = 10_000, 9_000, 300
READY_P99 = 0.1
# Files that a process has open beside its connections.
FILES = 500

# Streams that run when a card is lost, whole answers that wait, and seconds in which the server must have ended.
LOSING, WAITING, LOST_WITHIN = 8, 4, 60
# Seconds in which a server on a card in software must be ready: kernels are compiled, and the command first checks a card with its cases.
CARD_START = 600


async def begin(server, body):
    """Opens a stream and waits for its first text. Returns the connection, and its events after that."""
    one = await wire.Wire.open(server.address)
    await one.send(wire.request("POST", asked.CHAT, body))
    status, headers = await one.head()
    if status != 200:
        raise Wrong(f"expected a stream, got status {status}")
    events = one.events(headers)
    async for _, data in events:
        choices = json.loads(data).get("choices")
        if choices and choices[0]["delta"].get("content"):
            return one, events
    raise Wrong("expected a text, got a stream without any")


async def kill(kit):
    """A server that is killed breaks its streams visibly, and its successor says what it said."""
    question = served.completion("Call me", max_tokens=24)
    async with served.Served(kit) as server:
        before = (await server.answer(asked.TEXT, question))["choices"]
        streams = await load.all_of(begin(server, served.long_stream("Who?")) for _ in range(KILLED))
        server.kill()
        if await server.ended(10) != -signal.SIGKILL:
            raise Wrong(f"expected an end by SIGKILL, got status {server.process.returncode}")
        broken = 0
        for one, events in streams:
            try:
                async for _ in events:
                    pass
            except wire.Broken:
                broken += 1
            one.close()
        port = server.address.rsplit(":", 1)[1]
    if broken != KILLED:
        raise Wrong(f"expected {KILLED} streams that are cut off, got {broken}")
    async with served.Served(kit, port=port) as server:
        ready = server.ready_s
        after = (await server.answer(asked.TEXT, question))["choices"]
    if after != before:
        raise Wrong(f"expected {before} after the restart, got {after}")
    said = f"{broken} streams cut off; ready again on the same port after {figures.ms(ready)}, at most {READY_WITHIN} s expected"
    return judged(figures.Judged(ready <= READY_WITHIN, said), ready_s=ready)


async def drain(kit):
    """A server that is told to stop ends every stream whole, refuses new ones, and exits with 0."""
    async with served.Served(kit, "--drain-time", 120) as server:
        # More streams than run at the same time: the first event of a stream comes while its answer waits.
        opened = []
        for _ in range(DRAINED):
            one = await wire.Wire.open(server.address)
            await one.send(wire.request("POST", asked.CHAT, served.long_stream("Who?", DRAINED_TOKENS)))
            opened.append((one, await one.head()))
        begun = time.monotonic()
        server.terminate()

        async def finish(one, head):
            """Number of the stream's tokens; -1 for one that was cut off."""
            try:
                events = [event async for event in one.events(head[1])]
            except wire.Broken:
                return -1
            finally:
                one.close()
            return asked.parts_of(events)[-1]["usage"]["completion_tokens"]

        async def refused():
            for _ in range(100):
                ready = await wire.call(server.address, "GET", "/health/ready")
                if ready.status != 200:
                    break
                await asyncio.sleep(0.01)
            new = await server.post(asked.CHAT, served.chat("Who?"))
            return [(reply.status, reply.json()["error"]["code"]) for reply in (ready, new)]

        *tokens, codes = await load.all_of([*(finish(one, head) for one, head in opened), refused()])
        status = await server.ended(30)
        took = time.monotonic() - begun
    if tokens != [DRAINED_TOKENS] * DRAINED:
        raise Wrong(f"expected {DRAINED} streams of {DRAINED_TOKENS} tokens, got {sorted(tokens)}, where -1 was cut off")
    if codes != [(503, "draining")] * 2 or status != 0:
        raise Wrong(f"expected 503 draining for a probe and a request, and status 0 at the end, got {codes} and {status}")
    return Found(f"{DRAINED} streams of {DRAINED_TOKENS} tokens whole, none broken, ended {took:.1f} s after SIGTERM with status 0",
                 {"streams": DRAINED, "seconds": took})


async def leave(server, number):
    """A client that leaves in the middle of its stream, in one of two ways."""
    one, _ = await begin(server, served.long_stream(f"Who is {number}?"))
    if number % 2:
        one.reset()
    else:
        one.close()


async def leave_all(server, count):
    for first in range(0, count, AT_ONCE):
        await load.all_of(leave(server, first + number) for number in range(AT_ONCE))
    return await server.until_idle(IDLE_WITHIN)


async def disconnects(kit):
    """Clients that leave give all back that they had.

    As many leave before, because the cache keeps pages of ended answers and grows up to its bound.
    """
    async with served.Served(kit) as server:
        await leave_all(server, WARM_UP)
        memory, files = server.resident(), server.files()
        idle = await leave_all(server, LEAVING)
        await asyncio.sleep(1)
        memory_after, files_after = server.resident(), server.files()
        left = await server.until(WARM_UP + LEAVING, "moebius_request_failures_total", code="499")
        again = (await server.post(asked.CHAT, served.chat("Who?", max_completion_tokens=4))).status
    if left != WARM_UP + LEAVING or again != 200:
        raise Wrong(f"expected {WARM_UP + LEAVING} clients counted as left and an answer after, got {left:g} and status {again}")
    if files_after > files + SLACK_FILES:
        raise Wrong(f"expected {files} open files as before, got {files_after}")
    judgement = figures.back(memory, memory_after, max(SLACK_BYTES, SLACK_PART * memory))
    said = f"{LEAVING} left; no page in use {idle:.2f} s after the last; {files_after} files, {files} before; memory {judgement.said}"
    return judged(judgement._replace(said=said), idle_s=idle, bytes_before=memory, bytes_after=memory_after)


async def dribble(server, begins, seconds):
    """Sends the beginning of a request, and a byte more four times a second; returns what came back, and the seconds until the end."""
    one = await wire.Wire.open(server.address)
    begun = time.monotonic()
    await one.send(begins)
    back = asyncio.ensure_future(one.closed())
    try:
        while not back.done() and time.monotonic() - begun < seconds:
            await asyncio.wait([back], timeout=0.25)
            if not back.done():
                try:
                    await one.send(b"a")
                except wire.Broken:
                    await asyncio.wait([back], timeout=1)
        if not back.done():
            raise Wrong(f"expected the connection to be closed within {seconds} s, got none of that")
        return back.result(), time.monotonic() - begun
    finally:
        back.cancel()
        one.close()


async def slow(kit, option, begins, what, answer):
    """Clients that send slowly are given up, and delay nobody."""
    async with served.Served(kit, option, GIVEN) as server:
        slow_ones = asyncio.ensure_future(load.all_of(dribble(server, begins, GIVEN + GONE) for _ in range(SLOW)))
        try:
            await asyncio.sleep(0.5)
            lines = await kit.probe(server.address, "GET", "/health/ready", 50, 0.02)
            whole = (await server.post(asked.CHAT, served.chat("Who?", max_completion_tokens=4))).status
            ended = await slow_ones
        finally:
            slow_ones.cancel()
    times = [took for _, took in ended]
    others = {back[:40] for back, _ in ended if not back.startswith(answer)}
    if others or whole != 200 or {line["status"] for line in lines} != {200}:
        raise Wrong(f"expected {answer or 'an end without an answer'} for the slow and 200 for others, got {others}, {whole}, {lines[:1]}")
    judgement = figures.within(f"{SLOW} slow {what} given up", times, 1, GIVEN + GONE)
    meanwhile = figures.within("ready meanwhile", [line["seconds"] for line in lines], 0.99, READY_P99)
    both = figures.Judged(judgement.good and meanwhile.good, f"{judgement.said}; {meanwhile.said}")
    return judged(both, slowest_s=max(times), ready_p99_s=figures.percentile([line["seconds"] for line in lines], 0.99))


async def slow_heads(kit):
    return await slow(kit, "--head-time", b"GET /health/live HTTP/1.1\r\nhost: a\r\nx-slow: ", "heads", b"")


async def slow_bodies(kit):
    begins = b"POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{"
    return await slow(kit, "--body-time", begins, "bodies", b"HTTP/1.1 408")


def send_large(address, headers, chunked):
    """Sends a body of zeros until something comes back, and returns its beginning, the bytes sent before, and the seconds that took."""
    host, port = address.rsplit(":", 1)
    lines = [f"POST {asked.TEXT} HTTP/1.1", "host: a", "content-type: application/json", *headers, "", ""]
    piece, sent, back = b"0" * (64 << 10), 0, b""
    if chunked:
        piece = b"10000\r\n" + piece + b"\r\n"
    with socket.create_connection((host, int(port)), timeout=10) as end:
        begun = time.monotonic()
        end.sendall("\r\n".join(lines).encode())
        if not chunked:
            # The refusal of a length that the head tells needs no body: it gets a moment before the first piece.
            select.select([end], [], [], 1)
        rest = piece
        while sent < LARGE and time.monotonic() - begun < 30:
            readable, writable, _ = select.select([end], [end], [], 10)
            try:
                if readable:
                    back = end.recv(1 << 16)
                    break
                if writable:
                    count = end.send(rest)
                    sent, rest = sent + count, rest[count:] or piece
            except OSError:
                break  # a reset in place of an answer; `back` is empty then
        else:
            raise Wrong(f"expected a refusal of a body of {LARGE} bytes within 30 s, got none after {figures.mib(sent)}")
        return back, sent, time.monotonic() - begun


async def large_bodies(kit):
    """A body of 1 GB is refused before much of it was sent."""
    said, measured = [], {}
    async with served.Served(kit) as server:
        memory = server.resident()
        for what, headers, chunked in (("told by the head", [f"content-length: {LARGE}"], False),
                                       ("in chunks", ["transfer-encoding: chunked"], True)):
            back, sent, took = await asyncio.to_thread(send_large, server.address, headers, chunked)
            refused = back.startswith(b"HTTP/1.1 413") or (chunked and not back)
            if not refused or sent > (EARLY if chunked else 0):
                raise Wrong(f"{what}: expected 413 early, got {back[:40]!r} after {figures.mib(sent)}")
            said.append(f"{what}: refused after {figures.mib(sent)} and {figures.ms(took)}")
            measured |= {f"{what} sent_bytes": sent, f"{what} seconds": took}
        grown = server.resident() - memory
        ready = await server.status("/health/ready")
    if ready != 200 or grown > EARLY:
        raise Wrong(f"expected a ready server of about the same size, got status {ready} and {figures.mib(grown)} more")
    return Found("; ".join(said), measured)


async def hostile_bodies(kit):
    """Every hostile body gets 400 that says what is wrong, and harms nobody."""
    wrong, times = [], []
    async with served.Served(kit) as server:
        question = served.completion("Call me", max_tokens=8)
        before = (await server.answer(asked.TEXT, question))["choices"]
        all_of_them = bodies.hostile()
        for what, path, body in all_of_them:
            begun = time.monotonic()
            reply = await server.post(path, body)
            times.append(time.monotonic() - begun)
            try:
                load.check_error(reply.status, reply.body)
                good = reply.status == 400
            except Wrong:
                good = False
            if not good:
                wrong.append(f"{what} at {path}: {reply.status} {reply.body[:120]!r}")
        if wrong:
            raise Wrong(f"expected 400 in OpenAI's form, got {len(wrong)} others: " + "; ".join(wrong))
        after = (await server.answer(asked.TEXT, question))["choices"]
        counted = await server.until(len(all_of_them), "moebius_request_failures_total", code="400")
    if after != before or counted != len(all_of_them):
        raise Wrong(f"expected the same answer as before and {len(all_of_them)} refusals counted, got {after} and {counted:g}")
    return Found(f"{len(all_of_them)} bodies refused with 400, the slowest in {figures.ms(max(times))}", {"slowest_s": max(times)})


def raise_file_limit(wanted):
    """Lets this process, and those that it starts, have so many files open. Raises LeftOut."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise LeftOut(f"{wanted} open files are needed and {hard} allowed (ulimit -Hn)")
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def connect(server, count):
    """Opens connections, a part of them at a time, as the queue of the listener has room for."""
    wires = []
    while len(wires) < count:
        part = min(200, count - len(wires))
        wires += await load.all_of(wire.Wire.open(server.address, 30) for _ in range(part))
    return wires


async def keep_asking(one, number, stop):
    """Asks for short answers on one connection, every ten seconds; returns how many of which status came."""
    statuses = {}
    await asyncio.sleep(number % 100 / 10)
    while not stop.is_set():
        body = served.completion("Who", max_tokens=4, seed=number)
        await one.send(wire.request("POST", asked.TEXT, body))
        status = (await one.reply()).status
        statuses[status] = statuses.get(status, 0) + 1
        try:
            await asyncio.wait_for(stop.wait(), 10)
        except asyncio.TimeoutError:
            pass  # the next request is due
    return statuses


async def many_connections(kit):
    """A probe of readiness is answered soon beside 10,000 connections, of which most do nothing."""
    raise_file_limit(CONNECTIONS + FILES)
    stop = asyncio.Event()
    async with served.Served(kit, "--connections", CONNECTIONS + FILES, "--head-time", 300) as server:
        idle = await connect(server, IDLE)
        # Half of the idle ones have asked for something before.
        for one in idle[::2]:
            await one.send(wire.request("GET", "/health/live"))
            if (await one.reply()).status != 200:
                raise Wrong("expected 200 for /health/live on a new connection, got another status")
        busy = await connect(server, CONNECTIONS - IDLE)
        asking = asyncio.ensure_future(load.all_of(keep_asking(one, at, stop) for at, one in enumerate(busy)))
        try:
            await asyncio.sleep(1)
            lines = await kit.probe(server.address, "GET", "/health/ready", PROBES, 0.04)
            stop.set()
            counts = await asking
        finally:
            asking.cancel()
        files = server.files()
        dropped = sum(one.reader.at_eof() for one in idle)
        for one in idle + busy:
            one.close()
    statuses = {}
    for count in counts:
        for status, number in count.items():
            statuses[status] = statuses.get(status, 0) + number
    if dropped or files < CONNECTIONS or not statuses.keys() <= {200, 429} or {line["status"] for line in lines} != {200}:
        probes = {line["status"] for line in lines}
        raise Wrong(f"expected {CONNECTIONS} open connections, statuses 200 and 429, and probes of 200, got {dropped} idle ones dropped, "
                    f"{files} files, {statuses} and {probes}")
    times = [line["seconds"] for line in lines]
    judgement = figures.within(f"ready beside {CONNECTIONS} connections", times, 0.99, READY_P99)
    return judged(judgement._replace(said=f"{judgement.said}; meanwhile {statuses}"), p99_s=figures.percentile(times, 0.99),
                  slowest_s=max(times))


async def end_of_stream(one, events):
    """How a stream ends: in an error, cut off, or well."""
    name = data = None
    try:
        async for name, data in events:
            pass
    except wire.Broken:
        return "cut off"
    finally:
        one.close()
    if name != "error":
        return "well"
    load.check_error(500, data)
    return "in an error"


async def end_of_answer(server):
    """How a whole answer ends, as `end_of_stream` has it."""
    body = served.chat("Who?", max_completion_tokens=400, ignore_eos=True)
    try:
        reply = await server.post(asked.CHAT, body, seconds=2 * CARD_START)
    except wire.Broken:
        return "cut off"
    if reply.status < 500:
        return f"with status {reply.status}"
    load.check_error(reply.status, reply.body)
    return "in an error"


async def lost_device(kit):
    """A server whose device is lost under load lets no request end well, ends with 70, and its successor says what it said.

    The device is a card in software, whose driver fails from the moment on at which a file is there.
    """
    if not kit.drivers:
        raise LeftOut("no device can be taken from a server here: --drivers names a folder with the drivers of a card in software")
    gone = os.path.join(kit.folder("card"), "gone")
    card = served.Card("cuda:0", {"LD_LIBRARY_PATH": kit.drivers, "CUDA_PATH": kit.drivers, "MOEBIUS_EMULATOR_LOST": gone}, CARD_START)
    question = served.completion("Call me", max_tokens=8)
    async with served.Served(kit, "--running", LOSING, card=card) as server:
        before = (await server.answer(asked.TEXT, question))["choices"]
        streams = await load.all_of(begin(server, served.long_stream("Who?")) for _ in range(LOSING))
        ends = asyncio.ensure_future(load.all_of([*(end_of_stream(one, events) for one, events in streams),
                                                  *(end_of_answer(server) for _ in range(WAITING))]))
        try:
            waiting = await server.until(WAITING, "moebius_num_requests_waiting", LOST_WITHIN)
            with open(gone, "wb"):
                begun = time.monotonic()
            ended = await asyncio.wait_for(ends, LOST_WITHIN)
            status = await server.ended(LOST_WITHIN)
            took = time.monotonic() - begun
        except asyncio.TimeoutError as error:
            raise Wrong(f"not all requests ended within {LOST_WITHIN} s: {server.last_words()}") from error
        finally:
            ends.cancel()
        port = server.address.rsplit(":", 1)[1]
    counts = {end: ended.count(end) for end in sorted(set(ended))}
    if not counts.keys() <= {"in an error", "cut off"} or waiting != WAITING or status != 70:
        raise Wrong(f"expected {LOSING} streams and {WAITING} answers that wait to end in errors or cut off, and status 70 at the end, got "
                    f"{counts}, {waiting:g} that waited, and status {status}: {server.last_words()}")
    os.remove(gone)
    async with served.Served(kit, port=port, card=card) as server:
        after = (await server.answer(asked.TEXT, question))["choices"]
    if after != before:
        raise Wrong(f"expected {before} after the restart, got {after}")
    said = ", ".join(f"{count} {end}" for end, count in counts.items())
    said = f"{LOSING + WAITING} requests ended: {said}; the server ended {took:.1f} s after the loss with status 70"
    return Found(f"{said}; its successor says the same", {"seconds": took, **counts})


CHECKS = {"kill": kill, "drain": drain, "disconnects": disconnects, "slow heads": slow_heads, "slow bodies": slow_bodies,
          "large bodies": large_bodies, "hostile bodies": hostile_bodies, "10000 connections": many_connections,
          "lost device": lost_device}
