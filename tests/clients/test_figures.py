"""Tests of percentiles and judgements."""

import unittest

import figures


class Percentiles(unittest.TestCase):
    def test_the_value_that_a_part_does_not_exceed(self):
        values = list(range(100, 0, -1))
        for part, want in ((0, 1), (0.5, 50), (0.99, 99), (0.991, 100), (1, 100)):
            self.assertEqual(figures.percentile(values, part), want, part)
        self.assertEqual(figures.percentile([7], 0.99), 7)
        with self.assertRaises(ValueError):
            figures.percentile([], 0.5)


class Turns(unittest.TestCase):
    def test_what_was_measured_together_is_compared(self):
        # A clock that falls by a fifth for a turn, and again within one: medians of each side would compare 990 with 800.
        pairs = [(1000, 990), (800, 795), (990, 800)]
        self.assertEqual(figures.typical(pairs, figures.ratio), (1000, 990))
        self.assertEqual(figures.typical([(0.010, 0.013), (0.020, 0.021), (0.015, 0.017)], figures.difference), (0.015, 0.017))
        self.assertEqual(figures.typical([(0, 5)], figures.ratio), (0, 5))
        with self.assertRaises(ValueError):
            figures.typical([(1, 1), (2, 2)], figures.ratio)


class Judgements(unittest.TestCase):
    def test_times(self):
        times = [0.001] * 99 + [0.2]
        self.assertTrue(figures.within("probe", times, 0.99, 0.1).good)
        slowest = figures.within("probe", times, 1, 0.1)
        self.assertFalse(slowest.good)
        self.assertEqual(slowest.said, "probe: the slowest of 100 200.0 ms, at most 100.0 ms expected; median 1.0 ms")

    def test_rates(self):
        self.assertTrue(figures.kept(1000, 950, 0.95).good)
        self.assertFalse(figures.kept(1000, 949, 0.95).good)
        self.assertFalse(figures.kept(0, 0, 0.95).good)
        self.assertTrue(figures.slower(1000, 970, 0.03).good)
        self.assertFalse(figures.slower(1000, 969, 0.03).good)
        self.assertTrue(figures.slower(1000, 1100, 0.03).good)
        self.assertFalse(figures.slower(0, 100, 0.03).good)

    def test_delays_and_memory(self):
        self.assertTrue(figures.later(0.010, 0.0119, 0.002).good)
        self.assertFalse(figures.later(0.010, 0.0121, 0.002).good)
        self.assertIn("+2.1 ms", figures.later(0.010, 0.0121, 0.002).said)
        self.assertTrue(figures.back(100 << 20, 108 << 20, 8 << 20).good)
        self.assertFalse(figures.back(100 << 20, (108 << 20) + 1, 8 << 20).good)

    def test_what_grows(self):
        noise = [(7 * at) % 5 for at in range(27)]
        self.assertTrue(figures.steady("files", [40 + more for more in noise], 4).good)
        # One more every third reading is found below the noise, one burst in the middle is none, and what falls is no growth.
        self.assertFalse(figures.steady("files", [40 + at // 3 + more for at, more in enumerate(noise)], 4).good)
        self.assertTrue(figures.steady("files", [40] * 13 + [4000] + [40] * 13, 0).good)
        self.assertTrue(figures.steady("files", list(range(27, 0, -1)), 0).good)
        slow = figures.steady("memory", [(100 + at) << 20 for at in range(27)], 8 << 20, figures.mib)
        self.assertEqual(slow, (False, "memory 104.0 MiB in the first third, 122.0 MiB in the last, at most 8.0 MiB more expected"))
        with self.assertRaises(ValueError):
            figures.thirds([1, 2])

    def test_counts(self):
        self.assertEqual(figures.differences({"a": 1, "b": 0}, {"a": 1.0}), [])
        self.assertEqual(figures.differences({"a": 1}, {"a": 2, "c": 3}), ["a: counted 1, told 2", "c: counted 0, told 3"])


if __name__ == "__main__":
    unittest.main()
