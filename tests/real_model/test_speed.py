"""Tests of what speed.py measures, compares and tells, without any program."""

import argparse
import json
import pathlib
import unittest

import gguf_files
import speed


def given(**changed):
    paths = {"q4_1": "/q4_1.gguf", "q8_0": "/q8_0.gguf", "folders": pathlib.Path("/folders")}
    return argparse.Namespace(moebius="/moebius", device="flex", prompt_tokens=512, tokens=128, only="", **paths, **changed)


def row(program="moebius", weights="f32", batch=1, speeds=()):
    made = speed.Row(program, "llama", weights, batch, [])
    made.runs = [{"prefill_tokens_per_s": prefill, "decode_tokens_per_s": decode} for prefill, decode in speeds]
    return made


class Words:
    """A tokenizer whose tokens are words, but that reads `ab` as one word where a piece begins with it."""

    def __call__(self, text):
        return {"input_ids": ["ab!" if text.startswith("ab") and at == 0 else word for at, word in enumerate(text.split())]}

    def decode(self, ids):
        return " ".join(ids)


class Rows(unittest.TestCase):
    def test_each_work_has_ours_and_llama_cpp_with_the_same_file(self):
        measured = speed.rows(given(), "/made")
        pairs = [(row.program, *row.work) for row in measured]
        self.assertEqual(len(pairs), len(set(pairs)))
        for model in ("llama", "mixtral-split"):
            for weights in ("f32", "bf16", "Q8_0", "Q4_K"):
                for batch in (1, 8):
                    one, other = [row for row in measured if row.work == (model, weights, batch)][:2]
                    self.assertEqual((one.program, other.program), ("moebius", "llama.cpp"))
                    path = one.command[one.command.index("--model") + 1]
                    self.assertIn(path, other.command)
                    self.assertEqual(path, str(gguf_files.path_of(model, weights, given(), "/made")))
        beside = {(row.program, *row.work) for row in measured if row.program in ("transformers", "mistral.rs")}
        self.assertEqual(beside, {(*what, 1) for what in speed.WITH_FOLDERS})

    def test_files_are_given_or_lie_in_the_folder(self):
        for model, weights, want in (("llama", "Q8_0", "/q8_0.gguf"), ("llama", "f32", "/made/llama.f32.gguf"),
                                     ("mixtral-split", "Q8_0", "/made/mixtral-split.Q8_0.gguf")):
            self.assertEqual(gguf_files.path_of(model, weights, given(), "/made"), pathlib.Path(want))

    def test_weights_stay_as_the_file_has_them(self):
        commands = {row.weights: " ".join(row.command) for row in speed.rows(given(), "/made") if row.is_ours}
        kept = "--weights file --kv-cache-dtype f16"
        for weights, want in (("f32", "--dtype f32"), ("bf16", kept), ("Q8_0", kept), ("Q4_K", kept), (speed.IN_BF16, "--dtype bf16")):
            self.assertIn(want, commands[weights])

    def test_some_rows_bring_along_what_they_are_compared_with(self):
        chosen = argparse.Namespace(**vars(given()) | {"only": "llama.cpp mixtral-split Q4_K, batch 8"})
        names = [row.name for row in speed.rows(chosen, "/made")]
        self.assertEqual(names, ["moebius mixtral-split f32, batch 8", "moebius mixtral-split Q4_K, batch 8",
                                 "llama.cpp mixtral-split Q4_K, batch 8"])
        self.assertEqual(speed.rows(argparse.Namespace(**vars(given()) | {"only": "nothing"}), "/made"), [])

    def test_answers_of_a_batch_are_shorter_and_long_enough_to_compare(self):
        for tokens, want in ((128, (128, 64)), (40, (40, speed.COMPARED))):
            asked = argparse.Namespace(tokens=tokens)
            self.assertEqual(tuple(speed.tokens_of(asked, batch) for batch in speed.BATCHES), want)


