"""Runs the bundle of `scripts/gpu build` on this machine, shows a table last, and writes results.json beside it.

Usage: python3 run.py DIR [--only PARTS] [--seconds N] [--drivers FOLDER]
DIR is the bundle's folder; logs and results.json are written to DIR/out. --drivers puts a folder with other driver libraries
(libcuda.so, libnvrtc.so) first, such as those in software. Exit status: 0 if nothing is wrong, 1 if something is, 2 for an error.
`results.py` has the schema of results.json.
"""

import argparse
import datetime
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import bundle
import counters
import libtest
import machine
import parts
import results
import units
import works

# The cases of conformance that compute-sanitizer watches: short, and of each kind of kernel.
SAMPLE = ("permute::block_edges", "grouped_gemm::tile_edges", "grouped_gemm::matrices_f16", "rows::sizes", "kv_cache::formats")
# What Nsight Compute profiles: one layer, forward.
PROFILED = works.Moe(4096, 1024, 4096, 8, 2, "bf16")
# Launches that are profiled at most, those that make weights and tokens among them; each is run several times over, once for each
# group of counters.
LAUNCHES = 60


class Run:
    """A run: the bundle, the machine, what was found so far, and the clock."""

    def __init__(self, options):
        self.begin = time.monotonic()
        self.seconds = options.seconds
        self.folder = os.path.abspath(options.dir)
        self.out = os.path.join(self.folder, "out")
        self.drivers = os.path.abspath(options.drivers) if options.drivers else None
        self.wanted = parts.chosen(options.only)
        self.environment, self.devices, self.toolkit = {}, [], None
        self.found = {key: [] for key in ("parts", "conformance", "files", "figures", "peers", "counters", "devices", "kernels")}
        self.found.update(format=results.FORMAT, left_out={}, sanitizer=None, card=None, nvrtc=None)

    def left(self):
        """The seconds that are left of the whole run."""
        return self.seconds - (time.monotonic() - self.begin)

    def say(self, text):
        print(f"[{time.monotonic() - self.begin:5.1f} s] {text}", flush=True)

    def path(self, *names):
        return os.path.join(self.folder, "unpacked", *names)

    def command(self, words, seconds, log, environment=None):
        """Runs a command until it ends or `seconds` are over; all that it starts ends with it. Its outputs go to out/LOG.txt and
        out/LOG.err.txt. Returns its status, None if it was ended, and what it wrote to its first output.
        """
        paths = [os.path.join(self.out, f"{log}{ending}") for ending in (".txt", ".err.txt")]
        with open(paths[0], "wb") as out, open(paths[1], "wb") as err:
            child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=self.out,
                                     start_new_session=True, env=environment or self.environment)
            status = None
            try:
                status = child.wait(max(0.0, seconds))
            except subprocess.TimeoutExpired:
                pass  # its end is below
            finally:
                if child.poll() is None:
                    os.killpg(child.pid, signal.SIGKILL)
                    child.wait()
        with open(paths[0], encoding="utf-8", errors="replace") as file:
            return status, file.read()

    def complaint(self, log):
        """The last line that a command wrote to its second output."""
        with open(os.path.join(self.out, f"{log}.err.txt"), encoding="utf-8", errors="replace") as file:
            lines = [line.strip() for line in file if line.strip()]
        return lines[-1][:300] if lines else "it said nothing"


class Unusable(Exception):
    """The machine or the bundle can't run this."""


class CutOff(Exception):
    """A part did not end within its time; the message says what is missing."""


class LeftOut(Exception):
    """A part can't run here; the message says why."""


def prepare(run):
    """Unpacks the bundle, finds what the machine has, and asks the program for its devices."""
    manifest = bundle.read_manifest(run.folder)
    run.say(f"unpacking {run.folder}")
    bundle.unpack(run.folder, manifest)
    shutil.rmtree(run.out, ignore_errors=True)
    os.makedirs(run.out)
    features = manifest["features"].split(",")
    run.found.update(
        commit=manifest["commit"], dirty=manifest["dirty"], features=manifest["features"],
        date=datetime.datetime.now(datetime.timezone.utc).date().isoformat(), cores=os.cpu_count() or 1, emulated=run.drivers is not None,
    )
    set_environment(run)
    for program in ("moebius", "conformance"):
        check_libraries(run, program)
    survey = asked(run, ["devices"], "devices")
    built = [name for name in ("cuda", "rocm", "vulkan") if name in features] + ["wgpu"]
    run.devices, run.found["left_out"] = machine.devices_of(survey, built)
    entries = {entry["device"]: entry for entry in survey["devices"]}
    for device in run.devices:
        capability = (entries.get(device) or entries[f"{device}:0"])["capability"]
        run.found["devices"].append({"device": device, "adapter": capability["name"], "driver": capability.get("driver")})
    card = machine.card_of_devices(survey["devices"]) if run.drivers else machine.card(survey["devices"])
    run.found["card"] = card._asdict() if card else None
    describe(run, card, features)


