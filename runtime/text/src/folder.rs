//! The tokenizer of a Hugging Face folder, with what the files beside `tokenizer.json` say about it, as `transformers` 5 takes them.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::files::{CONFIG, Files, content, kind};
use crate::older::older;
use crate::{Error, Tokenizer, sentencepiece};

/// Name of the file that has a whole tokenizer.
const TOKENIZER: &str = "tokenizer.json";

impl Tokenizer {
    /// Reads the tokenizer of a Hugging Face folder: `tokenizer.json`, or in older folders `tokenizer.model` (SentencePiece's BPE) or
    /// `vocab.json` and `merges.txt` (byte-level BPE). Tokens that only `tokenizer_config.json`, `special_tokens_map.json` or
    /// `added_tokens.json` list are added. `tokenizer.json` says what an encoding begins and ends with, in older folders `add_bos_token` and
    /// `add_eos_token` do.
    ///
    /// The ids that end an answer are those of `eos_token_id` in `generation_config.json` and `config.json`, and of `eos_token`; each of
    /// these files may be missing. Settings of truncation and padding in `tokenizer.json` are ignored.
    ///
    /// # Errors
    /// [`Error::Read`] and [`Error::Unfit`] with the path of the file and what was expected in it.
    pub fn from_folder(folder: &Path) -> Result<Self, Error> {
        Self::from_files(&Files::in_folder(folder))
    }

    /// Reads the tokenizer like [`Tokenizer::from_folder`], from files in a folder or in memory.
    ///
    /// # Errors
    /// As [`Tokenizer::from_folder`].
    pub fn from_files(files: &Files) -> Result<Self, Error> {
        let Complete {
            json,
            label,
            is_whole,
            named,
        } = complete(files)?;
        let mut tokenizer = Self::from_json(json, &label)?;
        let id_of = |key: &str, tokenizer: &Self| {
            let (_, token) = named.iter().find(|(known, _)| known == key)?;
            tokenizer.id(content(token)?)
        };
        let (bos, end) = (
            id_of("bos_token", &tokenizer),
            id_of("eos_token", &tokenizer),
        );
        if !is_whole && let Some(processor) = post_processor(files, &tokenizer, [bos, end])? {
            tokenizer = tokenizer.processed(processor, &label)?;
        }
        let mut ids = Vec::new();
        for name in ["generation_config.json", "config.json"] {
            let found = files.object(name)?;
            let found = found.as_ref().and_then(|config| config.get("eos_token_id"));
            ids.extend(eos_ids(found, &files.label(name))?);
        }
        ids.extend(end);
        let mut eos = Vec::new();
        for id in ids {
            // A configuration may name an id that the vocabulary doesn't have; no answer ends with it.
            if !eos.contains(&id) && tokenizer.token(id).is_some() {
                eos.push(id);
            }
        }
        tokenizer.ending(bos, eos, format!("eos_token_id in {}", files.place()))
    }
}

/// A tokenizer of a folder in the form of a `tokenizer.json`, with the tokens that the files beside it list.
pub(crate) struct Complete {
    pub(crate) json: Value,
    /// Name of the file for errors.
    pub(crate) label: String,
    /// Whether the file says what a text begins and ends with, as `tokenizer.json` does and those of older folders don't.
    is_whole: bool,
    /// The tokens that files name, such as `bos_token`.
    named: Vec<(String, Value)>,
}

/// Reads the tokenizer of a folder.
pub(crate) fn complete(files: &Files) -> Result<Complete, Error> {
    let mut named = files.special_tokens()?;
    let (mut json, label, is_whole) = match files.object(TOKENIZER)? {
        Some(mut json) => {
            sentencepiece::by_class(&mut json, files)?;
            (json, files.label(TOKENIZER), true)
        }
        None => {
            let found = older(files)?.ok_or_else(|| {
                let expected = "tokenizer.json, tokenizer.model, or vocab.json and merges.txt";
                Error::unfit(files.place(), expected, "none of them")
            })?;
            for (key, token) in found.ends {
                if named.iter().all(|(known, _)| *known != key) {
                    named.push((key, token));
                }
            }
            (found.json, found.label, false)
        }
    };
    add_tokens(&mut json, files, &named)?;
    Ok(Complete {
        json,
        label,
        is_whole,
        named,
    })
}

/// The post-processor for `add_bos_token` and `add_eos_token` of an older folder, given the ids of the two tokens; `None` where
/// `tokenizer_config.json` has neither flag, so that the other files decide.
fn post_processor(
    files: &Files,
    tokenizer: &Tokenizer,
    ends: [Option<u32>; 2],
) -> Result<Option<Value>, Error> {
    let config = files.config()?;
    let flags = ["add_bos_token", "add_eos_token"];
    let flags = flags.map(|flag| config.as_deref().and_then(|config| config.get(flag)));
    if flags.iter().all(Option::is_none) {
        return Ok(None);
    }
    let mut special = Map::new();
    let mut piece = |at: usize| {
        let added = flags[at].and_then(Value::as_bool).unwrap_or(false);
        let id = ends[at].filter(|_| added)?;
        let token = tokenizer.token(id)?;
        special.insert(
            token.clone(),
            json!({"id": token, "ids": [id], "tokens": [token]}),
        );
        Some(json!({"SpecialToken": {"id": token, "type_id": 0}}))
    };
    let text = json!({"Sequence": {"id": "A", "type_id": 0}});
    let single = [piece(0), Some(text), piece(1)];
    let single: Vec<Value> = single.into_iter().flatten().collect();
    let pair = [
        &single[..],
        &[json!({"Sequence": {"id": "B", "type_id": 1}})],
    ]
    .concat();
    Ok(Some(json!({
        "type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": special,
    })))
}

