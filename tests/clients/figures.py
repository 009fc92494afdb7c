"""Figures of measurements, and what they must be. Pure: a judgement is whether a figure is good, and a text that says it."""

import math
import statistics
from typing import NamedTuple


class Judged(NamedTuple):
    """Whether a figure is what it must be, and a text that says both."""

    good: bool
    said: str


def percentile(values, part):
    """The smallest value that at least `part` of the values, from 0 to 1, don't exceed."""
    if not values:
        raise ValueError("expected at least one value, got none")
    return sorted(values)[max(0, math.ceil(part * len(values)) - 1)]


def median(values):
    return statistics.median(values)


def typical(pairs, compare):
    """The pair of the middle one of an odd number of comparisons.

    What was measured in the same turn stays together, because a machine's clock moves from turn to turn by more than what is compared.
    """
    if len(pairs) % 2 == 0:
        raise ValueError(f"expected an odd number of pairs, got {len(pairs)}")
    return sorted(pairs, key=lambda pair: compare(*pair))[len(pairs) // 2]


def ratio(one, other):
    """The second figure as a part of the first; 0 where there is no first."""
    return other / one if one else 0.0


def difference(one, other):
    """What the second figure has more than the first."""
    return other - one


def ms(seconds):
    return f"{1e3 * seconds:.1f} ms"


def mib(amount):
    return f"{amount / (1 << 20):.1f} MiB"


def within(what, seconds, part, limit):
    """Times of which `part` must be below `limit` seconds; the last of all where it is 1."""
    reached = percentile(seconds, part)
    name = "the slowest" if part == 1 else f"p{100 * part:g}"
    said = f"{what}: {name} of {len(seconds)} {ms(reached)}, at most {ms(limit)} expected; median {ms(median(seconds))}"
    return Judged(reached <= limit, said)


def kept(peak, now, least):
    """A rate that must be at least the part `least` of its peak."""
    share = ratio(peak, now)
    said = f"{now:.0f} of {peak:.0f} tokens/s, {100 * share:.1f} %, at least {100 * least:g} % expected"
    return Judged(share >= least, said)


def slower(library, server, most):
    """A server's rate, which may be the part `most` below the library's."""
    part = 1 - server / library if library else 1.0
    said = f"{server:.0f} tokens/s, the library {library:.0f}: {100 * part:+.1f} % fewer, at most {100 * most:g} % expected"
    return Judged(0 < library * (1 - most) <= server, said)


def later(library, server, most):
    """A server's time, which may be `most` seconds above the library's."""
    said = f"{ms(server)}, the library {ms(library)}: {1e3 * (server - library):+.1f} ms, at most {ms(most)} more expected"
    return Judged(server <= library + most, said)


def back(before, after, slack):
    """Memory in bytes, which must be what it was but for the slack."""
    said = f"{mib(after)}, {mib(before)} before, at most {mib(slack)} more expected"
    return Judged(after - before <= slack, said)


def thirds(values):
    """The medians of the first and of the last third of some values in their order, three at least."""
    if len(values) < 3:
        raise ValueError(f"expected at least three values, got {len(values)}")
    third = len(values) // 3
    return median(values[:third]), median(values[-third:])


def steady(what, values, slack, told=lambda amount: f"{amount:g}"):
    """Readings in their order of what may not grow: the median of the last third, which may be at most `slack` above that of the first."""
    first, last = thirds(values)
    said = f"{what} {told(first)} in the first third, {told(last)} in the last, at most {told(slack)} more expected"
    return Judged(last - first <= slack, said)


def differences(own, told):
    """What was counted here and what was told otherwise, a text for each count that differs."""
    names = list(dict.fromkeys([*own, *told]))
    pairs = [(name, own.get(name, 0), told.get(name, 0)) for name in names]
    return [f"{name}: counted {mine:g}, told {theirs:g}" for name, mine, theirs in pairs if mine != theirs]
