"""Tests of the judgement of a soak's readings, and of answers in JSON."""

import unittest

import soak
from report import Wrong

# Readings of memory in bytes, files and threads, of which the first tenth is another: caches fill.
FIRST, STILL = (50 << 20, 10, 4), (100 << 20, 12, 9)


def verdicts(readings):
    return [one.good for one in soak.judge([FIRST] * 3 + readings)]


class Readings(unittest.TestCase):
    def test_what_stays_is_good(self):
        self.assertEqual(verdicts([STILL] * 27), [True] * 3)
        burst = (400 << 20, 300, 200)
        self.assertEqual(verdicts([STILL] * 10 + [burst] * 3 + [STILL] * 10 + [burst] * 4), [True] * 3)

    def test_what_grows_is_not(self):
        grown = [[STILL[what] + at * step if what == one else STILL[what] for what in range(3)]
                 for one, step in enumerate((1 << 20, 1, 1)) for at in range(27)]
        for one in range(3):
            self.assertEqual(verdicts(grown[27 * one:27 * one + 27]), [what != one for what in range(3)])

    def test_a_large_process_may_vary_by_its_part(self):
        large = [(10 << 30) + at * (4 << 20) for at in range(27)]
        self.assertEqual(verdicts([(memory, 12, 9) for memory in large]), [True] * 3)


class Answers(unittest.TestCase):
    def test_answers_follow_the_schema(self):
        soak.check_sighting('{"animal": "whale",\n"count": 3}')
        for text in ("", "[]", "3", '{"animal": "whale"}', '{"animal": "dog", "count": 3}', '{"animal": "whale", "count": 100}',
                     '{"animal": "whale", "count": true}', '{"animal": "whale", "count": 3.5}', '{"animal": "whale", "count": 3, "a": 1}'):
            with self.subTest(text), self.assertRaises(Wrong):
                soak.check_sighting(text)


if __name__ == "__main__":
    unittest.main()