class Prompts(unittest.TestCase):
    def test_pieces_that_are_read_otherwise_are_left_out(self):
        text = "a b ab c d e f g"
        self.assertEqual(speed.prompts_of(Words(), text, 2, 3), ["a b", "d e", "f g"])
        with self.assertRaises(SystemExit) as ended:
            speed.prompts_of(Words(), text, 2, 4)
        self.assertIn("got 3", str(ended.exception))


class Results(unittest.TestCase):
    def result(self, batch, tokens=64, **changed):
        answers = [{"ids": list(range(tokens))}] * batch
        return {"prompt_tokens": 512 * batch, "answers": answers, "prefill_tokens_per_s": 5.0, "decode_tokens_per_s": 2.0} | changed

    def test_faults(self):
        good = ((row(), 1, {}), (row(batch=8), 8, {}), (row("llama.cpp", "Q8_0"), 1, {"tokens": 8}))
        for of, batch, changed in good:
            self.assertEqual(speed.fault(of, self.result(batch, **changed), given()), "")
        for of, result, want in ((row(batch=8), self.result(1), "took 512 tokens of 1 prompts, where 8 have 4096"),
                                 (row(), self.result(1, tokens=31), "a text ends after 31 tokens, too few to compare"),
                                 (row(), self.result(1, decode_tokens_per_s=None), "a text ended before all had begun")):
            self.assertEqual(speed.fault(of, result, given()), want)

    def test_leading_tokens_agree(self):
        expected = ["a", "b", "c"]
        for answer, want in (({"ids": ["a", "b", "c", "d"]}, 3), ({"ids": ["a", "x", "c"]}, 1), ({"ids": ["a"]}, 1), ({"ids": []}, 0),
                             ({"text": "a b c and more"}, 3), ({"text": "a b"}, 2), ({"text": "x"}, 0)):
            self.assertEqual(speed.agreement(Words(), answer, expected), want, answer)


class Comparisons(unittest.TestCase):
    def test_what_ran_in_the_same_turn_is_compared(self):
        # A clock that falls after the first turn: medians of each side would compare 60 with 60.
        ours, theirs = row(speeds=[(100, 1), (50, 1), (60, 1)]), row("llama.cpp", speeds=[(80, 1), (48, 1), (60, 1)])
        self.assertEqual(speed.middle(ours, theirs, "prefill_tokens_per_s"), (50, 48))
        two = row(speeds=[(100, 1), (60, 1)]), row("llama.cpp", speeds=[(50, 1), (60, 1)])
        self.assertEqual(speed.middle(*two, "prefill_tokens_per_s"), (60, 60))

    def test_the_table_tells_ratios_and_goals(self):
        ours, theirs = row(batch=8, speeds=[(550.0, 100.0)]), row("llama.cpp", batch=8, speeds=[(500.0, 100.0)])
        failed, alone = row("transformers", batch=8), row("llama.cpp", "Q8_0", speeds=[(1.0, 1.0)])
        failed.wrong, theirs.agree = "failed", 30
        compared = speed.comparisons([ours, theirs, failed, alone])
        self.assertEqual(json.loads(json.dumps(compared)), [
            {"model": "llama", "weights": "f32", "batch": 8, "beside": "llama.cpp", "agree": 30,
             "prefill_tokens_per_s": {"ours": 550.0, "theirs": 500.0, "ratio": 1.1, "met": True},
             "decode_tokens_per_s": {"ours": 100.0, "theirs": 100.0, "ratio": 1.0, "met": False}}])
        head, rule, line = speed.table(compared)
        self.assertEqual(head.count("|"), rule.count("|"))
        self.assertEqual(line, "| llama | f32 | 8 | llama.cpp | 550.0 | 500.0 | 1.10, met | 100.0 | 100.0 | 1.00, missed | 30 of 32 |")
        self.assertEqual(list(speed.goals(compared)), ["goal beside llama.cpp: met in 1 of 2"])


if __name__ == "__main__":
    unittest.main()
