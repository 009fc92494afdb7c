//! Bindings to the module of tokenizers and chat templates (`wasm/words`).

use js_sys::{Array, Float32Array, Int32Array, Promise, Uint8Array, Uint32Array};
use moebius_weights::gguf::Vocabulary;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;

use crate::failure::{Code, Failure};
use crate::objects::{Record, list};

#[wasm_bindgen(module = "/words.js")]
extern "C" {
    #[wasm_bindgen(js_name = loadWords)]
    fn load_words() -> Promise;
}

#[wasm_bindgen]
extern "C" {
    /// The class `Words`, for its constructors.
    type Class;

    #[wasm_bindgen(method, catch, js_name = ofFiles)]
    fn of_files(this: &Class, names: Array, contents: Array) -> Result<Words, JsValue>;

    #[wasm_bindgen(method, catch, js_name = ofGguf)]
    fn of_gguf(this: &Class, metadata: JsValue) -> Result<Words, JsValue>;

    /// Tokenizer and chat template of a model.
    pub(super) type Words;

    #[wasm_bindgen(method, getter)]
    pub(super) fn chats(this: &Words) -> bool;

    #[wasm_bindgen(method)]
    pub(super) fn ends(this: &Words) -> Vec<u32>;

    #[wasm_bindgen(method, catch)]
    pub(super) fn encode(this: &Words, text: &str, special: bool) -> Result<Vec<u32>, JsValue>;

    #[wasm_bindgen(method, catch)]
    pub(super) fn converse(
        this: &Words,
        roles: Array,
        contents: Array,
        now: f64,
        special: bool,
    ) -> Result<Vec<u32>, JsValue>;

    #[wasm_bindgen(method, catch)]
    pub(super) fn answer(this: &Words, stops: Array) -> Result<Answer, JsValue>;

    /// Text of an answer, decoded as its tokens come.
    pub(super) type Answer;

    #[wasm_bindgen(method, catch, js_name = push)]
    fn push_parts(this: &Answer, id: u32) -> Result<Array, JsValue>;

    #[wasm_bindgen(method, catch, js_name = finish)]
    fn finish_parts(this: &Answer) -> Result<Array, JsValue>;
}

/// A piece of an answer's text.
pub(super) struct Piece {
    pub(super) text: String,
    /// Whether a stop string ended the answer.
    pub(super) stopped: bool,
}

impl Words {
    /// Makes tokenizer and template from the files beside a model's weights.
    pub(super) async fn of_files(beside: &[(String, Vec<u8>)]) -> Result<Self, Failure> {
        let names = beside.iter().map(|(name, _)| name.as_str());
        let contents = beside
            .iter()
            .map(|(_, bytes)| Uint8Array::from(bytes.as_slice()));
        let class = class().await?;
        Ok(class.of_files(list(names), list(contents))?)
    }

    /// Makes tokenizer and template from the vocabulary and the chat template of the GGUF file `name`.
    pub(super) async fn of_gguf(
        name: &str,
        vocabulary: Vocabulary,
        template: Option<&str>,
    ) -> Result<Self, Failure> {
        let class = class().await?;
        let metadata = Record::new()
            .with("model", vocabulary.model)
            .with("pre", vocabulary.pre)
            .with("tokens", list(vocabulary.tokens))
            .with("merges", list(vocabulary.merges))
            .with("types", Int32Array::from(vocabulary.types.as_slice()))
            .with("scores", Float32Array::from(vocabulary.scores.as_slice()))
            .with("unknown", vocabulary.unknown)
            .with("bos", vocabulary.bos)
            .with("eos", Uint32Array::from(vocabulary.eos.as_slice()))
            .with("addBos", vocabulary.add_bos)
            .with("addSpace", vocabulary.add_space)
            .with("template", template)
            .with("missing", missing(name, "a chat template"));
        Ok(class.of_gguf(metadata.into())?)
    }
}

impl Answer {
    /// Adds a token; returns the text that is certain now.
    pub(super) fn push(&self, id: u32) -> Result<Piece, Failure> {
        Ok(Piece::of(&self.push_parts(id)?))
    }

    /// Ends the answer; returns the text that was held back.
    pub(super) fn finish(&self) -> Result<Piece, Failure> {
        Ok(Piece::of(&self.finish_parts()?))
    }
}

impl Piece {
    fn of(parts: &Array) -> Self {
        Self {
            text: parts.get(0).as_string().unwrap_or_default(),
            stopped: parts.get(1).is_truthy(),
        }
    }
}

/// The error message for a GGUF file that lacks something.
pub(super) fn missing(name: &str, what: &str) -> String {
    format!("{name}: expected {what}, got none")
}

/// The class of the module, which is loaded first if necessary.
async fn class() -> Result<Class, Failure> {
    let loaded = JsFuture::from(load_words()).await;
    let class = loaded.map_err(|error| {
        let message = format!("expected moebius_words.js beside moebius.js, got {error:?}");
        Failure::new(Code::DEVICE, message)
    })?;
    Ok(class.unchecked_into())
}
