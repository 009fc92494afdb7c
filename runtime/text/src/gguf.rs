//! A tokenizer from the vocabulary that a GGUF file carries.

use std::collections::HashMap;

use moebius_weights::gguf::Vocabulary;
use serde_json::{Value, json};

use crate::{Error, Tokenizer};

/// Words as GPT-2 finds them: contractions, letters, digits and others, each with a space before.
const GPT2: &[&str] =
    &[r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"];
/// Each digit by itself, then the same.
const DIGITS: &[&str] = &[r"\p{N}", GPT2[0]];
/// Llama 3: up to three digits, contractions in either case, line ends with what is before them.
const LLAMA3: &[&str] = &[
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];
/// Qwen 2: the same, with one digit at a time.
const QWEN2: &[&str] = &[
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];
/// gpt-4o and gpt-oss: words end where capitals begin.
const O200K: &[&str] = &[
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];

/// Qwen 3.5: the same, where marks belong to letters.
const QWEN35: &[&str] = &[
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];
/// DeepSeek V3: up to three digits, then Chinese and Japanese, then words and what is between them.
const DEEPSEEK3: &[&str] = &[
    r"\p{N}{1,3}",
    r"[一-龥぀-ゟ゠-ヿ]+",
    r"[!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];

/// How a text becomes words, of which merges make tokens.
struct Cut {
    name: &'static str,
    /// Applied one after the other.
    patterns: &'static [&'static str],
    /// A word that is a token needs no merges.
    whole_words: bool,
    /// Characters are composed first (NFC), as the model's own `tokenizer.json` says; no field of a GGUF file does.
    composed: bool,
}

const fn cut(name: &'static str, patterns: &'static [&'static str]) -> Cut {
    Cut {
        name,
        patterns,
        whole_words: false,
        composed: false,
    }
}

/// The values of `pre`, with the rules of the models that brought them.
const CUTS: &[Cut] = &[
    cut("gpt-2", GPT2),
    cut("mpt", GPT2),
    cut("olmo", GPT2),
    cut("smollm", DIGITS),
    cut("starcoder", DIGITS),
    cut("refact", DIGITS),
    cut("command-r", DIGITS),
    Cut {
        whole_words: true,
        ..cut("llama-bpe", LLAMA3)
    },
    cut("dbrx", LLAMA3),
    cut("deepseek-v3", DEEPSEEK3),
    Cut {
        composed: true,
        ..cut("qwen2", QWEN2)
    },
    cut("qwen35", QWEN35),
    Cut {
        whole_words: true,
        ..cut("gpt-4o", O200K)
    },
];

impl Tokenizer {
    /// Makes a tokenizer of the vocabulary of a GGUF file. `gpt2`, byte-level BPE, is the one `model` that is known here; of the values of
    /// `pre` there are `smollm`, `gpt-2`, `llama-bpe`, `qwen2` and others, which an error lists.
    ///
    /// # Errors
    /// [`Error::Unfit`] for parts that don't fit together, and for a `model` or a `pre` that isn't known.
    pub fn from_gguf(vocabulary: Vocabulary) -> Result<Self, Error> {
        let key = |name: &str| format!("tokenizer.ggml.{name}");
        if vocabulary.model != "gpt2" {
            return Err(Error::unfit(key("model"), "gpt2", &vocabulary.model));
        }
        let cut = CUTS.iter().find(|cut| cut.name == vocabulary.pre);
        let cut = cut.ok_or_else(|| {
            let names: Vec<&str> = CUTS.iter().map(|cut| cut.name).collect();
            Error::unfit(
                key("pre"),
                format!("one of {}", names.join(", ")),
                &vocabulary.pre,
            )
        })?;
        let tokens = vocabulary.tokens.len();
        if !vocabulary.types.is_empty() && vocabulary.types.len() != tokens {
            let expected = format!("{tokens}, one for each token");
            return Err(Error::unfit(
                key("token_type"),
                expected,
                vocabulary.types.len(),
            ));
        }
        let json = json!({
            "version": "1.0",
            "added_tokens": added(&vocabulary),
            "normalizer": cut.composed.then(|| json!({"type": "NFC"})),
            "pre_tokenizer": pre_tokenizer(cut),
            "post_processor": post_processor(&vocabulary)?,
            "decoder": byte_level(),
            "model": {
                "type": "BPE",
                "ignore_merges": cut.whole_words,
                "vocab": ids(&vocabulary.tokens)?,
                "merges": merges(&vocabulary.merges)?,
            },
        });
        let tokenizer = Self::from_json(json, "tokenizer.ggml")?;
        tokenizer.ending(
            vocabulary.bos,
            vocabulary.eos,
            "bos_token_id or eos_token_id of tokenizer.ggml",
        )
    }
}

fn byte_level() -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false})
}

/// Cuts by the patterns, then spells words by their bytes.
fn pre_tokenizer(cut: &Cut) -> Value {
    let splits = cut.patterns.iter().map(|pattern| {
        json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false})
    });
    let all: Vec<Value> = splits.chain([byte_level()]).collect();
    json!({"type": "Sequence", "pretokenizers": all})
}

/// The tokens that are found in a text before it is cut.
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

/// What puts `bos` before a text, if anything does.
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
