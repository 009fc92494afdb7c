"""Metrics as Prometheus' text format tells them. Pure."""

import math
import re
from typing import NamedTuple

SAMPLE = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?")
LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"\s*(?:,\s*|$)')
ESCAPED = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


class Malformed(ValueError):
    """A line is none of the format."""


class Sample(NamedTuple):
    """A value of a metric."""

    name: str
    labels: dict
    value: float


def labels(text):
    """The labels in the braces of a sample. Raises Malformed."""
    found, at = {}, 0
    while at < len(text):
        match = LABEL.match(text, at)
        if match is None:
            raise Malformed(f"expected labels as name=\"value\", got {text[at:]!r}")
        found[match[1]] = re.sub(r'\\[\\"n]', lambda escape: ESCAPED[escape[0]], match[2])
        at = match.end()
    return found


class Metrics:
    """The samples of a text, and the types of its metrics. Raises Malformed."""

    def __init__(self, text):
        self.samples, self.types = [], {}
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split(" ", 3)
                self.types[name] = kind
            elif line and not line.startswith("#"):
                match = SAMPLE.fullmatch(line)
                if match is None:
                    raise Malformed(f"expected a sample, got {line!r}")
                self.samples.append(Sample(match[1], labels(match[2] or ""), float(match[3])))

    def total(self, name, **wanted):
        """The sum of a metric's samples that have these labels; 0 where there is none yet."""
        matching = [one.value for one in self.samples if one.name == name and wanted.items() <= one.labels.items()]
        return math.fsum(matching)

    def by(self, name, label):
        """The sums of a metric's samples by the values of a label, without those that are 0."""
        values = {one.labels.get(label, "") for one in self.samples if one.name == name}
        sums = {value: self.total(name, **{label: value}) for value in sorted(values)}
        return {value: total for value, total in sums.items() if total}


def listed(text):
    """The types of metrics by their names, as docs/deploy/metrics.tsv has them."""
    return {row[0]: row[1] for row in rows(text)}


def labelled(text):
    """The names of metrics with labels of their own, which have no sample, and so no type, before their first event."""
    return {row[0] for row in rows(text) if row[2]}


def rows(text):
    """The rows of docs/deploy/metrics.tsv: name, type, labels."""
    return [line.split("\t") for line in text.splitlines() if line and not line.startswith("#")]
