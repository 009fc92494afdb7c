"""Tests of what is compared of two servers' answers, and of the table of their speeds."""

import asyncio
import os
import re
import tempfile
import unittest
from types import SimpleNamespace

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
        for weights in ("8 bits", "Q8_0"):
            self.assertEqual(peers.verified([answers()], [answers(5)], weights), [5] * peers.STREAMS[-1])
        for ours, theirs, weights in (([answers()], [answers(5)], "f32"), ([answers()], [answers(0)], "8 bits"),
                                      ([answers()], [answers(0)], "Q8_0"), ([answers()], [answers(prompt=51)], "Q8_0"),
                                      ([answers(), answers(70)], [answers()], "f32"), ([answers()], [answers(tokens=7)], "8 bits"),
                                      ([answers()], [answers(prompt=51)], "f32")):
            with self.subTest(weights), self.assertRaises(Wrong):
                peers.verified(ours, theirs, weights)


class Programs(unittest.TestCase):
    KIT = SimpleNamespace(cache="cache", device="flex")

    def test_what_ours_reads(self):
        for weights, model, said in (("f32", "llama", "--dtype f32 "), ("8 bits", "llama", "--dtype fp8 "),
                                     ("Q8_0", "q8_0.gguf", "--dtype f32 --weights file ")):
            words = " ".join(map(str, peers.Ours(self.KIT, weights).options))
            self.assertTrue(words.startswith(f"--model {os.path.join('cache', 'models', model)} {said}--running "), words)

    def test_q8_0_is_one_file(self):
        kind = peers.WEIGHTS["Q8_0"]
        self.assertEqual(kind.theirs, {"llama.cpp": kind.ours})
        self.assertNotIn("mistral.rs Q8_0", peers.CHECKS)


class Program:
    """Takes the place of a program: it notes what it is asked together, and so many requests take as many seconds."""

    def __init__(self):
        self.asked = []

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        pass

    async def answers(self, bodies):
        self.asked.append([(body["messages"], body["cache_salt"]) for body in bodies])
        return [peers.Answer(body["messages"], peers.TOKENS, 50, 0.5, float(len(bodies))) for body in bodies]


class Turns(unittest.TestCase):
    TALKS = [f"talk {at}" for at in range(peers.STREAMS[-1])]

    def turn(self, numbers):
        """The numbers of requests that were asked together after the warm-up, and the answers."""
        program = Program()
        answers = asyncio.run(peers.turn(program, [*self.TALKS, "warm-up"], numbers))
        self.assertEqual(program.asked[0], [("warm-up", "warm-up")])
        salts = [{salt for _, salt in some} for some in program.asked]
        self.assertTrue(all(len(one) == 1 for one in salts))
        self.assertEqual(len(set.union(*salts)), len(salts), "a prompt may know the beginning of an earlier one")
        return [len(some) for some in program.asked[1:]], answers

    def test_as_many_at_once_as_said(self):
        together, answers = self.turn(peers.STREAMS)
        self.assertEqual(together, list(peers.STREAMS))
        self.assertEqual({streams: [answer.text for answer in some] for streams, some in answers.items()},
                         {streams: self.TALKS[:streams] for streams in peers.STREAMS})

    def test_all_are_answered_with_fewer_at_once(self):
        together, answers = self.turn((1,))
        self.assertEqual(together, [1] * peers.STREAMS[-1])
        self.assertEqual([answer.text for answer in answers[1]], self.TALKS)
        self.assertEqual(peers.speed([answers], 1), (float(peers.TOKENS), 0.5))

    def test_limits_are_of_the_pinned_versions(self):
        for (name, weights), (numbers, why) in peers.LIMITED.items():
            self.assertIn(f"{name} {weights}", peers.CHECKS)
            self.assertTrue(set(numbers) < set(peers.STREAMS))
            with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{peers.PEERS[name]}.txt"), encoding="utf-8") as file:
                version = re.search(r"==(\S+)", file.read())[1]
            self.assertIn(f"{name} {version} ", why, "another version may be able to: try it with all")

    def test_an_answer_that_is_missing(self):
        class Failed(peers.Peer):
            async def line(self, seconds):
                return {"answers": [None]}

        async def drain():
            pass

        peer = Failed(None, "mistral.rs", "8 bits")
        peer.process = SimpleNamespace(stdin=SimpleNamespace(write=lambda _: None, drain=drain))
        with tempfile.NamedTemporaryFile() as log:
            peer.log = log.name
            with self.assertRaisesRegex(Wrong, "mistral.rs failed"):
                asyncio.run(peer.answers([{}]))


class Speeds(unittest.TestCase):
    def test_of_turns_the_middle_one(self):
        turns = [{1: [peers.Answer("", 90, 5, first, last)]} for first, last in ((0.1, 3.0), (0.3, 1.0), (0.2, 2.0))]
        self.assertEqual(peers.speed(turns, 1), (45.0, 0.2))

    def test_a_table(self):
        self.assertEqual(peers.table([Verdict("a: b", PASSED, "", figures={"p99_s": 1})]), "")
        row = {"peer": "llama.cpp", "version": "by x 1", "weights": "f32", "streams": 4, "limit": None, "tokens_per_s": 50.0,
               "peer_tokens_per_s": 40.0, "first_s": 0.1, "peer_first_s": 0.25, "agree": [32, 7, 32], "compared": 32}
        lines = peers.table([Verdict("peers: llama.cpp f32", PASSED, "", figures={"rows": [row]})]).splitlines()
        self.assertEqual(lines[2], "| llama.cpp | f32 | 4 | 50.0 | 40.0 | 1.25 | 100.0 ms | 250.0 ms | 32 of 32 (least 7) |")
        self.assertEqual(lines[3:], ["", "llama.cpp: by x 1"])
        self.assertEqual({line.count("|") for line in lines[:3]}, {10})
        limited = row | {"weights": "8 bits", "streams": 1, "limit": "only one"}
        lines = peers.table([Verdict("peers: x", PASSED, "", figures={"rows": [row, limited]})]).splitlines()
        self.assertEqual(lines[4:], ["", "llama.cpp: by x 1", "llama.cpp 8 bits: only one"])


if __name__ == "__main__":
    unittest.main()
