"""Reads the recorded outputs in `samples/`, for the tests."""

import json
import os

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "samples")


def text(name):
    """The text of a sample."""
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        return file.read()


def parsed(name):
    """A sample in JSON."""
    return json.loads(text(name))
