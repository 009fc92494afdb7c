//! Makes a tokenizer from the vocabulary of a GGUF file.

use std::collections::HashMap;

use moebius_weights::gguf::Vocabulary;
use serde_json::{Value, json};

use crate::{Error, Tokenizer};

/// GPT-2's words: contractions, letters, digits and other characters, each with an optional space before.
pub(crate) const WORDS: &str =
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const GPT2: &[&str] = &[WORDS];
/// [`GPT2`] after splitting off each single digit.
const DIGITS: &[&str] = &[r"\p{N}", GPT2[0]];
/// Llama 3: groups of up to three digits, contractions in either case, and line ends together with the punctuation before them.
const LLAMA3: &[&str] = &[
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];
/// Qwen 2: like [`LLAMA3`], with single digits.
const QWEN2: &[&str] = &[
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];
/// gpt-4o and gpt-oss: like [`LLAMA3`], and a word also ends before a capital letter.
const O200K: &[&str] = &[
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];

/// Qwen 3.5: like [`QWEN2`], with combining marks as letters.
const QWEN35: &[&str] = &[
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];
/// DeepSeek V3: up to three digits, then Chinese and Japanese, then words and the characters between them.
const DEEPSEEK3: &[&str] = &[
    r"\p{N}{1,3}",
    r"[一-龥぀-ゟ゠-ヿ]+",
    r"[!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];

/// DeepSeek LLM: line ends, words of cased letters, punctuation, Chinese and Korean, numbers.
const DEEPSEEK_LLM: &[&str] = &[
    r"[\r\n]",
    r"\s?[[\p{Lu}\p{Ll}\p{Lt}]&&[^𝐀-𝟿]]+",
    r"\s?[!-/:-~！-／：-～‘-‟　-。]+",
    r"\s+$",
    r"[一-龥ࠀ-一가-퟿]+",
    r"\p{N}+",
];
/// DeepSeek Coder: like [`DEEPSEEK_LLM`], with all letters and punctuation of Unicode, and single digits.
const DEEPSEEK_CODER: &[&str] = &[
    r"[\r\n]",
    r"\s?\p{L}+",
    r"\s?\p{P}+",
    r"[一-龥ࠀ-一가-퟿]+",
    r"\p{N}",
];
/// Falcon: punctuation, then words as in [`GPT2`], then groups of three digits.
const FALCON: &[&str] = &[r"[\p{P}$+<=>^~|`]+", GPT2[0], r"[0-9][0-9][0-9]"];
/// llama.cpp's default where a file names no rule: punctuation, words as in [`GPT2`], numbers, groups of three digits.
const DEFAULT: &[&str] = &[r"[\p{P}$+<=>^~|]+", GPT2[0], r"\p{N}+", r"[0-9][0-9][0-9]"];
/// Mistral's Tekken: like [`O200K`], without contractions and with single digits.
const TEKKEN: &[&str] = &[
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];
/// Ling (Bailing): like [`QWEN2`], where a word ends after a single line end.
const BAILING: &[&str] = &[
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
];
/// Seed-Coder: like [`QWEN2`], with line ends separate from the punctuation before them.
const SEED: &[&str] = &[
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+",
];
/// MiniCPM 5: up to three digits, then like [`LLAMA3`].
const MINICPM5: &[&str] = &[
    r"\p{N}{1,3}",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];
/// Kimi K2: Chinese characters, then like [`O200K`] without Chinese characters among the letters.
const KIMI: &[&str] = &[
    r"\p{Han}+|[^\r\n\p{L}\p{N}]?[[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]&&[^\p{Han}]]*[[\p{Ll}\p{Lm}\p{Lo}\p{M}]&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]&&[^\p{Han}]]+[[\p{Ll}\p{Lm}\p{Lo}\p{M}]&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];

/// Rule that splits a text into words, in which merges then make tokens.
struct Cut {
    /// Values of `pre` that stand for this rule.
    names: &'static [&'static str],
    /// Patterns applied one after the other.
    patterns: &'static [&'static str],
    /// Whether a word that is a token skips the merges.
    whole_words: bool,
    /// Whether characters are first composed (NFC), as the model's own `tokenizer.json` says; a GGUF file has no field for this.
    composed: bool,
}

