//! Converts text to and from a language model's tokens, without a device and without threads.
//!
//! The main types, in the order of use: [`ChatTemplate`] turns the messages of a conversation into one text, [`Tokenizer`] turns that text
//! into ids, [`Detokenizer`] turns the ids of a model's answer into text, one by one, and [`StopStrings`] ends that text. Any file,
//! template, text or id from outside gives a result or an [`Error`] that says what was expected.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use moebius_text::{Chat, ChatTemplate, Detokenizer, Message, StopStrings, Tokenizer};
//!
//! # fn next(_: &[u32]) -> u32 { 0 }
//! # fn main() -> Result<(), moebius_text::Error> {
//! let folder = Path::new("SmolLM2-135M-Instruct");
//! let tokenizer = Tokenizer::from_folder(folder)?;
//! let template = ChatTemplate::from_folder(folder, None)?;
//!
//! let question = Message::new("user", "Write one sentence about the sea.");
//! let chat = Chat::new([question]).with_generation_prompt(true);
//! let mut ids = template.encode(&chat, &tokenizer)?;
//!
//! let mut text = Detokenizer::new(&tokenizer, true);
//! let mut stops = StopStrings::new(["\n\n"])?;
//! loop {
//!     let id = next(&ids);
//!     ids.push(id);
//!     if tokenizer.eos_ids().contains(&id) {
//!         print!("{}{}", stops.push(&text.finish()?).text, stops.finish());
//!         break;
//!     }
//!     let piece = stops.push(&text.push(id)?);
//!     print!("{}", piece.text);
//!     if piece.stop.is_some() {
//!         break;
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod error;
mod files;
mod folder;
mod gguf;
mod marks;
mod older;
mod samples;
mod sentencepiece;
mod stages;
mod stream;
mod template;
mod to_gguf;
mod tokenizer;

pub use error::{Error, TemplateError, TemplateFault};
pub use files::Files;
pub use samples::{SampleReader, TrainingSample};
pub use stream::{Detokenizer, Piece, StopStrings, TextStream};
pub use template::{Chat, ChatTemplate, Message};
pub use tokenizer::Tokenizer;