/// A token as `tokenizer.json` lists it, with the properties that `transformers` gives a token for which a file says only `given`.
fn whole(given: &Map<String, Value>) -> Value {
    let special = given.get("special").and_then(Value::as_bool);
    let special = special.unwrap_or(false);
    let mut token = json!({
        "id": 0, "content": "", "single_word": false, "lstrip": false, "rstrip": false, "normalized": !special,
        "special": special,
    });
    for (key, value) in given {
        // Properties beyond these, such as `__type`, say nothing about the token.
        if token.get(key).is_some() && !value.is_null() {
            token[key.as_str()] = value.clone();
        }
    }
    token
}

/// Adds to a `tokenizer.json` the tokens that only the files beside it list, in the order of their ids, and gives tokens the properties
/// that these files state. What is special in one place is special. The `named` tokens are special, too.
fn add_tokens(json: &mut Value, files: &Files, named: &[(String, Value)]) -> Result<(), Error> {
    let config = files.config()?;
    let setting = |key: &str| config.as_deref().and_then(|config| config.get(key));
    let mut special: Vec<Value> = named.iter().map(|(_, token)| token.clone()).collect();
    for key in ["additional_special_tokens", "extra_special_tokens"] {
        let more = setting(key).and_then(Value::as_array);
        special.extend(more.into_iter().flatten().cloned());
    }
    if json.get("added_tokens").is_none_or(Value::is_null) {
        json["added_tokens"] = json!([]);
    }
    let Some(known) = json["added_tokens"].as_array_mut() else {
        return Ok(());
    };
    let listed = match setting("added_tokens_decoder") {
        Some(decoder) => decoded(decoder, &files.label(CONFIG))?,
        None => legacy(files, &special)?,
    };
    // Some files list thousands of tokens. Of tokens with the same text the first counts.
    let numbered = known.iter().enumerate().rev();
    let texts = numbered.filter_map(|(at, old)| Some((old["content"].as_str()?.to_owned(), at)));
    let mut places: HashMap<String, usize> = texts.collect();
    for (id, mut token) in listed {
        let text = content(&token).unwrap_or_default().to_owned();
        match places.get(&text) {
            Some(&at) => {
                let old = &mut known[at];
                let either = old["special"] == json!(true) || token["special"] == json!(true);
                token["special"] = json!(either);
                token["id"] = old["id"].clone();
                *old = token;
            }
            None => {
                token["id"] = json!(id);
                places.insert(text, known.len());
                known.push(token);
            }
        }
    }
    for token in special {
        let Some(text) = content(&token).filter(|text| !text.is_empty()) else {
            continue;
        };
        match places.get(text) {
            Some(&at) => known[at]["special"] = json!(true),
            None => {
                let mut given = token.as_object().cloned().unwrap_or_default();
                given.insert("content".to_owned(), json!(text));
                given.insert("special".to_owned(), json!(true));
                places.insert(text.to_owned(), known.len());
                known.push(whole(&given));
            }
        }
    }
    Ok(())
}

/// The tokens of `added_tokens_decoder`, by their ids.
fn decoded(decoder: &Value, file: &str) -> Result<BTreeMap<u64, Value>, Error> {
    let mut found = BTreeMap::new();
    for (id, token) in decoder.as_object().into_iter().flatten() {
        let token = token.as_object().filter(|token| {
            let content = token.get("content");
            content.is_some_and(Value::is_string)
        });
        match (id.parse(), token) {
            (Ok(id), Some(token)) => {
                found.insert(id, whole(token));
            }
            _ => {
                let what = format!("added_tokens_decoder in {file}");
                let got = format!("{id:?}: {}", kind(&decoder[id.as_str()]));
                return Err(Error::unfit(what, "tokens by their ids", got));
            }
        }
    }
    Ok(found)
}

/// The tokens of `added_tokens.json`, by their ids; of these, `special` ones are special.
fn legacy(files: &Files, special: &[Value]) -> Result<BTreeMap<u64, Value>, Error> {
    let listed = files.object("added_tokens.json")?;
    let listed = listed.as_ref().and_then(Value::as_object);
    let mut found = BTreeMap::new();
    for (text, id) in listed.into_iter().flatten() {
        let special = special.iter().any(|token| content(token) == Some(text));
        let token = json!({"content": text, "special": special});
        let token = token.as_object().map(whole);
        found.extend(id.as_u64().zip(token));
    }
    Ok(found)
}

/// The ids in `eos_token_id`, which may be a number, an array or missing.
fn eos_ids(value: Option<&Value>, file: &str) -> Result<Vec<u32>, Error> {
    let one = |value: &Value| {
        let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
        id.ok_or_else(|| {
            let what = format!("eos_token_id in {file}");
            Error::unfit(what, "one or several ids", kind(value))
        })
    };
    match value {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(ids)) => ids.iter().map(one).collect(),
        Some(id) => Ok(vec![one(id)?]),
    }
}
