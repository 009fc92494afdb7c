//! The vocabulary of a folder's tokenizer in the form that GGUF files have.

use std::collections::HashMap;

use moebius_weights::gguf::Vocabulary;
use serde_json::Value;

use crate::files::Files;
use crate::folder::complete;
use crate::gguf::{Rule, WORDS, rules};
use crate::{Error, Tokenizer};

/// Texts that tokenizers cut otherwise if their rules differ: contractions in either case, numbers of several digits, spaces and line ends
/// in rows, other scripts, marks, emoji, code and punctuation.
const PROBES: &[&str] = &[
    "I'm sure they'LL say it's 3.14159 or 2024-12-31, won't they?\n\n\n  We'Ve   seen\t\t12345678 of 1,000,000. \r\n",
    "La cigüeña señaló: ¡ÁNIMO! Der Fluß; naïve cafés, e\u{301}te\u{301}, İstanbul, ǅ, ﬁn, Ⅻ, ½, ²",
    "В 1917 году; Ελληνικά; עברית 123; العربية ٣٤٥; हिन्दी में; ภาษาไทย; 日本語のテキスト、中文字符和数字42;한국어 문장입니다。ｆｕｌｌ",
    "fn main() { let x_1 = [0x1F, b'\\n']; /* note */ println!(\"{x:?}\"); } // end\n\t\tif(a&&b||!c)->d::e<T>();",
    "🚀👩‍👩‍👧‍👦🇩🇪 ✓ … — “quoted” ‘single’ «guillemets» $5 €7 +1 <b>bold</b> #tag @user http://a.b/c?d=e&f=g%20",
    " leading,  two,   three \u{a0}nbsp\u{3000}wide\u{200b}zero CamelCaseWord snake_case ALLCAPS mixedCASE x²+y³=z A1B2c3 ''' \"\" ((()))",
];

/// Types of tokens in GGUF files.
const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;
const UNUSED: i32 = 5;
const BYTE: i32 = 6;

impl Files {
    /// Reads the tokenizer in the form that GGUF files have, with `count` tokens, as many as the model has rows of its embedding; rows
    /// without a token get the name `[PADn]`. The tokenizer that a reader makes of it gives the ids of this one for texts in many scripts.
    ///
    /// # Errors
    /// Those of [`Tokenizer::from_files`], and [`Error::Unfit`] for a tokenizer without byte pairs, with more tokens, with tokens behind a
    /// text, or with a rule for words that GGUF has no name for.
    pub fn gguf_vocabulary(&self, count: usize) -> Result<Vocabulary, Error> {
        let whole = complete(self)?;
        let model = &whole.json["model"];
        let found = model["type"].as_str().unwrap_or("BPE");
        if found != "BPE" || !model["merges"].is_array() {
            let expected = "a tokenizer of byte pairs (BPE), as GGUF files have";
            return Err(Error::unfit(&whole.label, expected, found));
        }
        let tokenizer = Tokenizer::from_files(self)?;
        let size = tokenizer.vocabulary_size() as usize;
        if size > count {
            let expected = format!("at most {count} tokens, the rows of the model's embedding");
            return Err(Error::unfit(&whole.label, expected, size));
        }
        let (bos, add_bos) = start(&tokenizer, &whole.label)?;
        let merges = merges(&model["merges"], &whole.label)?;
        let unknown = model["unk_token"]
            .as_str()
            .and_then(|token| tokenizer.id(token));
        let pieces = model["byte_fallback"] == true;
        let (tokens, types) = tokens(&tokenizer, &whole.json, count, unknown);
        let kind = if pieces { "llama" } else { "gpt2" };
        let vocabulary = Vocabulary {
            model: kind.to_owned(),
            scores: if pieces {
                scores(&tokens, &merges)
            } else {
                Vec::new()
            },
            tokens,
            types,
            merges,
            unknown,
            bos,
            eos: tokenizer.eos_ids().to_vec(),
            add_bos,
            add_space: true,
            ..Vocabulary::default()
        };
        let candidates = if pieces {
            of_pieces(vocabulary)
        } else {
            of_rules(vocabulary, &whole.json)
        };
        first_alike(candidates, &tokenizer, &whole.label)
    }
}

/// The first vocabulary whose tokenizer gives the ids of `tokenizer` for all probes.
fn first_alike(
    candidates: impl Iterator<Item = Vocabulary>,
    tokenizer: &Tokenizer,
    label: &str,
) -> Result<Vocabulary, Error> {
    let ids = |of: &Tokenizer| -> Result<Vec<Vec<u32>>, Error> {
        PROBES.iter().map(|text| of.encode(text, true)).collect()
    };
    let expected = ids(tokenizer)?;
    for candidate in candidates {
        let made = Tokenizer::from_gguf(candidate.clone());
        if made
            .and_then(|made| ids(&made))
            .is_ok_and(|got| got == expected)
        {
            return Ok(candidate);
        }
    }
    let expected = "pieces, or a rule for words that GGUF has a name for";
    Err(Error::unfit(label, expected, "another one"))
}

