"""Writes the files that the tests of moebius-text compare with, by libraries that share no code with it, or none of what is tested:

  vectors/NAME.json          small tokenizers, made here of the bundled text
  vectors/NAME.vectors.json  texts with their ids and back, and decodings of arbitrary ids, by Python's tokenizers
  templates/rendered.json    what each template in templates/ makes of each conversation here, by jinja2 set up as transformers does it

Made with tokenizers 0.23.2 and jinja2 3.1.6 on Python 3.11 (pip install tokenizers==0.23.2 jinja2==3.1.6). Usage: python make_fixtures.py
"""
import collections, datetime, json, pathlib, random, re

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).parent
BOOK = (HERE / "../../model/text/moby-dick.txt").read_text()[:120_000].splitlines()
OTHER = ["Übermäßig großer Käse, naïve café", "你好，世界！今天天气很好。", "Привет, мир", "العربية", "emoji 🙂🙃 👩‍👩‍👧 🇩🇪", "x = [1, 23, 456]  # ok\n\tend"] * 20
TEXTS = [
    "", " ", "a", "Call me Ishmael.", "  two  spaces  ", "line\nline\r\n\n\n\tend\n", "I'll say it's 12345 or 3.14", "你好，世界", "👩‍👩‍👧 and 🇩🇪 🙂",
    "é é", "<|im_start|>user\nHi<|im_end|>\n<think>x</think>", "a<|endoftext|>b", "\u0000\u0001\u007f\u00a0\u200b\ufeff\U0010ffff", "ﬁ Å ﷺ", "नमस्ते", "%$#@!~`|\\",
    "The whale, the whale! Up helm, up helm!", "mixed你好abc🙂def ", "A" * 70, " " * 33 + "x",
]


def vectors(name, tokenizer, seed):
    """The tokenizer, texts with their ids, and arbitrary ids with their text."""
    tokenizer.save(str(HERE / f"vectors/{name}.json"), pretty=False)
    tokenizer = Tokenizer.from_file(str(HERE / f"vectors/{name}.json"))
    texts = []
    for text in TEXTS:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        special = tokenizer.encode(text, add_special_tokens=True).ids
        texts.append({"text": text, "ids": ids, "with_special": special, "decoded": tokenizer.decode(ids, skip_special_tokens=False),
                      "without_special": tokenizer.decode(special, skip_special_tokens=True)})
    rng, arbitrary, size = random.Random(seed), [], tokenizer.get_vocab_size()
    for length in [1, 2, 3, 5, 8, 13, 21, 34] * 3:
        ids = [rng.randrange(size) for _ in range(length)]
        arbitrary.append({"ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False), "without_special": tokenizer.decode(ids, skip_special_tokens=True)})
    data = {"size": size, "texts": texts, "arbitrary": arbitrary}
    (HERE / f"vectors/{name}.vectors.json").write_text(json.dumps(data, ensure_ascii=True, separators=(",", ":")) + "\n")


def byte_level():
    """Like SmolLM2's: byte-level BPE with digits apart, special tokens first, and two added ones that aren't special."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    t.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    t.train_from_iterator(BOOK + OTHER, trainers.BpeTrainer(vocab_size=480, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    t.add_tokens([AddedToken("<think>", normalized=False), AddedToken("</think>", normalized=False), AddedToken("结束 ok", normalized=False)])
    t.post_processor = processors.TemplateProcessing(single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)])
    return t


def byte_fallback():
    """Like Llama 2's: BPE on characters, with bytes for unknown ones, spaces as ▁ and one of them before a text."""
    special = ["<unk>", "<s>", "</s>"]
    t = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    trainer = trainers.BpeTrainer(vocab_size=440, special_tokens=special + [f"<0x{b:02X}>" for b in range(256)], limit_alphabet=70, show_progress=False)
    t.train_from_iterator(BOOK[:300], trainer)
    # The trainer made special tokens of the bytes, which they aren't.
    j = json.loads(t.to_str())
    j["added_tokens"] = j["added_tokens"][:3]
    t = Tokenizer.from_str(json.dumps(j))
    t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return t


def word_piece():
    """Like BERT's: pieces of words, the later ones with ##."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    # Words by hand: the trainer gives others in every run.
    letters = [chr(c) for c in range(33, 127) if not chr(c).isupper()]
    words = collections.Counter(word for line in BOOK for word in re.findall("[a-z]+", line.lower()))
    pieces = ["##ing", "##ed", "##ly", "##er", "##es", "##ish", "ma", "##ael"]
    common = [word for word, _ in sorted(words.items(), key=lambda item: (-item[1], item[0])) if len(word) > 1][:60]
    vocabulary = special + letters + ["##" + letter for letter in letters if letter.isalnum()] + pieces + common
    t = Tokenizer(models.WordPiece({token: i for i, token in enumerate(vocabulary)}, unk_token="[UNK]"))
    t.add_special_tokens(special)
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    t.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return t


class Generation(Extension):
    """The tag of transformers around what an assistant says; it adds nothing."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_say"), [], [], body).set_lineno(line)

    def _say(self, caller):
        return caller()


