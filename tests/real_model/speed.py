"""Measures how fast `moebius generate` and other programs take prompts and go on with them, with the same weights, for scripts/real-model --speed.

Usage: python speed.py MOEBIUS FOLDERS Q4_1.gguf Q8_0.gguf TEXT [--device D] [--runs N] [--prompt-tokens N] [--tokens N] [--only TEXT]
    --only TEXT  the rows whose program, model, weights or batch contains it (`llama.cpp mixtral-split Q8_0, batch 8` is one), ours that they
                 are compared with, and ours in f32, which has the tokens

A dense model and a mixture, weights in f32, bf16, Q8_0 and Q4_K, one prompt and a batch of 8: ours and llama.cpp read the same GGUF file, compute
in f32 with its weights and answer the same prompts. Beside ours with one prompt also transformers and mistral.rs, with the folders; transformers
computes in bf16 with weights in bf16, so there ours does, too.
Prefill is the tokens of all prompts in the time until each has its answer's first token; decode is the tokens of all answers from there until a
first answer ends. llama.cpp computes a batch of all prompts, then one for each token of all answers, as its own benchmark does; ours has a queue,
so that the first answers have tokens while the last prompts are taken, which counts as prefill alone.
Every run is a process of its own, and the programs take turns, so that a slow minute of the machine is shared. Loading doesn't count. The
others warm up with a few tokens, ours doesn't. Each has THREADS threads, on as many processors. Ratios are of runs of the same turn: the middle
turn is shown.
Greedy text comes first: a program that computes in f32 and says other tokens than ours gets no number, because it computes something else.
With fewer bits tokens may differ, so there the count that agrees is only told.
Nothing may run beside where numbers are kept: the threads of OpenMP spin while they wait for each other, so that a third busy thread on two
processors costs llama.cpp and PyTorch several times what it costs the others. How many processors other work took is told for each program.
OMP_WAIT_POLICY=passive reaches the programs, and is told.
Prints JSON, a line for the machine, one a file, one a program and one a comparison, then a table in Markdown. Fails where a program failed or its
f32 text differs, not where a goal is missed.
Needs: transformers, and what gguf_files.py and speed_peers.py need.
"""
import argparse, dataclasses, json, os, pathlib, platform, resource, statistics, subprocess, sys, tempfile, time

from gguf_files import Failed, made, matrices, path_of

THREADS = 2
COMPARED = 32
TIMEOUT_S = 1200
# Processors that others may keep busy on average: what a quiet system does.
QUIET = 0.1
# What ours is to reach of another's speed.
GOAL = 1.1
BATCHES = (1, 8)
# The models, and how ours computes with the weights of a file: with keys and values in f16 where llama.cpp has them in f16.
MODELS = ("llama", "mixtral-split")
AS_THE_FILE = ("--weights", "file", "--kv-cache-dtype", "f16")
WEIGHTS = {"f32": ("--dtype", "f32"), "bf16": AS_THE_FILE, "Q8_0": AS_THE_FILE, "Q4_K": AS_THE_FILE}
IN_BF16 = "bf16, computed in bf16"
# What is read as a folder, one prompt at a time.
WITH_FOLDERS = (("transformers", "llama", "f32"), ("mistral.rs", "llama", "f32"), ("transformers", "llama", IN_BF16),
                ("transformers", "mixtral-split", "f32"), ("mistral.rs", "mixtral-split", "f32"))
SPEEDS = ("prefill_tokens_per_s", "decode_tokens_per_s")
# What kernels for 8 bits and for f32 ask for.
INSTRUCTIONS = ("avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_int8",
                "asimd", "asimddp", "i8mm", "sve")
