//! Answers of a published model: one that is shown while it is generated, or several that are generated together.

use std::collections::HashMap;
use std::slice;
use std::time::Instant;

use moebius_engine::{Ended, Engine, Event, Generation};
use moebius_text::{StopStrings, TextStream, Tokenizer};

use crate::error::CliError;
use crate::screen::Screen;

/// An answer in the making.
pub(crate) struct AnswerStream {
    stream: TextStream,
    answer: Answer,
}

/// A generated answer, and when its tokens came.
#[derive(Default)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) ids: Vec<u32>,
    /// Reason of the answer's end: stop, length, or interrupted.
    pub(crate) finish: &'static str,
    /// Seconds from the beginning to each token; those of one step came at the same time.
    times: Vec<f64>,
    /// Seconds from the beginning to the end.
    ended_s: f64,
}

impl AnswerStream {
    pub(crate) fn new(tokenizer: &Tokenizer, stops: &[String]) -> Result<Self, CliError> {
        let stops = StopStrings::new(stops.iter().cloned())?;
        Ok(Self {
            stream: TextStream::new(tokenizer, stops),
            answer: Answer::default(),
        })
    }

    /// Generates an answer and shows its text, until it ends or `interrupted` returns true.
    pub(crate) fn follow(
        self,
        engine: &mut Engine,
        generation: Generation,
        interrupted: &dyn Fn() -> bool,
        screen: &mut Screen,
    ) -> Result<Answer, CliError> {
        let mut show = |text: &str| screen.text(text);
        let requests = vec![(self, generation)];
        let mut answers = follow_all(requests, engine, interrupted, &mut show, &|_, e| e)?;
        Ok(answers.pop().unwrap_or_default())
    }

    /// Takes an event, `at_s` seconds after the beginning. Returns the text that is final now, and whether the answer has ended.
    fn take(&mut self, event: Event, at_s: f64) -> Result<(String, bool), CliError> {
        match event {
            Event::Token(draw) => {
                self.answer.ids.push(draw.id);
                self.answer.times.push(at_s);
                let piece = self.stream.push(draw.id)?;
                self.answer.text.push_str(&piece.text);
                let stopped = piece.stop.is_some();
                if stopped {
                    self.answer.finish = "stop";
                    self.answer.ended_s = at_s;
                }
                Ok((piece.text, stopped))
            }
            Event::End(Ended::Stop) => Ok((self.end("stop", at_s)?, true)),
            Event::End(Ended::Length) => Ok((self.end("length", at_s)?, true)),
            Event::End(Ended::Failed(error)) => Err(error.into()),
            Event::End(Ended::NoRoom(error)) => Err(error.into()),
        }
    }

    /// Ends the answer for this reason, and returns the text that was held back. A stop string that it completes is the reason instead.
    fn end(&mut self, finish: &'static str, at_s: f64) -> Result<String, CliError> {
        let piece = self.stream.finish()?;
        let stopped = piece.stop.is_some();
        self.answer.finish = if stopped { "stop" } else { finish };
        self.answer.ended_s = at_s;
        self.answer.text.push_str(&piece.text);
        Ok(piece.text)
    }
}

