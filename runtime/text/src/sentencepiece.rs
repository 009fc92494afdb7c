//! SentencePiece's own model files, `tokenizer.model`: a message of protocol buffers with pieces, their scores and few settings.

use std::collections::HashSet;

use moebius_weights::gguf::Vocabulary;
use serde_json::{Value, json};

use crate::files::Files;
use crate::{Error, gguf};

/// What an error advises for models that aren't BPE.
const ADVICE: &str = "a BPE model without a normalization of its own; AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR) of transformers writes a tokenizer.json";

/// Kind of a piece: a character or several.
const NORMAL: u64 = 1;
/// Values of `model_type`: unigrams, which a file without the field has, and byte-pair encoding.
const UNIGRAM: u64 = 1;
const BPE: u64 = 2;

/// Families of which `transformers` takes the rules of a file, of others those of Llama's class.
const BY_THE_FILE: [&str; 14] = [
    "ernie4_5",
    "ernie4_5_moe",
    "glm4_moe",
    "glm4_moe_lite",
    "granite",
    "granitemoe",
    "minimax_m2",
    "ministral3",
    "mistral",
    "mistral3",
    "mixtral",
    "olmo2",
    "olmo3",
    "phi3",
];

/// What a model file says.
#[derive(Default)]
struct Model {
    pieces: Vec<String>,
    scores: Vec<f32>,
    types: Vec<i32>,
    /// Value of `model_type`, where the file has one.
    kind: Option<u64>,
    /// Ids of unknown pieces, of the start and of the end of a text, where the file has them; negative ones stand for none.
    ids: [Option<i32>; 3],
    /// Number of bytes of the table by which characters are replaced before they are cut into pieces.
    table: usize,
}

/// The tokenizer of the model file `bytes`, called `label` in errors, in the form of a `tokenizer.json`, and the tokens around a text by
/// their names. `config` is the `tokenizer_config.json` beside the file, `family` the `model_type` of the model.
pub(crate) fn tokenizer(
    bytes: &[u8],
    label: &str,
    config: Option<&Value>,
    family: &str,
) -> Result<(Value, Vec<(String, Value)>), Error> {
    let model = checked(bytes, label)?;
    let piece = |id: Option<u32>| model.pieces.get(usize::try_from(id?).ok()?);
    let [unknown, bos, eos] = model.ids.map(|id| {
        let id = id.and_then(|id| u32::try_from(id).ok());
        id.filter(|id| piece(Some(*id)).is_some())
    });
    let names = [
        ("unk_token", unknown),
        ("bos_token", bos),
        ("eos_token", eos),
    ];
    let named = names
        .iter()
        .filter_map(|(name, id)| Some(((*name).to_owned(), json!(piece(*id)?))));
    let named: Vec<(String, Value)> = named.collect();
    let flag = |name: &str| {
        config
            .and_then(|config| config.get(name))
            .and_then(Value::as_bool)
    };
    let vocabulary = Vocabulary {
        model: "llama".to_owned(),
        add_bos: flag("add_bos_token").unwrap_or(true) && bos.is_some(),
        add_space: flag("add_prefix_space").unwrap_or(true),
        tokens: model.pieces,
        scores: model.scores,
        types: model.types,
        unknown,
        bos,
        eos: eos.into_iter().collect(),
        ..Vocabulary::default()
    };
    let mut json = gguf::tokenizer_json(&vocabulary)?;
    // A text's first word gets the space, where the older rule gives it to the first word after each special token, too. Llama's class gives
    // none to a word that has one.
    let by_the_file = BY_THE_FILE.contains(&family);
    let older = flag("legacy").unwrap_or(by_the_file);
    if vocabulary.add_space && !(by_the_file && older) {
        prepend(&mut json, if older { "always" } else { "first" });
    }
    Ok((json, named))
}

/// Replaces spaces as Llama's class does, and puts one before a text as `scheme` says.
fn prepend(json: &mut Value, scheme: &str) {
    json["normalizer"] = Value::Null;
    json["pre_tokenizer"] =
        json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": false});
}

/// Gives a `tokenizer.json` the rules of Llama's class where `transformers` 5 takes these in place of the file's: where the
/// `tokenizer_config.json` beside it names the class, unless the family keeps the rules of files, or they are byte-level BPE's.
pub(crate) fn by_class(json: &mut Value, files: &Files) -> Result<(), Error> {
    if files.class()? != "LlamaTokenizer" || json["model"]["type"] != "BPE" {
        return Ok(());
    }
    let parts = ["pre_tokenizer", "decoder"];
    let byte_level = |part: &&str| json.get(part).is_some_and(is_byte_level);
    let family = files.family()?;
    let kept = BY_THE_FILE.contains(&family.as_str()) || family == "qwen2";
    if kept || parts.iter().any(byte_level) {
        return Ok(());
    }
    let config = files.config()?;
    let flag = |name: &str| config.as_deref()?.get(name)?.as_bool();
    let spaced = flag("add_prefix_space").unwrap_or(true);
    let scheme = match flag("legacy") {
        _ if !spaced => "never",
        Some(true) => "always",
        _ => "first",
    };
    prepend(json, scheme);
    json["decoder"] = gguf::of_spaces(spaced);
    for flag in ["fuse_unk", "byte_fallback"] {
        json["model"][flag] = json!(true);
    }
    Ok(())
}

/// Whether a pre-tokenizer or decoder, or one of a sequence of them, is that of byte-level BPE.
fn is_byte_level(part: &Value) -> bool {
    let inner = ["pretokenizers", "decoders"].map(|name| part.get(name).and_then(Value::as_array));
    let mut inner = inner.into_iter().flatten().flatten();
    part["type"] == "ByteLevel" || inner.any(is_byte_level)
}

