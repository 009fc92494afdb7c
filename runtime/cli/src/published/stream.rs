//! The text of an answer, as it comes.

use std::time::Instant;

use moebius_engine::{Ended, Engine, Event, Generation};
use moebius_text::{StopStrings, TextStream, Tokenizer};

use crate::error::CliError;
use crate::screen::Screen;

/// Shows an answer while it is generated.
pub(crate) struct AnswerStream(TextStream);

/// What was generated, and how long it took.
#[derive(Default)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) ids: Vec<u32>,
    /// Why it ended: stop, length, or interrupted.
    pub(crate) finish: &'static str,
    /// Seconds until the first token.
    pub(crate) prefill_s: f64,
    /// Seconds from then on.
    decode_s: f64,
}

impl AnswerStream {
    pub(crate) fn new(tokenizer: &Tokenizer, stops: &[String]) -> Result<Self, CliError> {
        let stops = StopStrings::new(stops.iter().cloned())?;
        Ok(Self(TextStream::new(tokenizer, stops)))
    }

    /// Generates, and shows the text, until `interrupted`.
    pub(crate) fn follow(
        mut self,
        engine: &mut Engine,
        generation: Generation,
        interrupted: &dyn Fn() -> bool,
        screen: &mut Screen,
    ) -> Result<Answer, CliError> {
        let begun = Instant::now();
        let id = engine.add(generation)?;
        let mut answer = Answer {
            finish: "length",
            ..Answer::default()
        };
        while !engine.is_idle() {
            if interrupted() {
                engine.cancel(id);
                answer.finish = "interrupted";
                break;
            }
            for (_, event) in engine.step()? {
                match event {
                    Event::Token(draw) => {
                        if answer.ids.is_empty() {
                            answer.prefill_s = begun.elapsed().as_secs_f64();
                        }
                        answer.ids.push(draw.id);
                        let piece = self.0.push(draw.id)?;
                        answer.say(&piece.text, screen)?;
                        if piece.stop.is_some() {
                            engine.cancel(id);
                            answer.finish = "stop";
                            answer.end(begun);
                            return Ok(answer);
                        }
                    }
                    Event::End(Ended::Stop) => answer.finish = "stop",
                    Event::End(Ended::Length) => answer.finish = "length",
                    Event::End(Ended::Failed(error)) => return Err(error.into()),
                }
            }
        }
        answer.end(begun);
        let piece = self.0.finish()?;
        if piece.stop.is_some() {
            answer.finish = "stop";
        }
        answer.say(&piece.text, screen)?;
        Ok(answer)
    }
}

impl Answer {
    fn say(&mut self, text: &str, screen: &mut Screen) -> Result<(), CliError> {
        self.text.push_str(text);
        screen.text(text)
    }

    /// Tokens a second after the first, which comes of the prompt; `None` without a second token, or where the clock is
    /// too coarse to tell.
    pub(crate) fn decode_speed(&self) -> Option<f64> {
        let tokens = self.ids.len().saturating_sub(1);
        (tokens > 0 && self.decode_s > 0.0).then(|| tokens as f64 / self.decode_s)
    }

    fn end(&mut self, begun: Instant) {
        let all = begun.elapsed().as_secs_f64();
        if self.ids.is_empty() {
            self.prefill_s = all;
        }
        self.decode_s = all - self.prefill_s;
    }
}
