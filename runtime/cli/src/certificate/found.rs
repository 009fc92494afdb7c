//! What a device computed of each part of a certificate, and the verdict on it.

use moebius_model::computation::{Cost, Distance, Greedy, Part};
use serde::{Deserialize, Serialize};

/// Verdict on a part or a device, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// All is within the limits.
    Same,
    /// All that is judged is within the limits, but what matters is not judged: the first token's experts are a matter of rounding, or the
    /// device refused everything.
    Undecided,
    /// Something isn't within the limits, or bits of a model that is computed exactly aren't those of the first device.
    Apart,
    /// The device couldn't compute everything.
    Failed,
}

/// What a device computed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Found {
    /// The parts of the model, against the reference.
    Model {
        oracle: Oracle,
        parts: Vec<Measured>,
        /// The first part that isn't within the limits.
        parting: Option<Place>,
        /// The first place of the text after which another token is the likeliest.
        greedy: Option<Greedy>,
        /// What the embedding, each layer and the head take in passes that wait for the device behind each, after the pass that is compared. `None`
        /// where a pass can't wait, in a browser, and where these passes failed.
        costs: Option<Vec<Cost>>,
        /// Why these passes failed; what is compared is right all the same. Left out where they didn't.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        untimed: Option<String>,
    },
    /// How likely the model in training and the engine that serves it find the tokens of the text.
    Training {
        /// Largest difference of log-probabilities that counts as the same; 0 where bits must be equal.
        limit: f64,
        /// The ways in which the engine read the text.
        readings: Vec<Reading>,
    },
    /// Results of the cases.
    Cases {
        /// The cases of each operation and type.
        families: Vec<Family>,
        /// Number of cases in a type that the device lacks, which did not run.
        lacking: usize,
        /// The cases that don't pass.
        wrong: Vec<Wrong>,
    },
    /// Results of the demos.
    Demos(Vec<Demo>),
    /// Results of the benchmarks.
    Bench {
        results: Vec<Timed>,
        /// Benchmarks that the device or the build refused.
        refused: Vec<Reason>,
        failed: Vec<Reason>,
    },
    /// Why nothing was computed.
    Error(String),
}

/// What a model is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Oracle {
    /// What a decoder in f64 of the same program computes.
    Reference,
    /// What that decoder computed, rounded to f32, in a file of `validate reference`: the demo page has no room for the decoder.
    Committed,
}

/// A part of a model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Place {
    pub(crate) layer: Option<usize>,
    pub(crate) part: Part,
}

/// What a device computed of one part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Measured {
    pub(crate) distance: Distance,
    /// Hash of the bits of all values in f32 (SHA-256).
    pub(crate) hash: String,
    /// Whether these are the bits of the first device.
    pub(crate) bits_of_first: bool,
}

/// One way in which an engine read a text, and the log-probabilities of the tokens after the prompt, compared with those of a training's forward
/// pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reading {
    /// Number of tokens of the prompt; each token after it had a step of its own.
    pub(crate) prompt: usize,
    /// Number of tokens after the prompt.
    pub(crate) tokens: usize,
    /// Number of these whose log-probabilities have the same bits.
    pub(crate) equal: usize,
    /// The first of these with other bits.
    pub(crate) first: Option<Unlike>,
    /// Largest difference of log-probabilities; `None` where that isn't finite.
    pub(crate) largest: Option<f64>,
}

/// A token whose log-probability in training has other bits than served.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Unlike {
    /// Number of tokens before it.
    pub(crate) position: usize,
    pub(crate) token: u32,
    /// Its log-probability in training; `None` where that isn't finite.
    pub(crate) training: Option<f64>,
    /// Its log-probability in the engine; `None` where that isn't finite.
    pub(crate) engine: Option<f64>,
}

impl Reading {
    /// Whether no token has other bits, or differs by more than `limit`, if that isn't 0.
    fn is_near(&self, limit: f64) -> bool {
        let near = self.largest.is_some_and(|largest| largest <= limit);
        self.equal == self.tokens || (limit > 0.0 && near)
    }
}

