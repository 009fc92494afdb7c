"""Tests of what is recorded of a run, in texts and in the tree's own pages."""

import copy
import json
import unittest

import libtest
import record
import results
import works

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def case(name, device, end, kernels=(), why="", seconds=1.0):
    return libtest.Outcome(name, device, end, why, None if end == libtest.NOT_ENDED else seconds, tuple(kernels))._asdict()


def kernel(name, family="grouped_gemm", variant="tensor_core", element="f16", proven=False):
    return {"name": name, "family": family, "variant": variant, "element": element, "sm": 80, "proven": proven}


def found():
    """The results of a small run, as they are read from a file."""
    key = works.WORKS[0].key
    return results.read(results.text_of({
        "format": results.FORMAT, "commit": COMMIT, "dirty": False, "features": "cuda,vulkan", "date": "2026-11-28", "seconds": 301.5,
        "emulated": False, "card": {"name": "NVIDIA H100 80GB HBM3", "driver": "580.159.04", "memory_mib": 81559}, "nvrtc": "13.0", "cores": 24,
        "devices": [{"device": "cuda", "adapter": "NVIDIA H100 80GB HBM3", "driver": "580.159.04"}],
        "left_out": {"wgpu": "llvmpipe is a software adapter"},
        "parts": [
            {"name": "bench", "limit": 90.0, "seconds": 12.0, "state": "ended", "why": None},
            {"name": "conformance", "limit": 125.0, "seconds": 125.0, "state": "cut off", "why": "1 cases have not ended"},
        ],
        "conformance": [
            case("grouped_gemm::matrices_f16", "cuda", libtest.RAN, ["product_f16", "sort_scan"]),
            case("grouped_gemm::bias", "cuda", libtest.RAN, ["product_f32"], seconds=3.5),
            case("fp8_gemm::matrices_f16", "cuda", libtest.WRONG, ["codes_f16", "sort_scan"], "relative error 2.8"),
            case("attention::tiles", "cuda", libtest.NOT_ENDED, why="was running when the time was over"),
            case("quantize::bf16", "cuda", libtest.REFUSED, why="no bf16"),
        ],
        "files": [{"device": "cuda", "expected": 2, "passed": 1, "failed": 1, "errors": 0, "wrong": [{"file": "a.safetensors", "why": "y: 0.3"}]}],
        "figures": [
            {"key": key, "what": works.WORKS[0].what, "device": "cuda", "variant": "pipelined", "value": 1.5, "unit": "ms", "why": None},
            {"key": "generate", "what": "the bundled model", "device": "cuda", "variant": None, "value": None, "unit": "tokens/s", "why": "the time was over"},
        ],
        "peers": [
            {"keys": [key], "name": "PyTorch (2.11)", "shape": {"dtype": "bf16"}, "median_ms": 1.4, "waited_ms": 1.65, "runs": 50, "error": 0.004},
            {"keys": [key], "name": "Triton (3.5)", "shape": {"dtype": "bf16"}, "why": "Wrong: relative L2 1"},
        ],
        "counters": [{"kernel": "product", "launches": 2, "time_us": 12.5, "registers": 62.0}],
        "sanitizer": {"errors": 0, "kinds": [], "cases": ["permute::block_edges[cuda]"]},
        "kernels": [kernel("product_f16"), kernel("codes_f16", family="fp8_gemm"), kernel("other_f16"), kernel("product_f32", element="f32", proven=True),
                    kernel("sort_scan", family="permute", variant="sort", element=None, proven=True)],
    }))


class Read(unittest.TestCase):
    def test_the_schema_comes_first_and_is_whole(self):
        text = results.text_of(found())
        self.assertTrue(text.startswith('{\n "about": {'))
        self.assertEqual(set(json.loads(text)), {"about", *results.ABOUT})

    def test_other_files_are_refused(self):
        with self.assertRaisesRegex(results.WrongForm, "expected JSON"):
            results.read("")
        with self.assertRaisesRegex(results.WrongForm, "expected results of format 1, got 'list'"):
            results.read("[]")
        with self.assertRaisesRegex(results.WrongForm, "expected results of format 1, got 2"):
            results.read(json.dumps({**found(), "format": 2}))
        lacking = found()
        del lacking["commit"]
        with self.assertRaisesRegex(results.WrongForm, "expected entries commit"):
            results.read(json.dumps(lacking))


class Check(unittest.TestCase):
    def refused(self, change, ancestor=True):
        changed = found()
        change(changed)
        with self.assertRaises(record.Refused) as caught:
            record.check(changed, lambda commit: ancestor)
        return str(caught.exception)

    def test_a_run_on_a_card_of_this_history(self):
        record.check(found(), lambda commit: commit == COMMIT)

    def test_other_runs(self):
        self.assertIn("expected a commit that this one is built on", self.refused(lambda run: None, ancestor=False))
        self.assertIn("further changes", self.refused(lambda run: run.update(dirty=True)))
        self.assertIn("drivers in software", self.refused(lambda run: run.update(emulated=True)))
        self.assertIn("drivers in software", self.refused(lambda run: run.update(card=None)))
        self.assertIn("drivers in software", self.refused(lambda run: run["devices"][0].update(adapter="NVIDIA L4 (emulated)")))


