"""Runs a bundle whose programs only print and record what the real ones would, from unpacking to results.json."""

import contextlib
import glob
import io
import json
import lzma
import os
import platform
import stat
import sys
import tarfile
import tempfile
import time
import unittest
import unittest.mock

import bundle
import results
import run as runner
import sample
import units

# Takes the place of `moebius`: the commands that the kit calls, on a device `cuda` that is said to be a GPU.
MOEBIUS = """
import json, os, sys
samples, words = {samples!r}, sys.argv[2:]
def show(name):
    print(open(os.path.join(samples, name), encoding="utf-8").read())
if words[0] == "devices":
    entry = {{"device": "cuda", "available": True, "error": None,
             "capability": {{"name": "NVIDIA L4 (emulated)", "kind": "discretegpu", "driver": "1.0", "memory": {{"total": 4 << 30}}}}}}
    print(json.dumps({{"devices": [entry]}}))
elif words[0] == "emit":
    print(json.dumps({{"entries": [{{"name": "sort_scan", "family": "permute", "variant": "sort", "element": None, "sm": 80, "proven": True}}]}}))
elif words[0] == "verify":
    assert os.environ["MOEBIUS_TEST_CASES"] and os.environ["LD_LIBRARY_PATH"].startswith({drivers!r})
    show("verify.json")
elif words[:2] == ["bench", "moe"] and "--backward" in words:
    print("no memory", file=sys.stderr)
    sys.exit(2)
elif words[0] == "bench":
    show({{"moe": "moe.json", "attention": "attention.json", "linear": "linear.json", "decode": "decode.json"}}[words[1]])
else:
    show("generate.json")
"""

# Takes the place of `conformance`: one family whose second case ends the process, and one case that doesn't end.
CONFORMANCE = """
import os, signal, sys, time
device, names = os.environ["MOEBIUS_TEST_DEVICES"], ["a::good", "a::crashes", "a::refused", "b::endless", "c::wrong"]
if "--list" in sys.argv:
    print("".join(f"{name}[{device}]: test\\n" for name in names))
    sys.exit()
ends = {"a::good": "ran", "a::refused": "refused", "c::wrong": "failed"}
for name in os.environ["MOEBIUS_TEST_FAMILIES"].split(","):
    print(f"test {name}[{device}] ... ", end="", flush=True)
    if name == "a::crashes":
        os.kill(os.getpid(), signal.SIGSEGV)
    if name == "b::endless":
        time.sleep(600)
    with open(os.path.join(os.environ["MOEBIUS_TEST_RECORD"], "cases-1.tsv"), "a") as file:
        file.write(f"{name}\\t{device}\\tNVIDIA L4 (emulated) [discrete GPU]\\t{ends[name]}\\twhy\\t0.1\\t1\\tsort_scan=S\\n")
    print("FAILED" if ends[name] == "failed" else "ok", flush=True)
print("\\ntest result: ok.")
"""


class Clock:
    """A clock for conformance that stands until all has happened that can, and is far in the future then: a loaded machine only takes
    longer. After five minutes it goes on in any case, so that a mistake is a failure and no endless test.
    """

    def __init__(self, folder):
        self.folder, self.begin = folder, time.monotonic()

    def read(self, name):
        texts = []
        for path in glob.glob(os.path.join(self.folder, "out", "conformance", "*", name)):
            with open(path, encoding="utf-8") as file:
                texts.append(file.read())
        return "".join(texts)

    def monotonic(self):
        lines = self.read("*.tsv").count("\n")
        happened = lines == 3 and "b::endless" in self.read("out.txt")
        return 1e12 if happened or time.monotonic() - self.begin > 300 else 0.0

    @staticmethod
    def sleep(seconds):
        time.sleep(seconds)


