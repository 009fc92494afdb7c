"""What became of each check, as a line, as a last line for all, and as JSON. Pure."""

from typing import NamedTuple

PASSED, FAILED, LEFT_OUT = "passed", "FAILED", "left out"

# The version of the JSON.
FORMAT = 1


class Wrong(Exception):
    """A check found something wrong; the message says what was expected and what came, and there may be figures for programs."""

    def __init__(self, said, figures=None):
        super().__init__(said)
        self.figures = figures or {}


class LeftOut(Exception):
    """A check can't run here; the message says why."""


class Found(NamedTuple):
    """What a check found: a text with its figures, and the figures for programs."""

    said: str
    figures: dict = {}


class Verdict(NamedTuple):
    """What became of a check."""

    name: str
    verdict: str
    said: str
    seconds: float = 0.0
    figures: dict = {}

    def line(self):
        return f"{self.verdict}: {self.name}: {self.said}"


def count(verdicts, verdict):
    return sum(one.verdict == verdict for one in verdicts)


def summary(verdicts):
    """The last line. What was left out is counted where there is such a thing."""
    said = f"{count(verdicts, PASSED)} passed, {count(verdicts, FAILED)} failed"
    left_out = count(verdicts, LEFT_OUT)
    return f"{said}, {left_out} left out" if left_out else said


def results(about, verdicts):
    """All of it for programs."""
    checks = [{"name": one.name, "verdict": one.verdict.lower(), "said": one.said, "seconds": round(one.seconds, 2), "figures": one.figures}
              for one in verdicts]
    counts = {name.lower().replace(" ", "_"): count(verdicts, name) for name in (PASSED, FAILED, LEFT_OUT)}
    return {"format": FORMAT, **about, **counts, "checks": checks}


def status(verdicts):
    """The exit status: 1 if something failed, and if nothing ran."""
    return int(count(verdicts, FAILED) > 0 or count(verdicts, PASSED) == 0)


def of_lines(group, checks, lines, end):
    """The verdicts of checks that another program ran, from the objects that it printed, a line for each check.

    `end` says how the program ended, for a check without a line.
    """
    said = {line["check"]: line for line in lines if "check" in line}
    verdicts = []
    for check in checks:
        line = said.get(check, {"good": False, "said": f"the program told nothing of it and ended with {end}", "seconds": 0.0})
        verdict = PASSED if line["good"] else FAILED
        verdicts.append(Verdict(f"{group}: {check}", verdict, line["said"], line["seconds"], line.get("figures", {})))
    return verdicts