# mistral.rs keeps keys and values in f16 unless told otherwise, which is no f32 as the others have it.
SETTINGS = {"OMP_NUM_THREADS": str(THREADS), "MKL_NUM_THREADS": str(THREADS), "RAYON_NUM_THREADS": str(THREADS),
               "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "MISTRALRS_CPU_KV_F32": "1"}
HEADS = ("model", "weights", "batch", "beside", "prefill", "theirs", "ours / theirs", "decode", "theirs", "ours / theirs", "as ours")
NOTES = ("tokens a second of all prompts or answers together, of the turn with the middle ratio; loading doesn't count",
         f"the goal is {GOAL} times theirs",
         "llama.cpp and ours keep keys and values in f32 beside f32 weights, else in f16; all others in what they compute in",
         "as ours: leading tokens that are those of ours in f32, the fewest of a batch")


@dataclasses.dataclass
class Row:
    program: str
    model: str
    weights: str
    batch: int
    command: list
    runs: list = dataclasses.field(default_factory=list)
    agree: int = COMPARED
    wrong: str = ""

    @property
    def name(self):
        return f"{self.program} {self.model} {self.weights}, batch {self.batch}"

    @property
    def work(self):
        return self.model, self.weights, self.batch

    @property
    def is_ours(self):
        return self.program == "moebius"

    @property
    def is_reference(self):
        return self.is_ours and self.weights == "f32"


def prompts_file(folder, batch):
    return pathlib.Path(folder) / f"prompts-{batch}.jsonl"


def type_of(weights):
    """The type of the weights in a file."""
    return weights.split(",")[0]


def tokens_of(given, batch):
    """Tokens of each answer: those of a batch, which are more together, are half as long."""
    return given.tokens if batch == 1 else max(COMPARED, given.tokens // 2)


def rows(given, folder):
    """In the order of their turns: of each model ours in f32 is the first, and ours and another's are neighbours."""
    script = str(pathlib.Path(__file__).with_name("speed_peers.py"))

    def ours(model, weights, batch):
        how = ("--dtype", "bf16") if weights == IN_BF16 else WEIGHTS[weights]
        command = [given.moebius, "generate", "--model", str(path_of(model, type_of(weights), given, folder)), "--device", given.device,
                   *how, "--prompts", str(prompts_file(folder, batch)), "--max-tokens", str(tokens_of(given, batch)), "--json"]
        return Row("moebius", model, weights, batch, command)

    def other(program, path, model, weights, batch):
        prompts, count = str(prompts_file(folder, batch)), str(tokens_of(given, batch))
        command = [sys.executable, script, program, str(path), type_of(weights), prompts, count, str(THREADS)]
        return Row(program, model, weights, batch, command)

    def with_folders(model, weights, batch):
        return [other(program, given.folders / model, model, weights, batch)
                for program, *what in WITH_FOLDERS if (*what, 1) == (model, weights, batch)]

    everything = []
    for model in MODELS:
        for weights in WEIGHTS:
            for batch in BATCHES:
                everything += [ours(model, weights, batch), other("llama.cpp", path_of(model, weights, given, folder), model, weights, batch)]
                everything += with_folders(model, weights, batch)
        if with_folders(model, IN_BF16, 1):
            everything += [ours(model, IN_BF16, 1), *with_folders(model, IN_BF16, 1)]
    return needed(everything, given.only)


def needed(everything, only):
    """The rows that are asked for, ours that they are compared with, and ours that has the tokens."""
    chosen = [row for row in everything if only in row.name]
    works, compared = {row.work for row in chosen}, {(row.model, row.batch) for row in chosen}
    return [row for row in everything
            if row in chosen or row.is_ours and row.work in works or row.is_reference and (row.model, row.batch) in compared]


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


def prompts_of(tokenizer, text, count, number):
    """The text's first pieces of `count` tokens that are the same tokens when they are read again."""
    ids, found = tokenizer(text)["input_ids"], []
    for first in range(0, len(ids) - count + 1, count):
        piece = ids[first:first + count]
        prompt = tokenizer.decode(piece)
        if tokenizer(prompt)["input_ids"] == piece:
            found.append(prompt)
        if len(found) == number:
            return found
    sys.exit(f"expected {number} pieces of {count} tokens in the text that are the same when they are read again, got {len(found)}")


def write_prompts(given, folder):
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast.from_pretrained(given.folders / "llama", local_files_only=True)
    prompts = prompts_of(tokenizer, given.text.read_text(encoding="utf-8"), given.prompt_tokens, max(BATCHES))
    for batch in BATCHES:
        lines = [json.dumps(prompt) + "\n" for prompt in prompts[:batch]]
        prompts_file(folder, batch).write_text("".join(lines), encoding="utf-8")
    return tokenizer


def make_files(measured, given, folder):
    """Makes the files that the rows read, and tells which types their matrices have."""
    for model, weights in dict.fromkeys((row.model, type_of(row.weights)) for row in measured):
        print(f"{model} in {weights}", file=sys.stderr, flush=True)
        path = made(model, weights, given, folder)
        print(json.dumps({"file": {"model": model, "weights": weights, "matrices": matrices(path)}}), flush=True)


def fault(row, result, given):
    """What a run's result has wrong, or nothing."""
    asked, lengths = given.prompt_tokens * row.batch, [length(answer) for answer in result["answers"]]
    if result["prompt_tokens"] != asked or len(lengths) != row.batch:
        return f"took {result['prompt_tokens']} tokens of {len(lengths)} prompts, where {row.batch} have {asked}"
    if row.is_reference and min(lengths) < COMPARED:
        return f"a text ends after {min(lengths)} tokens, too few to compare"
    if not all(result[what] for what in SPEEDS):
        return "a text ended before all had begun"
    return ""


def length(answer):
    return len(answer["ids"]) if "ids" in answer else answer["tokens"]


def run(row, given):
    """One run's result, or None after `row.wrong` is set."""
    variables = dict(os.environ)
    variables.update(SETTINGS)
    start, (everybody, own) = time.monotonic(), busy_s()
    try:
        limits = {"timeout": TIMEOUT_S, "check": False}
        ended = subprocess.run(row.command, capture_output=True, text=True, env=variables, **limits)
        result = json.loads(ended.stdout.strip().splitlines()[-1])
        row.wrong = fault(row, result, given)
    except subprocess.TimeoutExpired:
        row.wrong = f"took longer than {TIMEOUT_S} s"
    except (IndexError, KeyError, ValueError):
        row.wrong = f"failed with status {ended.returncode}: " + " / ".join(ended.stderr.strip().splitlines()[-3:])
    if row.wrong:
        return None
    wall, (everybody_after, own_after) = time.monotonic() - start, busy_s()
    beside = (everybody_after - everybody - (own_after - own)) / wall
    return result | {"beside": round(max(beside, 0.0), 2), "load_average": round(os.getloadavg()[0], 2)}


def agreement(tokenizer, answer, expected):
    """Leading tokens that agree. Some programs give text alone: there, leading tokens whose text is the beginning of theirs."""
    agree = 0
    for count in range(1, len(expected) + 1):
        if "ids" in answer:
            same = answer["ids"][:count] == expected[:count]
        else:
            same = answer["text"].startswith(tokenizer.decode(expected[:count]))
        agree = count if same else agree
    return agree


def turn(row, references, tokenizer, given):
    """Runs a row once. `references` has the tokens of ours in f32 by the model and the prompt's place, which batches share."""
    result = run(row, given)
    if result is None:
        print(f"{row.name}: {row.wrong}", file=sys.stderr)
        return
    answers = result["answers"]
    if row.is_reference:
        for place, answer in enumerate(answers):
            references.setdefault((row.model, place), answer["ids"][:COMPARED])
    if any((row.model, place) not in references for place in range(row.batch)):
        row.wrong = "nothing to compare with"
        return
    agreed = [agreement(tokenizer, answer, references[row.model, place]) for place, answer in enumerate(answers)]
    row.agree = min(row.agree, *agreed)
    row.runs.append(result)
    if row.weights == "f32" and row.agree < COMPARED:
        row.wrong = f"its text differs: {row.agree} of {COMPARED} tokens are ours"
    said = row.wrong or f"{result['prefill_tokens_per_s']:.1f} and {result['decode_tokens_per_s']:.1f} tokens/s"
    print(f"{row.name}: {said}, {result['beside']} processors busy beside, load average {result['load_average']}", file=sys.stderr, flush=True)


def summary(row, given, version):
    about = {"program": row.program, "version": version, "model": row.model, "weights": row.weights, "batch": row.batch,
             "device": given.device if row.is_ours else "cpu", "prompt_tokens": given.prompt_tokens}
    if row.wrong:
        return about | {"wrong": row.wrong}
    about |= {what: round(statistics.median(run[what] for run in row.runs), 2) for what in SPEEDS}
    about |= {what.replace("tokens_per_s", "runs"): [round(one[what], 2) for one in row.runs] for what in SPEEDS}
    # Fewer than were asked for where a text ends before.
    about["tokens"] = min(length(answer) for one in row.runs for answer in one["answers"])
    about |= {what: max(one[what] for one in row.runs) for what in ("beside", "load_average")}
    return about | {"agree": row.agree, "compared": COMPARED}


def middle(ours, theirs, what):
    """Both speeds of the turn with the middle ratio; of an even number the lower one. What was measured in the same turn stays together, because
    a machine's clock moves from turn to turn by more than what is compared."""
    turns = sorted(((one[what], other[what]) for one, other in zip(ours.runs, theirs.runs)), key=lambda turn: turn[0] / turn[1])
    return turns[(len(turns) - 1) // 2]


def comparisons(measured):
    """Each other program's row beside ours of the same work, where both have numbers."""
    ours = {row.work: row for row in measured if row.is_ours and not row.wrong}
    found = []
    for row in measured:
        if row.is_ours or row.wrong or row.work not in ours:
            continue
        one = {"model": row.model, "weights": row.weights, "batch": row.batch, "beside": row.program, "agree": row.agree}
        for what in SPEEDS:
            mine, theirs = middle(ours[row.work], row, what)
            ratio = mine / theirs
            one[what] = {"ours": round(mine, 2), "theirs": round(theirs, 2), "ratio": round(ratio, 3), "met": ratio >= GOAL}
        found.append(one)
    return found


def table(compared):
    """The lines of a table in Markdown."""
    lines = ["| " + " | ".join(HEADS) + " |", "|" + "---|" * len(HEADS)]
    for one in compared:
        cells = [one["model"], one["weights"], str(one["batch"]), one["beside"]]
        for what in SPEEDS:
            of = one[what]
            cells += [f"{of['ours']:.1f}", f"{of['theirs']:.1f}", f"{of['ratio']:.2f}, {'met' if of['met'] else 'missed'}"]
        lines.append("| " + " | ".join([*cells, f"{one['agree']} of {COMPARED}"]) + " |")
    return lines


def goals(compared):
    """How many ratios reach the goal beside each program."""
    for program in dict.fromkeys(one["beside"] for one in compared):
        met = [one[what]["met"] for one in compared if one["beside"] == program for what in SPEEDS]
        yield f"goal beside {program}: met in {sum(met)} of {len(met)}"


def report(about, summaries, compared):
    waiting = f"; OMP_WAIT_POLICY={about['omp_wait_policy']}" if about["omp_wait_policy"] else ""
    print(f"\n{about['cpu']}, {' '.join(about['instructions'])}; {THREADS} threads{waiting}; load average {about['load_average']} before\n")
    print(*table(compared), "", *goals(compared), *NOTES, sep="\n")
    versions = {one["program"]: one["version"] for one in summaries if one["version"]}
    print(*(f"{program}: {version}" for program, version in versions.items()), sep="\n")
    for one in summaries:
        if "wrong" in one:
            print(f"no number for {one['program']} {one['model']} {one['weights']}, batch {one['batch']}: {one['wrong']}")
    loudest = max((one.get("beside", 0) for one in summaries), default=0)
    if loudest > QUIET:
        print(f"not to be kept: other work took up to {loudest:.2f} processors meanwhile")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("moebius")
    parser.add_argument("folders", type=pathlib.Path)
    parser.add_argument("q4_1")
    parser.add_argument("q8_0")
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("--device", default="flex")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--prompt-tokens", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--only", default="")
    return parser.parse_args()


def measure(measured, given, folder):
    """Runs all rows in turns."""
    tokenizer, references = write_prompts(given, folder), {}
    make_files(measured, given, folder)
    for _ in range(given.runs):
        for row in measured:
            if not row.wrong:
                turn(row, references, tokenizer, given)


def main():
    given = arguments()
    use_few_processors()
    about = machine(given)
    with tempfile.TemporaryDirectory(dir=given.folders.parent) as folder:
        measured = rows(given, folder)
        if not measured or given.runs < 1:
            sys.exit("nothing to measure: --only is in no row, or --runs is below 1")
        print(json.dumps({"machine": about}), flush=True)
        try:
            measure(measured, given, folder)
        except Failed as error:
            sys.exit(f"a file could not be made: {error}")
    versions = {row.name: row.runs[0].get("version", about["moebius"]) if row.runs else "" for row in measured}
    summaries, compared = [summary(row, given, versions[row.name]) for row in measured], comparisons(measured)
    for one in [*summaries, *compared]:
        print(json.dumps(one))
    report(about, summaries, compared)
    sys.exit(any(row.wrong for row in measured))


if __name__ == "__main__":
    main()
