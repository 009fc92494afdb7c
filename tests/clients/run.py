"""Runs the checks of scripts/clients: starts `moebius serve`, sends it real clients, load and faults, and says what became of each check.

Usage: python3 run.py --moebius FILE --cache FOLDER [--device D] [--only TEXT] [--minutes N] [--drivers FOLDER] [--json]
CACHE has what scripts/clients installs. Exit status: 0 if all passed, 1 if something failed or nothing ran, 2 for an error.
"""

import argparse
import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import fault_checks
import load_checks
import monitor
import outside
import peers
import plan
import replicas
import report
import served
import soak
from report import FAILED, LEFT_OUT, PASSED, LeftOut, Verdict, Wrong

# The functions of groups whose checks run in this process.
INSIDE = {"load": load_checks.CHECKS, "prometheus": monitor.CHECKS, "schemathesis": outside.CHECKS, "faults": fault_checks.CHECKS,
          "replicas": replicas.CHECKS, "soak": soak.CHECKS, "peers": peers.CHECKS}

# Seconds of one check, beside the minutes of a soak; what takes longer hangs.
SECONDS = 900


class Kit:
    """What checks are given: the program, the model, folders, and what is installed."""

    def __init__(self, options, scratch):
        self.moebius, self.device = os.path.abspath(options.moebius), options.device
        self.cache, self.scratch, self.minutes = os.path.abspath(options.cache), scratch, options.minutes
        self.drivers = os.path.abspath(options.drivers) if options.drivers else None
        self.here = os.path.dirname(os.path.abspath(__file__))
        self.tree = os.path.dirname(os.path.dirname(self.here))
        self.model = os.path.join(scratch, served.MODEL)
        served.make_model(os.path.join(self.tree, "runtime", "shipped"), self.model)
        self.beside, self.versions, self.logs = None, {}, 0

    def log_path(self):
        """A file for what a program says."""
        self.logs += 1
        return os.path.join(self.scratch, f"{self.logs:03}.log")

    def folder(self, name):
        """A new folder for a program."""
        return tempfile.mkdtemp(prefix=f"{name}-", dir=self.scratch)

    def program(self, environment, name):
        """A program of an environment of Python's."""
        return os.path.join(self.cache, environment, "bin", name)

    def python(self, environment):
        return self.program(environment, "python")

    def prometheus(self, name):
        """A program of Prometheus's package. Raises LeftOut where there is none."""
        path = shutil.which(name) or os.path.join(self.cache, "prometheus", "usr", "bin", name)
        if not os.path.exists(path):
            raise LeftOut(f"{name} is not installed, and the package prometheus could not be unpacked")
        return path

    @staticmethod
    def free_port():
        """A port that nobody listens on now."""
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            return one.getsockname()[1]

    async def run(self, words, given=b"", seconds=120, variables=None):
        """Runs a program to its end, and returns its status and what it said on both outputs. Raises Wrong if it doesn't end."""
        child = await asyncio.create_subprocess_exec(
            *map(str, words), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            cwd=self.scratch, env={**os.environ, **(variables or {})})
        try:
            said, _ = await asyncio.wait_for(child.communicate(given), seconds)
        except asyncio.TimeoutError as error:
            raise Wrong(f"{os.path.basename(words[0])} took more than {seconds} s") from error
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()
        return child.returncode, said.decode("utf-8", "replace")

    async def moebius_json(self, *words):
        """The object that the program prints for a command. Raises Wrong."""
        status, said = await self.run([self.moebius, *words, "--json"], seconds=600)
        lines = outside.lines_of(said)
        if status != 0 or not lines:
            raise Wrong(f"moebius {' '.join(map(str, words))} ended with {status}: {said[-600:]}")
        return lines[-1]

    async def probe(self, address, method, path, count, pause, body=None):
        """What a probe in a process of its own measured, an object for each answer."""
        words = [sys.executable, os.path.join(self.here, "probe.py"), address, method, path, count, pause, *([body] if body else [])]
        status, said = await self.run(words, seconds=300)
        lines = outside.lines_of(said)
        if status != 0 or len(lines) != count:
            raise Wrong(f"the probe ended with {status} after {len(lines)} of {count} answers: {said[-600:]}")
        return lines


async def one(name, work, seconds):
    """What became of one check, whose work is a coroutine that may take so long."""
    begun = time.monotonic()
    try:
        found = await asyncio.wait_for(work, seconds)
        verdict, said, figures = PASSED, found.said, found.figures
    except LeftOut as error:
        verdict, said, figures = LEFT_OUT, str(error), {}
    except Wrong as error:
        verdict, said, figures = FAILED, str(error), error.figures
    except asyncio.TimeoutError:
        verdict, said, figures = FAILED, f"took more than {seconds:g} s", {}
    except Exception as error:  # a check that fails otherwise has failed, and the others go on
        verdict, said, figures = FAILED, f"{type(error).__name__}: {error}"[:1000], {}
    return Verdict(name, verdict, said, time.monotonic() - begun, figures)


async def group_of(kit, group, tell):
    """Runs a group's checks, and tells the verdict of each."""
    verdicts = []
    if group.name in INSIDE:
        seconds = SECONDS + (60 * kit.minutes if group.name == "soak" else 0)
        for check, name in zip(group.checks, group.names()):
            verdicts.append(await one(name, INSIDE[group.name][check](kit), seconds))
            tell(verdicts[-1])
        return verdicts
    try:
        verdicts = await asyncio.wait_for(outside.CLIENTS[group.name](kit, group), SECONDS)
    except Exception as error:  # as in `one`; a client that hangs has an end of its own before
        verdicts = [Verdict(name, FAILED, f"{type(error).__name__}: {error}"[:1000]) for name in group.names()]
    for verdict in verdicts:
        tell(verdict)
    return verdicts


def about(kit):
    """What was checked, and where."""
    version = subprocess.run([kit.moebius, "--version"], stdout=subprocess.PIPE, check=True, text=True).stdout.strip()
    return {"moebius": version, "device": kit.device, "processors": os.cpu_count(), "load_average": round(os.getloadavg()[0], 2)}


async def all_of(kit, groups, tell):
    verdicts = []
    for group in groups:
        verdicts += await group_of(kit, group, tell)
    return verdicts


def arguments(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moebius", required=True)
    parser.add_argument("--cache", required=True)
    parser.add_argument("--device", default="flex")
    parser.add_argument("--only", default="")
    parser.add_argument("--minutes", type=float, default=soak.MINUTES)
    parser.add_argument("--drivers", default="")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(words)


def main(words):
    options = arguments(words)
    try:
        groups = plan.chosen(options.only)
        os.makedirs(options.cache, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="run-", dir=options.cache) as scratch:
            kit = Kit(options, scratch)
            told = about(kit)
            # With --json the lines go where they are in nobody's way.
            stream = sys.stderr if options.json else sys.stdout

            def tell(verdict):
                print(f"clients: {verdict.line()}", file=stream, flush=True)

            verdicts = asyncio.run(all_of(kit, groups, tell))
            told["versions"] = kit.versions
    except (plan.UnknownCheck, OSError, subprocess.SubprocessError) as error:
        print(f"clients: {error}", file=sys.stderr)
        return 2
    for text in filter(None, (peers.table(verdicts), report.summary(verdicts))):
        print(f"\n{text}", file=stream)
    if options.json:
        print(json.dumps(report.results(told, verdicts)))
    return report.status(verdicts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
