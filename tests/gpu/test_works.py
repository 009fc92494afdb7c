"""Tests of the works, their commands, and the figures that are taken from what the command prints."""

import unittest

import sample
import works


class Figures(unittest.TestCase):
    def test_each_kind_of_result(self):
        for name, figure, want in (
            ("moe.json", works.median, 0.10805),
            ("attention.json", works.median, sample.parsed("attention.json")["median_ms"]),
            ("both.json", works.median_of_run, sample.parsed("both.json")["runs"][0]["median_ms"]),
            ("linear.json", works.fp8_layer, 0.0037349999999999996),
            ("linear.json", works.float_layer, 0.0043560000000000005),
            ("decode.json", works.first_format, sample.parsed("decode.json")["formats"][0]["median_ms"]),
            ("generate.json", works.decode_speed, sample.parsed("generate.json")["decode_tokens_per_s"]),
        ):
            self.assertEqual(figure(sample.parsed(name)), want, name)

    def test_what_does_not_verify_has_no_figure(self):
        for name, figure in (("moe.json", works.median), ("linear.json", works.float_layer), ("decode.json", works.first_format)):
            result = {**sample.parsed(name), "verified": False}
            with self.assertRaisesRegex(works.Absent, "does not verify"):
                figure(result)
        both = sample.parsed("both.json")
        both["runs"][0]["verified"] = False
        with self.assertRaisesRegex(works.Absent, "does not verify"):
            works.median_of_run(both)

    def test_a_result_of_another_form_has_no_figure(self):
        for figure in (works.median, works.median_of_run, works.fp8_layer, works.float_layer, works.first_format, works.decode_speed):
            with self.assertRaisesRegex(works.Absent, "expected a number, got None"):
                figure({})


class Works(unittest.TestCase):
    def test_keys_are_apart_and_every_figure_has_a_command(self):
        self.assertEqual(len({work.key for work in works.WORKS}), len(works.WORKS))
        read = [work.key for _, _, asked in works.commands(["cuda"]) for work in asked]
        self.assertEqual(sorted(read), sorted(work.key for work in works.WORKS if "cuda" in work.devices))

    def test_a_command_that_two_figures_read_runs_once(self):
        ran = [tuple(arguments) for _, arguments, _ in works.commands(["cuda"])]
        self.assertEqual(len(ran), len(set(ran)))
        self.assertLess(len(ran), len(works.WORKS))

    def test_options_say_the_shape(self):
        words = " ".join(works.BOTH.arguments())
        self.assertEqual(words, "bench moe --hidden 1024 --inter 4096 --experts 8 --top-k 2 --batch 32 --seq 128 --dtype bf16 --backward "
                                "--keep first-product")
        self.assertIn("--activations dynamic-row", " ".join(works.SQUARE._replace(activations="fp8").arguments()))

    def test_operations_are_counted_as_the_command_counts_them(self):
        self.assertEqual(works.Moe(4096, 512, 2048, 8, 2, "f32").flops(), 34_359_738_368)
        result = sample.parsed("moe.json")
        shape = works.Moe(16, 64, 256, 8, 2, "f32")
        self.assertAlmostEqual(shape.flops() / result["median_ms"] / 1e6, result["gflops"], places=6)
        result = sample.parsed("attention.json")
        shape = works.Attention(1, 8, 8, 64, 64, "f32")
        self.assertEqual(shape.flops(), result["flops"])

    def test_peers_know_whose_figures_they_are_compared_with(self):
        keys = [key for _, keys in works.peers() for key in keys]
        self.assertEqual(sorted(keys), sorted(work.key for work in works.WORKS if work.key != "generate"))


if __name__ == "__main__":
    unittest.main()
