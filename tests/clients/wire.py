"""A client of HTTP/1.1 on asyncio's streams that can also misbehave: it sends what it is told, byte for byte, may leave at any moment, and
tells a response that was cut off from one that is complete.
"""

import asyncio
import json
import socket
import struct
from typing import NamedTuple

# Longest head of a response, and longest line of an event.
LONGEST = 1 << 20


class Broken(Exception):
    """A connection that ended before its response was complete, or could not be opened."""


class Reply(NamedTuple):
    """A whole response."""

    status: int
    headers: dict
    body: bytes

    def json(self):
        return json.loads(self.body)


def request(method, path, body=None, headers=None):
    """The bytes of a request; a body that isn't bytes is written as JSON."""
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
    fields = {"host": "127.0.0.1"}
    if body is not None:
        fields |= {"content-type": "application/json", "content-length": str(len(body))}
    fields |= headers or {}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    return "\r\n".join(lines).encode() + (body or b"")


def head(data):
    """The status and the headers, with names in lower case, of the head of a response."""
    first, *lines = data.decode("latin-1").split("\r\n")
    fields = [line.split(":", 1) for line in lines if ":" in line]
    return int(first.split(" ", 2)[1]), {name.strip().lower(): value.strip() for name, value in fields}


def split_events(text):
    """The complete events at the beginning of a stream's text, each as its name and its data, and the rest of the text."""
    *whole, rest = text.split("\n\n")
    events = []
    for event in whole:
        lines = [line.split(":", 1) for line in event.split("\n") if ":" in line]
        fields = {name: value.removeprefix(" ") for name, value in lines}
        # A comment, which keeps the connection open, has no data.
        if "data" in fields:
            events.append((fields.get("event"), fields["data"]))
    return events, rest


class Wire:
    """A connection."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, address, seconds=10):
        host, port = address.rsplit(":", 1)
        try:
            return cls(*await asyncio.wait_for(asyncio.open_connection(host, int(port), limit=LONGEST), seconds))
        except (OSError, asyncio.TimeoutError) as error:
            raise Broken(f"no connection: {error!r}") from error

    async def send(self, data):
        try:
            self.writer.write(data)
            await self.writer.drain()
        except OSError as error:
            raise Broken(f"sending: {error!r}") from error

    async def read(self, how, *arguments):
        """Reads by one of the reader's functions. Raises Broken at an early end."""
        try:
            return await how(*arguments)
        except (OSError, asyncio.IncompleteReadError) as error:
            raise Broken(f"reading: {error!r}") from error

    async def head(self):
        """The status and the headers of the next response."""
        return head(await self.read(self.reader.readuntil, b"\r\n\r\n"))

    async def pieces(self, headers):
        """The pieces of a body as they come."""
        if headers.get("transfer-encoding") == "chunked":
            while True:
                size = int((await self.read(self.reader.readuntil, b"\r\n")).split(b";")[0], 16)
                piece = await self.read(self.reader.readexactly, size + 2)
                if size == 0:
                    return
                yield piece[:-2]
        elif "content-length" in headers:
            yield await self.read(self.reader.readexactly, int(headers["content-length"]))
        else:
            yield await self.read(self.reader.read)

    async def reply(self):
        """The whole next response."""
        status, headers = await self.head()
        return Reply(status, headers, b"".join([piece async for piece in self.pieces(headers)]))

    async def events(self, headers):
        """The events of a stream as they come, each as its name and its data."""
        rest = ""
        async for piece in self.pieces(headers):
            found, rest = split_events(rest + piece.decode())
            for event in found:
                yield event

    async def closed(self):
        """Waits until the other side closes or resets the connection, and returns what came before."""
        back = b""
        try:
            while piece := await self.reader.read(1 << 16):
                back += piece
        except OSError:
            pass  # a reset is an end
        return back

    def close(self):
        self.writer.close()

    def reset(self):
        """Ends the connection at once by a reset, as when a client's machine goes away."""
        end = self.writer.get_extra_info("socket")
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


async def call(address, method, path, body=None, headers=None, seconds=60):
    """Sends a request on a connection of its own, and returns the whole response. Raises Broken."""
    wire = await Wire.open(address)
    try:
        await wire.send(request(method, path, body, {"connection": "close", **(headers or {})}))
        return await asyncio.wait_for(wire.reply(), seconds)
    except asyncio.TimeoutError as error:
        raise Broken(f"{method} {path}: no whole response within {seconds} s") from error
    finally:
        wire.close()
