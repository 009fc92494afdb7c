//! How tokens are chosen.

use std::collections::BTreeMap;

use moebius_ops::{Fault, Mismatch};

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
    pub(super) fn check(&self) -> Result<(), Mismatch> {
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

    pub(super) fn penalises(&self) -> bool {
        self.repetition_penalty != 1.0
            || self.presence_penalty != 0.0
            || self.frequency_penalty != 0.0
    }
}
