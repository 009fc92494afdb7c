#!/usr/bin/env python3
"""Takes the place of `moebius` where the kit itself is tried: it answers as `moebius serve` is documented to, in words that mean nothing.

`scripts/clients --moebius tests/clients/stand_in.py` runs the checks against it without a build; it has no metrics but those that are
counted, and its speed says nothing. `main` takes a fault that a check must find: see FAULTS.
"""

import argparse
import asyncio
import json
import os
import signal
import sys

from stand_in_words import CONTEXT, VOCABULARY, Answer, Asked, Form, Refused, following, invalid, parsed, text_of, tokens_of

FAULTS = ("", "miscounts", "breaks streams when told to stop", "takes NaN", "keeps what clients leave", "answers slowly when full",
          "says other words", "keeps memory of answers", "keeps files of answers", "hides that its device is lost",
          "ends well without its device")
# Seconds of a step, bytes of a body at most, and bytes of each answer that are kept by that fault.
STEP, BODY, KEPT = 0.002, 2 << 20, 1 << 20


class Server:
    """The server: one step of all running answers after the other, and what is counted."""

    def __init__(self, options, fault):
        self.options, self.fault = options, fault
        self.running, self.waiting, self.counts, self.open = [], [], {}, 0
        self.draining, self.kept, self.keys, self.memory = False, 0, (), []
        # The file with which its device is lost, as the emulator has it, and whether it is.
        self.gone, self.lost, self.stop = os.environ.get("MOEBIUS_EMULATOR_LOST"), False, asyncio.Event()
        if options.keys:
            with open(options.keys, encoding="utf-8") as file:
                self.keys = file.read().split()

    def count(self, name, amount=1, **labels):
        key = (name, tuple(labels.items()))
        self.counts[key] = self.counts.get(key, 0) + amount

    async def steps(self):
        while True:
            await asyncio.sleep(STEP)
            if self.gone and os.path.exists(self.gone):
                return self.lose()
            gone = [one for one in self.running + self.waiting if one.left]
            self.running = [one for one in self.running if not one.left]
            self.waiting = [one for one in self.waiting if not one.left]
            self.kept += len(gone) if self.fault == "keeps what clients leave" else 0
            while self.waiting and len(self.running) < self.options.running:
                self.running.append(self.waiting.pop(0))
            for one in list(self.running):
                self.step(one)

    def lose(self):
        self.lost = True
        for one in self.running + self.waiting:
            one.updates.put_nowait(None)
        self.running, self.waiting = [], []
        self.stop.set()

    def step(self, one):
        if one.first and not one.said:
            self.count("prompt_tokens_total", len(one.prompt))
        self.count("inter_token_latency_seconds_count" if one.said else "time_to_first_token_seconds_count")
        self.count("generation_tokens_total", 2 if self.fault == "miscounts" and len(one.said) == 3 else 1)
        if one.step():
            self.running.remove(one)
            self.count("request_success_total", finished_reason=one.finish)
            for name in ("e2e_request_latency_seconds_count", "request_generation_tokens_count"):
                self.count(name)
            self.count("request_prompt_tokens_sum", len(one.prompt))
            self.count("request_generation_tokens_sum", len(one.said))
            one.updates.put_nowait(None)
            if self.fault == "keeps memory of answers":
                self.memory.append(b"x" * KEPT)
            elif self.fault == "keeps files of answers":
                os.open(os.devnull, os.O_RDONLY)

    def admit(self, number):
        if self.draining:
            raise Refused(503, "draining", "the server is stopping", after=5)
        if len(self.running) + len(self.waiting) + number > self.options.running + self.options.queued:
            self.count("admission_rejections_total", reason="requests")
            raise Refused(429, "rate_limit_exceeded", "too many requests wait", after=1)

    def metrics(self):
        lines = ["# TYPE moebius_request_success_total counter"]
        for (name, labels), value in self.counts.items():
            pairs = ",".join(f'{label}="{of}"' for label, of in (*labels, ("model_name", self.options.served_name)))
            lines.append(f"moebius_{name}{{{pairs}}} {value}")
        for name, value in (("num_requests_running", len(self.running)), ("num_requests_waiting", len(self.waiting)),
                            ("kv_cache_usage_perc", self.kept / 1000)):
            lines.append(f"moebius_{name} {value}")
        return "\n".join(lines) + "\n"

    def answers(self, body, path):
        asked = Asked(path, body, self.options.served_name)
        if asked.n * len(asked.prompts) > self.options.running:
            raise invalid("prompt", "expected fewer")
        self.admit(asked.n * len(asked.prompts))
        every = [Answer(asked, prompt, choice, choice == 0) for prompt in asked.prompts for choice in range(asked.n)]
        for one in every if self.fault == "says other words" else ():
            one.seed = os.getpid()
        self.waiting += every
        return asked, every


