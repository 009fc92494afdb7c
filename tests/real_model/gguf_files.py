"""GGUF files of the model, which two programs read, for perplexity.py and speed.py: those that are given, and those that are made.

`given` has the paths of two files of the dense model (`q4_1`, `q8_0`), of the model's `folders`, and of the binary `moebius`.
Needs: what make_gguf.py needs.
"""
import collections, pathlib, subprocess, sys

# Of the dense model these are made of the given file's values by make_gguf.py, all others by `moebius convert` of a folder.
REWRITTEN = ("f32", "bf16")


class Failed(Exception):
    """A program that ended with another status than 0, and its last words."""


def ran(*command):
    """What a program wrote to standard output."""
    ended = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if ended.returncode:
        words = " / ".join(ended.stderr.strip().splitlines()[-3:])
        raise Failed(f"{pathlib.Path(command[0]).name} failed with status {ended.returncode}: {words}")
    return ended.stdout


def path_of(model, weights, given, folder):
    """Where the file of a model with these weights is: where it is given, else in `folder`, once it is made."""
    here = {("llama", "Q4_1"): given.q4_1, ("llama", "Q8_0"): given.q8_0}
    return pathlib.Path(here.get((model, weights), pathlib.Path(folder) / f"{model}.{weights}.gguf"))


def made(model, weights, given, folder):
    """The path of the file, which is made if it isn't there."""
    path = path_of(model, weights, given, folder)
    if path.exists():
        return path
    if model == "llama" and weights in REWRITTEN:
        ran(sys.executable, pathlib.Path(__file__).with_name("make_gguf.py"), weights, given.q4_1, path)
    else:
        ran(given.moebius, "convert", "--model", given.folders / model, "--to", f"gguf:{weights}", "--out", path, "--json")
    return path


def matrices(path):
    """The types of a file's matrices, most frequent first: rows that are no whole blocks of a type have another."""
    import gguf

    types = collections.Counter(tensor.tensor_type.name for tensor in gguf.GGUFReader(path).tensors if len(tensor.shape) > 1)
    return ", ".join(f"{count} {name}" for name, count in types.most_common())
