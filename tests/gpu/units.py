"""Shares the cases of conformance out over processes, and runs them until a deadline.

A process compiles its kernels with one thread, so the cases of a family go to few processes, but a family that takes longer than
the others is cut. The longest begin first: what is left at the end is short.
"""

import os
import signal
import statistics
import subprocess
import time
from typing import NamedTuple

import libtest

# Below this a process spends more on opening its device than on its cases.
SHORTEST = 4.0
# How often the processes are looked at, in seconds.
PAUSE = 0.05


class Unit(NamedTuple):
    """The cases of one process: all of one device, and of one family."""

    device: str
    cases: tuple
    seconds: float


def durations(text):
    """Seconds of each case in a file of lines `case, tab, seconds`; lines that begin with # are left out."""
    lines = (line.split("\t") for line in text.splitlines() if line and not line.startswith("#"))
    return {case: float(seconds) for case, seconds in lines}


def family(case):
    """The family of a case: `permute` of `permute::sizes`."""
    return case.split("::", 1)[0]


def plan(names, known, processes):
    """Units for the names, `case[device]`, the longest first. `known` has seconds of cases; others count as their median."""
    usual = statistics.median(known.values()) if known else 1.0
    families = {}
    for name in names:
        case, device = libtest.label(name)
        families.setdefault((device, family(case)), []).append(case)
    total = sum(known.get(case, usual) for cases in families.values() for case in cases)
    share = max(SHORTEST, total / (2 * processes))
    units = []
    for (device, _), cases in families.items():
        cases = sorted(cases, key=lambda case: -known.get(case, usual))
        chunk, seconds = [], 0.0
        for case in cases:
            takes = known.get(case, usual)
            if chunk and seconds + takes > share:
                units.append(Unit(device, tuple(chunk), seconds))
                chunk, seconds = [], 0.0
            chunk.append(case)
            seconds += takes
        units.append(Unit(device, tuple(chunk), seconds))
    return sorted(units, key=lambda unit: -unit.seconds)


def blame(unit, lines, running):
    """The names that a process takes with it that ended by itself, and the unit of what is left to run, or None.

    It is the case that was running; or, if none was, the next one; or all, if the process came to none: its device can't be opened.
    """
    done = {line.case for line in lines}
    left = [case for case in unit.cases if case not in done]
    names = [f"{case}[{unit.device}]" for case in left]
    if running in names:
        blamed = [running]
    elif done:
        blamed = names[:1]
    else:
        blamed = names
    left = tuple(case for case, name in zip(left, names) if name not in blamed)
    return blamed, unit._replace(cases=left) if left else None


def how(code):
    """What is said of a process that ended by itself in the middle of a case."""
    if code < 0:
        try:
            return f"the process was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"the process was ended by signal {-code}"
    return f"the process ended with status {code}"


class Process:
    """A running process of a unit, with a folder of its own for record and logs."""

    def __init__(self, unit, program, environment, folder):
        self.unit, self.folder = unit, folder
        os.makedirs(folder, exist_ok=True)
        environment = dict(environment)
        environment["MOEBIUS_TEST_DEVICES"] = unit.device
        environment["MOEBIUS_TEST_FAMILIES"] = ",".join(unit.cases)
        environment["MOEBIUS_TEST_RECORD"] = folder
        self.out = os.path.join(folder, "out.txt")
        with open(self.out, "wb") as out, open(os.path.join(folder, "err.txt"), "wb") as err:
            self.child = subprocess.Popen(
                [program, "--color", "never"], stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
                cwd=folder, env=environment,
            )

    def end(self):
        """Ends the process and all that it has started."""
        try:
            os.killpg(self.child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it ended by itself meanwhile
        self.child.wait()

    def printed(self):
        with open(self.out, encoding="utf-8", errors="replace") as file:
            return libtest.printed(file.read())

    def lines(self):
        found = []
        for name in sorted(os.listdir(self.folder)):
            if name.endswith(".tsv"):
                with open(os.path.join(self.folder, name), encoding="utf-8") as file:
                    found.extend(libtest.recorded(file.read()))
        return found


class Ran(NamedTuple):
    """What all processes of a run left."""

    lines: list
    printed: list
    # How processes ended by themselves, for the case that was running then.
    died: dict


def run(units, processes, seconds, start):
    """Runs the units, as many at once as `processes`, and ends what still runs after `seconds`.

    `start` makes the Process of a unit; it gets the unit and a number that no other has.
    """
    deadline = time.monotonic() + seconds
    waiting, running, ended, died, number = list(units), [], [], {}, 0
    try:
        while (waiting or running) and time.monotonic() < deadline:
            while waiting and len(running) < processes:
                running.append(start(waiting.pop(0), number))
                number += 1
            time.sleep(PAUSE)
            for process in [process for process in running if process.child.poll() is not None]:
                running.remove(process)
                ended.append(process)
                printed = process.printed()
                if printed.ended:
                    continue
                blamed, left = blame(process.unit, process.lines(), printed.running)
                died.update(dict.fromkeys(blamed, how(process.child.returncode)))
                waiting.extend([left] if left else [])
    finally:
        for process in running:
            process.end()
    ended.extend(running)
    lines = [line for process in ended for line in process.lines()]
    return Ran(lines, [process.printed() for process in ended], died)
