"""The results of a run on a GPU: what results.json has, and the table that is shown last. Pure.

`ABOUT` is the schema; each file has it as its first entry. Times are milliseconds unless an entry says otherwise.
"""

import json

import libtest
import works

# The version of the schema, which `record` expects.
FORMAT = 1

ABOUT = {
    "format": "the version of this schema",
    "commit": "the commit of the tree that the programs were built from, 40 digits",
    "dirty": "whether the tree had changes that were not committed; such results are not recorded",
    "features": "cargo features of the programs",
    "date": "the day of the run, in UTC",
    "seconds": "the whole run",
    "emulated": "whether drivers in software took the place of the machine's (--drivers); such results are not recorded",
    "card": "name, driver and memory_mib of the first GPU; memory_mib is null where the driver does not tell it",
    "nvrtc": "NVRTC's version; null where there is none",
    "cores": "processors of the machine",
    "devices": "the devices that ran, with adapter and driver",
    "left_out": "devices of the build that did not run, and why",
    "parts": "for each part: name, limit and seconds, state (ended, cut off, left out or failed), and why where it did not end",
    "conformance": "for each case and device: case, device, end (ran, refused, wrong or not ended), why, seconds, and the names of our "
    "kernels whose results it compared",
    "files": "for each device: passed, failed and errors of `moebius verify`, expected (the number of files), and wrong: file and why",
    "figures": "for each work and device: key, what, device, variant, value and unit; value is null, and why says so, where the result "
    "did not verify or there is none. A time is the median of runs of which each waits for the device",
    "peers": "for each work of a peer: keys (of the figures that are compared with it), name, shape, median_ms by the device's events, "
    "waited_ms with a wait after each run, runs, error (relative L2 from f64); or why instead of figures",
    "counters": "for each kernel that takes longest: kernel, launches, time_us, multiprocessors_percent, memory_percent, "
    "occupancy_percent, registers",
    "sanitizer": "errors (null without a summary), kinds of findings, and the cases of the sample",
    "kernels": "every kernel of the build: name, family, variant, element, proven",
}


class WrongForm(ValueError):
    """A file is no result of this version."""


def read(text):
    """The results in the text of a results.json. Raises WrongForm."""
    try:
        results = json.loads(text)
    except ValueError as error:
        raise WrongForm(f"expected JSON, got {error}") from error
    if not isinstance(results, dict) or results.get("format") != FORMAT:
        got = results.get("format") if isinstance(results, dict) else type(results).__name__
        raise WrongForm(f"expected results of format {FORMAT}, got {got!r}")
    lacking = [key for key in ABOUT if key not in results]
    if lacking:
        raise WrongForm(f"expected entries {', '.join(lacking)}, got none of them")
    return results


def text_of(results):
    """The text of a results.json, with the schema first."""
    return json.dumps({"about": ABOUT, **results}, indent=1, ensure_ascii=False) + "\n"


def outcomes(results):
    """The outcomes of conformance as data."""
    fields = libtest.Outcome._fields
    return [libtest.Outcome(*(tuple(one[field]) if field == "kernels" else one[field] for field in fields)) for one in results["conformance"]]


def wrong(results):
    """What is wrong, each as a line: cases, files, figures that don't verify, findings of the sanitizer."""
    found = [f"{one.case} on {one.device}: {one.why}" for one in outcomes(results) if one.end == libtest.WRONG]
    for files in results["files"]:
        found += [f"{one['file']} on {files['device']}: {one['why']}" for one in files["wrong"]]
    found += [f"{one['what']} on {one['device']}: {one['why']}" for one in results["figures"] if "does not verify" in (one["why"] or "")]
    sanitizer = results["sanitizer"] or {}
    if sanitizer.get("errors"):
        found.append(f"compute-sanitizer: {sanitizer['errors']} errors: {'; '.join(sanitizer['kinds'])}")
    return found


def best_peer(results, key):
    """The fastest peer of a work that has figures; None if there is none."""
    measured = [peer for peer in results["peers"] if key in peer["keys"] and peer.get("median_ms")]
    return min(measured, key=lambda peer: peer["median_ms"], default=None)


