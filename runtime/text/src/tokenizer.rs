//! Conversion of text to token ids and back, and vocabularies learnt from a text.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use tokenizers::decoders::byte_level::ByteLevel as ByteDecoder;
use tokenizers::models::TrainerWrapper;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{
    AddedToken, Encoding, Model, OffsetType, PostProcessorWrapper, PreTokenizer,
    Tokenizer as Library,
};

use crate::Error;
use crate::error::guarded;
use crate::files::parse;
use crate::marks::{Names, looks_special, unused};
use crate::stages::Stages;

/// A vocabulary, and the rules that turn text into ids and ids into text. Clones share the vocabulary, and any number of threads may use it
/// at once.
#[derive(Clone)]
pub struct Tokenizer {
    library: Arc<Library>,
    /// The largest id plus 1.
    size: u32,
    bos: Option<u32>,
    eos: Arc<[u32]>,
    /// Initial state of the stages of a decoding.
    stages: Stages,
    /// Names of special tokens.
    names: Arc<Names>,
    /// Whether names of special tokens in a text stand for their characters.
    as_text: bool,
}

impl Tokenizer {
    /// Reads the bytes of a `tokenizer.json`, for programs without a folder to read. The file doesn't name the tokens that start and end a
    /// text; [`Self::with_ends`] sets them.
    ///
    /// # Errors
    /// [`Error::Unfit`] for bytes that aren't a valid `tokenizer.json`.
    pub fn from_bytes(json: &[u8]) -> Result<Self, Error> {
        let what = "tokenizer.json";
        Self::from_json(parse(json, what)?, what)
    }

    /// The tokenizer that the JSON of a `tokenizer.json` describes; errors call it `what`.
    pub(crate) fn from_json(json: Value, what: impl fmt::Display) -> Result<Self, Error> {
        // The library's own JSON reader panics on some invalid JSON, so it gets a parsed value.
        let read = guarded(|| serde_json::from_value::<Library>(json));
        let read = read.and_then(|read| read.map_err(|error| error.to_string()));
        let mut library = read.map_err(|why| Error::unfit(&what, "a tokenizer", why))?;
        // Truncation and padding are settings of a training; a silently truncated or padded prompt would be wrong.
        library.with_padding(None);
        library
            .with_truncation(None)
            .map_err(|error| Error::unfit(&what, "a tokenizer", error))?;
        let ids = library.get_vocab(true);
        let Some(&largest) = ids.values().max() else {
            return Err(Error::unfit(what, "a vocabulary", "no token"));
        };
        let size = largest.checked_add(1).ok_or_else(|| {
            Error::unfit(&what, "ids below 2^32 - 1", format!("the id {largest}"))
        })?;
        Ok(Self {
            size,
            bos: None,
            eos: Arc::new([]),
            stages: Stages::new(library.get_decoder()),
            names: Arc::new(names(&library)),
            as_text: false,
            library: Arc::new(library),
        })
    }

    /// This tokenizer with another post-processor, in the form of a `tokenizer.json`; errors call it `what`.
    pub(crate) fn processed(
        self,
        processor: Value,
        what: impl fmt::Display,
    ) -> Result<Self, Error> {
        let read = serde_json::from_value::<PostProcessorWrapper>(processor);
        let processor = read.map_err(|error| Error::unfit(what, "a post-processor", error))?;
        let mut library = Arc::unwrap_or_clone(self.library);
        library.with_post_processor(Some(processor));
        Ok(Self {
            library: Arc::new(library),
            ..self
        })
    }

    /// This tokenizer with other ids for the start and the ends of a text, such as those of a model's configuration.
    ///
    /// # Errors
    /// [`Error::Unfit`] for an id without a token.
    pub fn with_ends(self, bos: Option<u32>, eos: Vec<u32>) -> Result<Self, Error> {
        self.ending(bos, eos, "an id for the start or the end of a text")
    }

    /// Like [`Self::with_ends`]; `what` tells in errors where the ids come from.
    pub(crate) fn ending(
        self,
        bos: Option<u32>,
        eos: Vec<u32>,
        what: impl fmt::Display,
    ) -> Result<Self, Error> {
        let unknown = bos.iter().chain(&eos).find(|id| self.token(**id).is_none());
        if let Some(id) = unknown {
            let expected = format!("the id of a token, below {}", self.size);
            return Err(Error::unfit(what, expected, id));
        }
        let eos = eos.into();
        Ok(Self { bos, eos, ..self })
    }

