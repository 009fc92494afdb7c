"""Runs checks against a stand-in for `moebius`, on this machine alone: one that behaves, which must pass, and one with a fault for each
check, which must be found.
"""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
import unittest.mock

import run
import stand_in

HERE = os.path.dirname(os.path.abspath(__file__))

# Checks, each with a fault that it must find, and with what makes it find it sooner.
PAIRS = (
    ("load: counts", "miscounts", {}),
    ("load: same text as the library", "says other words", {}),
    ("load: full queue", "answers slowly when full", {"load_checks.FULL_WITHIN": 0.15}),
    ("faults: kill", "says other words", {}),
    ("faults: drain", "breaks streams when told to stop", {}),
    ("faults: disconnects", "keeps what clients leave", {"fault_checks.IDLE_WITHIN": 1}),
    ("faults: hostile bodies", "takes NaN", {}),
    ("faults: lost device", "hides that its device is lost", {}),
    ("faults: lost device", "ends well without its device", {}),
    ("replicas: one of two dies", "says other words", {}),
    ("peers: llama.cpp f32", "says other words", {}),
    ("peers: llama.cpp Q8_0", "says other words", {}),
    ("peers: mistral.rs f32", "says other words", {}),
    ("peers: mistral.rs 8 bits", "says other words", {}),
    ("soak: nothing grows", "miscounts", {}),
    ("soak: nothing grows", "keeps what clients leave", {"soak.IDLE_WITHIN": 1}),
    ("soak: nothing grows", "keeps memory of answers", {}),
    ("soak: nothing grows", "keeps files of answers", {}),
)
if not os.path.isdir("/proc/self/fd"):
    # Memory and files of another process are read there.
    PAIRS = tuple(pair for pair in PAIRS if pair[0] not in ("faults: disconnects", "soak: nothing grows"))

# The same checks in less time, also on a machine that has no time for them.
SHORT = {"load_checks.COUNTED": 60, "load_checks.FILL": 0.3, "load_checks.FULL": 5, "load_checks.FULL_WITHIN": 30,
         "load_checks.FULL_TOKENS": 100, "fault_checks.LEAVING": 40, "fault_checks.WARM_UP": 20, "fault_checks.DRAINED": 20,
         "replicas.SECONDS": 1.2, "replicas.KILL_AFTER": 0.4, "replicas.CLIENTS": 8, "soak.LAPS": 6, "soak.SETTLE": 0.01,
         "peers.STREAMS": (1, 2), "peers.TOKENS": 40, "peers.TURNS": 1}
MINUTES = "0.01"


class Checks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.write("models/llama/config.json", '{"model_type": "llama"}')
        self.write("models/made-of", "")
        for package in ("xllamacpp", "mistralrs"):
            self.install(package)

    def write(self, path, text, mode=0o644):
        path = os.path.join(self.folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def install(self, package):
        """Makes an environment of Python's that has what takes a package's place."""
        self.write(f"{package}/site/{package}-1.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
        self.write(f"{package}/made-of", "")
        paths = [HERE, os.path.join(HERE, "stand_in_peers"), os.path.join(self.folder, package, "site")]
        self.write(f"{package}/bin/python", f"#!{sys.executable} -SEB\nimport runpy, sys\nsys.path[:0] = {paths!r}\n"
                   "sys.argv = sys.argv[1:]\nrunpy.run_path(sys.argv[0], run_name='__main__')\n", 0o755)

    def run_it(self, only, fault, **constants):
        """Runs some checks against a stand-in; returns the exit status, the object that is printed, and the lines."""
        # Without the packages of the Python, it starts sooner.
        program = self.write("moebius", f"#!{sys.executable} -SEB\nimport sys\nsys.path.insert(0, {HERE!r})\nimport stand_in\n"
                             f"sys.exit(stand_in.main(sys.argv[1:], {fault!r}))\n", 0o755)
        said, lines = io.StringIO(), io.StringIO()
        with contextlib.ExitStack() as stack:
            for name, value in (SHORT | constants).items():
                stack.enter_context(unittest.mock.patch(name, value))
            stack.enter_context(contextlib.redirect_stdout(said))
            stack.enter_context(contextlib.redirect_stderr(lines))
            status = run.main(["--moebius", program, "--cache", self.folder, "--only", only, "--json", "--minutes", MINUTES,
                               "--drivers", self.folder])
        return status, json.loads(said.getvalue()), lines.getvalue()

    def test_a_server_that_behaves(self):
        for check in dict.fromkeys(check for check, _, _ in PAIRS):
            with self.subTest(check):
                status, told, lines = self.run_it(check, "")
                self.assertEqual((status, told["passed"]), (0, 1), lines)
                self.assertTrue(lines.endswith("\n1 passed, 0 failed\n"), lines)

    def test_a_server_with_a_fault(self):
        for check, fault, constants in PAIRS:
            with self.subTest(check):
                self.assertIn(fault, stand_in.FAULTS)
                status, told, lines = self.run_it(check, fault, **constants)
                self.assertEqual((status, told["failed"]), (1, 1), lines)
                self.assertNotIn("Error:", told["checks"][0]["said"], "the check found no fault, but failed itself")

    def test_what_can_not_run(self):
        os.remove(os.path.join(self.folder, "mistralrs", "made-of"))
        status, told, _ = self.run_it("peers: mistral.rs", "")
        self.assertEqual((status, told["passed"], told["left_out"]), (1, 0, 2))
        status, told, _ = self.run_it("openai-current: models", "")
        self.assertEqual((status, told["checks"][0]["verdict"]), (1, "failed"))
        with contextlib.redirect_stderr(io.StringIO()) as errors:
            self.assertEqual(run.main(["--moebius", "none", "--cache", self.folder, "--only", "nothing"]), 2)
        self.assertIn("--only", errors.getvalue())
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(run.main(["--moebius", "none", "--cache", self.folder]), 2)


if __name__ == "__main__":
    unittest.main()