const fn cut(names: &'static [&'static str], patterns: &'static [&'static str]) -> Cut {
    Cut {
        names,
        patterns,
        whole_words: false,
        composed: false,
    }
}

const fn whole(names: &'static [&'static str], patterns: &'static [&'static str]) -> Cut {
    Cut {
        whole_words: true,
        ..cut(names, patterns)
    }
}

/// The rules by the values of `pre`, each named after the models that introduced it.
const CUTS: &[Cut] = &[
    cut(&["default", ""], DEFAULT),
    cut(
        &[
            "gpt-2",
            "phi-2",
            "mpt",
            "olmo",
            "jais",
            "trillion",
            "gigachat",
            "a.x-4.0",
            "mellum",
            "exaone4",
            "granite-docling",
        ],
        GPT2,
    ),
    cut(
        &[
            "smollm",
            "starcoder",
            "refact",
            "command-r",
            "codeshell",
            "exaone",
            "minerva-7b",
            "mellum2",
        ],
        DIGITS,
    ),
    whole(
        &[
            "llama-bpe",
            "llama3",
            "llama-v3",
            "falcon3",
            "falcon-h1",
            "pixtral",
            "midm-2.0",
            "lfm2",
        ],
        LLAMA3,
    ),
    cut(&["dbrx", "smaug-bpe", "glm4", "chatglm-bpe"], LLAMA3),
    cut(&["deepseek-v3", "hunyuan-dense", "joyai-llm"], DEEPSEEK3),
    cut(&["deepseek-llm"], DEEPSEEK_LLM),
    cut(&["deepseek-coder"], DEEPSEEK_CODER),
    cut(&["falcon"], FALCON),
    Cut {
        composed: true,
        ..cut(&["qwen2"], QWEN2)
    },
    cut(
        &[
            "deepseek-r1-qwen",
            "stablelm2",
            "hunyuan",
            "megrez",
            "kormo",
            "solar-open",
            "grok-2",
        ],
        QWEN2,
    ),
    cut(&["qwen35"], QWEN35),
    whole(&["tekken"], TEKKEN),
    whole(&["gpt-4o", "llama4", "kanana2"], O200K),
    cut(&["minimax-m2"], O200K),
    cut(&["bailingmoe", "bailingmoe2", "llada-moe"], BAILING),
    cut(&["seed-coder"], SEED),
    whole(&["minicpm5"], MINICPM5),
    cut(&["kimi-k2"], KIMI),
];

/// A rule that splits a text into words, under the first name that files have for it.
#[derive(Clone, Copy)]
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    /// Patterns applied one after the other.
    pub(crate) patterns: &'static [&'static str],
    /// Whether a word that is a token skips the merges.
    pub(crate) whole_words: bool,
    /// Whether characters are first composed (NFC).
    pub(crate) composed: bool,
}

/// All rules.
pub(crate) fn rules() -> impl Iterator<Item = Rule> {
    CUTS.iter().map(|cut| Rule {
        name: cut.names[0],
        patterns: cut.patterns,
        whole_words: cut.whole_words,
        composed: cut.composed,
    })
}

/// Most bytes of a token that merges may make; the longest of published vocabularies have about a hundred.
const LONGEST: usize = 1024;

/// Values of `token_type` for tokens that merges may make: normal and user-defined ones.
const MADE: &[i32] = &[1, 4];

impl Tokenizer {
    /// Makes a tokenizer from the vocabulary of a GGUF file. Two values of `model` are supported: `gpt2`, byte-level BPE with the rule for
    /// words that `pre` names, and `llama`, SentencePiece's BPE with merges in the order of `scores`.
    ///
    /// # Errors
    /// [`Error::Unfit`] for parts that don't fit together, and for an unknown `model` or `pre`.
    pub fn from_gguf(vocabulary: Vocabulary) -> Result<Self, Error> {
        let tokenizer = Self::from_json(tokenizer_json(&vocabulary)?, "tokenizer.ggml")?;
        let mut eos = vocabulary.eos;
        // Some files name an end token of another vocabulary; no answer ends with it.
        eos.retain(|id| tokenizer.token(*id).is_some());
        tokenizer.ending(vocabulary.bos, eos, "bos_token_id of tokenizer.ggml")
    }
}

