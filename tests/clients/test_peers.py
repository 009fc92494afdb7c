"""Tests of what is compared of two servers' answers, and of the table of their speeds."""

import unittest

import peers
from report import PASSED, Verdict, Wrong

PIECES = tuple(f" w{at}" for at in range(peers.TOKENS))


def answers(changed_at=None, tokens=peers.TOKENS, prompt=50):
    """A turn of a program, whose texts are others from a token on."""
    said = [piece if changed_at is None or at < changed_at else " other" for at, piece in enumerate(PIECES)]
    one = peers.Answer("".join(said), tokens, prompt, 0.5, 2.0, tuple(said))
    return {streams: [one] * streams for streams in peers.STREAMS}


class Agreement(unittest.TestCase):
    def test_leading_tokens_count(self):
        for text, want in (("".join(PIECES), peers.COMPARED), (" w0 w1 w2 and", 3), ("w0", 0), ("", 0), (" w0 w1 other w3", 2)):
            self.assertEqual(peers.agreement(PIECES, text), want, text)
        self.assertEqual(peers.agreement((" a", "b"), " abc"), 2)

    def test_same_answers(self):
        for weights in peers.WEIGHTS:
            self.assertEqual(peers.verified([answers()], [answers()], weights), [peers.COMPARED] * peers.STREAMS[-1])

    def test_others(self):
        self.assertEqual(peers.verified([answers()], [answers(5)], "8 bits"), [5] * peers.STREAMS[-1])
        for ours, theirs, weights in (([answers()], [answers(5)], "f32"), ([answers()], [answers(0)], "8 bits"),
                                      ([answers(), answers(70)], [answers()], "f32"), ([answers()], [answers(tokens=7)], "8 bits"),
                                      ([answers()], [answers(prompt=51)], "f32")):
            with self.subTest(weights), self.assertRaises(Wrong):
                peers.verified(ours, theirs, weights)


class Speeds(unittest.TestCase):
    def test_of_turns_the_middle_one(self):
        turns = [{1: [peers.Answer("", 90, 5, first, last)]} for first, last in ((0.1, 3.0), (0.3, 1.0), (0.2, 2.0))]
        self.assertEqual(peers.speed(turns, 1), (45.0, 0.2))

    def test_a_table(self):
        self.assertEqual(peers.table([Verdict("a: b", PASSED, "", figures={"p99_s": 1})]), "")
        row = {"peer": "llama.cpp", "version": "by x 1", "weights": "f32", "streams": 4, "tokens_per_s": 50.0, "peer_tokens_per_s": 40.0,
               "first_s": 0.1, "peer_first_s": 0.25, "agree": [32, 7, 32], "compared": 32}
        lines = peers.table([Verdict("peers: llama.cpp f32", PASSED, "", figures={"rows": [row]})]).splitlines()
        self.assertEqual(lines[2], "| llama.cpp | f32 | 4 | 50.0 | 40.0 | 1.25 | 100.0 ms | 250.0 ms | 32 of 32 (least 7) |")
        self.assertEqual(lines[3:], ["", "llama.cpp: by x 1"])
        self.assertEqual({line.count("|") for line in lines[:3]}, {10})


if __name__ == "__main__":
    unittest.main()
