"""Reads what a conformance program prints and records, and says how each case ended. Pure: texts in, data out.

The program prints in libtest's form, one case after another, and appends a line with eight fields to its record for each case
that came to an end (`tests/src/record.rs` describes them). A case without such a line has not ended, whatever was printed.
"""

import re
from typing import NamedTuple, Optional

# The ends of a case. A case that has not ended says nothing about the device, for or against.
RAN, REFUSED, WRONG, NOT_ENDED = "ran", "refused", "wrong", "not ended"
ENDS = (RAN, REFUSED, WRONG, NOT_ENDED)

TEST = re.compile(r"^test (?P<name>\S+)\s+\.\.\. ?(?P<rest>.*)$")
LABEL = re.compile(r"^(?P<case>[^\[\]]+)\[(?P<device>[^\[\]]+)\]$")
FAILURE = re.compile(r"^---- (?P<name>\S+) ----$")
OUTCOMES = ("ok", "FAILED", "ignored")


class Line(NamedTuple):
    """A line of the record."""

    case: str
    device: str
    adapter: str
    end: str
    reason: str
    seconds: float
    # Names of our kernels whose results the case compared.
    kernels: tuple


class Printed(NamedTuple):
    """What a program printed about its cases, each named with its device, `permute::sizes[cuda]`."""

    # `ok`, `FAILED` or `ignored` for each case whose end was printed.
    outcomes: dict
    # The case that had begun when the text ends.
    running: Optional[str]
    # For each case that failed, what was printed about it, as one line.
    messages: dict
    # Whether the program came to its end and printed the totals.
    ended: bool


class Outcome(NamedTuple):
    """How a case ended on a device."""

    case: str
    device: str
    end: str
    # The reason of a refusal, what a wrong case said, or how far one came that has not ended.
    why: str
    seconds: Optional[float]
    kernels: tuple


def label(name):
    """The case and the device of a name such as `permute::sizes[cuda]`; None if it has another form."""
    found = LABEL.match(name)
    return (found["case"], found["device"]) if found else None


def listed(text):
    """The names in what the program prints for `--list`, in order."""
    lines = (line.rsplit(": ", 1) for line in text.splitlines())
    return [parts[0] for parts in lines if len(parts) == 2 and parts[1] == "test"]


def printed(text):
    """Reads what the program printed, to its end or until it was killed.

    A case may print lines of its own between its name and its outcome: the outcome is the next line that is one.
    """
    outcomes, messages, running, ended, failure = {}, {}, None, False, None
    for line in text.splitlines():
        test = TEST.match(line)
        if test:
            running, rest = test["name"], test["rest"].strip()
            failure = None
        else:
            rest = line.strip()
        last = rest.rsplit(None, 1)[-1] if rest else ""
        if running and last in OUTCOMES:
            outcomes[running], running = last, None
        elif line.startswith("test result:"):
            ended, failure = True, None
        elif FAILURE.match(line):
            failure = FAILURE.match(line)["name"]
            messages[failure] = ""
        elif line == "failures:":
            failure = None
        elif failure and rest:
            messages[failure] = f"{messages[failure]} {rest}".strip()
    return Printed(outcomes, running, messages, ended)


def recorded(text):
    """The lines of a record. A last line that was cut off when its program was killed is left out; any other wrong line raises
    ValueError.
    """
    whole, cut, _ = text.rpartition("\n")
    return [line_of(line) for line in (whole + cut).splitlines()]


def line_of(text):
    """Parses one line of a record."""
    fields = text.split("\t")
    if len(fields) != 8:
        raise ValueError(f"expected 8 fields, got {len(fields)} in {text!r}")
    case, device, adapter, end, reason, seconds, _, kernels = fields
    ends = {"ran": RAN, "refused": REFUSED, "failed": WRONG}
    if end not in ends:
        raise ValueError(f"expected ran, refused or failed, got {end!r} in {text!r}")
    names = tuple(sorted({pair.split("=", 1)[0] for pair in kernels.split("|") if pair}))
    return Line(case, device, adapter, ends[end], reason, float(seconds), names)


def outcomes(expected, lines, runs, died):
    """How each of the `expected` names ended, in their order.

    `lines` are those of the records, `runs` what each process printed, and `died` tells of names how the process that was running
    them ended by itself: such a case is wrong, as a kernel that kills its process is. A name without a line has not ended.
    """
    ended = {(line.case, line.device): line for line in lines}
    messages, running = {}, set()
    for run in runs:
        messages.update(run.messages)
        if run.running:
            running.add(run.running)
    found = []
    for name in expected:
        case, device = label(name)
        line = ended.get((case, device))
        if line is not None:
            why = line.reason if line.end == REFUSED else messages.get(name, "")
            found.append(Outcome(case, device, line.end, why, line.seconds, line.kernels))
        elif name in died:
            found.append(Outcome(case, device, WRONG, died[name], None, ()))
        else:
            why = "was running when the time was over" if name in running else "had not begun"
            found.append(Outcome(case, device, NOT_ENDED, why, None, ()))
    return found


def counts(found):
    """How many outcomes have each of ENDS, of each device, as {device: {end: count}}."""
    counted = {}
    for outcome in found:
        of_device = counted.setdefault(outcome.device, dict.fromkeys(ENDS, 0))
        of_device[outcome.end] += 1
    return counted