LOST = Refused(500, "engine_failed", "the engine failed")

# A part of the description in OpenAPI, for what draws requests from it.
IDS = {"type": "array", "items": {"type": "integer", "minimum": 0}}
DOCUMENT = {"openapi": "3.1.0", "info": {"title": "Moebius", "version": "0"}, "paths": {
    path: {"post": {"responses": {"200": {"description": "An answer"}}, "requestBody": {"required": True, "content": {
        "application/json": {"schema": {"type": "object", "required": ["model", name], "properties": {
            "model": {"type": "string"}, name: kind, "max_tokens": {"type": ["integer", "null"]}, "stop": {"type": ["string", "null"]},
            "stream": {"type": ["boolean", "null"]}}}}}}}}
    for path, name, kind in (("/v1/completions", "prompt", {"type": "string"}), ("/detokenize", "tokens", IDS))}}


class Connection:
    """One connection, whose requests are answered after each other."""

    def __init__(self, server, reader, writer):
        self.server, self.reader, self.writer = server, reader, writer

    async def serve(self):
        try:
            while await self.request():
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError, asyncio.LimitOverrunError):
            pass  # the client is gone, or too slow
        finally:
            self.writer.close()

    async def request(self):
        """Answers a request; returns whether another may follow."""
        options = self.server.options
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), options.head_time)
        first, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines if ":" in line)}
        try:
            await self.answer(method, path, await self.body(headers, options), headers)
        except Refused as refused:
            self.server.count("request_failures_total", code=refused.status)
            await self.send(refused.status, refused.body, refused.headers)
            if refused.status in (408, 413):
                return False
        return headers.get("connection") != "close"

    async def body(self, headers, options):
        length = int(headers.get("content-length", BODY + 1 if "transfer-encoding" in headers else 0))
        if length > BODY:
            raise Refused(413, "body_too_large", f"expected at most {BODY} bytes")
        try:
            return await asyncio.wait_for(self.reader.readexactly(length), options.body_time)
        except asyncio.TimeoutError as error:
            raise Refused(408, "request_timeout", "expected a body") from error

    async def send(self, status, body, more=None):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"content-length": len(data), "content-type": "application/json", "x-request-id": "1", **(more or {})}
        lines = [f"HTTP/1.1 {status} -", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        self.writer.write("\r\n".join(lines).encode() + data)
        await self.writer.drain()

    async def answer(self, method, path, data, headers):
        server = self.server
        model = {"id": server.options.served_name, "object": "model", "created": 1, "owned_by": "moebius"}
        if server.keys and not path.startswith("/health") and headers.get("authorization", "")[7:] not in server.keys:
            raise Refused(401, "invalid_api_key", "expected a key")
        if path == "/health/ready" and server.draining:
            raise Refused(503, "draining", "the server is stopping", after=5)
        if path.startswith("/health"):
            await self.send(200, {"status": "ready"})
        elif path == "/metrics":
            await self.send(200, server.metrics().encode(), {"content-type": "text/plain"})
        elif path == "/openapi.json":
            await self.send(200, DOCUMENT)
        elif path == "/v1/models":
            await self.send(200, {"object": "list", "data": [model]})
        elif path == f"/v1/models/{model['id']}":
            await self.send(200, model)
        elif method == "POST":
            await self.post(path, data)
        else:
            raise Refused(404, "not_found", f"no path {path}")

    async def post(self, path, data):
        server = self.server
        if server.draining and path != "/tokenize":
            server.admit(1)
        body = parsed(data, server.fault == "takes NaN")
        if path == "/tokenize":
            tokens = Asked(path, body, server.options.served_name).prompts[0]
            return await self.send(200, {"count": len(tokens), "tokens": tokens, "max_model_len": CONTEXT})
        if path == "/detokenize":
            if not all(isinstance(token, int) and 0 <= token < VOCABULARY for token in body.get("tokens") or [-1]):
                raise invalid("tokens", "expected ids of the vocabulary")
            return await self.send(200, {"prompt": text_of(body["tokens"])})
        if server.fault == "answers slowly when full" and len(server.running) == server.options.running:
            await asyncio.sleep(0.2)
        asked, every = server.answers(body, path)
        server.open += 1
        try:
            form = Form(asked, every, server.options.served_name)
            await (self.stream(form) if asked.stream else self.whole(form))
        except (OSError, ConnectionError):
            for one in every:
                one.left = True
            server.count("request_failures_total", code=499)
            raise
        finally:
            server.open -= 1

    async def whole(self, form):
        for one in form.every:
            while await one.updates.get() is not None:
                pass
        if self.tells_loss():
            raise LOST
        await self.send(200, form.whole())

    async def stream(self, form):
        self.writer.write(b"HTTP/1.1 200 -\r\ncontent-type: text/event-stream\r\nx-request-id: 1\r\ntransfer-encoding: chunked\r\n\r\n")
        async for name, data in form.events():
            if self.server.draining and self.server.fault.startswith("breaks"):
                return self.writer.transport.abort()
            if self.tells_loss():
                await self.event("error", json.dumps(LOST.body))
                break
            await self.event(name, json.dumps(data))
        if form.asked.path != "/v1/responses" and not self.tells_loss():
            await self.event(None, "[DONE]")
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    def tells_loss(self):
        return self.server.lost and not self.server.fault.startswith("hides")

    async def event(self, name, data):
        if self.reader.at_eof() or self.writer.is_closing():
            raise ConnectionError("the client left")
        event = (f"event: {name}\n" if name else "") + f"data: {data}\n\n"
        self.writer.write(b"%x\r\n%s\r\n" % (len(event.encode()), event.encode()))
        await self.writer.drain()


async def serve(options, fault):
    server = Server(options, fault)
    steps = asyncio.ensure_future(server.steps())
    host, port = options.address.rsplit(":", 1)
    listener = await asyncio.start_server(lambda reader, writer: Connection(server, reader, writer).serve(), host, int(port), backlog=1024)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, server.stop.set)
    print(json.dumps({"address": "{}:{}".format(*listener.sockets[0].getsockname())}), flush=True)
    await server.stop.wait()
    server.draining = True
    while server.open or server.running or server.waiting:
        await asyncio.sleep(0.01)
    steps.cancel()
    return 70 if server.lost and not fault.startswith("ends well") else 0


