//! Tokenizers of older folders, which have no `tokenizer.json`: byte-level BPE in `vocab.json` and `merges.txt`, and SentencePiece's models.

use serde_json::{Value, json};

use crate::Error;
use crate::files::{CONFIG, Files};
use crate::gguf::{byte_level, byte_pairs};
use crate::sentencepiece;

/// A tokenizer in the form of a `tokenizer.json`.
pub(crate) struct Older {
    pub(crate) json: Value,
    /// Name of the file that it comes from, for errors.
    pub(crate) label: String,
    /// Names of the tokens around a text, like `bos_token`, with the tokens; for folders whose other files don't name them.
    pub(crate) ends: Vec<(String, Value)>,
}

/// The tokenizer of an older folder; `None` if the folder has none of the files.
pub(crate) fn older(files: &Files) -> Result<Option<Older>, Error> {
    const MODEL: &str = "tokenizer.model";
    if let Some(bytes) = files.bytes(MODEL)? {
        let config = files.config()?;
        let label = files.label(MODEL);
        let family = files.family()?;
        let (json, ends) = sentencepiece::tokenizer(&bytes, &label, config.as_deref(), &family)?;
        return Ok(Some(Older { json, label, ends }));
    }
    let (vocabulary, merges) = (files.object("vocab.json")?, files.text("merges.txt")?);
    match (vocabulary, merges) {
        (Some(vocabulary), Some(merges)) => {
            let (json, ends) = pairs(files, vocabulary, &merges)?;
            let label = files.label("vocab.json");
            Ok(Some(Older { json, label, ends }))
        }
        _ => Ok(None),
    }
}

/// The token that has these names in both classes where the files don't name another one, if the vocabulary has it.
const END: &str = "<|endoftext|>";

/// The tokenizer of GPT-2's files, with the names of its tokens: words are cut as the class in `tokenizer_config.json` does, by Qwen 2's
/// rule or else by GPT-2's.
fn pairs(
    files: &Files,
    vocabulary: Value,
    merges: &str,
) -> Result<(Value, Vec<(String, Value)>), Error> {
    let config = files.config()?;
    let setting = |name: &str| config.as_ref().and_then(|config| config.get(name));
    let (pre, names) = match files.class()?.as_str() {
        "" | "GPT2Tokenizer" | "PreTrainedTokenizer" => {
            ("gpt-2", ["bos_token", "eos_token", "unk_token"])
        }
        "Qwen2Tokenizer" => ("qwen2", ["eos_token", "pad_token", "unk_token"]),
        other => {
            let what = format!("tokenizer_class in {}", files.label(CONFIG));
            let expected = "GPT2Tokenizer or Qwen2Tokenizer beside vocab.json and merges.txt; save_pretrained of transformers writes a tokenizer.json";
            return Err(Error::unfit(what, expected, other));
        }
    };
    let lines = merges.lines().enumerate();
    // The first line may say which version of the format follows.
    let lines =
        lines.filter(|(at, line)| !line.is_empty() && (*at > 0 || !line.starts_with("#version")));
    let merges: Result<Vec<[&str; 2]>, Error> = lines
        .map(|(at, line)| {
            let pair = line.split_once(' ').map(|(first, second)| [first, second]);
            pair.ok_or_else(|| {
                let what = format!("{}, line {}", files.label("merges.txt"), at + 1);
                Error::unfit(
                    what,
                    "two tokens with a space between them",
                    format!("{line:?}"),
                )
            })
        })
        .collect();
    // A name that the configuration gives to no token stays without one.
    let unnamed = names.into_iter().filter(|name| setting(name).is_none());
    let ends = unnamed.filter(|_| vocabulary.get(END).is_some());
    let ends = ends.map(|name| (name.to_owned(), json!(END))).collect();
    let mut json = byte_pairs(pre, vocabulary, json!(merges?))?;
    json["version"] = json!("1.0");
    json["added_tokens"] = json!([]);
    json["post_processor"] = byte_level();
    if setting("add_prefix_space").and_then(Value::as_bool) == Some(true) {
        spaced(&mut json, pre);
    }
    Ok((json, ends))
}

/// Gives texts a space before them, as GPT-2's class does, or, as Qwen 2's does, all words that begin without one.
fn spaced(json: &mut Value, pre: &str) {
    let mut bytes = byte_level();
    bytes["add_prefix_space"] = json!(true);
    if pre == "gpt-2" {
        // This stage cuts words, too, by the same rule.
        bytes["use_regex"] = json!(true);
        json["pre_tokenizer"] = bytes;
    } else if let Some(last) = json["pre_tokenizer"]["pretokenizers"]
        .as_array_mut()
        .and_then(|stages| stages.last_mut())
    {
        *last = bytes;
    }
}
