"""Records the results of a run on a GPU in the tree: what ran, what was wrong, and how fast it was.

Usage: python3 record.py results.json
Changes docs/support.md (cards, dates and what was wrong), tests/support/ran_on_gpus.tsv (kernels whose cases passed),
tests/support/seconds_on_gpus.tsv (by which cases are shared out) and benches/RESULTS.md (figures); then prints what is left for a person to decide.
Exit status: 0 recorded, 2 refused or not understood, and nothing was changed.
"""

import os
import subprocess
import sys

import libtest
import results
import units

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
SUPPORT, FIGURES, KERNELS = "docs/support.md", "benches/RESULTS.md", "tests/support/ran_on_gpus.tsv"
SECONDS = "tests/support/seconds_on_gpus.tsv"
# What stands in the last column of a device that no GPU has run, and the line before which a run is told.
NEVER = ("not yet", "–")
NEXT_TEXT = "How fast it was is in [benches/RESULTS.md]"
NEXT_SECTION = "\n## Not measured"
# Of cases that are wrong or have not ended, so many are named.
NAMED = 12


class Refused(Exception):
    """The results can't be recorded; the message says why."""


def check(found, is_ancestor):
    """Raises Refused for results that say nothing about a card or about this history; `is_ancestor` tells of a commit."""
    card = found["card"]
    adapters = [device["adapter"] for device in found["devices"]]
    if found["emulated"] or card is None or any("emulated" in adapter for adapter in adapters):
        raise Refused("expected results of a GPU, got those of drivers in software or of none")
    if found["dirty"]:
        raise Refused("expected results of a commit, got those of a tree with further changes")
    if not is_ancestor(found["commit"]):
        raise Refused(f"expected a commit that this one is built on, got {found['commit']}")


def device_name(place):
    """The column of a device: `wgpu` of `wgpu:1`."""
    return place.split(":")[0]


def kernels_by_end(found):
    """The kernels of the build's list that cases launched, as ({(kernel, device)} of cases that passed, the same of wrong ones)."""
    known = {kernel["name"] for kernel in found["kernels"] if kernel["family"] != "peak"}
    right, wrong = set(), set()
    for outcome in results.outcomes(found):
        pairs = {(name, device_name(outcome.device)) for name in outcome.kernels if name in known}
        if outcome.end == libtest.RAN:
            right |= pairs
        elif outcome.end == libtest.WRONG:
            wrong |= pairs
    return right - wrong, wrong


def merged_kernels(text, found):
    """The lines `kernel, tab, devices` of ran_on_gpus.tsv with this run's: kernels that passed are added, those of a wrong case are
    taken away, and what did not run stays.
    """
    rows = {}
    for line in text.splitlines():
        name, devices = line.split("\t")
        rows[name] = set(devices.split(","))
    right, wrong = kernels_by_end(found)
    for name, device in right:
        rows.setdefault(name, set()).add(device)
    for name, device in wrong:
        rows.get(name, set()).discard(device)
    return "".join(f"{name}\t{','.join(sorted(devices))}\n" for name, devices in sorted(rows.items()) if devices)


def merged_seconds(text, found):
    """The file of cases' seconds with this run's: for each case that ended, the longest of its devices."""
    head = [line for line in text.splitlines() if line.startswith("#")]
    known, longest = units.durations(text), {}
    for outcome in results.outcomes(found):
        if outcome.seconds is not None and outcome.end == libtest.RAN:
            longest[outcome.case] = max(outcome.seconds, longest.get(outcome.case, 0.0))
    lines = [f"{case}\t{seconds:.3f}" for case, seconds in sorted({**known, **longest}.items())]
    return "\n".join(head + lines) + "\n"


def names(cases):
    """Names of cases in backquotes, at most NAMED of them."""
    more = f" and {len(cases) - NAMED} more" if len(cases) > NAMED else ""
    return ", ".join(f"`{case}`" for case in cases[:NAMED]) + more