class Whole(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.drivers = folder.name, os.path.join(folder.name, "drivers")
        os.mkdir(self.drivers)

    def bundle(self):
        """Makes a bundle of the two stand-ins and one case file."""
        programs = {"moebius": MOEBIUS.format(samples=sample.FOLDER, drivers=self.drivers), "conformance": CONFORMANCE}
        for name, text in programs.items():
            with lzma.open(os.path.join(self.folder, f"{name}.xz"), "wb") as file:
                # Without the packages of the Python, it starts sooner.
                file.write(f"#!{sys.executable} -SE\n{text}".encode())
        with lzma.open(os.path.join(self.folder, bundle.REST), "wb") as out, tarfile.open(fileobj=out, mode="w") as archive:
            for name, text in (("cases/route.safetensors", ""), ("seconds.tsv", "b::endless\t9\n")):
                entry = tarfile.TarInfo(name)
                entry.size = len(text)
                archive.addfile(entry, io.BytesIO(text.encode()))
        names = [f"{name}.xz" for name in bundle.PROGRAMS] + [bundle.REST]
        manifest = {"commit": "0" * 40, "dirty": False, "features": "cuda,vulkan", "machine": platform.machine(), "c_library": "glibc"}
        manifest["files"] = {name: bundle.described(os.path.join(self.folder, name))._asdict() for name in names}
        with open(os.path.join(self.folder, bundle.MANIFEST), "w", encoding="utf-8") as file:
            json.dump(manifest, file)

    def run_it(self, *words):
        said, errors = io.StringIO(), io.StringIO()
        # Two processes at once on any machine: the endless case takes one of them.
        cores = unittest.mock.patch("os.cpu_count", return_value=2)
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(errors), cores:
            status = runner.main([self.folder, "--drivers", self.drivers, *words])
        return status, said.getvalue(), errors.getvalue()

    def found(self):
        with open(os.path.join(self.folder, "out", "results.json"), encoding="utf-8") as file:
            return results.read(file.read())

    def test_cases_that_are_wrong_and_cases_that_do_not_end(self):
        self.bundle()
        with unittest.mock.patch.object(units, "time", Clock(self.folder)):
            status, said, _ = self.run_it("--only", "conformance", "--seconds", "600")
        found = self.found()
        self.assertEqual(status, 1, said)
        ends = {one["case"]: (one["end"], one["why"]) for one in found["conformance"]}
        self.assertEqual(ends["a::good"][0], "ran")
        self.assertEqual(ends["a::crashes"], ("wrong", "the process was ended by SIGSEGV"))
        self.assertEqual(ends["a::refused"], ("refused", "why"))
        self.assertEqual(ends["b::endless"], ("not ended", "was running when the time was over"))
        self.assertEqual(ends["c::wrong"][0], "wrong")
        self.assertEqual([part["state"] for part in found["parts"]], ["cut off"])
        self.assertIn("WRONG: a::crashes on cuda: the process was ended by SIGSEGV", said)

    def test_the_other_parts(self):
        self.bundle()
        status, said, _ = self.run_it("--only", "cases,bench,xla,counters", "--seconds", "600")
        found = self.found()
        self.assertEqual(status, 0, said)
        self.assertEqual(found["files"][0]["passed"], 1)
        self.assertTrue(found["emulated"])
        states = {part["name"]: part["state"] for part in found["parts"]}
        self.assertEqual(states, {"cases": "ended", "bench": "cut off", "xla": "left out", "counters": "left out"})
        figures = {figure["key"]: figure for figure in found["figures"]}
        self.assertEqual(figures["linear-fp8"]["value"], 0.0037349999999999996)
        self.assertEqual((figures["moe-both-bf16"]["value"], figures["moe-both-bf16"]["why"]), (None, "no memory"))

    def test_a_part_alone(self):
        self.bundle()
        status, said, _ = self.run_it("--only", "cases", "--seconds", "600")
        self.assertEqual(status, 0, said)
        self.assertIn("left out: vulkan: no such device", said)
        mode = os.stat(os.path.join(self.folder, "unpacked", "moebius")).st_mode
        self.assertTrue(mode & stat.S_IXUSR)

    def test_no_bundle_and_a_damaged_one(self):
        self.assertEqual(self.run_it()[0], 2)
        self.bundle()
        with open(os.path.join(self.folder, "moebius.xz"), "ab") as file:
            file.write(b"more")
        status, _, errors = self.run_it()
        self.assertEqual(status, 2)
        self.assertIn("moebius.xz: expected", errors)
        self.assertEqual(self.run_it("--only", "nothing")[0], 2)


if __name__ == "__main__":
    unittest.main()
