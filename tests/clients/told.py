"""How a client in another language, or in an environment of its own, tells what became of its checks: an object on a line for each.

`report.of_lines` reads it.
"""

import argparse
import importlib.metadata
import json
import time


def arguments(description, *names):
    """The command line of such a client: an option for each name, and the checks to run."""
    parser = argparse.ArgumentParser(description=description)
    for name in names:
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("checks", nargs="+")
    return parser.parse_args()


def run(checks, wanted, given, packages):
    """Runs the wanted checks of a table from names to functions, each with `given`, and tells the packages' versions first."""
    print(json.dumps({"versions": {name: importlib.metadata.version(name) for name in packages}}), flush=True)
    for name in wanted:
        begun = time.monotonic()
        try:
            good, said = True, checks[name](given)
        except Exception as error:  # whatever a library raises is what the check is about
            good, said = False, f"{type(error).__name__}: {error}"[:1000]
        print(json.dumps({"check": name, "good": good, "said": said, "seconds": time.monotonic() - begun}), flush=True)


def expect(good, what):
    """Raises AssertionError, also where assertions are turned off."""
    if not good:
        raise AssertionError(what)


def same(what, got, want):
    expect(got == want, f"{what}: expected {want!r}, got {got!r}")