def device_text(found, device):
    """What the last column of a device says of this run."""
    ends = libtest.counts(results.outcomes(found)).get(device)
    card, date = found["card"]["name"], found["date"]
    if ends is None:
        files = next(one for one in found["files"] if one["device"] == device)
        right = f"{files['passed']} of {files['expected']} bundled case files right"
        return f"{card}, {date}: {right}"
    told = [f"{ends[libtest.RAN]} cases right"]
    told += [f"{ends[end]} {end}" for end in (libtest.WRONG, libtest.REFUSED, libtest.NOT_ENDED) if ends[end]]
    return f"{card}, {date}: {', '.join(told)}"


def devices_of(found):
    """The devices of which this run says something, in order."""
    of_cases = [outcome["device"] for outcome in found["conformance"]]
    return list(dict.fromkeys(of_cases + [files["device"] for files in found["files"]]))


def story(found):
    """The paragraph about this run: card, driver, commit, and what was wrong or has not ended on each device."""
    card, parts = found["card"], []
    for device in devices_of(found):
        of_device = [one for one in results.outcomes(found) if one.device == device]
        for end, word in ((libtest.WRONG, "wrong"), (libtest.NOT_ENDED, "not ended")):
            cases = [one.case for one in of_device if one.end == end]
            if cases:
                parts.append(f"{word} on `{device}`: {len(cases)}, {names(cases)}")
        for files in found["files"]:
            if files["device"] == device and files["wrong"]:
                parts.append(f"bundled case files wrong on `{device}`: {names(['tests/cases/' + one['file'] for one in files['wrong']])}")
    sanitizer = found["sanitizer"] or {}
    if sanitizer.get("errors") is not None:
        parts.append(f"compute-sanitizer found {sanitizer['errors']} errors in a sample")
    told = "; ".join(parts) or "nothing was wrong"
    nvrtc = f", NVRTC {found['nvrtc']}" if found["nvrtc"] else ""
    return f"- {card['name']}, driver {card['driver']}{nvrtc}, on {found['date']} at `{found['commit'][:8]}`, by `scripts/gpu`: {told}."


def merged_support(text, found):
    """docs/support.md with this run in the rows of its devices and told below. Raises Refused where it is told already, and where the
    page has another form.
    """
    paragraph = story(found)
    if paragraph in text:
        raise Refused(f"{SUPPORT} tells of this run already")
    if NEXT_TEXT not in text:
        raise Refused(f"{SUPPORT}: expected the line \"{NEXT_TEXT}\", got none")
    lines = text.split("\n")
    for device in devices_of(found):
        start = f"| `{device_name(device)}` |" if not device.startswith("xla") else f"| `{device}` |"
        row = next((at for at, line in enumerate(lines) if line.startswith(start)), None)
        if row is None:
            raise Refused(f"{SUPPORT}: expected a row of `{device}`, got none")
        cells = lines[row].rstrip(" |").split(" | ")
        ours = device_text(found, device)
        cells[-1] = ours if cells[-1] in NEVER else f"{cells[-1]}; {ours}"
        lines[row] = " | ".join(cells) + " |"
    return "\n".join(lines).replace(NEXT_TEXT, f"{paragraph}\n\n{NEXT_TEXT}", 1)


def figures_section(found):
    """The section of RESULTS.md for this run, or None if it timed nothing."""
    if not found["figures"]:
        return None
    card = found["card"]
    nvrtc = f", NVRTC {found['nvrtc']}" if found["nvrtc"] else ""
    lines = [
        f"## On a GPU, by `scripts/gpu`: {card['name']}, driver {card['driver']}{nvrtc}; {found['date']}", "",
        f"Taken at `{found['commit'][:8]}` with `scripts/gpu run`. Ours: medians of runs of which each waits for the device, after a comparison "
        "with f64 sums. Peers: in the same run, compared with f64", "sums, too; the median by the device's events, and with a wait after each run. "
        "The ratio is of times with a wait.", "",
        "| work | device | ours | peer | ours / peer |", "|---|---|---|---|---|",
    ]
    lines += ["| " + " | ".join(cell.replace("|", "/") for cell in results.figure_row(found, figure)) + " |" for figure in found["figures"]]
    if found["counters"]:
        lines += ["", "By Nsight Compute, the longest launch of each kernel of one layer (hidden 1024, bf16):", ""]
        lines += ["| kernel | µs | multiprocessors | memory | occupancy | registers |", "|---|---|---|---|---|---|"]
        lines += ["| " + " | ".join(cell.replace("|", "/") for cell in results.counter_row(counter)) + " |" for counter in found["counters"]]
    return "\n".join(lines) + "\n"