/// The cases of one operation in one type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Family {
    /// The operation of the cases; `unreadable` for files that are no cases.
    pub(crate) family: String,
    /// The type in which they compute.
    pub(crate) dtype: String,
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) errors: usize,
    /// The output that is furthest from what the case expects; `None` where nothing was computed.
    pub(crate) furthest: Option<Furthest>,
}

/// The output of a case that is furthest from what is expected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Furthest {
    pub(crate) case: String,
    pub(crate) output: String,
    /// ‖got − want‖ / ‖want‖; `None` where that isn't finite.
    pub(crate) relative_l2: Option<f64>,
}

/// A case that doesn't pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wrong {
    pub(crate) family: String,
    pub(crate) dtype: String,
    pub(crate) case: String,
    pub(crate) problem: String,
}

/// A demo, and how it ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Demo {
    pub(crate) demo: String,
    pub(crate) seconds: f64,
    pub(crate) result: Shown,
}

/// How a demo ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Shown {
    /// What it shows holds.
    Holds(String),
    /// What it should show doesn't hold.
    Fails(String),
    /// The device doesn't support what it needs.
    Refused(String),
    /// It could not be run to its end.
    Error(String),
}

/// A result of a benchmark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Timed {
    pub(crate) benchmark: String,
    pub(crate) sizes: String,
    pub(crate) variant: String,
    /// Whether the result agrees with sums in f64.
    pub(crate) verified: bool,
    /// Relative error of the result; `None` where that isn't finite.
    pub(crate) error: Option<f64>,
    /// Median of the repetitions; `None` for a result that did not verify.
    pub(crate) median_ms: Option<f64>,
    /// Work per second; `None` for a result that did not verify.
    pub(crate) rate: Option<Rate>,
}

/// An amount of work per second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rate {
    pub(crate) value: f64,
    /// Unit of the amount, as GFLOP/s.
    pub(crate) unit: String,
}

/// A benchmark without a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reason {
    pub(crate) benchmark: String,
    pub(crate) reason: String,
}

impl Found {
    /// What the parts of a model take; `None` for anything else, and where nothing tells.
    pub(crate) fn costs(&self) -> Option<&[Cost]> {
        match self {
            Self::Model { costs, .. } => costs.as_deref(),
            _ => None,
        }
    }

    /// The verdict on what a device computed, whatever the bits of other devices are.
    pub(crate) fn verdict(&self) -> Verdict {
        match self {
            Self::Error(_) => Verdict::Failed,
            Self::Training { limit, readings } => Verdict::of([
                false,
                readings.iter().any(|of| !of.is_near(*limit)),
                readings.iter().any(|of| of.tokens > 0),
            ]),
            Self::Cases { families, .. } => {
                let any = |count: fn(&Family) -> usize| families.iter().any(|of| count(of) > 0);
                Verdict::of([
                    any(|of| of.errors),
                    any(|of| of.failed),
                    any(|of| of.passed),
                ])
            }
            Self::Demos(demos) => {
                let any = |is: fn(&Shown) -> bool| demos.iter().any(|of| is(&of.result));
                Verdict::of([
                    any(|of| matches!(of, Shown::Error(_))),
                    any(|of| matches!(of, Shown::Fails(_))),
                    any(|of| matches!(of, Shown::Holds(_))),
                ])
            }
            Self::Bench {
                results, failed, ..
            } => Verdict::of([
                !failed.is_empty(),
                results.iter().any(|of| !of.verified),
                results.iter().any(|of| of.verified),
            ]),
            Self::Model {
                parting: Some(_), ..
            } => Verdict::Apart,
            Self::Model { parts, .. } => match parts.last() {
                Some(head) if head.distance.judged > 0 => Verdict::Same,
                _ => Verdict::Undecided,
            },
        }
    }
}

impl Verdict {
    /// The verdict on results of which some are errors, wrong, or right.
    fn of([errors, wrong, right]: [bool; 3]) -> Self {
        match (errors, wrong, right) {
            (true, ..) => Self::Failed,
            (_, true, _) => Self::Apart,
            (.., true) => Self::Same,
            _ => Self::Undecided,
        }
    }
}
