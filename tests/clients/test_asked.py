"""Tests of what a load generator draws and counts."""

import json
import random
import unittest

import asked
import exposition
import served
from report import Wrong

CHAT = asked.Asked(asked.CHAT, served.chat("Who?", logprobs=True), ("Who?",))
TEXT = asked.Asked(asked.TEXT, served.completion(["a", "b"], logprobs=0), ("a", "b"))


def chunk(index, tokens, text, finish=None, usage=None):
    choice = {"index": index, "delta": {"content": text}, "logprobs": {"content": [{}] * tokens}, "finish_reason": finish}
    return {"choices": [choice] if index is not None else [], "usage": usage}


class Draws(unittest.TestCase):
    def test_a_seed_repeats_them(self):
        one, other = ([asked.drawn(draws) for _ in range(50)] for draws in (random.Random(7), random.Random(7)))
        self.assertEqual(one, other)

    def test_all_kinds_are_drawn(self):
        draws = random.Random(7)
        drawn = [asked.drawn(draws) for _ in range(400)]
        self.assertEqual({one.status for one in drawn}, {200, 400, 404})
        good = [one for one in drawn if one.status == 200]
        kinds = {(one.path, one.body["stream"], one.body["n"], len(one.prompts)) for one in good}
        self.assertTrue({(asked.CHAT, True, 2, 1), (asked.TEXT, False, 1, 2), (asked.TEXT, True, 1, 1)} <= kinds, kinds)
        self.assertTrue(all("include_usage" in json.dumps(one.body) for one in good if one.body["stream"]))

    def test_prompts_are_tokenized_as_they_are_sent(self):
        self.assertEqual(CHAT.tokenized(), [{"model": served.MODEL, "messages": CHAT.body["messages"]}])
        self.assertEqual([question["prompt"] for question in TEXT.tokenized()], ["a", "b"])


class Answers(unittest.TestCase):
    def test_a_stream(self):
        parts = [chunk(0, 0, ""), chunk(0, 1, "He"), chunk(0, 1, ""), chunk(0, 1, "re"), chunk(0, 0, "", "length"),
                 chunk(None, 0, "", usage={"completion_tokens": 3})]
        answers, usage = asked.answers_of(CHAT, parts)
        self.assertEqual((answers, usage), ([asked.Answer(3, "Here", "length")], {"completion_tokens": 3}))

    def test_a_whole_response(self):
        ends = {"logprobs": {"tokens": ["x"] * 2}, "finish_reason": "stop"}
        choices = [{"index": at, "text": text, **ends} for at, text in ((1, "b"), (0, "a"))]
        answers, _ = asked.answers_of(TEXT, [{"choices": choices, "usage": {"prompt_tokens": 2}}])
        self.assertEqual([answer.text for answer in answers], ["a", "b"])

    def test_what_is_incomplete(self):
        whole = [chunk(0, 1, "a", "stop"), chunk(None, 0, "", usage={"completion_tokens": 1})]
        for parts in (whole[:1], whole[1:], [chunk(0, 1, "a"), whole[1]], [{"error": {"code": "draining"}}], []):
            with self.subTest(parts), self.assertRaises(Wrong):
                asked.answers_of(CHAT, parts)

    def test_the_mark_of_the_end(self):
        self.assertEqual(asked.parts_of([(None, '{"a": 1}'), (None, "[DONE]")]), [{"a": 1}])
        for events in ([], [(None, "{}")], [(None, "{}"), ("error", '{"error": {}}')]):
            with self.subTest(events), self.assertRaises(Wrong):
                asked.parts_of(events)


class Counted(unittest.TestCase):
    def test_answers_and_failures_are_those_of_the_metrics(self):
        counts = asked.Counts()
        # Two prompts of 3 and 4 tokens with two answers each, one of them without a token.
        answers = [asked.Answer(5, "", "length"), asked.Answer(2, "", "stop"), asked.Answer(0, "", "stop"), asked.Answer(1, "", "stop")]
        counts.answered([3, 4], answers)
        counts.failed(429)
        counts.failed(404)
        before = exposition.Metrics('moebius_request_failures_total{code="404"} 2\nmoebius_prompt_tokens_total 10\n')
        after = {
            'request_failures_total{code="404"}': 3, 'request_failures_total{code="429"}': 1,
            'admission_rejections_total{reason="tokens"}': 1, "prompt_tokens_total": 17, "generation_tokens_total": 8,
            'request_success_total{finished_reason="stop"}': 3, 'request_success_total{finished_reason="length"}': 1,
            "request_prompt_tokens_sum": 14, "request_generation_tokens_sum": 8, "request_generation_tokens_count": 4,
            "time_to_first_token_seconds_count": 3, "inter_token_latency_seconds_count": 5, "e2e_request_latency_seconds_count": 4,
        }
        text = "".join(f"moebius_{name} {value}\n" for name, value in after.items())
        told = asked.told(before, exposition.Metrics(text))
        self.assertEqual(counts.differences(told), [])
        self.assertEqual(counts.refused, 1)
        one_more = exposition.Metrics(text.replace("generation_tokens_total 8", "generation_tokens_total 9"))
        self.assertEqual(counts.differences(asked.told(before, one_more)), ["generation_tokens_total: counted 8, told 9"])

    def test_streams_that_were_left(self):
        counts = asked.Counts()
        counts.answered([3], [asked.Answer(5, "", "length")])
        own = dict(counts.told)
        # Two of at most 400 tokens, of which 2 and 4 were read, and 3 and 7 generated until the server noticed.
        counts.abandoned(10, 2, 400)
        counts.abandoned(20, 4, 400)
        told = {**own, "prompt_tokens_total": 33, "request_failures_total code=499": 2, "generation_tokens_total": 15,
                "time_to_first_token_seconds_count": 3, "inter_token_latency_seconds_count": 4 + 2 + 6}
        self.assertEqual(counts.differences(told), [])
        one_too_few = {**told, "inter_token_latency_seconds_count": 11}
        self.assertEqual(counts.differences(one_too_few), ["inter_token_latency_seconds_count: counted 12, told 11"])
        for wrong, said in ((10, "expected 6 to 799 of 2 streams that were left, told 5"), (805, "told 800")):
            different = counts.differences({**told, "generation_tokens_total": wrong})
            self.assertEqual(len(different), 1)
            self.assertIn(said, different[0])


if __name__ == "__main__":
    unittest.main()
