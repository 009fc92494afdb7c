//! Sampling of the next token from a model's logits.

mod candidates;
mod highest;

pub use candidates::{Logprobs, philox};

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use moebius_ops::{Fault, Mismatch};

use crate::constraint::{Allowed, ConstraintError};
use candidates::{Candidates, MOST_IDS, word};
use highest::highest;

/// A sampler of tokens, with checked options.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    options: SamplingOptions,
}

/// A chosen token.
#[derive(Clone, Debug, PartialEq)]
pub struct Draw {
    /// Id of the token.
    pub id: u32,
    /// Log-probabilities, if [`SamplingOptions::logprobs`] requests them.
    pub logprobs: Option<Logprobs>,
}

/// Error of a choice: no token was chosen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError {
    /// A logit is NaN or +∞.
    #[error("logit of the id {id}: expected a number or -inf, got {got}")]
    NotANumber {
        /// Id of the token with this logit.
        id: usize,
        /// The logit as text: `NaN` or `inf`.
        got: String,
    },
    /// All logits are −∞, or there are none.
    #[error("logits: expected one above -inf, got none of {count}")]
    NothingPossible {
        /// Number of logits.
        count: usize,
    },
    /// An id of a bias or of the history has no logit.
    #[error("{what}: expected ids below {vocabulary}, got {id}")]
    UnknownId {
        /// Source of the id: a bias or the history.
        what: &'static str,
        /// Number of logits.
        vocabulary: usize,
        /// Id without a logit.
        id: u32,
    },
    /// There are more logits than the sum of weights allows.
    #[error("logits: expected at most {MOST_IDS}, got {count}")]
    TooMany {
        /// Number of logits.
        count: usize,
    },
    /// The constraint of the request can't tell which tokens may come next.
    #[error(transparent)]
    Constraint(#[from] ConstraintError),
}

impl Sampling {
    /// Makes a sampler with these options.
    ///
    /// # Errors
    /// [`Mismatch`] for an option that is NaN or out of range.
    pub fn new(options: SamplingOptions) -> Result<Self, Mismatch> {
        options.check()?;
        Ok(Self { options })
    }

    /// A sampler that takes the most likely token, and of equally likely ones the one with the lowest id.
    pub fn greedy() -> Self {
        let temperature = 0.0;
        let options = SamplingOptions {
            temperature,
            ..SamplingOptions::default()
        };
        Self { options }
    }

    /// The options of the sampler.
    pub fn options(&self) -> &SamplingOptions {
        &self.options
    }

    /// Chooses the generated token number `index` (from 0) after `history`, given a logit for each id of the vocabulary. The choice depends
    /// only on these arguments and the options: not on earlier draws or other requests.
    ///
    /// The time is linear in the size of the vocabulary, which is never sorted.
    ///
    /// # Errors
    /// [`SampleError`] for NaN and +∞, logits that are all −∞, and ids without a logit.
    pub fn sample(
        &self,
        logits: &[f32],
        history: &History,
        index: u64,
    ) -> Result<Draw, SampleError> {
        self.sample_among(None, logits, history, index)
    }

    /// Chooses like [`Sampling::sample`], but from `allowed` tokens alone if there are some: as if the logits of all others were −∞. The
    /// reported log-probabilities are those of the unchanged logits.
    ///
    /// # Errors
    /// As [`Sampling::sample`], and [`SampleError::NothingPossible`] if no allowed token has a logit above −∞.
    pub fn sample_among(
        &self,
        allowed: Option<&Allowed>,
        logits: &[f32],
        history: &History,
        index: u64,
    ) -> Result<Draw, SampleError> {
        let (scores, highest) = self.scores(allowed, logits, history)?;
        let id = if self.options.temperature == 0.0 {
            highest
        } else {
            self.candidates(&scores)
                .draw(word(self.options.seed, index))
        };
        let logprobs = self.options.logprobs;
        let logprobs = logprobs.map(|most| Logprobs::new(logits, id, most));
        Ok(Draw { id, logprobs })
    }

    /// The ids that [`Sampling::sample`] chooses from, in ascending order, with their probabilities. The probabilities are multiples of one
    /// number and add up to 1; an id that is less than 2⁻⁴¹ times as likely as the most likely one has the probability 0.
    ///
    /// # Errors
    /// As [`Sampling::sample`].
    pub fn probabilities(
        &self,
        logits: &[f32],
        history: &History,
    ) -> Result<Vec<(u32, f64)>, SampleError> {
        let (scores, highest) = self.scores(None, logits, history)?;
        if self.options.temperature == 0.0 {
            return Ok(vec![(highest, 1.0)]);
        }
        let candidates = self.candidates(&scores);
        let all = candidates.weight() as f64;
        let share = candidates.iter().map(|c| (c.id, c.weight as f64 / all));
        Ok(share.collect())
    }

