//! The next token of a text, from a model's logits.

mod candidates;

pub use candidates::{Logprobs, philox};

use std::collections::{BTreeMap, HashMap};

use moebius_ops::{Fault, Mismatch};

use candidates::{Candidates, MOST_IDS, word};

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
                .draw(word(self.options.seed, index))
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

/// How the next token is chosen from logits; what isn't set changes nothing.
///
/// They act in the order of `transformers`: bias, penalties, temperature, top-k, top-p, min-p.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingOptions {
    /// What logits are divided by, at least 0. With 0 the most likely token is taken, of equal ones that with the lowest id.
    pub temperature: f32,
    /// Keep the tokens whose logits are not below the k-th highest, all of several equal ones; 0 keeps all.
    pub top_k: usize,
    /// Keep the fewest most likely tokens, at least one, whose probabilities have this sum, 0 to 1; of equally likely ones those with
    /// lower ids.
    pub top_p: f32,
    /// Keep tokens that are at least so many times as likely as the most likely one, 0 to 1.
    pub min_p: f32,
    /// What positive logits of all tokens of prompt and text are divided by and negative ones multiplied by, above 0.
    pub repetition_penalty: f32,
    /// What is taken from the logits of tokens that were generated, −2 to 2.
    pub presence_penalty: f32,
    /// What is taken from the logits of tokens for each time that they were generated, −2 to 2.
    pub frequency_penalty: f32,
    /// What is added to the logits of these ids, first of all.
    pub logit_bias: BTreeMap<u32, f32>,
    /// Names the sequence of random numbers. Requests with equal seeds draw alike.
    pub seed: u64,
    /// Tell the log-probability of the token that is chosen, and so many of the most likely ones.
    pub logprobs: Option<usize>,
}

impl Default for SamplingOptions {
    /// Draws from all tokens as likely as the model says, with seed 0.
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

/// The tokens of a prompt and of the text that was generated after it, counted: what penalties look at.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// How often each id was generated; 0 for those that only the prompt has.
    counts: HashMap<u32, u32>,
}

impl History {
    /// That of a prompt, with nothing generated.
    pub fn new(prompt: &[u32]) -> Self {
        let counts = prompt.iter().map(|&id| (id, 0)).collect();
        Self { counts }
    }

    /// Counts a token that was generated.
    pub fn push(&mut self, id: u32) {
        *self.counts.entry(id).or_default() += 1;
    }

    /// The ids, each once and in no order, and how often each was generated.
    fn counts(&self) -> impl Iterator<Item = (u32, u32)> {
        self.counts.iter().map(|(&id, &count)| (id, count))
    }
}