def merged_figures(text, found):
    """RESULTS.md with the section of this run before what was not measured. Raises Refused where the file has another form."""
    section = figures_section(found)
    if section is None:
        return text
    before, mark, after = text.partition(NEXT_SECTION)
    if not mark:
        raise Refused(f"{FIGURES}: expected a section \"{NEXT_SECTION.strip()}\", got none")
    return f"{before}\n{section}{mark}{after}"


def promotions(found):
    """What a maintainer may promote, as lines: variants that plans take on request only, all of whose kernels that ran had every case
    right, and no case of their families is wrong or has not ended there.
    """
    right, _ = kernels_by_end(found)
    of_kernel = {kernel["name"]: kernel for kernel in found["kernels"]}
    open_families, launched_by = set(), {}
    for outcome in results.outcomes(found):
        device, family = device_name(outcome.device), units.family(outcome.case)
        if outcome.end in (libtest.WRONG, libtest.NOT_ENDED):
            open_families.add((family, device))
        for name in outcome.kernels:
            launched_by.setdefault((name, device), set()).add(family)
    ran, spoiled = {}, set()
    for pair, families in launched_by.items():
        name, device = pair
        kernel = of_kernel.get(name)
        if kernel is None or kernel["proven"]:
            continue
        variant = (kernel["family"], kernel["variant"], kernel["element"] or "words", device)
        ran.setdefault(variant, set()).add(name)
        if pair not in right or any((family, device) in open_families for family in families):
            spoiled.add(variant)
    lines = []
    for variant in sorted(set(ran) - spoiled):
        family, name, element, device = variant
        of_variant = [one for one in found["kernels"] if (one["family"], one["variant"], one["element"] or "words") == variant[:3]]
        lines.append(f"{family} · {name} ({element}) on {device}: {len(ran[variant])} of {len(of_variant)} kernels ran, all right")
    return lines


def is_ancestor(commit):
    """Whether HEAD is built on the commit, or is it."""
    words = ["git", "-C", ROOT, "merge-base", "--is-ancestor", commit, "HEAD"]
    return subprocess.run(words, stderr=subprocess.DEVNULL, check=False).returncode == 0


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def main(arguments):
    if len(arguments) != 1:
        print("gpu: expected results.json, got " + (" ".join(arguments) or "nothing"), file=sys.stderr)
        return 2
    try:
        with open(arguments[0], encoding="utf-8") as file:
            found = results.read(file.read())
        check(found, is_ancestor)
        # All of it is made before the first file is written.
        changed = {
            SUPPORT: merged_support(read(SUPPORT), found),
            FIGURES: merged_figures(read(FIGURES), found),
            KERNELS: merged_kernels(read(KERNELS), found),
            SECONDS: merged_seconds(read(SECONDS), found),
        }
    except (OSError, results.WrongForm, Refused) as error:
        print(f"gpu: {error}", file=sys.stderr)
        return 2
    for path, text in changed.items():
        with open(os.path.join(ROOT, path), "w", encoding="utf-8") as file:
            file.write(text)
    print("changed: " + ", ".join(changed))
    for line in results.wrong(found):
        print(f"recorded as wrong: {line[:300]}")
    possible = promotions(found)
    print("to promote, by a change of the code (`proven_on` and the entries in shaders/kernels/src/, where they aren't yet):" if possible
          else "to promote: nothing")
    for line in possible:
        print(f"  {line}")
    print("then, for the table's marks: MOEBIUS_BLESS=1 cargo test --workspace --features cpu,xla --test support_table")
    print("and read again what README.md, docs/support.md and RESULTS.md say of GPUs in prose")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
