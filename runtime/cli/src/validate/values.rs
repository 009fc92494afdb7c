//! The values in which a device differs from another, for `validate compare --trace`.

use anstyle::Style;
use moebius_device::Device;
use moebius_model::computation::{Computation, Computed, Distance, Flip, Limits, Part};
use serde::Serialize;

use super::pages;
use crate::error::CliError;
use crate::screen::{Screen, Table};

/// What two devices computed of one text, and how far the second is from the first, part by part.
#[derive(Clone, Copy)]
pub(super) struct Pair<'a> {
    pub(super) want: &'a Computation,
    pub(super) got: &'a Computation,
    pub(super) distances: &'a [Distance],
    pub(super) limits: Limits,
    /// Whether both computed the model exactly, which are other operations.
    pub(super) is_exact: bool,
}

/// The first part in which two devices differ: the first that isn't within the limits, or else the first whose bits differ.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Traced {
    /// The layer and the part.
    pub(super) place: String,
    /// The operation, by the name that `--trace` of other commands has for it; `None` where the part is several operations.
    pub(super) operation: Option<&'static str>,
    /// Tokens that the part sends to other experts.
    pub(super) flips: Vec<Flip>,
    /// Values of the part whose bits differ, those that are the furthest apart first.
    pub(super) values: Vec<Apart>,
}

/// A value of two devices.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Apart {
    /// Place of the token in the text.
    pub(super) token: usize,
    /// Place in the token's row: in x, or the number of an expert or of a token of the vocabulary.
    pub(super) index: usize,
    /// The first device's value.
    pub(super) expected: f64,
    /// The other device's value.
    pub(super) got: f64,
    /// got − expected.
    pub(super) difference: f64,
}

impl Pair<'_> {
    /// Index of the first part whose bits differ.
    pub(super) fn first_bits(&self) -> Option<usize> {
        let bits = |of: &Computed| -> Vec<u64> { of.values.iter().map(|x| x.to_bits()).collect() };
        let mut pairs = self.want.parts.iter().zip(&self.got.parts);
        pairs.position(|(want, got)| bits(want) != bits(got))
    }

    /// The first part in which the devices differ, with at most `count` values; `None` where all bits are equal.
    pub(super) fn trace(&self, count: usize) -> Option<Traced> {
        let mut distances = self.distances.iter();
        let far = distances.position(|of| !of.is_near(self.limits));
        let at = far.or_else(|| self.first_bits())?;
        let distance = &self.distances[at];
        // Where a part is too far away, tokens that aren't judged tell nothing.
        let tokens = far.map_or(self.want.tokens, |_| distance.judged);
        let [want, got] = [self.want, self.got].map(|of| &of.parts[at].values);
        let width = want.len() / self.want.tokens.max(1);
        let pairs = want.iter().zip(got).take(tokens * width).enumerate();
        let pairs = pairs.filter(|(_, (want, got))| want.to_bits() != got.to_bits());
        let values = pairs.map(|(at, (expected, got))| Apart {
            token: at / width,
            index: at % width,
            expected: *expected,
            got: *got,
            difference: got - expected,
        });
        let mut values: Vec<Apart> = values.collect();
        // NaN is further away than all numbers.
        let far = |of: &Apart| of.difference.abs();
        values.sort_by(|one, other| far(other).total_cmp(&far(one)));
        values.truncate(count);
        Some(Traced {
            place: distance.place(),
            operation: self.operation(at),
            flips: distance.flips.clone(),
            values,
        })
    }

    /// The operation by which the part with this index differs, as far as its values and those of the router before it tell.
    fn operation(&self, at: usize) -> Option<&'static str> {
        let distance = &self.distances[at];
        let is_near = |far: f64| far <= self.limits.distance;
        let [logits, route, experts] = if self.is_exact {
            [Some("exact product"), Some("exact route"), None]
        } else {
            ["router logits", "route", "experts"].map(Some)
        };
        match distance.part {
            Part::Router => {
                // Logits that are near may be chosen from in another way.
                let is_choice = distance.relative_l2.is_some_and(is_near);
                if is_choice && !distance.is_near(self.limits) {
                    route
                } else {
                    logits
                }
            }
            Part::Experts => {
                let router = at.checked_sub(1)?;
                let [want, got] = [self.want, self.got].map(|of| {
                    let choices = of.parts[router].choices.iter();
                    let judged = choices.take(distance.judged);
                    let weights = judged.flat_map(|choice| choice.weights.iter().copied());
                    weights.collect::<Vec<f64>>()
                });
                if is_near(moebius_ops::distance(&got, &want)) {
                    experts
                } else {
                    route
                }
            }
            Part::Embedding
            | Part::Attention
            | Part::Convolution
            | Part::FeedForward
            | Part::Head => None,
        }
    }
}

impl Traced {
    /// Shows the place, the tokens that go to other experts, and the values of `device` beside those of `first`.
    pub(super) fn show(
        &self,
        (first, device): (&Device, &Device),
        screen: &mut Screen,
    ) -> Result<(), CliError> {
        let operation = self.operation.map(|name| format!(" ({name})"));
        let (place, operation) = (&self.place, operation.unwrap_or_default());
        screen.heading(&format!("{device} beside {first}: {place}{operation}"))?;
        if !self.flips.is_empty() {
            screen.line(&pages::flips(&self.flips))?;
        }
        let headings = "token | index | expected | got | difference";
        let mut table = Table::new(headings).right(&[0, 1, 2, 3]);
        for of in &self.values {
            let cells = [
                of.token.to_string(),
                of.index.to_string(),
                // Devices compute in f32, whose shortest digits say all of the value.
                format!("{:e}", of.expected as f32),
                format!("{:e}", of.got as f32),
                format!("{:.1e}", of.difference),
            ];
            table.row(cells, Style::new());
        }
        table.print(screen)
    }
}

#[cfg(test)]
#[path = "values_tests.rs"]
mod tests;
