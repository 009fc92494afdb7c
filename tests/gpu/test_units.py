"""Tests of how cases are shared out over processes, and of the limits of parts."""

import unittest

import libtest
import parts
import units

KNOWN = {"attention::tiles": 60.0, "attention::lengths": 30.0, "attention::empty": 1.0, "rows::sizes": 2.0, "rows::bf16": 2.0}


def names(device):
    return [f"{case}[{device}]" for case in KNOWN]


class Plan(unittest.TestCase):
    def test_every_case_is_in_one_unit(self):
        asked = names("cuda") + names("vulkan") + ["new::case[cuda]"]
        planned = units.plan(asked, KNOWN, 4)
        found = sorted(f"{case}[{unit.device}]" for unit in planned for case in unit.cases)
        self.assertEqual(found, sorted(asked))

    def test_the_longest_begin_first_and_long_families_are_cut(self):
        planned = units.plan(names("cuda"), KNOWN, 4)
        self.assertEqual(planned[0], units.Unit("cuda", ("attention::tiles",), 60.0))
        self.assertEqual([unit.seconds for unit in planned], sorted((unit.seconds for unit in planned), reverse=True))
        self.assertTrue(all(len({units.family(case) for case in unit.cases}) == 1 for unit in planned))

    def test_one_process_keeps_families_whole(self):
        self.assertEqual([len(unit.cases) for unit in units.plan(names("cuda"), {case: 1.0 for case in KNOWN}, 1)], [3, 2])

    def test_seconds_of_a_file(self):
        self.assertEqual(units.durations("# a comment\na::b\t1.5\n\nc::d\t2\n"), {"a::b": 1.5, "c::d": 2.0})


class Blame(unittest.TestCase):
    unit = units.Unit("cuda", ("a::x", "a::y", "a::z"), 3.0)

    def line(self, case):
        return libtest.Line(case, "cuda", "", libtest.RAN, "", 1.0, ())

    def test_the_case_that_was_running(self):
        blamed, left = units.blame(self.unit, [self.line("a::x")], "a::y[cuda]")
        self.assertEqual((blamed, left.cases), (["a::y[cuda]"], ("a::z",)))

    def test_the_next_one_between_two(self):
        blamed, left = units.blame(self.unit, [self.line("a::x"), self.line("a::y")], None)
        self.assertEqual((blamed, left), (["a::z[cuda]"], None))

    def test_all_if_there_was_none(self):
        blamed, left = units.blame(self.unit, [], None)
        self.assertEqual((blamed, left), (["a::x[cuda]", "a::y[cuda]", "a::z[cuda]"], None))

    def test_how_a_process_ended(self):
        self.assertEqual(units.how(-11), "the process was ended by SIGSEGV")
        self.assertEqual(units.how(101), "the process ended with status 101")


class Limits(unittest.TestCase):
    def test_all_parts_together_fit(self):
        left = parts.SECONDS
        for number, part in enumerate(parts.PARTS):
            left -= parts.limit(part, parts.PARTS[number + 1:], left)
        self.assertAlmostEqual(left, 0.0)
        self.assertLessEqual(sum(part.seconds for part in parts.PARTS), parts.SECONDS)

    def test_what_a_part_leaves_goes_to_the_next(self):
        first, *others = parts.PARTS
        share = parts.limit(others[0], others[1:], parts.SECONDS - first.seconds)
        self.assertGreater(parts.limit(others[0], others[1:], parts.SECONDS), share)
        self.assertEqual(parts.limit(first, others, -1.0), 0.0)

    def test_parts_by_name(self):
        self.assertEqual([part.name for part in parts.chosen("conformance, cases")], ["cases", "conformance"])
        self.assertEqual(parts.chosen(None), list(parts.PARTS))
        for wrong in ("cases,bensch", "", ","):
            with self.assertRaisesRegex(parts.UnknownPart, "expected parts among cases, bench"):
                parts.chosen(wrong)

    def test_processes_fit_the_card(self):
        self.assertEqual(parts.processes(24, 81559), 24)
        self.assertEqual(parts.processes(24, 8192), 8)
        self.assertEqual(parts.processes(2, None), 2)
        self.assertEqual(parts.processes(8, 512), 1)


if __name__ == "__main__":
    unittest.main()
