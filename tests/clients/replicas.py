"""Two servers behind a balancer, of which one is killed under load: every request ends in the right answer, or in an error after which a
client may safely ask again, and then gets it.

The balancer does what nginx does unless told otherwise: a server that can't be reached is passed over for a moment, and a request that was
sent to one that then ends without a word is answered with 502, because a POST isn't repeated for a client.
"""

import asyncio
import collections
import json
import time

import asked
import figures
import load
import served
import wire
from report import Found, Wrong

# Clients at the same time, seconds of the load and before the kill, and tokens of each answer.
CLIENTS, SECONDS, KILL_AFTER, TOKENS = 24, 8.0, 2.5, 48
# Times that a client asks again, and its wait before.
TRIES, PAUSE = 20, 0.1
# Seconds for which a server that could not be reached is passed over.
DOWN = 1.0

GONE = b'{"error":{"message":"the server ended before it answered","type":"server_error","param":null,"code":"bad_gateway"}}'
GATEWAY = (b"HTTP/1.1 502 Bad Gateway\r\ncontent-type: application/json\r\nretry-after: 1\r\nconnection: close\r\n"
           b"content-length: %d\r\n\r\n%s" % (len(GONE), GONE))


class Balancer:
    """A balancer over servers' addresses, from `async with` to its end."""

    def __init__(self, addresses):
        self.addresses, self.turn, self.down, self.tasks = list(addresses), 0, {}, set()

    async def __aenter__(self):
        self.listener = await asyncio.start_server(self.serve, "127.0.0.1", 0, limit=wire.LONGEST)
        self.address = "127.0.0.1:{}".format(self.listener.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_):
        self.listener.close()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def order(self, now):
        """The servers in the order in which they are tried: in turns, those that could not be reached last."""
        self.turn += 1
        turned = [self.addresses[(self.turn + at) % len(self.addresses)] for at in range(len(self.addresses))]
        return sorted(turned, key=lambda address: self.down.get(address, 0) > now)

    async def behind(self):
        """A connection to a server; None if none can be reached."""
        for address in self.order(time.monotonic()):
            try:
                return await wire.Wire.open(address, 1)
            except wire.Broken:
                self.down[address] = time.monotonic() + DOWN
        return None

    async def serve(self, reader, writer):
        """Hands one request on, and its response back as it comes. A response that is cut off is cut off for the client, too."""
        client, behind, task = wire.Wire(reader, writer), None, asyncio.current_task()
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        try:
            head = await client.read(reader.readuntil, b"\r\n\r\n")
            length = int(wire.head(b"HTTP/1.1 0 -\r\n" + head.split(b"\r\n", 1)[1])[1].get("content-length", 0))
            request = head + await client.read(reader.readexactly, length)
            behind = await self.behind()
            if behind is not None:
                await behind.send(request)
                await self.hand_back(behind, client)
            else:
                await client.send(GATEWAY)
        except wire.Broken:
            client.reset()
        finally:
            for one in (client, behind):
                if one is not None:
                    one.close()

    @staticmethod
    async def hand_back(behind, client):
        piece = b""
        try:
            piece = await behind.reader.read(1 << 16)
        except OSError:
            pass  # an end without a word, as below
        if not piece:
            await client.send(GATEWAY)
        while piece:
            await client.send(piece)
            piece = await behind.read(behind.reader.read, 1 << 16)


class Client:
    """What one client counts."""

    def __init__(self, address, expected):
        self.address, self.expected = address, expected
        self.ends = collections.Counter()
        self.longest = 0.0

    async def ask(self, number):
        """Asks until the answer is there. Raises Wrong for a wrong one, an error that says nothing of another try, or no answer at all."""
        text = asked.TEXTS[number % len(asked.TEXTS)]
        begun = time.monotonic()
        for _ in range(TRIES):
            end, said = await self.once(text, stream=number % 2 == 1)
            self.ends[end] += 1
            if end == "answered":
                if said != self.expected[text]:
                    raise Wrong(f"expected {self.expected[text]!r}, got {said!r} without an error")
                self.longest = max(self.longest, time.monotonic() - begun)
                return
            await asyncio.sleep(PAUSE)
        raise Wrong(f"no answer after {TRIES} tries: {dict(self.ends)}")

    async def once(self, text, stream):
        """Asks once; returns how that ended, and the text of a complete answer."""
        body = question(text) | {"stream": stream, "stream_options": {"include_usage": True} if stream else None}
        one = None
        try:
            one = await wire.Wire.open(self.address)
            await one.send(wire.request("POST", asked.TEXT, body, {"connection": "close"}))
            status, headers = await one.head()
            if status != 200:
                load.check_error(status, b"".join([piece async for piece in one.pieces(headers)]))
                if status not in (429, 502, 503) or not headers.get("retry-after", "").isdecimal():
                    raise Wrong(f"expected an answer or an error that may be tried again, got status {status} and {headers}")
                return f"status {status}", None
            if stream:
                parts = asked.parts_of([event async for event in one.events(headers)])
            else:
                parts = [json.loads(b"".join([piece async for piece in one.pieces(headers)]))]
            answers, _ = asked.answers_of(asked.Asked(asked.TEXT, body, (text,)), parts)
            return "answered", answers[0].text
        except wire.Broken:
            return "cut off", None
        finally:
            if one is not None:
                one.close()


def question(text):
    return served.completion(text, max_tokens=TOKENS, ignore_eos=True)


async def expectations(first, second):
    """What both servers say to each text. Raises Wrong where they differ."""
    async def said(server, text):
        return (await server.answer(asked.TEXT, question(text)))["choices"][0]["text"]

    one, other = [await load.all_of(said(server, text) for text in asked.TEXTS) for server in (first, second)]
    if one != other:
        raise Wrong(f"expected the same of both servers, got {one} and {other}")
    return dict(zip(asked.TEXTS, one))


async def one_dies(kit):
    async with served.Served(kit) as first, served.Served(kit) as second:
        expected = await expectations(first, second)
        async with Balancer([first.address, second.address]) as balancer:
            clients = [Client(balancer.address, expected) for _ in range(CLIENTS)]
            end = time.monotonic() + SECONDS

            async def ask(at, client):
                number = at
                while time.monotonic() < end:
                    await client.ask(number)
                    number += CLIENTS + 1

            async def strike():
                await asyncio.sleep(KILL_AFTER)
                second.kill()

            await load.all_of([*(ask(at, client) for at, client in enumerate(clients)), strike()])
        if await first.status("/health/ready") != 200:
            raise Wrong("expected the other server to be ready, got another status")
    ends = sum((client.ends for client in clients), collections.Counter())
    answered, again = ends["answered"], ends.total() - ends["answered"]
    if not again:
        raise Wrong(f"expected requests that the kill interrupts, got {dict(ends)}")
    longest = max(client.longest for client in clients)
    said = f"{answered} requests, all answered right; {again} tries ended in an error and were made again ({dict(ends)}); "
    return Found(f"{said}the longest took {figures.ms(longest)}", {"requests": answered, "again": again, "longest_s": longest, **ends})


CHECKS = {"one of two dies": one_dies}
