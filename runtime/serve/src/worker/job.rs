//! An answer to generate, and what becomes of it.

use std::time::Instant;

use moebius_engine::{Draw, Generation};
use moebius_text::TextStream;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use crate::admission::Place;
use crate::traces::Trace;

/// An answer to generate: one of the choices of a request.
pub(crate) struct Job {
    /// Number among the answers of its request, from 0.
    pub(crate) choice: usize,
    /// Whether the answer is the first one to its prompt, which is counted once.
    pub(crate) counts_prompt: bool,
    /// The answer's text so far.
    pub(crate) text: TextStream,
    /// The request's updates. They have room for all tokens of the answer, so that sending never waits.
    pub(crate) updates: mpsc::Sender<(usize, Result<Update, Failure>)>,
    /// The answer's place, which is free again when the answer ends.
    pub(crate) place: Place,
    /// Times of the request.
    pub(crate) times: JobTimes,
    /// The request's trace.
    pub(crate) trace: Trace,
}

impl Job {
    /// Hands an update to the stream. A stream whose client left takes none; its answer is cancelled before the next step.
    pub(crate) fn send(&self, update: Update) {
        match self.updates.try_send((self.choice, Ok(update))) {
            Ok(()) | Err(TrySendError::Closed(_)) => {}
            Err(TrySendError::Full(_)) => {
                unreachable!("a stream has room for all updates of its answers")
            }
        }
    }

    /// Hands the last update, or why there is none, to the stream. The place is free before, so that a client that goes on at once finds it so.
    pub(crate) fn last(self, update: Result<Update, Failure>) {
        let Self {
            choice,
            updates,
            place,
            trace,
            ..
        } = self;
        trace.told("ended", choice, Instant::now());
        drop(place);
        // A client that left needs no update, and there is room as in `send`.
        let _ = updates.try_send((choice, update));
    }
}

/// Times of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JobTimes {
    /// When the request arrived.
    pub(crate) arrived: Instant,
    /// When it fails unless the engine has begun it.
    pub(crate) begin_by: Instant,
    /// When it fails unless it has ended.
    pub(crate) end_by: Instant,
}

/// What happened to an answer.
#[derive(Debug)]
pub(crate) enum Update {
    /// The next token, with the text that is final now, which may be empty.
    Token {
        /// The token.
        draw: Draw,
        /// Text that follows the earlier texts.
        text: String,
    },
    /// The end of the answer.
    End {
        /// Why the answer ended.
        finish: Finish,
        /// Text that follows the earlier texts.
        text: String,
    },
}

/// Why an answer ended, in the words of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    /// The model ended the answer, or a stop string did.
    Stop,
    /// The answer has the largest number of tokens.
    Length,
}

impl Finish {
    /// The reason's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
        }
    }
}

/// Why an answer can't be given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// The request could never run.
    #[error("{0}")]
    Refused(String),
    /// The model gave no logits to choose from, or its tokens no text.
    #[error("{0}")]
    Unusable(String),
    /// The device lacks memory.
    #[error("{0}")]
    NoRoom(String),
    /// The engine is gone.
    #[error("the engine stopped")]
    Gone,
    /// The request waited too long for the engine.
    #[error("the request waited too long for the engine")]
    Queued,
    /// The request took too long.
    #[error("the request took too long")]
    Slow,
    /// The server is stopping.
    #[error("the server is stopping")]
    Draining,
}

/// What the worker is asked for.
pub(crate) enum Command {
    /// Generates an answer.
    Answer(Box<Job>, Generation),
    /// Computes the logits of the token after others.
    Logits(Logits),
    /// Ends all answers, because the server stops.
    Abort,
}

/// A request for the logits of the token after `tokens`.
pub(crate) struct Logits {
    /// Tokens, at least one.
    pub(crate) tokens: Vec<u32>,
    /// Takes the logits, or why there are none.
    pub(crate) reply: oneshot::Sender<Result<Vec<f32>, Failure>>,
    /// The request's place.
    pub(crate) place: Place,
}
