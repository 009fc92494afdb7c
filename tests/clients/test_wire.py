"""Tests of requests, responses and streams, as bytes in memory."""

import asyncio
import unittest

import wire


def fed(data, ended=True):
    """A connection on which these bytes have come."""
    reader = asyncio.StreamReader(limit=wire.LONGEST)
    reader.feed_data(data)
    if ended:
        reader.feed_eof()
    return wire.Wire(reader, None)


def reply(data):
    async def read():
        return await fed(data).reply()

    return asyncio.run(read())


def events(data):
    async def read():
        one = fed(data)
        _, headers = await one.head()
        return [event async for event in one.events(headers)]

    return asyncio.run(read())


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Messages(unittest.TestCase):
    def test_requests(self):
        self.assertEqual(wire.request("GET", "/a"), b"GET /a HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        posted = wire.request("POST", "/a", {"b": 1}, {"x": "y"})
        self.assertTrue(posted.endswith(b'content-length: 8\r\nx: y\r\n\r\n{"b": 1}'))
        self.assertTrue(wire.request("POST", "/a", b"\xff").endswith(b"content-length: 1\r\n\r\n\xff"))

    def test_bodies(self):
        got = reply(b"HTTP/1.1 429 Too Many\r\nRetry-After: 3\r\nContent-Length: 2\r\n\r\n{}more")
        self.assertEqual((got.status, got.headers["retry-after"], got.json()), (429, "3", {}))
        self.assertEqual(reply(CHUNKED + b"3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n").body, b"abc0123456789")
        self.assertEqual(reply(b"HTTP/1.1 200 OK\r\n\r\nto the end").body, b"to the end")

    def test_what_is_cut_off(self):
        for data in (b"", b"HTTP/1.1 200", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabc", CHUNKED, CHUNKED + b"3\r\nab",
                     CHUNKED + b"3\r\nabc\r\n"):
            with self.subTest(data), self.assertRaises(wire.Broken):
                reply(data)


class Events(unittest.TestCase):
    def test_events_go_over_chunks(self):
        pieces = (b": alive\n\n", b"data: 1\n\nevent: er", b"ror\nda", b"ta: {\"a\": \"b: c\"}\n", b"\ndata: [DONE]\n\n")
        body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
        want = [(None, "1"), ("error", '{"a": "b: c"}'), (None, "[DONE]")]
        self.assertEqual(events(CHUNKED + body + b"0\r\n\r\n"), want)
        with self.assertRaises(wire.Broken):
            events(CHUNKED + body)

    def test_the_rest_waits(self):
        self.assertEqual(wire.split_events("data: 1\n\ndata: 2"), ([(None, "1")], "data: 2"))


if __name__ == "__main__":
    unittest.main()