    /// The logits of allowed tokens after biases and penalties, without NaN and +∞, and with at least one value above −∞; and the id of the
    /// highest, of several the lowest. Logits that nothing changes aren't copied.
    fn scores<'a>(
        &self,
        allowed: Option<&Allowed>,
        logits: &'a [f32],
        history: &History,
    ) -> Result<(Cow<'a, [f32]>, u32), SampleError> {
        let highest = check(logits)?;
        let changes = !self.options.logit_bias.is_empty() || self.options.penalises();
        if !changes && allowed.is_none() {
            return Ok((Cow::Borrowed(logits), highest));
        }
        let mut scores = logits.to_vec();
        if let Some(allowed) = allowed {
            for (id, score) in (0..).zip(&mut scores) {
                if !allowed.contains(id) {
                    *score = f32::NEG_INFINITY;
                }
            }
            check(&scores)?;
        }
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
        let highest = check(&scores)?;
        Ok((Cow::Owned(scores), highest))
    }

    /// The score after penalties of an id in the history that was generated `count` times.
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

/// The new score `after`, kept finite; −∞ stays −∞.
fn within(before: f32, after: f32) -> f32 {
    if before == f32::NEG_INFINITY {
        before
    } else {
        after.clamp(f32::MIN, f32::MAX)
    }
}

/// Checks logits, and returns the id of the highest, of several the lowest.
fn check(logits: &[f32]) -> Result<u32, SampleError> {
    let count = logits.len();
    if count > MOST_IDS {
        return Err(SampleError::TooMany { count });
    }
    match highest(logits) {
        Ok(highest) => highest.ok_or(SampleError::NothingPossible { count }),
        Err(id) => {
            let got = logits[id].to_string();
            Err(SampleError::NotANumber { id, got })
        }
    }
}

/// Options for choosing the next token from logits; options that aren't set change nothing.
///
/// The steps have the order of `transformers`: bias, penalties, temperature, top-k, top-p, min-p.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingOptions {
    /// Divisor of the logits, at least 0. With 0 the most likely token is taken, and of equal ones the one with the lowest id.
    pub temperature: f32,
    /// Number k of tokens to keep: those whose logits aren't below the k-th highest, including all equal ones; 0 keeps all.
    pub top_k: usize,
    /// Probability sum of the tokens to keep, 0 to 1: the fewest most likely tokens, at least one, that reach it; of equally likely ones
    /// those with lower ids.
    pub top_p: f32,
    /// Least probability of the tokens to keep, relative to the most likely one, 0 to 1.
    pub min_p: f32,
    /// Penalty on all tokens of prompt and answer, above 0: positive logits are divided by it, negative ones multiplied.
    pub repetition_penalty: f32,
    /// Penalty on tokens that were generated, subtracted once from the logit, −2 to 2.
    pub presence_penalty: f32,
    /// Penalty on tokens that were generated, subtracted from the logit for each time, −2 to 2.
    pub frequency_penalty: f32,
    /// Biases of ids, which are added to the logits before all other steps.
    pub logit_bias: BTreeMap<u32, f32>,
    /// Seed of the random numbers. Requests with equal seeds draw the same numbers.
    pub seed: u64,
    /// Number of the most likely tokens to report log-probabilities of, in addition to the chosen token's; `None` for no report.
    pub logprobs: Option<usize>,
}

impl Default for SamplingOptions {
    /// Options that draw from all tokens by the model's own probabilities, with seed 0.
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: BTreeMap::new(),
            seed: 0,
            logprobs: None,
        }
    }
}

impl SamplingOptions {
    fn check(&self) -> Result<(), Mismatch> {
        let at_least_0 = self.temperature.is_finite() && self.temperature >= 0.0;
        let expected = "a finite number of at least 0";
        Fault::Config.unless(at_least_0, "temperature", expected, self.temperature)?;
        for (what, share) in [("top_p", self.top_p), ("min_p", self.min_p)] {
            let fits = (0.0..=1.0).contains(&share);
            Fault::Config.unless(fits, what, "a number from 0 to 1", share)?;
        }
        let factor = self.repetition_penalty;
        let above_0 = factor.is_finite() && factor > 0.0;
        Fault::Config.unless(
            above_0,
            "repetition_penalty",
            "a finite number above 0",
            factor,
        )?;
        for (what, penalty) in [
            ("presence_penalty", self.presence_penalty),
            ("frequency_penalty", self.frequency_penalty),
        ] {
            let fits = (-2.0..=2.0).contains(&penalty);
            Fault::Config.unless(fits, what, "a number from -2 to 2", penalty)?;
        }
        for (id, bias) in &self.logit_bias {
            let got = format_args!("{bias} for the id {id}");
            Fault::Config.unless(bias.is_finite(), "logit_bias", "finite numbers", got)?;
        }
        Ok(())
    }

    fn penalises(&self) -> bool {
        self.repetition_penalty != 1.0
            || self.presence_penalty != 0.0
            || self.frequency_penalty != 0.0
    }
}

/// Counts of the tokens of a prompt and of the answer so far, as penalties need them.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// How often each id was generated; 0 for ids that only the prompt has.
    counts: HashMap<u32, u32>,
}

impl History {
    /// The history of a prompt, with nothing generated.
    pub fn new(prompt: &[u32]) -> Self {
        let counts = prompt.iter().map(|&id| (id, 0)).collect();
        Self { counts }
    }

    /// Counts a generated token.
    pub fn push(&mut self, id: u32) {
        *self.counts.entry(id).or_default() += 1;
    }

    /// The ids, each once and in no particular order, and how often each was generated.
    fn counts(&self) -> impl Iterator<Item = (u32, u32)> {
        self.counts.iter().map(|(&id, &count)| (id, count))
    }
}
