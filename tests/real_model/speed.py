"""Measures how fast `moebius generate` and other programs take a prompt and go on with it, with the same weights, for scripts/real-model --speed.

Usage: python speed.py MOEBIUS FOLDERS Q8_0.gguf TEXT [--device D] [--runs N] [--prompt-tokens N] [--tokens N] [--only TEXT]
    --only TEXT  the rows whose program, model or precision contains it, and ours in f32, which the others are compared with

Every run is a process of its own, and the programs take turns, so that a slow minute of the machine is shared. Loading doesn't count. The
others warm up with a few tokens, ours doesn't. Each has THREADS threads, on as many processors. Medians of the runs.
Greedy text comes first: a program that computes in f32 and says other tokens than ours gets no number, because it computes something else.
With 8 bits tokens may differ, so there the count that agrees is only told.
Nothing may run beside where numbers are kept: the threads of OpenMP spin while they wait for each other, so that a third busy thread on two
processors costs llama.cpp and PyTorch several times what it costs the others. How many processors other work took is told for each program.
OMP_WAIT_POLICY=passive reaches the programs, and is told.
Prints JSON, a line for the machine and one a program, then a table. Fails where a program failed or its f32 text differs.
Needs: transformers, and what speed_peers.py needs.
"""
import argparse, dataclasses, json, os, pathlib, platform, resource, statistics, subprocess, sys, time

from transformers import PreTrainedTokenizerFast

THREADS = 2
COMPARED = 32
TIMEOUT_S = 1200
# Processors that others may keep busy on average: what a quiet system does.
QUIET = 0.1
# What kernels for 8 bits and for f32 ask for.
INSTRUCTIONS = ("avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_int8",
                "asimd", "asimddp", "i8mm", "sve")