    /// This tokenizer, for which names of special tokens in a text stand for their characters if `as_text`, so that `<|im_end|>` in a text
    /// of others ends nothing. Otherwise, as in `transformers` and by default, they stand for the tokens. In a conversation that
    /// [`ChatTemplate::encode`](crate::ChatTemplate::encode) encodes, the names in messages are text, and those that the template writes
    /// are tokens.
    pub fn with_special_as_text(self, as_text: bool) -> Self {
        Self { as_text, ..self }
    }

    /// Encodes `text` as ids. Names of special tokens in it stand for these tokens, unless [`Self::with_special_as_text`] says otherwise.
    /// `add_special` adds the special tokens that the vocabulary puts around every text, such as a start token; texts of a
    /// [`ChatTemplate`](crate::ChatTemplate) already contain them.
    ///
    /// # Errors
    /// [`Error::Encode`] when the vocabulary can't encode the text.
    pub fn encode(&self, text: &str, add_special: bool) -> Result<Vec<u32>, Error> {
        if self.as_text {
            let mark = unused(text)?;
            if let Some(marked) = self.names.marked(text, mark) {
                return self.encode_marked(&marked, mark, add_special);
            }
        }
        encoded(|| self.library.encode_fast(text, add_special))
    }

    /// The names of special tokens, if those in messages are text.
    pub(crate) fn names_as_text(&self) -> Option<&Names> {
        self.as_text.then_some(&*self.names)
    }

    /// Encodes the text that `marked` is without its marks; a name with a mark in it stands for its characters, others for their tokens.
    pub(crate) fn encode_marked(
        &self,
        marked: &str,
        mark: char,
        add_special: bool,
    ) -> Result<Vec<u32>, Error> {
        let library = &self.library;
        encoded(|| {
            let added = library.get_added_vocabulary();
            let mut pieces = added.extract_and_normalize(library.get_normalizer(), marked);
            pieces.split(|_, mut piece| {
                piece.filter(|character| character != mark);
                Ok([piece])
            })?;
            if let Some(words) = library.get_pre_tokenizer() {
                words.pre_tokenize(&mut pieces)?;
            }
            pieces.tokenize(|piece| library.get_model().tokenize(piece.get()))?;
            let encoding = pieces.into_encoding(None, 0, OffsetType::None)?;
            library.post_process(encoding, None, add_special)
        })
    }

    /// Decodes `ids` to text; special tokens are left out if `skip_special`. Invalid UTF-8 becomes U+FFFD.
    ///
    /// # Errors
    /// [`Error::Decode`] when a pattern of the tokenizer fails.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String, Error> {
        let (mut stages, mut text) = (self.stages(), String::new());
        for &id in ids {
            if let Some(token) = self.visible(id, skip_special) {
                stages.push(token, &mut text)?;
            }
        }
        stages.finish(&mut text)?;
        Ok(text)
    }

    /// The largest id plus 1. A model may have more rows of the embedding, which belong to no token.
    pub fn vocabulary_size(&self) -> u32 {
        self.size
    }

    /// The ids that end an answer, in no particular order; empty if the files name none.
    pub fn eos_ids(&self) -> &[u32] {
        &self.eos
    }

    /// The id that starts a text, if the files name one.
    pub fn bos_id(&self) -> Option<u32> {
        self.bos
    }

    /// The id of a token, given the token's text in the vocabulary: `<|im_end|>` is written as it is, a space is `Ġ` or `▁` in many
    /// vocabularies.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.library.token_to_id(token)
    }

    /// The text of a token in the vocabulary, given the token's id.
    pub fn token(&self, id: u32) -> Option<String> {
        self.library.id_to_token(id)
    }

    /// Whether an id is that of a special token, which decoding can leave out.
    pub fn is_special(&self, id: u32) -> bool {
        let token = self.token(id);
        token.is_some_and(|token| self.library.get_added_vocabulary().is_special_token(&token))
    }

    /// The bytes that a token adds to a text, behind the tokens before it; they may be a part of a character. None for a special token and
    /// for an id without a token.
    ///
    /// # Errors
    /// [`Error::Unfit`] for a vocabulary whose tokens have no bytes of their own, as where words are joined with spaces, and
    /// [`Error::Decode`] when a pattern of the tokenizer fails.
    pub fn bytes(&self, id: u32) -> Result<Vec<u8>, Error> {
        let Some(token) = self.visible(id, true) else {
            return Ok(Vec::new());
        };
        let bytes = self.stages.bytes(token)?;
        let expected = "tokens that are the same bytes in every text";
        bytes.ok_or_else(|| Error::unfit("vocabulary", expected, "others"))
    }

    /// The initial state of the stages of a decoding.
    pub(crate) fn stages(&self) -> Stages {
        self.stages.clone()
    }

    /// The token with this id; `None` if there is none or it is a special token to skip.
    pub(crate) fn visible(&self, id: u32, skip_special: bool) -> Option<String> {
        let special = self.library.get_added_vocabulary();
        let token = self.token(id)?;
        (!skip_special || !special.is_special_token(&token)).then_some(token)
    }
}