/// The token that a text begins with, and whether the tokenizer puts it there.
fn start(tokenizer: &Tokenizer, label: &str) -> Result<(Option<u32>, bool), Error> {
    let [plain, whole] = [false, true].map(|special| tokenizer.encode("a", special));
    let (plain, whole) = (plain?, whole?);
    match whole.strip_suffix(&plain[..]) {
        Some([]) => Ok((tokenizer.bos_id(), false)),
        Some([first]) => Ok((Some(*first), true)),
        _ => {
            let expected = "at most one token before a text and none behind it";
            let got = format!(
                "{} tokens around it",
                whole.len().saturating_sub(plain.len())
            );
            Err(Error::unfit(label, expected, got))
        }
    }
}

/// The names of all tokens by their ids, and their types.
fn tokens(
    tokenizer: &Tokenizer,
    json: &Value,
    count: usize,
    unknown: Option<u32>,
) -> (Vec<String>, Vec<i32>) {
    let added = json["added_tokens"].as_array().into_iter().flatten();
    let added: HashMap<&str, bool> = added
        .filter_map(|token| Some((token["content"].as_str()?, token["special"] == true)))
        .collect();
    let ids = (0_u32..).take(count);
    let all = ids.map(|id| match tokenizer.token(id) {
        None => (format!("[PAD{id}]"), UNUSED),
        Some(token) => {
            let kind = match added.get(token.as_str()) {
                _ if unknown == Some(id) => UNKNOWN,
                Some(true) => CONTROL,
                Some(false) => USER_DEFINED,
                None if is_byte(&token) => BYTE,
                None => NORMAL,
            };
            (token, kind)
        }
    });
    all.unzip()
}

/// Whether a token spells a byte, such as `<0x0A>`.
fn is_byte(token: &str) -> bool {
    let digits = token
        .strip_prefix("<0x")
        .and_then(|rest| rest.strip_suffix('>'));
    digits.is_some_and(|digits| digits.len() == 2 && u8::from_str_radix(digits, 16).is_ok())
}

/// The merges with a space between their parts.
fn merges(merges: &Value, label: &str) -> Result<Vec<String>, Error> {
    let pair = |merge: &Value| match merge {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => match &parts[..] {
            [Value::String(first), Value::String(second)] => Some(format!("{first} {second}")),
            _ => None,
        },
        _ => None,
    };
    let all = merges.as_array().into_iter().flatten();
    let all = all.map(|merge| {
        // A token with a space would be cut there.
        let pair = pair(merge).filter(|text| text.matches(' ').count() == 1);
        let expected = "merges of two tokens without spaces";
        pair.ok_or_else(|| Error::unfit(label, expected, merge))
    });
    all.collect()
}

/// Scores by which llama.cpp merges pieces in the order of the merges: the sooner a token is made, the higher. Files have none, since the
/// merges follow from them.
fn scores(tokens: &[String], merges: &[String]) -> Vec<f32> {
    let mut made: HashMap<String, usize> = HashMap::new();
    for (rank, merge) in merges.iter().enumerate() {
        made.entry(merge.replacen(' ', "", 1)).or_insert(rank);
    }
    let score = |token: &String| made.get(token).copied().unwrap_or(merges.len());
    tokens.iter().map(|token| -(score(token) as f32)).collect()
}

/// The vocabulary of pieces with a space before a text, and without.
fn of_pieces(vocabulary: Vocabulary) -> Box<dyn Iterator<Item = Vocabulary>> {
    Box::new([true, false].into_iter().map(move |add_space| Vocabulary {
        add_space,
        pre: "default".to_owned(),
        ..vocabulary.clone()
    }))
}

/// The vocabulary with each rule for words; those first that are the tokenizer's own by their text.
fn of_rules(vocabulary: Vocabulary, json: &Value) -> Box<dyn Iterator<Item = Vocabulary>> {
    let mut patterns = Vec::new();
    collect(&json["pre_tokenizer"], &mut patterns);
    let whole = json["model"]["ignore_merges"] == true;
    let composed = json["normalizer"]["type"] == "NFC";
    let mut all: Vec<Rule> = rules().collect();
    all.sort_by_key(|rule| {
        let same = rule.patterns == patterns;
        (!same, rule.whole_words != whole, rule.composed != composed)
    });
    Box::new(all.into_iter().map(move |rule| Vocabulary {
        pre: rule.name.to_owned(),
        ..vocabulary.clone()
    }))
}

/// Collects the patterns by which a pre-tokenizer cuts a text, one after the other.
fn collect(stage: &Value, patterns: &mut Vec<String>) {
    match stage["type"].as_str() {
        Some("Sequence") => {
            let inner = stage["pretokenizers"].as_array().into_iter().flatten();
            inner.for_each(|stage| collect(stage, patterns));
        }
        Some("Split") => {
            let pattern = stage["pattern"]["Regex"].as_str();
            patterns.extend(pattern.map(str::to_owned));
        }
        Some("Digits") if stage["individual_digits"] == true => {
            patterns.push(r"\p{N}".to_owned());
        }
        // The flag is older than the files that leave it out.
        Some("ByteLevel") if stage["use_regex"] != false => patterns.push(WORDS.to_owned()),
        _ => {}
    }
}

#[cfg(test)]
#[path = "to_gguf_tests.rs"]
mod tests;