NOW = 1764072245  # 2025-11-25 12:04:05 UTC


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda f: datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).strftime(f)
    return env


def say(role, content, **more):
    return {"role": role, "content": content, **more}


WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "Tells the weather of a \"place\" – <now> & 'then'", "parameters": {
    "type": "object", "properties": {"place": {"type": "string", "description": "Zürich 🙂"}, "unit": {"type": "string", "enum": ["C", "F"], "default": None},
    "days": {"type": "array", "items": {"type": "integer"}, "minItems": 1}, "exact": {"type": "boolean", "default": True}, "limit": {"type": "number", "default": 1e-05}}, "required": ["place"]}}}
CALL = {"type": "function", "function": {"name": "get_weather", "arguments": {"place": "Zürich", "days": [1, 2], "exact": False, "x": None, "y": 1.0, "z": 1e16}}}
CHATS = {
    "one": {"messages": [say("user", "Hi")], "add_generation_prompt": True},
    "one closed": {"messages": [say("user", "Hi")], "add_generation_prompt": False},
    "system": {"messages": [say("system", "  Be brief.\n"), say("user", "Hi  \n"), say("assistant", "\n\nHello!  "), say("user", "你好 🙂 <b>&amp;</b> 'quoted' \"twice\"")], "add_generation_prompt": True},
    "answered": {"messages": [say("user", "1+1?"), say("assistant", "<think>\neasy\n</think>\n\n2"), say("user", "2+2?"), say("assistant", "4")], "add_generation_prompt": False},
    "wrong order": {"messages": [say("user", "a"), say("user", "b")], "add_generation_prompt": True},
    "assistant first": {"messages": [say("assistant", "a")], "add_generation_prompt": False},
    "empty": {"messages": [say("user", "")], "add_generation_prompt": True},
    "no message": {"messages": [], "add_generation_prompt": True},
    "parts": {"messages": [say("user", [{"type": "text", "text": "What is "}, {"type": "text", "text": "this?"}])], "add_generation_prompt": True},
    "tools": {"messages": [say("system", "Use tools."), say("user", "Weather?"), say("assistant", "", tool_calls=[CALL]), say("tool", "{\"degrees\": 3}", name="get_weather"), say("assistant", "3 degrees.")],
              "add_generation_prompt": False, "tools": [WEATHER]},
    "unknown role": {"messages": [say("critic", "Hm")], "add_generation_prompt": True},
    "variables": {"messages": [say("user", "Hi")], "add_generation_prompt": True, "enable_thinking": False, "reasoning_effort": "high", "documents": [{"title": "A", "text": "b"}]},
}
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


def rendered():
    cases = []
    for path in sorted((HERE / "templates").glob("*.jinja")):
        template = environment().from_string(path.read_text())
        for name, chat in CHATS.items():
            case = {"template": path.name, "chat": name}
            try:
                case["text"] = template.render(**{**TOKENS, "tools": None, "documents": None, **chat})
            except (jinja2.exceptions.UndefinedError, TypeError, AttributeError) as error:
                case["failed"] = str(error)
            except jinja2.exceptions.TemplateError as error:
                case["refused"] = str(error)
            cases.append(case)
    known = ("messages", "add_generation_prompt")
    # Pairs where the order counts.
    chats = [(name, {**{k: chat[k] for k in known}, "variables": [(k, v) for k, v in chat.items() if k not in known]}) for name, chat in CHATS.items()]
    data = {"now": NOW, "tokens": list(TOKENS.items()), "chats": chats, "cases": cases}
    (HERE / "templates/rendered.json").write_text(json.dumps(data, ensure_ascii=True, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    vectors("byte_level", byte_level(), 1)
    vectors("byte_fallback", byte_fallback(), 2)
    vectors("word_piece", word_piece(), 3)
    rendered()