def generated(prompt, count):
    said = []
    for _ in range(count):
        said.append(following(prompt + said, None))
    return said


def arguments(words):
    parser = argparse.ArgumentParser()
    for name in ("device", "model", "served-name", "address", "keys", "prompt", "temperature", "streams", "tokens", "known", "dtype",
                 "weights"):
        parser.add_argument(f"--{name}")
    for name, value in (("running", 16), ("queued", 128), ("max-tokens", 0), ("connections", 1024), ("context", CONTEXT)):
        parser.add_argument(f"--{name}", type=int, default=value)
    for name in ("head-time", "body-time", "drain-time"):
        parser.add_argument(f"--{name}", type=float, default=10.0)
    for name in ("json", "experts"):
        parser.add_argument(f"--{name}", action="store_true")
    return parser.parse_args(words)


def main(words, fault=""):
    if fault not in FAULTS:
        raise ValueError(f"expected one of {FAULTS}, got {fault!r}")
    command, *rest = words
    if command == "--version":
        print("moebius 0.0.0 (stand-in)")
    elif command == "generate":
        options = arguments(rest)
        print(json.dumps({"text": text_of(generated(tokens_of(options.prompt), options.max_tokens))}))
    elif command == "bench":
        options = arguments(rest[1:])
        # As long as the steps take here.
        seconds = 1.3 * STEP * int(options.tokens)
        print(json.dumps({"verified": True, "alone_and_together": {"fast_s": seconds}, "cold_and_known": {"slow_s": 1.5 * STEP}}))
    else:
        return asyncio.run(serve(arguments(rest), fault))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
