"""Compares the perplexity of a text that `moebius perplexity` and llama.cpp find with the same GGUF files, for scripts/real-model --perplexity.

Usage: python perplexity.py MOEBIUS FOLDERS Q4_1.gguf Q8_0.gguf TEXT [--device D] [--tokens N] [--only TEXT]
    --only TEXT  the files whose model or weights contain it

Two files are given, `moebius convert` makes the others of folders. Weights stay in the file's blocks (`--weights file`), with f32 sums. llama.cpp
reads each file twice: with its values written in f32, which must agree within LIMIT, and as it is. There it also rounds what it multiplies with
the weights, to 8 bits, which changes the perplexity by up to half a percent: ROUNDED bounds that.
Prints JSON, a line for the machine and one a file, then a table in Markdown. Fails where a program fails, or the perplexities differ by more than
these, or are of other counts of tokens.
Needs: gguf, and what llama_cpp.py needs.
"""
import argparse, json, os, pathlib, sys, tempfile

import make_gguf
from compare import near
from gguf_files import Failed, made, matrices, ran
from speed import machine

LIMIT, ROUNDED = 1e-3, 1e-2
# As many as llama.cpp takes by itself. A window begins with the last token of the one before, so that each token is computed and judged once.
CONTEXT, STRIDE = 512, 511
# The files: a model's folder, and what its matrices are.
FILES = (("llama", "Q8_0"), ("llama", "Q4_1"), ("llama", "Q4_K"), ("mixtral-split", "Q8_0"))
HEADS = ("model", "weights", "matrices", "tokens", "moebius", "llama.cpp, in f32", "ratio", "llama.cpp", "ratio")


def ours(path, given):
    windows = ("--tokens", given.tokens, "--context", CONTEXT, "--stride", STRIDE)
    return json.loads(ran(given.moebius, "perplexity", "--model", path, "--text", given.text, *windows, "--device", given.device,
                          "--dtype", "f32", "--weights", "file", "--json"))


def theirs(path, given):
    script = pathlib.Path(__file__).with_name("llama_cpp.py")
    said = ran(sys.executable, script, path, given.text, given.tokens, CONTEXT, STRIDE, given.threads)
    return json.loads(said.strip().splitlines()[-1])


def compared(model, weights, given, folder):
    """A row of the table, with `wrong` where the perplexities aren't equal."""
    row = {"model": model, "weights": weights}
    try:
        path = made(model, weights, given, folder)
        values = pathlib.Path(folder) / f"{model}.{weights}.f32.gguf"
        make_gguf.main("f32", path, values)
        mine, same, rounded = ours(path, given), theirs(values, given), theirs(path, given)
        values.unlink()
    except Failed as error:
        return row | {"wrong": str(error)}
    row |= {"matrices": matrices(path), "tokens": mine["tokens"], "perplexity": mine["perplexity"], "llama_cpp": same["version"],
            "f32": same["perplexity"], "f32_ratio": mine["perplexity"] / same["perplexity"],
            "rounded": rounded["perplexity"], "rounded_ratio": mine["perplexity"] / rounded["perplexity"]}
    for other, limit in ((same, LIMIT), (rounded, ROUNDED)):
        good, said = near(mine, other, limit)
        print(f"{model} {weights}: {said}", file=sys.stderr, flush=True)
        if not good:
            return row | {"wrong": f"{said}, at most {100 * limit:g} % allowed"}
    return row


def report(rows):
    print("\n| " + " | ".join(HEADS) + " |", "|" + "---|" * len(HEADS), sep="\n")
    for row in rows:
        if "f32" in row:
            cells = (row["model"], row["weights"], row["matrices"], row["tokens"], f"{row['perplexity']:.4f}", f"{row['f32']:.4f}",
                     f"{row['f32_ratio']:.5f}", f"{row['rounded']:.4f}", f"{row['rounded_ratio']:.4f}")
            print("| " + " | ".join(map(str, cells)) + " |")
    print()
    for version in {row["llama_cpp"] for row in rows if "llama_cpp" in row}:
        print(f"llama.cpp: {version}")
    for row in rows:
        if "wrong" in row:
            print(f"wrong: {row['model']} {row['weights']}: {row['wrong']}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("moebius")
    parser.add_argument("folders", type=pathlib.Path)
    parser.add_argument("q4_1")
    parser.add_argument("q8_0")
    parser.add_argument("text")
    parser.add_argument("--device", default="flex")
    parser.add_argument("--tokens", type=int, default=16384)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    given.threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return given


def main():
    given = arguments()
    files = [(model, weights) for model, weights in FILES if given.only in f"{model} {weights}"]
    if not files:
        sys.exit("nothing to compare: --only is in no file's model and weights")
    print(json.dumps({"machine": machine(given) | {"threads": given.threads}}), flush=True)
    rows = []
    with tempfile.TemporaryDirectory(dir=given.folders.parent) as folder:
        for model, weights in files:
            rows.append(compared(model, weights, given, folder))
            print(json.dumps(rows[-1]), flush=True)
    report(rows)
    sys.exit(any("wrong" in row for row in rows))


if __name__ == "__main__":
    main()