# mistral.rs keeps keys and values in f16 unless told otherwise, which is no f32 as the others have it.
SETTINGS = {"OMP_NUM_THREADS": str(THREADS), "MKL_NUM_THREADS": str(THREADS), "RAYON_NUM_THREADS": str(THREADS),
               "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "MISTRALRS_CPU_KV_F32": "1"}
NOTES = ("a median of the runs, each in a process of its own, in turns; batch 1; loading doesn't count",
         "llama.cpp keeps keys and values in f16, all others in f32; as ours: leading tokens that are those of ours in f32",
         "beside: processors that other work kept busy meanwhile, at most")


@dataclasses.dataclass
class Row:
    program: str
    model: str
    precision: str
    command: list
    runs: list = dataclasses.field(default_factory=list)
    agree: int = COMPARED
    wrong: str = ""

    @property
    def name(self):
        return f"{self.program} {self.model} {self.precision}"

    @property
    def is_reference(self):
        return self.program == "moebius" and self.precision == "f32"

    def median(self, what):
        return statistics.median(run[what] for run in self.runs)


def rows(given, prompt):
    """In the order of their turns: of each model ours in f32 is the first, and ours and another's are neighbours."""
    count = str(given.tokens)

    def ours(model, precision):
        command = [given.moebius, "generate", "--model", str(given.folders / model), "--device", given.device, "--dtype", precision,
                   "--prompt", prompt, "--max-tokens", count, "--json"]
        return Row("moebius", model, precision, command)

    def other(program, model, precision, path):
        script = str(pathlib.Path(__file__).with_name("speed_peers.py"))
        return Row(program, model, precision, [sys.executable, script, program, str(path), prompt, count, str(THREADS)])

    llama, mixture = given.folders / "llama", given.folders / "mixtral-split"
    everything = [
        ours("llama", "f32"), other("transformers", "llama", "f32", llama),
        ours("llama", "fp8"), other("llama.cpp", "llama", "Q8_0", given.gguf),
        ours("mixtral-split", "f32"), other("transformers", "mixtral-split", "f32", mixture),
        ours("mixtral-split", "fp8"), other("mistral.rs", "mixtral-split", "f32", mixture), other("mistral.rs", "llama", "f32", llama),
    ]
    chosen = [row for row in everything if given.only in row.name]
    needed = {row.model for row in chosen}
    return [row for row in everything if row in chosen or row.is_reference and row.model in needed]


def machine(given):
    about = {}
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    for line in cpuinfo.read_text().splitlines() if cpuinfo.exists() else []:
        name, _, value = line.partition(":")
        about.setdefault(name.strip(), value.strip())
    flags = (about.get("flags") or about.get("Features") or "").split()
    version = subprocess.run([given.moebius, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    return {"moebius": version, "cpu": about.get("model name") or platform.processor() or platform.machine(),
            "instructions": [name for name in INSTRUCTIONS if name in flags], "processors": os.cpu_count(), "threads": THREADS,
            "omp_wait_policy": os.environ.get("OMP_WAIT_POLICY"), "load_average": round(os.getloadavg()[0], 2)}


def use_few_processors():
    """Programs that ask how many processors there are start no more threads than these; children inherit it."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])


def busy_s():
    """Seconds that all processors worked since the start, for all programs (a hypervisor's other guests among them) and for ended children."""
    stat = pathlib.Path("/proc/stat")
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = children.ru_utime + children.ru_stime
    if not stat.exists():
        return own, own
    user, nice, system, _, _, interrupts, soft, steal = map(int, stat.read_text().split()[1:9])
    return (user + nice + system + interrupts + soft + steal) / os.sysconf("SC_CLK_TCK"), own


def prompt_of(tokenizer, text, count):
    """The text's beginning that is `count` tokens, and is as many when it is read again."""
    ids = tokenizer(text)["input_ids"][:count]
    prompt = tokenizer.decode(ids)
    if tokenizer(prompt)["input_ids"] != ids:
        sys.exit(f"the text's first {count} tokens are others when they are read again: choose another count")
    return prompt


def run(row, given):
    """One run's result, or None after `row.wrong` is set."""
    variables = dict(os.environ)
    variables.update(SETTINGS)
    start, (everybody, own) = time.monotonic(), busy_s()
    try:
        limits = {"timeout": TIMEOUT_S, "check": False}
        ended = subprocess.run(row.command, capture_output=True, text=True, env=variables, **limits)
        result = json.loads(ended.stdout.strip().splitlines()[-1])
        if result["prompt_tokens"] != given.prompt_tokens:
            row.wrong = f"took {result['prompt_tokens']} tokens for a prompt of {given.prompt_tokens}"
        elif row.is_reference and len(result["ids"]) < COMPARED:
            row.wrong = f"its text ends after {len(result['ids'])} tokens, too few to compare"
    except subprocess.TimeoutExpired:
        row.wrong = f"took longer than {TIMEOUT_S} s"
    except (IndexError, KeyError, ValueError):
        row.wrong = f"failed with status {ended.returncode}: " + " / ".join(ended.stderr.strip().splitlines()[-3:])
    if row.wrong:
        return None
    wall, (everybody_after, own_after) = time.monotonic() - start, busy_s()
    beside = (everybody_after - everybody - (own_after - own)) / wall
    return result | {"beside": round(max(beside, 0.0), 2), "load_average": round(os.getloadavg()[0], 2)}


def agreement(tokenizer, result, expected):
    """Leading tokens that agree. Some programs give text alone: there, leading tokens whose text is the beginning of theirs."""
    agree = 0
    for count in range(1, len(expected) + 1):
        if "ids" in result:
            same = result["ids"][:count] == expected[:count]
        else:
            same = result["text"].startswith(tokenizer.decode(expected[:count]))
        agree = count if same else agree
    return agree


def turn(row, references, tokenizer, given):
    result = run(row, given)
    if result is None:
        print(f"{row.name}: {row.wrong}", file=sys.stderr)
        return
    expected = references.setdefault(row.model, result["ids"][:COMPARED]) if row.is_reference else references.get(row.model)
    if expected is None:
        row.wrong = "nothing to compare with"
        return
    row.agree = min(row.agree, agreement(tokenizer, result, expected))
    row.runs.append(result)
    if row.precision == "f32" and row.agree < len(expected):
        row.wrong = f"its text differs: {row.agree} of {len(expected)} tokens are ours"
    said = row.wrong or f"{result['prefill_tokens_per_s']:.1f} and {result['decode_tokens_per_s']:.1f} tokens/s"
    print(f"{row.name}: {said}, {result['beside']} processors busy beside, load average {result['load_average']}", file=sys.stderr, flush=True)


def summary(row, given, version):
    about = {"program": row.program, "version": version, "model": row.model, "precision": row.precision,
             "device": given.device if row.program == "moebius" else "cpu", "prompt_tokens": given.prompt_tokens}
    if row.wrong:
        return about | {"wrong": row.wrong}
    speeds = ("prefill_tokens_per_s", "decode_tokens_per_s")
    about |= {what: round(row.median(what), 2) for what in speeds}
    about |= {what.replace("tokens_per_s", "runs"): [round(one[what], 2) for one in row.runs] for what in speeds}
    # Fewer than were asked for where a text ends before.
    about["tokens"] = min(one.get("tokens") or len(one["ids"]) for one in row.runs)
    about |= {what: max(one[what] for one in row.runs) for what in ("beside", "load_average")}
    return about | {"agree": row.agree, "compared": COMPARED}


def table(summaries):
    heads = ("program", "model", "weights", "prefill tokens/s", "decode tokens/s", "as ours", "beside")
    lines = [heads]
    for one in summaries:
        start = (one["program"], one["model"], one["precision"])
        if "wrong" in one:
            lines.append((*start, "–", "–", "–", "–"))
        else:
            lines.append((*start, f"{one['prefill_tokens_per_s']:.1f}", f"{one['decode_tokens_per_s']:.1f}",
                          f"{one['agree']} of {one['compared']}", f"{one['beside']:.2f}"))
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    for line in lines:
        print("  ".join(text.ljust(width) if column < 3 else text.rjust(width) for column, (text, width) in enumerate(zip(line, widths))).rstrip())


def report(about, summaries):
    waiting = f"; OMP_WAIT_POLICY={about['omp_wait_policy']}" if about["omp_wait_policy"] else ""
    print(f"\n{about['cpu']}, {' '.join(about['instructions'])}; {THREADS} threads{waiting}; load average {about['load_average']} before\n")
    table(summaries)
    print("", *NOTES, sep="\n")
    versions = {one["program"]: one["version"] for one in summaries if one["version"]}
    print(*(f"{program}: {version}" for program, version in versions.items()), sep="\n")
    for one in summaries:
        if "wrong" in one:
            print(f"no number for {one['program']} {one['model']} {one['precision']}: {one['wrong']}")
    loudest = max((one.get("beside", 0) for one in summaries), default=0)
    if loudest > QUIET:
        print(f"not to be kept: other work took up to {loudest:.2f} processors meanwhile")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("moebius")
    parser.add_argument("folders", type=pathlib.Path)
    parser.add_argument("gguf")
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("--device", default="flex")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--prompt-tokens", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--only", default="")
    return parser.parse_args()


def main():
    given = arguments()
    use_few_processors()
    tokenizer = PreTrainedTokenizerFast.from_pretrained(given.folders / "llama", local_files_only=True)
    prompt = prompt_of(tokenizer, given.text.read_text(encoding="utf-8"), given.prompt_tokens)
    about, measured, references = machine(given), rows(given, prompt), {}
    if not measured or given.runs < 1:
        sys.exit("nothing to measure: --only is in no row, or --runs is below 1")
    print(json.dumps({"machine": about}), flush=True)
    for _ in range(given.runs):
        for row in measured:
            if not row.wrong:
                turn(row, references, tokenizer, given)
    versions = {row.name: row.runs[0].get("version", about["moebius"]) if row.runs else "" for row in measured}
    summaries = [summary(row, given, versions[row.name]) for row in measured]
    for one in summaries:
        print(json.dumps(one))
    report(about, summaries)
    sys.exit(any(row.wrong for row in measured))


if __name__ == "__main__":
    main()
