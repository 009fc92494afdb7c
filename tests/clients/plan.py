"""The checks of scripts/clients: their names, what each group needs to be installed, and which are asked for. Pure.

Usage: python3 plan.py list [text]     the names of the checks that contain TEXT, a line for each
       python3 plan.py needs [text]    what they need: environments of Python's, packages of npm, Prometheus
"""

import sys
from typing import NamedTuple


class Group(NamedTuple):
    """Checks that run after each other, with the same servers."""

    name: str
    what: str
    # What scripts/clients installs before.
    needs: tuple
    checks: tuple
    # Whether it takes so long that it runs only where it is asked for by its name.
    apart: bool = False

    def names(self):
        """The whole names of the checks."""
        return [f"{self.name}: {check}" for check in self.checks]


SDK = ("chat", "chat async", "stream", "stream async", "completions", "logprobs", "n", "stop", "seed", "tools", "responses", "models",
       "errors", "keys", "retries")

# In the order in which they run: what is timed comes before what leaves connections behind.
GROUPS = (
    Group("load", "what a load generator counts and measures", (),
          ("counts", "same text as the library", "speed of the library", "first token of the library", "overload", "full queue")),
    Group("openai-current", "the openai package of Python, its current major version", ("current",), SDK),
    Group("openai-previous", "the openai package of Python, the major version before", ("previous",), SDK),
    Group("langchain", "LangChain's adapter", ("current",), ("invoke", "stream", "async", "completions", "tools")),
    Group("openai-node", "the openai package of npm", ("node",), ("chat", "stream", "completions", "responses", "models", "errors")),
    Group("ai-sdk", "the AI SDK's adapter for interfaces like OpenAI's", ("node",), ("text", "stream", "tools", "errors")),
    Group("prometheus", "Prometheus and its promtool", ("prometheus",), ("listed metrics", "promtool metrics", "promtool rules", "scrape")),
    Group("schemathesis", "requests drawn from the OpenAPI document", ("schemathesis",), ("no fault of the server",)),
    Group("faults", "what clients, networks and supervisors do wrong", (),
          ("kill", "drain", "disconnects", "slow heads", "slow bodies", "large bodies", "hostile bodies", "10000 connections",
           "lost device")),
    Group("replicas", "two servers behind a balancer", (), ("one of two dies",)),
    Group("soak", "half an hour of all that clients do", (), ("nothing grows",), apart=True),
    Group("peers", "servers of other projects, with the same weights and the same load", ("weights", "xllamacpp", "mistralrs"),
          ("llama.cpp f32", "llama.cpp 8 bits", "llama.cpp Q8_0", "mistral.rs f32", "mistral.rs 8 bits"), apart=True),
)


class UnknownCheck(ValueError):
    """A text that no check's name contains."""


def chosen(text):
    """The groups with the checks whose whole names contain the text; all for an empty one. Groups that stand apart are chosen by a text
    that begins with their name.

    Raises UnknownCheck where there is none.
    """
    some = []
    for group in GROUPS:
        wanted = not group.apart or text.startswith(group.name)
        checks = tuple(check for check, name in zip(group.checks, group.names()) if wanted and text in name)
        if checks:
            some.append(group._replace(checks=checks))
    if not some:
        raise UnknownCheck(f"--only: expected a part of a check's name (--list shows them), got {text!r}")
    return some


def needs(groups):
    """What the groups need, each once, in their order."""
    return list(dict.fromkeys(need for group in groups for need in group.needs))


def main(words):
    if len(words) not in (1, 2) or words[0] not in ("list", "needs"):
        print(__doc__, file=sys.stderr)
        return 2
    text = words[1] if len(words) == 2 else ""
    try:
        groups = chosen(text) if text or words[0] == "needs" else GROUPS
    except UnknownCheck as error:
        print(f"clients: {error}", file=sys.stderr)
        return 2
    lines = needs(groups) if words[0] == "needs" else [name for group in groups for name in group.names()]
    for line in lines:
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