/// The tokenizer of a vocabulary in the form of a `tokenizer.json`.
pub(crate) fn tokenizer_json(vocabulary: &Vocabulary) -> Result<Value, Error> {
    one_for_each(vocabulary, "token_type", vocabulary.types.len())?;
    let stages = match vocabulary.model.as_str() {
        "gpt2" => {
            let (tokens, merges) = (ids(&vocabulary.tokens)?, merges(&vocabulary.merges)?);
            byte_pairs(&vocabulary.pre, tokens, json!(merges))?
        }
        "llama" => of_pieces(vocabulary)?,
        other => {
            return Err(Error::unfit("tokenizer.ggml.model", "gpt2 or llama", other));
        }
    };
    let mut json = json!({
        "version": "1.0",
        "added_tokens": added(vocabulary),
        "post_processor": post_processor(vocabulary)?,
    });
    if let (Value::Object(json), Value::Object(stages)) = (&mut json, stages) {
        json.extend(stages);
    }
    Ok(json)
}

/// Refuses a list that is neither empty nor has one entry per token.
fn one_for_each(vocabulary: &Vocabulary, name: &str, count: usize) -> Result<(), Error> {
    let tokens = vocabulary.tokens.len();
    if count == 0 || count == tokens {
        return Ok(());
    }
    let expected = format!("{tokens}, one for each token");
    Err(Error::unfit(
        format!("tokenizer.ggml.{name}"),
        expected,
        count,
    ))
}

/// The stages of byte-level BPE in the form of a `tokenizer.json`, with the rule `pre` for words, the ids of tokens and the merges.
pub(crate) fn byte_pairs(pre: &str, vocabulary: Value, merges: Value) -> Result<Value, Error> {
    let of_name = |cut: &&Cut| cut.names.contains(&pre);
    let cut = CUTS.iter().find(of_name).ok_or_else(|| {
        let names = CUTS.iter().flat_map(|cut| cut.names);
        let names: Vec<&str> = names.copied().filter(|name| !name.is_empty()).collect();
        let expected = format!("one of {}", names.join(", "));
        Error::unfit("tokenizer.ggml.pre", expected, pre)
    })?;
    Ok(json!({
        "normalizer": cut.composed.then(|| json!({"type": "NFC"})),
        "pre_tokenizer": pre_tokenizer(cut),
        "decoder": byte_level(),
        "model": {
            "type": "BPE",
            "ignore_merges": cut.whole_words,
            "vocab": vocabulary,
            "merges": merges,
        },
    }))
}

/// The stages of SentencePiece's BPE: spaces become ▁, the text isn't split, and characters without a token are spelt by byte tokens.
fn of_pieces(vocabulary: &Vocabulary) -> Result<Value, Error> {
    one_for_each(vocabulary, "scores", vocabulary.scores.len())?;
    let unknown = vocabulary.unknown.and_then(|id| usize::try_from(id).ok());
    let of_type = || vocabulary.types.iter().position(|kind| *kind == 2);
    let unknown = unknown.or_else(of_type);
    let unknown = unknown.and_then(|id| vocabulary.tokens.get(id));
    let mut normalizers =
        vec![json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"})];
    if vocabulary.add_space {
        normalizers.insert(0, json!({"type": "Prepend", "prepend": "▁"}));
    }
    let merges = match vocabulary.merges.as_slice() {
        [] => merges_by_score(vocabulary),
        given => merges(given)?,
    };
    Ok(json!({
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": null,
        "decoder": of_spaces(vocabulary.add_space),
        "model": {
            "type": "BPE",
            "unk_token": unknown,
            "fuse_unk": true,
            "byte_fallback": true,
            "vocab": ids(&vocabulary.tokens)?,
            "merges": merges,
        },
    }))
}

/// The merges that scores imply: each way to make a token from two others, in the order of decreasing score.
fn merges_by_score(vocabulary: &Vocabulary) -> Vec<[&str; 2]> {
    let of = |id: usize| vocabulary.scores.get(id).copied().unwrap_or_default();
    let is_made = |id: usize| {
        vocabulary
            .types
            .get(id)
            .is_none_or(|kind| MADE.contains(kind))
    };
    let made = vocabulary.tokens.iter().enumerate();
    let made = made.filter(|(id, _)| is_made(*id));
    let scores: HashMap<&str, f32> = made.map(|(id, token)| (token.as_str(), of(id))).collect();
    let mut found = Vec::new();
    // Hashing the parts of a token takes time that grows with the square of its length.
    for (token, score) in scores.iter().filter(|(token, _)| token.len() <= LONGEST) {
        let ends = token
            .char_indices()
            .skip(1)
            .map(|(at, _)| token.split_at(at));
        let known = ends
            .filter(|(first, second)| scores.contains_key(first) && scores.contains_key(second));
        found.extend(known.map(|(first, second)| (*score, [first, second])));
    }
    // Equal scores are ordered by the merge, so that the order is the same in each run.
    found.sort_unstable_by(|(a, first), (b, second)| b.total_cmp(a).then(second.cmp(first)));
    found.into_iter().map(|(_, pair)| pair).collect()
}

/// The decoder of pieces in which ▁ stands for a space: of a text that was `spaced`, the first space goes.
pub(crate) fn of_spaces(spaced: bool) -> Value {
    let mut decoders = vec![
        json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    if spaced {
        decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    json!({"type": "Sequence", "decoders": decoders})
}

/// The stage that spells characters by their bytes.
pub(crate) fn byte_level() -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false})
}

