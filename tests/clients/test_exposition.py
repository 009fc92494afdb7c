"""Tests of reading metrics."""

import math
import unittest

import exposition

TEXT = r"""# HELP moebius_request_success_total Answers that ended, by the reason.
# TYPE moebius_request_success_total counter
moebius_request_success_total{finished_reason="stop",model_name="a \"b\", c"} 3
moebius_request_success_total{finished_reason="length",model_name="a \"b\", c"} 4
# TYPE moebius_num_requests_running gauge
moebius_num_requests_running{model_name="x\\y\nz"} 0
# TYPE moebius_time_to_first_token_seconds histogram
moebius_time_to_first_token_seconds_bucket{le="+Inf"} 7
moebius_time_to_first_token_seconds_sum 1.5e-3
moebius_time_to_first_token_seconds_count 7 1700000000
odd NaN
"""


class Reading(unittest.TestCase):
    def test_samples_and_types(self):
        metrics = exposition.Metrics(TEXT)
        self.assertEqual(metrics.types["moebius_time_to_first_token_seconds"], "histogram")
        self.assertEqual(metrics.samples[0].labels, {"finished_reason": "stop", "model_name": 'a "b", c'})
        self.assertEqual(metrics.samples[2].labels, {"model_name": "x\\y\nz"})
        self.assertEqual(metrics.samples[3].labels, {"le": "+Inf"})
        self.assertEqual(metrics.total("moebius_time_to_first_token_seconds_sum"), 0.0015)
        self.assertTrue(math.isnan(metrics.samples[-1].value))

    def test_sums(self):
        metrics = exposition.Metrics(TEXT)
        name = "moebius_request_success_total"
        self.assertEqual(metrics.total(name), 7)
        self.assertEqual(metrics.total(name, finished_reason="stop"), 3)
        self.assertEqual(metrics.total(name, finished_reason="other"), 0)
        self.assertEqual(metrics.total("none"), 0)
        self.assertEqual(metrics.by(name, "finished_reason"), {"length": 4, "stop": 3})
        self.assertEqual(metrics.by("moebius_num_requests_running", "model_name"), {})

    def test_what_is_no_metric(self):
        for text in ("1abc 2", "abc", 'abc{a=b} 1', 'abc{a="b"', 'abc{a="b" c="d"} 1', "abc x"):
            with self.subTest(text), self.assertRaises(ValueError):
                exposition.Metrics(text)

    def test_the_committed_list(self):
        text = "# Metrics: name, type, labels.\na_total\tcounter\treason\nb\thistogram\t\n"
        self.assertEqual(exposition.listed(text), {"a_total": "counter", "b": "histogram"})
        self.assertEqual(exposition.labelled(text), {"a_total"})


if __name__ == "__main__":
    unittest.main()
