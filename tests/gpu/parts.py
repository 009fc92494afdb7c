"""The parts of a run on a GPU, and how long each may take. Pure: it reads no clock.

A part may take its share of the time that is left, among the parts that are still to come: what an early part leaves over goes to
the later ones, and what it overdraws is taken from them. So all together end in time.
"""

from typing import NamedTuple


class Part(NamedTuple):
    """A part of a run."""

    name: str
    what: str
    # Seconds of a run of `SECONDS`, from which the shares of any run follow.
    seconds: float


# A whole run, unpacking included.
SECONDS = 360.0

# In the order in which they run. What is timed comes before what keeps the processors busy.
PARTS = (
    Part("cases", "bundled case files on every device (moebius verify)", 35),
    Part("bench", "the work of the table, on every device that it names", 90),
    Part("peers", "the same work in PyTorch and Triton", 50),
    Part("conformance", "every case of conformance on every device", 125),
    Part("xla", "bundled case files on xla:cuda", 20),
    Part("counters", "Nsight Compute's counters of the kernels that take longest", 20),
    Part("sanitizer", "compute-sanitizer on a sample of conformance", 20),
)
NAMES = tuple(part.name for part in PARTS)


class UnknownPart(ValueError):
    """A name that no part has."""


def chosen(names):
    """The parts of a list with commas, in the order in which they run; all parts if it is None.

    Raises UnknownPart for an unknown name, and for a list without any.
    """
    if names is None:
        return list(PARTS)
    asked = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in asked if name not in NAMES]
    if unknown or not asked:
        raise UnknownPart(f"expected parts among {', '.join(NAMES)}, got {', '.join(unknown) or 'none'}")
    return [part for part in PARTS if part.name in asked]


def limit(part, to_come, left):
    """The seconds that `part` may take of the `left` seconds; `to_come` are the parts after it. Never negative."""
    shares = part.seconds + sum(other.seconds for other in to_come)
    return max(0.0, left) * part.seconds / shares


def processes(cores, memory_mib, each_mib=1024):
    """How many processes may use the card at once: one a core, and no more than its memory holds if each takes `each_mib`.

    `memory_mib` is None where the driver doesn't tell it.
    """
    fit = cores if memory_mib is None else memory_mib // each_mib
    return max(1, min(cores, fit))