def asked(run, words, entry):
    """The object that the program answers to a question about the machine or itself, which has this entry."""
    status, text = run.command([run.path("moebius"), "--json", *words], 60, words[0])
    try:
        answer = json.loads(text)
    except ValueError:
        answer = {}
    if entry not in answer:
        raise Unusable(f"moebius {' '.join(words)} ended with {status} and told no {entry}: {run.complaint(words[0])}")
    return answer


def describe(run, card, features):
    """Says what the machine has, and asks for the list of kernels."""
    run.say(f"card: {card.name}, driver {card.driver}, memory {card.memory_mib} MiB" if card else "card: none")
    run.say(f"NVRTC: {run.found['nvrtc'] or 'none'}")
    run.say(f"CUDA_PATH: {run.environment.get('CUDA_PATH', 'none')}")
    run.say(f"devices: {', '.join(run.devices) or 'none'}; built with {','.join(features)}; {os.cpu_count()} processors")
    for name, why in run.found["left_out"].items():
        run.say(f"left out: {name}: {why}")
    if not run.devices:
        raise Unusable("no device of this build can be used")
    run.found["kernels"] = asked(run, ["emit", "--list"], "entries")["entries"]


def set_environment(run):
    """Sets what all programs get: libraries, CUDA's headers, and a cache folder of the run's own."""
    environment = dict(os.environ)
    own = run.path("lib-here")
    folders = [run.drivers] if run.drivers else []
    if run.drivers:
        environment["CUDA_PATH"] = run.drivers
        run.found["nvrtc"] = machine.nvrtc_version([run.drivers])
    else:
        lacking = machine.supply(run.path("lib"), own)
        if lacking:
            run.say(f"from the bundle, because the machine has none: {', '.join(lacking)}")
        find_toolkit(run, environment)
    folders += [own] + (list(run.toolkit.libraries) if run.toolkit else [])
    folders += [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    environment["LD_LIBRARY_PATH"] = ":".join(folders)
    environment["XDG_CACHE_HOME"] = os.path.join(run.out, "cache")
    environment["MOEBIUS_TEST_CASES"] = run.path("cases")
    driver = machine.vulkan_driver(run.out) if not run.drivers and "VK_DRIVER_FILES" not in os.environ else None
    if driver:
        environment["VK_DRIVER_FILES"] = driver
    run.environment = environment


def find_toolkit(run, environment):
    """Looks for NVRTC and CUDA's headers; without them `cuda` is left out by the program, which says why."""
    try:
        roots = machine.system_roots(os.environ.get("CUDA_PATH"))
        run.toolkit = machine.toolkit(roots, machine.nvidia_packages(), run.out)
    except machine.NotHere as error:
        run.say(f"not found: {error}")
        return
    environment["CUDA_PATH"] = run.toolkit.root
    run.found["nvrtc"] = machine.nvrtc_version(run.toolkit.libraries)


def check_libraries(run, program):
    """Refuses a machine whose libraries are older than the programs need, or that lacks one."""
    ran = subprocess.run(["ldd", run.path(program)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         check=False, env=run.environment)
    text = ran.stdout.decode("utf-8", "replace")
    lacks = [f"{name} in a newer release" for name in machine.too_old(text)] + machine.missing(text)
    if lacks:
        raise Unusable(f"{program} needs what this machine lacks: {', '.join(lacks)}")


def verify(run, device, seconds, environment=None):
    """Runs the bundled case files on a device and adds the verdicts; returns what is missing, or None."""
    files = sorted(glob.glob(run.path("cases", "*.safetensors")))
    log = f"files-{device.replace(':', '-')}"
    status, text = run.command([run.path("moebius"), "--json", "verify", "--device", device, *files], seconds, log, environment)
    try:
        report = json.loads(text)
        verdicts = report["files"]
    except (ValueError, KeyError):
        # The program says nothing before all files have run.
        return f"{device}: {'was running when the time was over' if status is None else run.complaint(log)}"
    wrong = [{"file": os.path.basename(one["file"]), "why": why_of_file(one)} for one in verdicts if one["verdict"] != "pass"]
    run.found["files"].append({
        "device": device, "expected": len(files), "passed": report["passed"], "failed": report["failed"], "errors": report["errors"],
        "wrong": wrong,
    })
    return None


def why_of_file(report):
    """What is wrong with a file, from its report."""
    failing = [output for output in report["outputs"] if output["verdict"] != "pass"]
    return report.get("error") or "; ".join(f"{output['name']}: relative L2 {output.get('rel_l2')}" for output in failing)


def run_cases(run, seconds):
    """The part `cases`."""
    deadline = time.monotonic() + seconds
    problems = [verify(run, device, deadline - time.monotonic()) for device in run.devices]
    if any(problems):
        raise CutOff("; ".join(problem for problem in problems if problem))


def run_bench(run, seconds):
    """The part `bench`."""
    deadline, missing = time.monotonic() + seconds, 0
    for number, (device, arguments, asked) in enumerate(works.commands([device.split(":")[0] for device in run.devices])):
        place = next(one for one in run.devices if one.split(":")[0] == device)
        left = deadline - time.monotonic()
        text = ""
        if left > 0:
            log = f"bench-{number:02}-{device}"
            status, text = run.command([run.path("moebius"), "--json", *arguments, "--device", place], left, log)
        missing += add_figures(run, place, asked, text, "the time was over" if left <= 0 or status is None else run.complaint(log))
    if missing:
        raise CutOff(f"{missing} figures are missing")


def add_figures(run, device, asked, text, said):
    """Adds the figures of one command's output; returns how many are missing because the command gave none."""
    try:
        result = json.loads(text)
    except ValueError:
        result = None
    for work in asked:
        value, why, variant = None, said, None
        if result is not None and "error" not in result:
            variant = result.get("variant")
            try:
                value, why = work.figure(result), None
            except works.Absent as error:
                why = str(error)
        run.found["figures"].append({
            "key": work.key, "what": work.what, "device": device, "variant": variant, "value": value, "unit": work.unit, "why": why,
        })
        run.say(f"{device}: {work.what}: {results.figure_text(run.found['figures'][-1])}")
    return len(asked) if result is None else 0


def run_peers(run, seconds):
    """The part `peers`: a line of JSON for each work, so that those that ended count when the time is over."""
    script = run.path("peers", "peers.py")
    status, text = run.command([sys.executable, script], seconds, "peers")
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                run.found["peers"].append(json.loads(line))
            except ValueError:
                continue  # the line that was being written when the time was over
    if status is None:
        raise CutOff("not all works ended")
    if status != 0:
        raise LeftOut(run.complaint("peers"))


def run_conformance(run, seconds):
    """The part `conformance`."""
    deadline = time.monotonic() + seconds
    program, names = run.path("conformance"), []
    for device in run.devices:
        environment = {**run.environment, "MOEBIUS_TEST_DEVICES": device}
        status, text = run.command([program, "--list"], deadline - time.monotonic(), f"list-{device.replace(':', '-')}", environment)
        if status != 0:
            raise LeftOut(f"{device}: the cases could not be listed: {run.complaint('list-' + device.replace(':', '-'))}")
        names += libtest.listed(text)
    with open(run.path("seconds.tsv"), encoding="utf-8") as file:
        known = units.durations(file.read())
    memory = (run.found["card"] or {}).get("memory_mib")
    processes = parts.processes(os.cpu_count() or 1, memory)
    planned = units.plan(names, known, processes)
    run.say(f"{len(names)} cases in {len(planned)} units, {processes} processes at once")

    def start(unit, number):
        folder = os.path.join(run.out, "conformance", f"{number:03}-{unit.device.replace(':', '-')}-{units.family(unit.cases[0])}")
        return units.Process(unit, program, run.environment, folder)

    ran = units.run(planned, processes, deadline - time.monotonic(), start)
    outcomes = libtest.outcomes(names, ran.lines, ran.printed, ran.died)
    run.found["conformance"] = [outcome._asdict() for outcome in outcomes]
    waiting = sum(outcome.end == libtest.NOT_ENDED for outcome in outcomes)
    if waiting:
        raise CutOff(f"{waiting} cases have not ended")


def run_xla(run, seconds):
    """The part `xla`."""
    if "xla" not in run.found["features"].split(","):
        raise LeftOut("the program is built without xla (scripts/gpu build --features cuda,vulkan,xla)")
    plugin = machine.plugin()
    if plugin is None:
        raise LeftOut("this Python has no plugin (pip install jax-cuda13-pjrt or jax-cuda12-pjrt)")
    libraries = [path for folder in machine.nvidia_packages() for path in sorted(glob.glob(os.path.join(folder, "*", "lib")))]
    environment = {**run.environment, "MOEBIUS_PJRT_CUDA": plugin}
    environment["LD_LIBRARY_PATH"] = ":".join([*libraries, run.environment["LD_LIBRARY_PATH"]])
    problem = verify(run, "xla:cuda", seconds, environment)
    if problem:
        raise CutOff(problem)


def tool(run, name):
    """The path of one of CUDA's programs; LeftOut where there is none."""
    folders = [run.toolkit.root] if run.toolkit else []
    folders += sorted(glob.glob("/opt/nvidia/nsight-compute/*"), key=machine.version_of, reverse=True)
    path = counters.tool(name, folders)
    if path is None or run.drivers or "cuda" not in run.devices:
        raise LeftOut(f"no {name} on this machine" if path is None else "there is no card of NVIDIA's")
    return path


def run_counters(run, seconds):
    """The part `counters`."""
    deadline = time.monotonic() + seconds
    words = [tool(run, "ncu"), "--csv", "--metrics", ",".join(counters.METRICS), "--launch-count", str(LAUNCHES)]
    layer = [run.path("moebius"), "--json", *PROFILED.arguments(), "--device", "cuda"]
    if not os.path.exists(os.path.join(run.out, "cache", "moebius", "verdicts.json")):
        # The first use of a device runs the bundled cases, whose launches are not asked for.
        run.command(layer, seconds, "before-counters")
    # In other locales the tool writes decimal commas.
    plain = {"LC_ALL": "C"}
    status, text = run.command(words + layer, deadline - time.monotonic(), "counters", {**run.environment, **plain})
    try:
        run.found["counters"] = counters.kernels(text)
    except counters.NoCounters as error:
        raise LeftOut(str(error) if status is not None else "nothing was counted when the time was over") from error
    if status is None:
        raise CutOff("not all launches were counted")


def run_sanitizer(run, seconds):
    """The part `sanitizer`."""
    words = [tool(run, "compute-sanitizer"), "--tool", "memcheck", run.path("conformance"), "--color", "never"]
    sample = ",".join(SAMPLE)
    environment = {**run.environment, "MOEBIUS_TEST_DEVICES": "cuda", "MOEBIUS_TEST_FAMILIES": sample}
    status, text = run.command(words, seconds, "sanitizer", environment)
    errors, kinds = counters.findings(text)
    printed = libtest.printed(text)
    done = sorted(name for name, end in printed.outcomes.items() if end == "ok")
    run.found["sanitizer"] = {"errors": errors, "kinds": kinds, "cases": done}
    if status is None or errors is None:
        raise CutOff(f"{len(done)} of {len(SAMPLE)} cases ended" if status is None else "no summary was printed")


WORK = {
    "cases": run_cases, "bench": run_bench, "peers": run_peers, "conformance": run_conformance, "xla": run_xla,
    "counters": run_counters, "sanitizer": run_sanitizer,
}


def run_parts(run):
    """Runs the wanted parts, each within its limit, and notes how each ended."""
    for number, part in enumerate(run.wanted):
        limit = parts.limit(part, run.wanted[number + 1:], run.left())
        run.say(f"{part.name}: {part.what}, at most {limit:.0f} s")
        began, state, why = time.monotonic(), "ended", None
        try:
            WORK[part.name](run, limit)
        except CutOff as error:
            state, why = "cut off", str(error)
        except LeftOut as error:
            state, why = "left out", str(error)
        except (OSError, ValueError, KeyError) as error:
            # What one part meets must not take the others' results along.
            state, why = "failed", f"{type(error).__name__}: {error}"
        seconds = time.monotonic() - began
        run.found["parts"].append({"name": part.name, "limit": round(limit, 1), "seconds": round(seconds, 1), "state": state, "why": why})
        run.say(f"{part.name}: {state}{': ' + why if why else ''}")


def options(arguments):
    parser = argparse.ArgumentParser(prog="scripts/gpu run", description="Runs a bundle of scripts/gpu build on this machine.")
    parser.add_argument("dir", help="the bundle's folder")
    parser.add_argument("--only", metavar="PARTS", help=f"parts with commas: {', '.join(parts.NAMES)}")
    parser.add_argument("--seconds", type=float, default=parts.SECONDS, help="seconds of the whole run [default: %(default)g]")
    parser.add_argument("--drivers", metavar="FOLDER", help="driver libraries in place of the machine's")
    return parser.parse_args(arguments)


def main(arguments):
    """Runs, shows and writes; returns the exit status."""
    try:
        run = Run(options(arguments))
        prepare(run)
    except (Unusable, bundle.Damaged, parts.UnknownPart) as error:
        print(f"gpu: {error}", file=sys.stderr)
        return 2
    run_parts(run)
    run.found["seconds"] = round(time.monotonic() - run.begin, 1)
    path = os.path.join(run.out, "results.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write(results.text_of(run.found))
    print("\n" + "\n".join(results.table(run.found)) + f"\n\n{path}")
    failed = any(part["state"] == "failed" for part in run.found["parts"])
    return 1 if results.wrong(run.found) or failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