/// The model of a file whose pieces differ and are made by BPE.
fn checked(bytes: &[u8], label: &str) -> Result<Model, Error> {
    let model = Model::read(bytes).ok_or_else(|| {
        let got = if bytes.starts_with(moebius_weights::LFS_POINTER) {
            "a pointer of Git LFS: `git lfs pull` brings the file"
        } else {
            "other bytes"
        };
        Error::unfit(label, "a model of SentencePiece", got)
    })?;
    let kind = model.kind.unwrap_or(UNIGRAM);
    if kind != BPE || model.table > 0 {
        let got = format!("model_type {kind} with a table of {} bytes", model.table);
        return Err(Error::unfit(label, ADVICE, got));
    }
    let distinct: HashSet<&String> = model.pieces.iter().collect();
    if distinct.len() < model.pieces.len() {
        let got = format!("{} of {}", distinct.len(), model.pieces.len());
        return Err(Error::unfit(label, "different pieces", got));
    }
    Ok(model)
}

impl Model {
    /// Reads a model; `None` for bytes that are none.
    fn read(bytes: &[u8]) -> Option<Self> {
        let mut model = Self {
            ids: [Some(0), Some(1), Some(2)],
            ..Self::default()
        };
        let mut rest = bytes;
        while !rest.is_empty() {
            match Field::next(&mut rest)? {
                Field {
                    number: 1,
                    value: Kind::Bytes(piece),
                } => model.piece(piece)?,
                Field {
                    number: 2,
                    value: Kind::Bytes(settings),
                } => model.settings(settings)?,
                Field {
                    number: 3,
                    value: Kind::Bytes(normalizer),
                } => model.normalizer(normalizer)?,
                _ => {}
            }
        }
        (!model.pieces.is_empty()).then_some(model)
    }

    fn piece(&mut self, bytes: &[u8]) -> Option<()> {
        let (mut text, mut score, mut kind) = ("", 0.0, NORMAL);
        let mut rest = bytes;
        while !rest.is_empty() {
            match Field::next(&mut rest)? {
                Field {
                    number: 1,
                    value: Kind::Bytes(piece),
                } => text = std::str::from_utf8(piece).ok()?,
                Field {
                    number: 2,
                    value: Kind::Word(bits),
                } => score = f32::from_bits(bits),
                Field {
                    number: 3,
                    value: Kind::Number(number),
                } => kind = number,
                _ => {}
            }
        }
        self.pieces.push(text.to_owned());
        self.scores.push(score);
        self.types.push(i32::try_from(kind).ok()?);
        Some(())
    }

    fn settings(&mut self, bytes: &[u8]) -> Option<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let Field {
                number,
                value: Kind::Number(value),
            } = Field::next(&mut rest)?
            else {
                continue;
            };
            match number {
                3 => self.kind = Some(value),
                // A negative number is written as its 64-bit complement.
                40..=42 => self.ids[number as usize - 40] = Some(value as i32),
                _ => {}
            }
        }
        Some(())
    }

    fn normalizer(&mut self, bytes: &[u8]) -> Option<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            if let Field {
                number: 2,
                value: Kind::Bytes(table),
            } = Field::next(&mut rest)?
            {
                self.table = table.len();
            }
        }
        Some(())
    }
}

/// A field of a message.
struct Field<'a> {
    number: u64,
    value: Kind<'a>,
}

/// The value of a field by how it is written.
enum Kind<'a> {
    Number(u64),
    Word(u32),
    Bytes(&'a [u8]),
    /// A value of eight bytes, which no field that is read has.
    Other,
}

impl<'a> Field<'a> {
    /// Takes the next field off `rest`; `None` where the bytes end too early or are no field.
    fn next(rest: &mut &'a [u8]) -> Option<Self> {
        let key = number(rest)?;
        let value = match key & 7 {
            0 => Kind::Number(number(rest)?),
            1 => {
                rest.split_off(..8)?;
                Kind::Other
            }
            2 => {
                let length = usize::try_from(number(rest)?).ok()?;
                Kind::Bytes(rest.split_off(..length)?)
            }
            5 => {
                let (word, after) = rest.split_first_chunk()?;
                *rest = after;
                Kind::Word(u32::from_le_bytes(*word))
            }
            _ => return None,
        };
        Some(Self {
            number: key >> 3,
            value,
        })
    }
}

/// Takes a number of at most ten bytes off `rest`: seven bits in each, the lowest first.
fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file written by hand: one piece "▁a" with the score -1.5, and the settings of BPE without a start token.
    #[test]
    fn fields_are_those_of_the_format() {
        let mut file = vec![0x0A, 13, 0x0A, 4, 0xE2, 0x96, 0x81, b'a', 0x15];
        file.extend((-1.5_f32).to_le_bytes());
        file.extend([0x18, 1]);
        let one_piece = file.len();
        file.extend([0x12, 14, 0x18, 2, 0xC8, 0x02]);
        file.extend([0xFF; 9]);
        file.push(1);
        let model = Model::read(&file).unwrap();
        assert_eq!(model.pieces, ["▁a"]);
        assert_eq!(model.scores, [-1.5]);
        assert_eq!(model.types, [1]);
        assert_eq!(model.kind, Some(2));
        assert_eq!(model.ids, [Some(0), Some(-1), Some(2)]);
        for length in 0..file.len() {
            let read = Model::read(&file[..length]).is_some();
            assert_eq!(read, length == one_piece, "{length} bytes");
        }
    }
}