class Merged(unittest.TestCase):
    def test_kernels(self):
        before = "codes_f16\tcuda,vulkan\nold\twgpu\nsort_scan\tcuda\n"
        # sort_scan is launched by a case that is wrong, too.
        self.assertEqual(record.merged_kernels(before, found()), "codes_f16\tvulkan\nold\twgpu\nproduct_f16\tcuda\nproduct_f32\tcuda\n")

    def test_seconds(self):
        before = "# Seconds.\nattention::tiles\t60.000\ngrouped_gemm::bias\t9.000\n"
        want = "# Seconds.\nattention::tiles\t60.000\ngrouped_gemm::bias\t3.500\ngrouped_gemm::matrices_f16\t1.000\n"
        self.assertEqual(record.merged_seconds(before, found()), want)

    def test_the_row_and_the_paragraph_of_the_support_page(self):
        page = f"| device | a GPU |\n|---|---|\n| `cuda` | not yet |\n| `rocm` | not yet |\n\n{record.NEXT_TEXT}.\n"
        merged = record.merged_support(page, found())
        self.assertIn("| `cuda` | NVIDIA H100 80GB HBM3, 2026-11-28: 2 cases right, 1 wrong, 1 refused, 1 not ended |\n| `rocm` | not yet |\n", merged)
        self.assertIn("at `01234567`, by `scripts/gpu`: wrong on `cuda`: 1, `fp8_gemm::matrices_f16`; not ended on `cuda`: 1, `attention::tiles`; "
                      "bundled case files wrong on `cuda`: `tests/cases/a.safetensors`; compute-sanitizer found 0 errors in a sample.\n\nHow fast", merged)
        with self.assertRaisesRegex(record.Refused, "tells of this run already"):
            record.merged_support(merged, found())
        # Another run is added to the first.
        second = {**found(), "date": "2026-12-01"}
        self.assertIn("1 not ended; NVIDIA H100 80GB HBM3, 2026-12-01: 2 cases", record.merged_support(merged, second))

    def test_a_page_of_another_form_is_refused(self):
        with self.assertRaisesRegex(record.Refused, "expected the line"):
            record.merged_support("", found())
        with self.assertRaisesRegex(record.Refused, "expected a row of `cuda`"):
            record.merged_support(record.NEXT_TEXT, found())
        with self.assertRaisesRegex(record.Refused, "expected a section"):
            record.merged_figures("", found())

    def test_figures(self):
        merged = record.merged_figures("# Results\n\nText.\n\n## Not measured\n\nRest.\n", found())
        self.assertIn("Text.\n\n## On a GPU, by `scripts/gpu`: NVIDIA H100 80GB HBM3, driver 580.159.04, NVRTC 13.0; 2026-11-28\n\nTaken at `01234567`", merged)
        row = f"| {works.WORKS[0].what} | cuda | 1.500 ms, 367 TF/s | 1.400 ms (1.650 with a wait; PyTorch (2.11), bf16) | 1.10 |"
        self.assertIn(row, merged)
        self.assertIn("| the bundled model | cuda | the time was over | – | – |", merged)
        self.assertTrue(merged.endswith("\n\n## Not measured\n\nRest.\n"))
        self.assertEqual(record.merged_figures("as it was", {**found(), "figures": []}), "as it was")

    def test_the_pages_of_the_tree_have_the_form(self):
        record.merged_support(record.read(record.SUPPORT), found())
        record.merged_figures(record.read(record.FIGURES), found())
        kernels = record.read(record.KERNELS)
        nothing = {**found(), "conformance": []}
        self.assertEqual(record.merged_kernels(kernels, nothing), kernels)
        seconds = record.read(record.SECONDS)
        self.assertEqual(record.merged_seconds(seconds, nothing), seconds)


class Promotions(unittest.TestCase):
    def test_variants_whose_cases_were_all_right(self):
        self.assertEqual(record.promotions(found()), ["grouped_gemm · tensor_core (f16) on cuda: 1 of 2 kernels ran, all right"])

    def test_none_while_a_case_of_the_family_has_not_ended(self):
        waiting = found()
        waiting["conformance"].append(case("grouped_gemm::tile_edges", "cuda", libtest.NOT_ENDED))
        self.assertEqual(record.promotions(waiting), [])

    def test_none_that_a_wrong_case_launched(self):
        broken = copy.deepcopy(found())
        broken["conformance"][0]["end"] = libtest.WRONG
        self.assertEqual(record.promotions(broken), [])


class Table(unittest.TestCase):
    def test_rows_and_what_is_wrong(self):
        lines = results.table(found())
        self.assertEqual(lines[0], "NVIDIA H100 80GB HBM3, driver 580.159.04, NVRTC 13.0; 2026-11-28, commit 01234567")
        text = "\n".join(lines)
        self.assertIn("cuda    2      1      1        1          1 of 2", text)
        self.assertIn("left out: wgpu: llvmpipe is a software adapter", text)
        self.assertIn("conformance: cut off: 1 cases have not ended", text)
        self.assertIn("not ended: 1 cases: attention::tiles on cuda (was running when the time was over)", text)
        self.assertIn("WRONG: fp8_gemm::matrices_f16 on cuda: relative error 2.8", text)
        self.assertIn("WRONG: a.safetensors on cuda: y: 0.3", text)

    def test_a_figure_that_does_not_verify_is_wrong(self):
        broken = found()
        broken["figures"][0].update(value=None, why="does not verify: relative L2 0.5")
        self.assertIn("does not verify", "\n".join(results.wrong(broken)))
        broken["sanitizer"].update(errors=2, kinds=["Invalid read"])
        self.assertIn("compute-sanitizer: 2 errors: Invalid read", results.wrong(broken))


if __name__ == "__main__":
    unittest.main()
