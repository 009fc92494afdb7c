"""Tests of verdicts, from the lines of other programs to the exit status."""

import json
import unittest

import outside
import report
from report import FAILED, LEFT_OUT, PASSED, Verdict


class Verdicts(unittest.TestCase):
    def test_lines_and_the_last_one(self):
        some = [Verdict("a: b", PASSED, "5 ms"), Verdict("a: c", FAILED, "expected 1, got 2")]
        self.assertEqual([one.line() for one in some], ["passed: a: b: 5 ms", "FAILED: a: c: expected 1, got 2"])
        self.assertEqual(report.summary(some), "1 passed, 1 failed")
        self.assertEqual(report.summary([*some, Verdict("a: d", LEFT_OUT, "none")]), "1 passed, 1 failed, 1 left out")

    def test_status(self):
        passed, failed, left_out = (Verdict("a: b", verdict, "") for verdict in (PASSED, FAILED, LEFT_OUT))
        for verdicts, want in (([passed], 0), ([passed, left_out], 0), ([passed, failed], 1), ([left_out], 1), ([], 1)):
            self.assertEqual(report.status(verdicts), want, verdicts)

    def test_json(self):
        found = report.results({"device": "flex"}, [Verdict("a: b", FAILED, "why", 1.234, {"p99_s": 0.5})])
        self.assertEqual(json.loads(json.dumps(found)), {
            "format": 1, "device": "flex", "passed": 0, "failed": 1, "left_out": 0,
            "checks": [{"name": "a: b", "verdict": "failed", "said": "why", "seconds": 1.23, "figures": {"p99_s": 0.5}}]})


class Faults(unittest.TestCase):
    def test_figures_of_what_is_wrong_are_kept(self):
        wrong = report.Wrong("expected 1, got 2", {"got": 2})
        self.assertEqual((str(wrong), wrong.figures, report.Wrong("none").figures), ("expected 1, got 2", {"got": 2}, {}))


class Lines(unittest.TestCase):
    def test_what_a_client_told(self):
        lines = outside.lines_of('a warning\n{"versions": {"openai": "3.0.0"}}\n'
                                 '{"check": "chat", "good": true, "said": "16 tokens", "seconds": 0.5}\n[1]\n'
                                 '{"check": "n", "good": false, "said": "two", "seconds": 0.1}\n{"check": "st')
        verdicts = report.of_lines("openai", ("chat", "n", "stop"), lines, "1: Killed")
        self.assertEqual([one.verdict for one in verdicts], [PASSED, FAILED, FAILED])
        self.assertEqual(verdicts[0].name, "openai: chat")
        self.assertIn("told nothing of it and ended with 1: Killed", verdicts[2].said)


if __name__ == "__main__":
    unittest.main()
