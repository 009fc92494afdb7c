//! Words of published models in the browser: tokenizers, chat templates and the text of answers.
//!
//! `scripts/wasm` makes a module of its own of it, `wasm/pkg/moebius_words.js`, which `moebius.js` loads with the first
//! text model: the tables of Unicode and the engines of expressions are a quarter of all code, and a page without a text
//! doesn't need them. `moebius.js` alone calls it; its interface is part of no other promise.

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

/// What a model reads and writes, and how it is asked in a conversation.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Words {
    tokenizer: Tokenizer,
    /// Or why there is none.
    template: Result<ChatTemplate, JsValue>,
}

/// The text of an answer, as its tokens come.
#[wasm_bindgen]
pub struct Answer(TextStream);

#[wasm_bindgen(start)]
fn start() {
    console::report_panics();
}

#[wasm_bindgen]
impl Words {
    /// Of the files beside a model's weights: `contents` of `names`.
    #[wasm_bindgen(js_name = ofFiles)]
    pub fn of_files(names: Vec<String>, contents: Vec<Uint8Array>) -> Result<Self, JsValue> {
        let contents = contents.iter().map(Uint8Array::to_vec);
        let files = Files::in_memory(names.into_iter().zip(contents));
        Ok(Self {
            tokenizer: Tokenizer::from_files(&files).map_err(thrown)?,
            template: ChatTemplate::from_files(&files, None).map_err(thrown),
        })
    }

    /// Of a GGUF file's metadata; `missing` says that `template` isn't there.
    #[wasm_bindgen(js_name = ofGguf)]
    #[allow(
        clippy::too_many_arguments,
        reason = "the keys of the metadata, which cross one by one"
    )]
    pub fn of_gguf(
        model: String,
        pre: String,
        tokens: Vec<String>,
        merges: Vec<String>,
        types: Vec<i32>,
        bos: Option<u32>,
        eos: Vec<u32>,
        add_bos: bool,
        template: Option<String>,
        missing: &str,
    ) -> Result<Self, JsValue> {
        let tokenizer = Tokenizer::from_gguf(Vocabulary {
            model,
            pre,
            tokens,
            merges,
            types,
            bos,
            eos,
            add_bos,
        });
        let tokenizer = tokenizer.map_err(thrown)?;
        let template = match template {
            Some(text) => ChatTemplate::from_gguf(&text, &tokenizer).map_err(thrown),
            None => Err(console::error("bad-file", missing)),
        };
        Ok(Self {
            tokenizer,
            template,
        })
    }

    /// Whether the model can be asked in a conversation.
    #[wasm_bindgen(getter)]
    pub fn chats(&self) -> bool {
        self.template.is_ok()
    }

    /// The tokens that end an answer.
    pub fn ends(&self) -> Vec<u32> {
        self.tokenizer.eos_ids().to_vec()
    }

    /// The tokens of a text, with those that a text begins with.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, JsValue> {
        self.tokenizer.encode(text, true).map_err(thrown)
    }

    /// The tokens of a conversation, up to where an answer begins: `contents` said by `roles`, at a time in milliseconds
    /// since 1970.
    pub fn converse(
        &self,
        roles: Vec<String>,
        contents: Vec<String>,
        now: f64,
    ) -> Result<Vec<u32>, JsValue> {
        let template = self.template.as_ref().map_err(Clone::clone)?;
        let messages = roles.into_iter().zip(contents);
        let messages = messages.map(|(role, content)| Message::new(role, content));
        let chat = Chat::new(messages)
            .with_generation_prompt(true)
            .with_time(Duration::from_secs_f64(now.max(0.0) / 1000.0));
        let text = template.render(&chat).map_err(thrown)?;
        // A template writes the special tokens itself.
        self.tokenizer.encode(&text, false).map_err(thrown)
    }

    /// Starts an answer, which any of `stops` ends.
    pub fn answer(&self, stops: Vec<String>) -> Result<Answer, JsValue> {
        let stops = StopStrings::new(stops).map_err(thrown)?;
        Ok(Answer(TextStream::new(&self.tokenizer, stops)))
    }
}

#[wasm_bindgen]
impl Answer {
    /// The text that is sure now that a token came, and whether a stop string ended the answer.
    pub fn push(&mut self, id: u32) -> Result<Array, JsValue> {
        self.0.push(id).map(|piece| parts(&piece)).map_err(thrown)
    }

    /// Ends the answer: the text that was held back, and whether a stop string ended the answer.
    pub fn finish(&mut self) -> Result<Array, JsValue> {
        self.0.finish().map(|piece| parts(&piece)).map_err(thrown)
    }
}

/// The text of a piece, and whether a stop string ended the answer.
fn parts(piece: &Piece) -> Array {
    Array::of2(&piece.text.as_str().into(), &piece.stop.is_some().into())
}

/// The error as a caller of `moebius.js` sees it.
fn thrown(error: Error) -> JsValue {
    let code = match &error {
        Template(of) if of.fault == TemplateFault::Refused => "shape",
        Read { .. } | Unfit(_) | Template(_) => "bad-file",
        _ => "shape",
    };
    console::error(code, &error.to_string())
}