/// The pre-tokenizer that splits by the patterns, then spells words by their bytes.
fn pre_tokenizer(cut: &Cut) -> Value {
    let splits = cut.patterns.iter().map(|pattern| {
        json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false})
    });
    let all: Vec<Value> = splits.chain([byte_level()]).collect();
    json!({"type": "Sequence", "pretokenizers": all})
}

/// The tokens that are found in a text before it is split: unknown, control and user-defined ones.
fn added(vocabulary: &Vocabulary) -> Vec<Value> {
    let typed = vocabulary.tokens.iter().zip(&vocabulary.types).enumerate();
    let added = typed.filter(|(_, (_, kind))| matches!(kind, 2..=4));
    let added = added.map(|(id, (token, kind))| {
        json!({
            "id": id, "content": token, "special": *kind != 4,
            "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
        })
    });
    added.collect()
}

fn ids(tokens: &[String]) -> Result<Value, Error> {
    let mut ids: HashMap<&str, usize> = HashMap::with_capacity(tokens.len());
    for (id, token) in tokens.iter().enumerate() {
        if let Some(other) = ids.insert(token, id) {
            let got = format!("{token:?} for the ids {other} and {id}");
            return Err(Error::unfit(
                "tokenizer.ggml.tokens",
                "different tokens",
                got,
            ));
        }
    }
    Ok(json!(ids))
}

fn merges(merges: &[String]) -> Result<Vec<[&str; 2]>, Error> {
    let pairs = merges.iter().enumerate().map(|(i, merge)| {
        let pair = merge.split_once(' ').map(|(first, second)| [first, second]);
        pair.ok_or_else(|| {
            let what = format!("tokenizer.ggml.merges[{i}]");
            Error::unfit(
                what,
                "two tokens with a space between them",
                format!("{merge:?}"),
            )
        })
    });
    pairs.collect()
}

/// The post-processor that puts `bos` before a text; null where none does.
fn post_processor(vocabulary: &Vocabulary) -> Result<Value, Error> {
    if !vocabulary.add_bos {
        return Ok(Value::Null);
    }
    let id = vocabulary.bos;
    let token = id.and_then(|id| vocabulary.tokens.get(usize::try_from(id).ok()?));
    let token = token.ok_or_else(|| {
        let got = id.map_or("none".to_owned(), |id| id.to_string());
        Error::unfit(
            "tokenizer.ggml.bos_token_id",
            "the id of a token, because add_bos_token is set",
            got,
        )
    })?;
    let special = json!({"SpecialToken": {"id": token, "type_id": 0}});
    let first = json!({"Sequence": {"id": "A", "type_id": 0}});
    let second = json!({"Sequence": {"id": "B", "type_id": 1}});
    Ok(json!({
        "type": "TemplateProcessing",
        "single": [special, first],
        "pair": [special, first, second],
        "special_tokens": {token: {"id": token, "ids": [id], "tokens": [token]}},
    }))
}
