"""Tests of what is made of a conformance program's output."""

import unittest

import libtest
import sample

PERMUTE = ["block_edges", "one_expert_gets_all", "slots_without_expert", "tiles_cover_every_row", "row_bound", "keys_beyond_the_experts"]


class Printed(unittest.TestCase):
    def test_names_of_a_list(self):
        names = libtest.listed(sample.text("list.txt"))
        self.assertEqual(names[:6], [f"permute::{case}[flex]" for case in PERMUTE])
        self.assertEqual(libtest.label(names[0]), ("permute::block_edges", "flex"))
        self.assertEqual(libtest.label("case_files::fp8[xla:cuda]"), ("case_files::fp8", "xla:cuda"))
        self.assertIsNone(libtest.label("permute::block_edges"))

    def test_a_run_that_passed(self):
        run = libtest.printed(sample.text("passed.txt"))
        self.assertEqual(run.outcomes, {f"permute::{case}[flex]": "ok" for case in PERMUTE})
        self.assertTrue(run.ended)
        self.assertIsNone(run.running)

    def test_a_run_that_failed_has_messages(self):
        run = libtest.printed(sample.text("failed.txt"))
        self.assertEqual(run.outcomes, {"case_files::routing[flex]": "FAILED", "case_files::fp8[flex]": "FAILED"})
        self.assertEqual(run.messages["case_files::routing[flex]"], 'test panicked: no case of ["route", "balance_losses"] in F32')
        self.assertTrue(run.ended)

    def test_a_run_that_was_killed_names_the_case_that_ran(self):
        run = libtest.printed(sample.text("interrupted.txt"))
        self.assertEqual(run.outcomes, {"attention::empty[wgpu]": "ok"})
        self.assertEqual(run.running, "attention::few_queries[wgpu]")
        self.assertFalse(run.ended)

    def test_a_case_may_print_lines_of_its_own(self):
        run = libtest.printed("running 1 test\ntest a::b[cuda] ... not run: no library\nok\n")
        self.assertEqual(run.outcomes, {"a::b[cuda]": "ok"})


class Recorded(unittest.TestCase):
    def test_lines(self):
        lines = libtest.recorded(sample.text("record.tsv"))
        ends = [line.end for line in lines]
        self.assertEqual(len(lines), 8)
        self.assertEqual(ends.count(libtest.RAN), 5)
        self.assertEqual(ends.count(libtest.REFUSED), 3)
        cache = next(line for line in lines if line.case == "kv_cache::long")
        self.assertEqual((cache.device, cache.adapter, cache.seconds), ("cuda", "NVIDIA L4 (emulated) [discrete GPU]", 0.457))
        self.assertIn("cache_append_bf16_f32", cache.kernels)
        self.assertTrue(lines[-1].reason.startswith("rows of experts is not supported on this device"))

    def test_a_line_that_was_cut_off_is_left_out_and_a_wrong_one_is_not(self):
        text = sample.text("record.tsv")
        self.assertEqual(len(libtest.recorded(text + "permute::si")), 8)
        with self.assertRaisesRegex(ValueError, "expected 8 fields, got 1"):
            libtest.recorded("permute::sizes\n" + text)
        with self.assertRaisesRegex(ValueError, "expected ran, refused or failed, got 'ignored'"):
            libtest.recorded(text.replace("\tran\t", "\tignored\t"))


class Outcomes(unittest.TestCase):
    def outcomes(self):
        names = [f"permute::{case}[flex]" for case in PERMUTE] + [f"attention::{case}[wgpu]" for case in ("few_queries", "tiles", "long")]
        lines = libtest.recorded(sample.text("record.tsv"))
        lines.append(libtest.Line("case_files::fp8", "flex", "", libtest.WRONG, "", 0.1, ()))
        runs = [libtest.printed(sample.text(name)) for name in ("passed.txt", "failed.txt", "interrupted.txt")]
        return libtest.outcomes([*names, "case_files::fp8[flex]"], lines, runs, {"attention::long[wgpu]": "the process was ended by SIGSEGV"})

    def test_each_case_has_its_end(self):
        found = {outcome.case: (outcome.end, outcome.why) for outcome in self.outcomes()}
        self.assertEqual(found["permute::block_edges"], (libtest.RAN, ""))
        self.assertEqual(found["permute::row_bound"], (libtest.REFUSED, "no kernels"))
        self.assertEqual(found["attention::few_queries"], (libtest.NOT_ENDED, "was running when the time was over"))
        self.assertEqual(found["attention::tiles"], (libtest.NOT_ENDED, "had not begun"))
        self.assertEqual(found["attention::long"], (libtest.WRONG, "the process was ended by SIGSEGV"))
        self.assertEqual(found["case_files::fp8"][0], libtest.WRONG)
        self.assertTrue(found["case_files::fp8"][1].startswith("test panicked: no case of"))

    def test_what_was_printed_alone_counts_for_nothing(self):
        run = libtest.printed(sample.text("passed.txt"))
        found = libtest.outcomes(["permute::block_edges[flex]"], [], [run], {})
        self.assertEqual([outcome.end for outcome in found], [libtest.NOT_ENDED])

    def test_counts(self):
        counted = libtest.counts(self.outcomes())
        self.assertEqual(counted["flex"], {libtest.RAN: 4, libtest.REFUSED: 2, libtest.WRONG: 1, libtest.NOT_ENDED: 0})
        self.assertEqual(counted["wgpu"], {libtest.RAN: 0, libtest.REFUSED: 0, libtest.WRONG: 1, libtest.NOT_ENDED: 2})


if __name__ == "__main__":
    unittest.main()
