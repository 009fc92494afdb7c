//! Tokenizers, chat templates and the text of answers for published models in the browser.
//!
//! `scripts/wasm` builds it as a module of its own, `wasm/pkg/moebius_words.js`, which `moebius.js` loads with the first
//! text model: the Unicode tables and regular-expression engines are a quarter of all code, and a page without text
//! doesn't need them. Only `moebius.js` calls this module; its interface may change at any time.

#[path = "../../src/console.rs"]
mod console;

use std::time::Duration;

use js_sys::{Array, Uint8Array};
use moebius_text::Error::{Read, Template, Unfit};
use moebius_text::{
    Chat, ChatTemplate, Error, Files, Message, Piece, StopStrings, TemplateFault, TextStream,
    Tokenizer,
};
use moebius_weights::gguf::Vocabulary;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

#[wasm_bindgen]
extern "C" {
    /// Vocabulary and chat template from a GGUF file's metadata: an object that `moebius.js` makes.
    pub type Metadata;

    #[wasm_bindgen(method, getter)]
    fn model(this: &Metadata) -> String;
    #[wasm_bindgen(method, getter)]
    fn pre(this: &Metadata) -> String;
    #[wasm_bindgen(method, getter)]
    fn tokens(this: &Metadata) -> Vec<String>;
    #[wasm_bindgen(method, getter)]
    fn merges(this: &Metadata) -> Vec<String>;
    #[wasm_bindgen(method, getter)]
    fn types(this: &Metadata) -> Vec<i32>;
    #[wasm_bindgen(method, getter)]
    fn scores(this: &Metadata) -> Vec<f32>;
    #[wasm_bindgen(method, getter)]
    fn unknown(this: &Metadata) -> Option<u32>;
    #[wasm_bindgen(method, getter)]
    fn bos(this: &Metadata) -> Option<u32>;
    #[wasm_bindgen(method, getter)]
    fn eos(this: &Metadata) -> Vec<u32>;
    #[wasm_bindgen(method, getter, js_name = addBos)]
    fn add_bos(this: &Metadata) -> bool;
    #[wasm_bindgen(method, getter, js_name = addSpace)]
    fn add_space(this: &Metadata) -> bool;
    #[wasm_bindgen(method, getter)]
    fn template(this: &Metadata) -> Option<String>;
    /// Error message for a file without a chat template.
    #[wasm_bindgen(method, getter)]
    fn missing(this: &Metadata) -> String;
}

/// Tokenizer and chat template of a model.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Words {
    tokenizer: Tokenizer,
    /// The chat template, or the error why there is none.
    template: Result<ChatTemplate, JsValue>,
}

/// Text of an answer, decoded as its tokens come.
#[wasm_bindgen]
pub struct Answer(TextStream);

#[wasm_bindgen(start)]
fn start() {
    console::report_panics();
}

#[wasm_bindgen]
impl Words {
    /// Makes tokenizer and template from the files beside a model's weights: `contents` of the files `names`.
    #[wasm_bindgen(js_name = ofFiles)]
    pub fn of_files(names: Vec<String>, contents: Vec<Uint8Array>) -> Result<Self, JsValue> {
        let contents = contents.iter().map(Uint8Array::to_vec);
        let files = Files::in_memory(names.into_iter().zip(contents));
        Ok(Self {
            tokenizer: Tokenizer::from_files(&files).map_err(thrown)?,
            template: ChatTemplate::from_files(&files, None).map_err(thrown),
        })
    }

    /// Makes tokenizer and template from a GGUF file's metadata.
    #[wasm_bindgen(js_name = ofGguf)]
    pub fn of_gguf(metadata: &Metadata) -> Result<Self, JsValue> {
        let tokenizer = Tokenizer::from_gguf(Vocabulary {
            model: metadata.model(),
            pre: metadata.pre(),
            tokens: metadata.tokens(),
            merges: metadata.merges(),
            types: metadata.types(),
            scores: metadata.scores(),
            unknown: metadata.unknown(),
            bos: metadata.bos(),
            eos: metadata.eos(),
            add_bos: metadata.add_bos(),
            add_space: metadata.add_space(),
        });
        let tokenizer = tokenizer.map_err(thrown)?;
        let template = match metadata.template() {
            Some(text) => ChatTemplate::from_gguf(&text, &tokenizer).map_err(thrown),
            None => Err(console::error("bad-file", &metadata.missing())),
        };
        Ok(Self {
            tokenizer,
            template,
        })
    }

    /// Whether the model has a chat template for conversations.
    #[wasm_bindgen(getter)]
    pub fn chats(&self) -> bool {
        self.template.is_ok()
    }

    /// Tokens that end an answer.
    pub fn ends(&self) -> Vec<u32> {
        self.tokenizer.eos_ids().to_vec()
    }

    /// Tokens of a text, with the special tokens at its beginning. Names of special tokens in it stand for the tokens if `special`, and else
    /// for their characters.
    pub fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>, JsValue> {
        self.reading(special).encode(text, true).map_err(thrown)
    }

    /// Tokens of a conversation up to where the answer begins: messages with `roles` and `contents`, and the current
    /// time in milliseconds since 1970. Names of special tokens in messages stand for the tokens if `special`, and else for their
    /// characters.
    pub fn converse(
        &self,
        roles: Vec<String>,
        contents: Vec<String>,
        now: f64,
        special: bool,
    ) -> Result<Vec<u32>, JsValue> {
        let template = self.template.as_ref().map_err(Clone::clone)?;
        let messages = roles.into_iter().zip(contents);
        let messages = messages.map(|(role, content)| Message::new(role, content));
        let chat = Chat::new(messages)
            .with_generation_prompt(true)
            .with_time(Duration::from_secs_f64(now.max(0.0) / 1000.0));
        template
            .encode(&chat, &self.reading(special))
            .map_err(thrown)
    }

    /// Starts the text of an answer; any of `stops` ends it.
    pub fn answer(&self, stops: Vec<String>) -> Result<Answer, JsValue> {
        let stops = StopStrings::new(stops).map_err(thrown)?;
        Ok(Answer(TextStream::new(&self.tokenizer, stops)))
    }
}

impl Words {
    /// The tokenizer, which reads names of special tokens in texts as tokens, or else as text.
    fn reading(&self, special: bool) -> Tokenizer {
        self.tokenizer.clone().with_special_as_text(!special)
    }
}

#[wasm_bindgen]
impl Answer {
    /// Adds a token; returns the text that is certain now, and whether a stop string ended the answer.
    pub fn push(&mut self, id: u32) -> Result<Array, JsValue> {
        self.0.push(id).map(|piece| parts(&piece)).map_err(thrown)
    }

    /// Ends the answer; returns the text that was held back, and whether a stop string ended the answer.
    pub fn finish(&mut self) -> Result<Array, JsValue> {
        self.0.finish().map(|piece| parts(&piece)).map_err(thrown)
    }
}

/// The text of a piece, and whether a stop string ended the answer, as an array.
fn parts(piece: &Piece) -> Array {
    Array::of2(&piece.text.as_str().into(), &piece.stop.is_some().into())
}

/// The error that a caller of `moebius.js` sees.
fn thrown(error: Error) -> JsValue {
    let code = match &error {
        Template(of) if of.fault == TemplateFault::Refused => "shape",
        Read { .. } | Unfit(_) | Template(_) => "bad-file",
        _ => "shape",
    };
    console::error(code, &error.to_string())
}