/// The ids of an encoding by the library.
fn encoded(encode: impl FnOnce() -> tokenizers::Result<Encoding>) -> Result<Vec<u32>, Error> {
    let encoded = guarded(encode);
    let encoded = encoded.and_then(|encoded| encoded.map_err(|error| error.to_string()));
    Ok(encoded.map_err(Error::Encode)?.get_ids().to_vec())
}

/// The names of a tokenizer's special tokens, also as the normalizer writes them.
fn names(library: &Library) -> Names {
    let added = library.get_added_vocabulary();
    let tokens = added.get_added_tokens_decoder().iter();
    let special = tokens.filter(|(_, token)| {
        added.is_special_token(&token.content) || looks_special(&token.content)
    });
    Names::new(special.flat_map(|(id, token)| {
        let normalized = added.simple_id_to_token(*id);
        [Some(token.content.clone()), normalized]
            .into_iter()
            .flatten()
    }))
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokenizer")
            .field("size", &self.size)
            .field("bos", &self.bos)
            .field("eos", &self.eos)
            .finish_non_exhaustive()
    }
}

/// Number of tokens for single bytes in every byte-level vocabulary.
const BYTES: usize = 256;

impl Tokenizer {
    /// Learns a byte-level BPE vocabulary of `size` tokens (Sennrich et al. 2016, as in GPT-2) from `text`, and returns the bytes of its
    /// `tokenizer.json`. The special token `end` has the id 0. Any text can be encoded.
    ///
    /// # Errors
    /// [`Error::Unfit`] for a size that leaves no room for all bytes and `end`, and for a text that yields fewer tokens.
    pub fn learn(text: &str, size: usize, end: &str) -> Result<Vec<u8>, Error> {
        let what = "tokens of a vocabulary";
        let expected = format!("more than {BYTES}");
        if size <= BYTES {
            return Err(Error::unfit(what, expected, size));
        }
        let trainer = BpeTrainer::builder()
            .vocab_size(size)
            .show_progress(false)
            .special_tokens(vec![AddedToken::from(end, true)])
            .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
            .build();
        let learnt = guarded(|| {
            let mut library = Library::new(BPE::default());
            library
                .with_pre_tokenizer(Some(ByteLevel::new(false, true, true)))
                .with_decoder(Some(ByteDecoder::default()));
            let mut trainer = TrainerWrapper::from(trainer);
            library.train(&mut trainer, std::iter::once(text))?;
            Ok(library)
        });
        let refused = |why: String| Error::unfit("a vocabulary", "one of this text", why);
        let learnt: Result<Library, tokenizers::Error> = learnt.map_err(refused)?;
        let library = learnt.map_err(|error| refused(error.to_string()))?;
        let got = library.get_vocab_size(true);
        if got != size {
            return Err(Error::unfit(
                what,
                format!("{size}"),
                format!("{got}, all that the text has"),
            ));
        }
        let json = library.to_string(true);
        let json = json.map_err(|error| refused(error.to_string()))?;
        Ok(json.into_bytes())
    }
}