def ratio(figure, peer):
    """The peer's time over ours, both with a wait after each run; None unless both are times."""
    if peer is None or figure["unit"] != "ms" or not figure["value"]:
        return None
    return peer["waited_ms"] / figure["value"]


def figure_text(figure):
    """A figure with its unit, and its rate where it is a time of countable work; else why there is none."""
    if figure["value"] is None:
        return figure["why"] or "–"
    if figure["unit"] != "ms":
        return f"{figure['value']:.0f} {figure['unit']}"
    shape = next((work.shape for work in works.WORKS if work.key == figure["key"]), None)
    rate = f", {shape.flops() / figure['value'] / 1e9:.0f} TF/s" if shape and shape.flops() > 1e10 else ""
    return f"{figure['value']:.3f} ms{rate}"


def peer_text(peer):
    """The peer's time, by events and with a wait, its type and its name."""
    if peer is None:
        return "–"
    kind = peer["shape"].get("dtype") or peer["shape"].get("format")
    return f"{peer['median_ms']:.3f} ms ({peer['waited_ms']:.3f} with a wait; {peer['name']}, {kind})"


def columns(rows):
    """Rows of texts as lines, each column as wide as its widest cell."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


def table(results):
    """The table that a run ends with, as lines."""
    card, lines = results["card"], []
    name = f"{card['name']}, driver {card['driver']}" if card else "no GPU"
    lines.append(f"{name}, NVRTC {results['nvrtc'] or '–'}; {results['date']}, commit {results['commit'][:8]}")
    if results["emulated"]:
        lines.append("Drivers in software: nothing here says anything about a card.")
    rows = [("device", "right", "wrong", "refused", "not ended", "files")]
    counted, files = libtest.counts(outcomes(results)), {one["device"]: one for one in results["files"]}
    for device in dict.fromkeys([*counted, *files]):
        ends = counted.get(device, {})
        cells = [str(ends.get(end, "–")) for end in (libtest.RAN, libtest.WRONG, libtest.REFUSED, libtest.NOT_ENDED)]
        one = files.get(device)
        rows.append((device, *cells, f"{one['passed']} of {one['expected']}" if one else "–"))
    lines += ["", *columns(rows)]
    if results["figures"]:
        lines += ["", *columns([("work", "device", "ours", "peer", "ours / peer"), *map(lambda one: figure_row(results, one), results["figures"])])]
    if results["counters"]:
        lines += ["", *columns([("kernel", "µs", "busy", "memory", "occupancy", "registers"), *map(counter_row, results["counters"])])]
    return lines + endings(results)


def figure_row(results, figure):
    """The row of a figure beside its fastest peer."""
    peer = best_peer(results, figure["key"])
    share = ratio(figure, peer)
    return (figure["what"], figure["device"], figure_text(figure), peer_text(peer), f"{share:.2f}" if share else "–")


def counter_row(counter):
    """The row of a kernel's counters."""
    percent = [f"{counter[key]:.0f} %" if key in counter else "–" for key in ("multiprocessors_percent", "memory_percent", "occupancy_percent")]
    registers = f"{counter['registers']:.0f}" if "registers" in counter else "–"
    return (counter["kernel"][:60], f"{counter['time_us']:.1f}", *percent, registers)


def endings(results):
    """What did not run or not end, and what is wrong, as lines."""
    lines = [f"left out: {name}: {why}" for name, why in results["left_out"].items()]
    lines += [f"{part['name']}: {part['state']}: {part['why']}" for part in results["parts"] if part["state"] != "ended"]
    not_ended = [f"{one.case} on {one.device} ({one.why})" for one in outcomes(results) if one.end == libtest.NOT_ENDED]
    lines += [f"not ended: {len(not_ended)} cases: {', '.join(not_ended[:12])}{' …' if len(not_ended) > 12 else ''}"] if not_ended else []
    lines += [f"WRONG: {line[:300]}" for line in wrong(results)]
    return ["", *lines] if lines else []
