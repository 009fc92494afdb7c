"""Compares two results of scripts/real-model, as JSON, says how they differ, and fails where they differ by too much.

Usage: python compare.py greedy GOT WANT TOKENS        token for token, and TOKENS of them
       python compare.py near GOT WANT PART            perplexities that differ by at most PART of WANT's
       python compare.py not-above GOT WANT PART       a perplexity at most PART of WANT's above it
"""
import json, sys


def greedy(got, want, count):
    agree = sum(one == other for one, other in zip(got["ids"], want["ids"]))
    said = f"{agree} of {len(want['ids'])} tokens agree, the narrowest choice is by {want['narrowest']:.4f}"
    return got["ids"] == want["ids"] and len(got["ids"]) == int(count) and got["prompt_tokens"] == want["prompt_tokens"], said


def perplexities(got, want, within):
    part = got["perplexity"] / want["perplexity"] - 1
    said = f"{got['perplexity']:.4f} over {got['tokens']} tokens, {want['perplexity']:.4f} expected, {100 * part:+.3f} %"
    return within(part) and got["tokens"] == want["tokens"], said


def near(got, want, limit):
    return perplexities(got, want, lambda part: abs(part) <= float(limit))


def not_above(got, want, limit):
    return perplexities(got, want, lambda part: part <= float(limit))


if __name__ == "__main__":
    compare = {"greedy": greedy, "near": near, "not-above": not_above}[sys.argv[1]]
    good, said = compare(json.loads(sys.argv[2]), json.loads(sys.argv[3]), sys.argv[4])
    print(said)
    sys.exit(not good)
