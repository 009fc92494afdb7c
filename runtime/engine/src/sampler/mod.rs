//! The next token of a text, from a model's logits.

mod candidates;
mod history;
mod logprobs;
mod options;
mod philox;

pub use history::History;
pub use logprobs::Logprobs;
pub use options::SamplingOptions;
pub use philox::philox;

use candidates::{Candidates, MOST_IDS};
use moebius_ops::Mismatch;

/// Chooses tokens, by options that were checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    options: SamplingOptions,
}

/// A token that was chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Draw {
    /// The token.
    pub id: u32,
    /// How likely it and others were, where [`SamplingOptions::logprobs`] asks for it.
    pub logprobs: Option<Logprobs>,
}

/// Why no token was chosen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError {
    /// A logit is NaN or +∞.
    #[error("logit of the id {id}: expected a number or -inf, got {got}")]
    NotANumber {
        /// The id.
        id: usize,
        /// `NaN` or `inf`.
        got: String,
    },
    /// All logits are −∞, or there is none.
    #[error("logits: expected one above -inf, got none of {count}")]
    NothingPossible {
        /// How many logits there are.
        count: usize,
    },
    /// An id of a bias or of the history has no logit.
    #[error("{what}: expected ids below {vocabulary}, got {id}")]
    UnknownId {
        /// Where the id comes from.
        what: &'static str,
        /// How many logits there are.
        vocabulary: usize,
        /// The id.
        id: u32,
    },
    /// More logits than weights can be summed of.
    #[error("logits: expected at most {MOST_IDS}, got {count}")]
    TooMany {
        /// How many logits there are.
        count: usize,
    },
}

impl Sampling {
    /// By these options.
    ///
    /// # Errors
    /// [`Mismatch`] for an option that is NaN or out of its range.
    pub fn new(options: SamplingOptions) -> Result<Self, Mismatch> {
        options.check()?;
        Ok(Self { options })
    }

    /// The most likely token, of equally likely ones that with the lowest id.
    pub fn greedy() -> Self {
        let temperature = 0.0;
        let options = SamplingOptions {
            temperature,
            ..SamplingOptions::default()
        };
        Self { options }
    }

    /// The options.
    pub fn options(&self) -> &SamplingOptions {
        &self.options
    }

    /// The token at place `index` among those that are generated (the first has 0) after `history`, of a vocabulary with a logit for
    /// each id. It depends on these and the options, and on nothing else: not on what was drawn before, for whom, or beside whom.
    ///
    /// Time goes with the size of the vocabulary, which is never sorted.
    ///
    /// # Errors
    /// [`SampleError`] for NaN and +∞, logits that are all −∞, and ids without a logit.
    pub fn sample(
        &self,
        logits: &[f32],
        history: &History,
        index: u64,
    ) -> Result<Draw, SampleError> {
        let scores = self.scores(logits, history)?;
        let id = if self.options.temperature == 0.0 {
            highest(&scores)
        } else {
            self.candidates(&scores)
                .draw(philox::word(self.options.seed, index))
        };
        let logprobs = self.options.logprobs;
        let logprobs = logprobs.map(|most| Logprobs::new(logits, id, most));
        Ok(Draw { id, logprobs })
    }

    /// The ids that [`Sampling::sample`] chooses from, ascending, and how likely each is. The probabilities are multiples of one
    /// number and have the sum 1; ids that are less than 2⁻⁴¹ times as likely as the most likely one have 0.
    ///
    /// # Errors
    /// As [`Sampling::sample`].
    pub fn probabilities(
        &self,
        logits: &[f32],
        history: &History,
    ) -> Result<Vec<(u32, f64)>, SampleError> {
        let scores = self.scores(logits, history)?;
        if self.options.temperature == 0.0 {
            return Ok(vec![(highest(&scores), 1.0)]);
        }
        let candidates = self.candidates(&scores);
        let all = candidates.weight() as f64;
        let share = candidates.iter().map(|c| (c.id, c.weight as f64 / all));
        Ok(share.collect())
    }

    /// Logits after biases and penalties: no NaN, no +∞, and something above −∞.
    fn scores(&self, logits: &[f32], history: &History) -> Result<Vec<f32>, SampleError> {
        check(logits)?;
        let mut scores = logits.to_vec();
        let vocabulary = scores.len();
        let unknown = |what, id| SampleError::UnknownId {
            what,
            vocabulary,
            id,
        };
        for (&id, bias) in &self.options.logit_bias {
            let score = scores.get_mut(id as usize);
            let score = score.ok_or_else(|| unknown("logit_bias", id))?;
            *score = within(*score, *score + bias);
        }
        if self.options.penalises() {
            for (id, count) in history.counts() {
                let score = scores.get_mut(id as usize);
                let score = score.ok_or_else(|| unknown("history", id))?;
                *score = within(*score, self.penalised(*score, count));
            }
        }
        Ok(scores)
    }

    /// The score of an id of the history that was generated `count` times.
    fn penalised(&self, score: f32, count: u32) -> f32 {
        let o = &self.options;
        let repeated = if score < 0.0 {
            score * o.repetition_penalty
        } else {
            score / o.repetition_penalty
        };
        let present = if count > 0 { o.presence_penalty } else { 0.0 };
        repeated - o.frequency_penalty * count as f32 - present
    }

    fn candidates(&self, scores: &[f32]) -> Candidates {
        let o = &self.options;
        let mut candidates = Candidates::new(scores, o.temperature, o.top_k);
        if o.top_p < 1.0 {
            candidates.keep_top_p(o.top_p);
        }
        if o.min_p > 0.0 {
            candidates.keep_min_p(o.min_p);
        }
        candidates
    }
}

/// What was possible stays so, and finite, however large the numbers are.
fn within(before: f32, after: f32) -> f32 {
    if before == f32::NEG_INFINITY {
        before
    } else {
        after.clamp(f32::MIN, f32::MAX)
    }
}

fn check(logits: &[f32]) -> Result<(), SampleError> {
    let count = logits.len();
    if count > MOST_IDS {
        return Err(SampleError::TooMany { count });
    }
    if let Some(id) = logits
        .iter()
        .position(|logit| logit.is_nan() || *logit == f32::INFINITY)
    {
        let got = logits[id].to_string();
        return Err(SampleError::NotANumber { id, got });
    }
    if logits.iter().any(|logit| *logit > f32::NEG_INFINITY) {
        Ok(())
    } else {
        Err(SampleError::NothingPossible { count })
    }
}

/// The id with the highest score, the lowest of several.
fn highest(scores: &[f32]) -> u32 {
    let mut best = 0;
    for (id, score) in scores.iter().enumerate() {
        if *score > scores[best] {
            best = id;
        }
    }
    best as u32
}
