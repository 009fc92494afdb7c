"""Nsight Compute's counters, and what compute-sanitizer found. Pure but for `tool`: texts in, data out."""

import csv
import io
import os
import re
import shutil

# What is asked of each launch, and the name that the table gives it.
METRICS = {
    "gpu__time_duration.sum": "time_us",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "multiprocessors_percent",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "memory_percent",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "occupancy_percent",
    "launch__registers_per_thread": "registers",
}
# Microseconds in the units in which Nsight Compute gives times.
MICROSECONDS = {"nsecond": 1e-3, "ns": 1e-3, "usecond": 1.0, "us": 1.0, "msecond": 1e3, "ms": 1e3, "second": 1e6, "s": 1e6}
SUMMARY = re.compile(r"ERROR SUMMARY: (?P<errors>\d+) errors?")
FINDING = re.compile(r"=========\s+(?P<text>(Invalid|Race|Uninitialized|Out-of-range|Misaligned|Barrier|Potential|Program hit).*)$")


class NoCounters(Exception):
    """The tool gave no counters, and said why."""


def tool(name, folders):
    """The path of a program: on the PATH, else in the `bin` folder or the folder itself of one of `folders`; None if it is in none."""
    found = shutil.which(name)
    paths = [os.path.join(folder, part, name) for folder in folders for part in ("bin", "")]
    return found or next((path for path in paths if os.access(path, os.X_OK)), None)


def number(text):
    """A figure as the tool writes it, with or without commas between thousands."""
    return float(text.replace(",", ""))


def kernels(text, most=10):
    """The kernels in the CSV text of `ncu --csv`, those with the longest launch first, at most so many; each as an object of its
    `kernel`, how many `launches` were seen, and the counters of the longest one, by the names of METRICS.

    Raises NoCounters with what the tool said instead.
    """
    lines = text.splitlines()
    start = next((at for at, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        said = [line.strip("= ") for line in lines if "ERR" in line or "error" in line.lower()]
        raise NoCounters(said[0] if said else "no launch was counted")
    launches = {}
    for row in csv.DictReader(io.StringIO("\n".join(lines[start:]))):
        name = METRICS.get(row.get("Metric Name", ""))
        if name is None or not row.get("Metric Value"):
            continue
        value = number(row["Metric Value"])
        if name == "time_us":
            value *= MICROSECONDS[row["Metric Unit"]]
        launches.setdefault(row["ID"], {"kernel": row["Kernel Name"]})[name] = value
    longest = {}
    for launch in launches.values():
        if "time_us" not in launch:
            continue
        kept = longest.get(launch["kernel"])
        count = kept["launches"] + 1 if kept else 1
        if kept is None or launch["time_us"] > kept["time_us"]:
            kept = launch
        longest[launch["kernel"]] = {**kept, "launches": count}
    return sorted(longest.values(), key=lambda launch: -launch["time_us"])[:most]


def findings(text):
    """What compute-sanitizer reports: the number of errors, None where it printed no summary, and each kind of finding once."""
    summary = SUMMARY.search(text)
    # The tool writes into the middle of a line that the program has begun.
    kinds = [found["text"].strip() for found in map(FINDING.search, text.splitlines()) if found]
    return (int(summary["errors"]) if summary else None), sorted(set(kinds))