/// Generates answers together and passes their text on as it comes, until all have ended or `interrupted` returns true. They are in the order
/// of the requests. `named` adds to an error of a request what is known of the request with this number.
pub(crate) fn follow_all(
    requests: Vec<(AnswerStream, Generation)>,
    engine: &mut Engine,
    interrupted: &dyn Fn() -> bool,
    show: &mut dyn FnMut(&str) -> Result<(), CliError>,
    named: &dyn Fn(usize, CliError) -> CliError,
) -> Result<Vec<Answer>, CliError> {
    let begun = Instant::now();
    let mut streams = Vec::with_capacity(requests.len());
    // The places of answers in the making.
    let mut places = HashMap::new();
    for (stream, generation) in requests {
        let place = streams.len();
        let id = engine.add(generation);
        places.insert(id.map_err(|error| named(place, error.into()))?, place);
        streams.push(stream);
    }
    while !engine.is_idle() {
        if interrupted() {
            let at_s = begun.elapsed().as_secs_f64();
            for (id, place) in places.drain() {
                engine.cancel(id);
                show(&streams[place].end("interrupted", at_s)?)?;
            }
            break;
        }
        let events = engine.step()?;
        let at_s = begun.elapsed().as_secs_f64();
        for (id, event) in events {
            // After a stop string the step may have more events of its request.
            let Some(&place) = places.get(&id) else {
                continue;
            };
            let taken = streams[place].take(event, at_s);
            let (text, ended) = taken.map_err(|error| named(place, error))?;
            show(&text)?;
            if ended {
                places.remove(&id);
                engine.cancel(id);
            }
        }
    }
    Ok(streams.into_iter().map(|stream| stream.answer).collect())
}

impl Answer {
    /// Seconds until the first token, or until the end where there is none.
    pub(crate) fn prefill_s(&self) -> f64 {
        self.times.first().copied().unwrap_or(self.ended_s)
    }

    /// Tokens per second after the first, which comes from the prompt; `None` without a second token, or if the clock
    /// is too coarse.
    pub(crate) fn decode_speed(&self) -> Option<f64> {
        Speeds::of(slice::from_ref(self)).decode
    }

    /// Seconds until the last token, or until the end where there is none.
    fn last_s(&self) -> f64 {
        self.times.last().copied().unwrap_or(self.ended_s)
    }
}

/// How fast answers were generated together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Speeds {
    /// Seconds until each answer had its first token.
    pub(crate) prefill_s: f64,
    /// Tokens of all answers per second from then until a first answer had its last token; `None` if that was before, or the clock is too
    /// coarse.
    pub(crate) decode: Option<f64>,
}

impl Speeds {
    pub(crate) fn of(answers: &[Answer]) -> Self {
        let prefill_s = answers.iter().map(Answer::prefill_s).fold(0.0, f64::max);
        let until_s = answers.iter().map(Answer::last_s);
        let until_s = until_s.fold(f64::INFINITY, f64::min);
        let times = answers.iter().flat_map(|answer| &answer.times);
        let tokens = times.filter(|&&at| at > prefill_s && at <= until_s).count();
        Self {
            prefill_s,
            decode: (tokens > 0).then(|| tokens as f64 / (until_s - prefill_s)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(times: &[f64]) -> Answer {
        Answer {
            times: times.to_vec(),
            ended_s: 9.0,
            ..Answer::default()
        }
    }

    #[test]
    fn an_answer_is_timed_after_its_first_token() {
        let one = answer(&[2.0, 2.5, 3.0, 4.0]);
        assert_eq!((one.prefill_s(), one.decode_speed()), (2.0, Some(1.5)));
        let short = answer(&[2.0]);
        assert_eq!((short.prefill_s(), short.decode_speed()), (2.0, None));
        let nothing = answer(&[]);
        assert_eq!((nothing.prefill_s(), nothing.decode_speed()), (9.0, None));
        // Tokens of one step came at once.
        assert_eq!(answer(&[2.0, 2.0]).decode_speed(), None);
    }

    #[test]
    fn answers_are_timed_while_all_of_them_go_on() {
        let first = answer(&[1.0, 2.0, 3.0, 4.0]);
        let second = answer(&[2.0, 3.0, 4.0, 5.0, 6.0]);
        let speeds = |answers: &[Answer]| {
            let Speeds { prefill_s, decode } = Speeds::of(answers);
            (prefill_s, decode)
        };
        assert_eq!(speeds(&[first, second]), (2.0, Some(2.0)));
        // The first ended before the second began.
        let apart = [answer(&[1.0, 2.0]), answer(&[3.0, 4.0])];
        assert_eq!(speeds(&apart), (3.0, None));
    }
}
