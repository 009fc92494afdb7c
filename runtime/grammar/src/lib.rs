//! Grammars that the answers of a language model must obey: JSON that a schema describes, alone or within marks that the model writes.
//!
//! [`Grammars`] knows the bytes of a tokenizer's tokens, and compiles [`Part`]s to a [`Grammar`], which an engine asks before each draw:
//! [`Generation::with_constraint`](moebius_engine::Generation::with_constraint). Schemas come from outside, so all that a grammar takes is
//! bounded: a schema's length and what it stands for when all its references are written out, the work to compile it, and the work of each
//! token. The library `llguidance` compiles and follows grammars; this crate is the only one that uses it.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use moebius_engine::Generation;
//! use moebius_grammar::{Grammars, Part};
//! use moebius_text::Tokenizer;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let tokenizer = Tokenizer::from_folder(Path::new("SmolLM2-135M-Instruct"))?;
//! let grammars = Grammars::new(&tokenizer)?;
//! let schema = r#"{"type": "object", "properties": {"legs": {"type": "integer"}}, "required": ["legs"]}"#;
//! let grammar = grammars.compile(&[Part::Json(schema.to_owned())])?;
//! let prompt = tokenizer.encode("How many legs has a spider?", true)?;
//! let generation = Generation::new(prompt, 100)
//!     .with_ends(tokenizer.eos_ids().iter().copied())
//!     .with_constraint(Box::new(grammar));
//! # Ok(())
//! # }
//! ```

mod error;
mod follow;
mod part;
mod schema;
mod vocabulary;

pub use error::GrammarError;
pub use follow::Grammar;
pub use part::Part;

use std::fmt;
use std::thread;

use llguidance::{Matcher, ParserFactory};
use moebius_text::Tokenizer;

/// Bytes of the stack of a thread that compiles, of which only those are taken that are used: a schema's references are followed by calls,
/// and the longest schema can have some thousands, one behind the other.
const STACK: usize = 128 << 20;

/// Work of the lexer for one token at most, in units of about 100 ns, so that a hostile grammar can't hold up other requests for long. Half
/// of the library's own limit.
const STEP_FUEL: u64 = 100_000;

/// States of the lexer at most, of about 1 to 2 KiB each.
const STATES: usize = 25_000;

/// Compiles grammars for a tokenizer.
pub struct Grammars {
    factory: ParserFactory,
    tokenizer: Tokenizer,
}

impl Grammars {
    /// Prepares all tokens of a tokenizer, which takes a second for a large vocabulary.
    ///
    /// # Errors
    /// [`GrammarError::Tokenizer`] for a tokenizer whose tokens are no fixed bytes, and [`GrammarError::Vocabulary`] for one that the library
    /// can't use.
    pub fn new(tokenizer: &Tokenizer) -> Result<Self, GrammarError> {
        let environment = vocabulary::environment(tokenizer)?;
        let factory = ParserFactory::new_simple(&environment);
        let mut factory = factory.map_err(|error| GrammarError::Vocabulary(error.to_string()))?;
        let limits = factory.limits_mut();
        limits.step_lexer_fuel = STEP_FUEL;
        limits.max_lexer_states = STATES;
        limits.verbose_errors = false;
        factory.quiet();
        Ok(Self {
            factory,
            tokenizer: tokenizer.clone(),
        })
    }

    /// Compiles the grammar of answers that are these parts, one after the other.
    ///
    /// # Errors
    /// [`GrammarError::Schema`] for a schema that isn't JSON or is larger than it may be, [`GrammarError::Refused`] for one that can't be
    /// followed, and [`GrammarError::Thread`].
    pub fn compile(&self, parts: &[Part]) -> Result<Grammar, GrammarError> {
        thread::scope(|scope| {
            let thread = thread::Builder::new().stack_size(STACK);
            let thread = thread.spawn_scoped(scope, || self.compiled(parts));
            let compiled = thread.map_err(GrammarError::Thread)?.join();
            compiled.unwrap_or_else(|_| Err(GrammarError::refused("a panic")))
        })
    }

    fn compiled(&self, parts: &[Part]) -> Result<Grammar, GrammarError> {
        let grammar = part::grammar(parts, &self.tokenizer)?;
        let parser = self.factory.create_parser(grammar);
        let parser = parser.map_err(|error| GrammarError::refused(&format!("{error:#}")))?;
        Ok(Grammar::new(Matcher::new(Ok(parser))))
    }
}

impl fmt::Debug for Grammars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grammars")
            .field("tokenizer", &self.tokenizer)
            .finish_non_exhaustive()
    }
}
