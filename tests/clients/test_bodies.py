"""Tests of the hostile bodies: each is one that a careful server has to refuse, and they are of all the kinds that are promised."""

import json
import unittest

import bodies
import stand_in_words


class Bodies(unittest.TestCase):
    def test_each_is_another_one(self):
        all_of_them = bodies.hostile()
        self.assertEqual(len({(one.path, one.body) for one in all_of_them}), len(all_of_them))
        self.assertEqual(len({(one.path, one.what) for one in all_of_them}), len(all_of_them))

    def test_all_kinds_are_there(self):
        words = " ".join(one.what for one in bodies.hostile())
        for kind in ("100,000 deep", "lone surrogate", "no encoding", "NaN", "negative", "twice"):
            self.assertIn(kind, words)
        self.assertTrue(any(one.body.count(b"[") >= 100_000 for one in bodies.hostile()))

    def test_a_strict_reader_refuses_them(self):
        for what, path, body in bodies.hostile():
            with self.subTest(f"{what} at {path}"), self.assertRaises(stand_in_words.Refused) as refused:
                value = stand_in_words.parsed(body, False)
                if path == "/detokenize":
                    raise stand_in_words.invalid("tokens", "as the server checks")
                stand_in_words.Asked(path, value, "moebius")
            self.assertIn(refused.exception.status, (400, 404))

    def test_without_its_fault_a_body_is_read(self):
        body = bodies.with_field('"seed":1')
        self.assertEqual(stand_in_words.parsed(body, False), json.loads(body))
        stand_in_words.Asked(bodies.CHAT, stand_in_words.parsed(bodies.content(b"Who"), False), "moebius")


if __name__ == "__main__":
    unittest.main()
