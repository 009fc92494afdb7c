//! How far two computations are apart, part by part.

use moebius_ops::distance;
use moebius_weights::Unfit;
use serde::{Deserialize, Serialize};

use super::{Choice, Computation, Computed, Part};
use crate::error::Error;

/// What still counts as the same answer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Largest relative L2 distance of a part.
    pub distance: f64,
    /// Largest margin, relative to the largest key of the token, at which the choice of experts is a matter of rounding.
    pub tie: f64,
}

impl Default for Limits {
    /// Limits for f32: 10⁻⁴ for a part, which leaves room for the sums of many layers (tiny decoders stay below 10⁻⁵), and ten times that for
    /// a tie.
    fn default() -> Self {
        Self {
            distance: 1e-4,
            tie: 1e-3,
        }
    }
}

/// Distance of one part from the reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Distance {
    /// Index of the layer; `None` outside of the layers.
    pub layer: Option<usize>,
    /// The part.
    pub part: Part,
    /// Number of first tokens that are compared: all, up to the first whose experts in an earlier layer were a matter of rounding.
    pub judged: usize,
    /// ‖got − want‖ / ‖want‖ over these tokens; `None` where that isn't finite.
    pub relative_l2: Option<f64>,
    /// Largest |got − want| in units of the last place of want in f32; `None` where that isn't finite.
    pub ulps: Option<f64>,
    /// Tokens that a router sends to other experts, judged or not.
    pub flips: Vec<Flip>,
}

/// A token that goes to other experts than in the reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flip {
    /// Place of the token in the sequence.
    pub token: usize,
    /// Experts that the reference chose and the other didn't.
    pub lost: Vec<usize>,
    /// Experts that the other chose and the reference didn't.
    pub gained: Vec<usize>,
    /// Smallest key of a lost expert less the largest of a gained one, in the reference; of their groups, where a group decided. `None` where
    /// that isn't finite.
    pub margin: Option<f64>,
    /// Whether the margin is within [`Limits::tie`].
    pub tie: bool,
}

/// The first place of the text after which another token is the likeliest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Greedy {
    /// Number of tokens of the text before it.
    pub position: usize,
    /// The reference's likeliest token.
    pub expected: usize,
    /// The other's likeliest token.
    pub got: usize,
    /// Difference of the reference's logits of both; `None` where that isn't finite.
    pub margin: Option<f64>,
}

impl Distance {
    /// The distances of all parts of `other` from those of `reference`, in their order.
    ///
    /// # Errors
    /// [`Error::Config`] for computations of other models or of other numbers of tokens.
    pub fn between(
        reference: &Computation,
        other: &Computation,
        limits: Limits,
    ) -> Result<Vec<Self>, Error> {
        let shape = |computation: &Computation| -> Vec<(Option<usize>, Part, usize)> {
            let parts = computation.parts.iter();
            parts
                .map(|of| (of.layer, of.part, of.values.len()))
                .collect()
        };
        if (reference.tokens, shape(reference)) != (other.tokens, shape(other)) {
            let expected = format!("{} parts of the same model", reference.parts.len());
            let got = format!("{} parts of another", other.parts.len());
            return Err(Error::Config(Unfit::new("a computation", expected, got)));
        }
        let mut judged = reference.tokens;
        let mut distances = Vec::with_capacity(reference.parts.len());
        for (want, got) in reference.parts.iter().zip(&other.parts) {
            let distance = Self::of(want, got, (judged, reference.tokens), limits);
            let mut ties = distance.flips.iter().filter(|flip| flip.tie);
            judged = ties.next().map_or(judged, |tie| judged.min(tie.token));
            distances.push(distance);
        }
        Ok(distances)
    }

    fn of(
        want: &Computed,
        got: &Computed,
        (judged, tokens): (usize, usize),
        limits: Limits,
    ) -> Self {
        let values = judged * (want.values.len() / tokens.max(1));
        let (wanted, found) = (&want.values[..values], &got.values[..values]);
        let relative_l2 = finite(distance(found, wanted));
        let apart = found
            .iter()
            .zip(wanted)
            .map(|(got, want)| ulps(*got, *want));
        let ulps = apart.fold(0.0, f64::max);
        let pairs = want.choices.iter().zip(&got.choices).enumerate();
        let flips = pairs.filter_map(|(token, (want, got))| Flip::of(token, want, got, limits));
        Self {
            layer: want.layer,
            part: want.part,
            judged,
            relative_l2,
            ulps: relative_l2.and(finite(ulps)),
            flips: flips.collect(),
        }
    }

    /// Whether the part is within the limits, as far as it is judged.
    pub fn is_near(&self, limits: Limits) -> bool {
        let near = self.relative_l2.is_some_and(|far| far <= limits.distance);
        let mut judged = self.flips.iter().filter(|flip| flip.token < self.judged);
        near && judged.all(|flip| flip.tie)
    }

    /// The layer and the part in words.
    pub fn place(&self) -> String {
        match self.layer {
            Some(layer) => format!("layer {layer}, {}", self.part.name()),
            None => self.part.name().to_owned(),
        }
    }
}

/// The first part that isn't within the limits.
pub fn parting(distances: &[Distance], limits: Limits) -> Option<&Distance> {
    distances.iter().find(|of| !of.is_near(limits))
}

impl Flip {
    /// The flip of a token; `None` where both choose the same experts.
    fn of(token: usize, want: &Choice, got: &Choice, limits: Limits) -> Option<Self> {
        let only = |of: &Choice, other: &Choice| -> Vec<usize> {
            let experts = of.experts.iter().copied();
            experts
                .filter(|expert| !other.experts.contains(expert))
                .collect()
        };
        let (lost, gained) = (only(want, got), only(got, want));
        if lost.is_empty() && gained.is_empty() {
            return None;
        }
        let margin = finite(want.margin(&lost, &gained));
        let keys = want.keys.iter().copied().map(f64::abs);
        let largest = keys.fold(0.0, f64::max);
        Some(Self {
            token,
            lost,
            gained,
            margin,
            tie: margin.is_some_and(|margin| margin <= limits.tie * largest),
        })
    }
}

impl Choice {
    /// By how much this choice prefers the experts `lost` to the experts `gained`.
    fn margin(&self, lost: &[usize], gained: &[usize]) -> f64 {
        let size = (self.keys.len() / self.groups.len().max(1)).max(1);
        let group = |expert: &usize| self.groups.get(expert / size);
        let shut = gained.iter().filter_map(group).filter(|(_, open)| !open);
        let shut = shut.map(|(value, _)| *value).reduce(f64::max);
        if let Some(shut) = shut {
            let open = self.groups.iter().filter(|(_, open)| *open);
            let least = open.map(|(value, _)| *value).fold(f64::INFINITY, f64::min);
            return least - shut;
        }
        let key = |expert: &usize| self.keys.get(*expert).copied().unwrap_or(f64::NAN);
        let least = lost.iter().map(key).fold(f64::INFINITY, f64::min);
        let most = gained.iter().map(key).fold(f64::NEG_INFINITY, f64::max);
        least - most
    }
}

impl Greedy {
    /// The first token at which the likeliest next ones differ; `None` where all are the same.
    pub fn first(reference: &Computation, other: &Computation) -> Option<Self> {
        let (want, got) = (reference.parts.last()?, other.parts.last()?);
        let width = want.values.len() / reference.tokens.max(1);
        if width == 0 {
            return None;
        }
        let rows = want
            .values
            .chunks_exact(width)
            .zip(got.values.chunks_exact(width));
        rows.enumerate().find_map(|(row, (want, got))| {
            let (expected, got) = (likeliest(want)?, likeliest(got)?);
            (expected != got).then(|| Self {
                position: row + 1,
                expected,
                got,
                margin: finite(want[expected] - want[got]),
            })
        })
    }
}

/// Index of the largest logit, the first of equal ones.
fn likeliest(logits: &[f64]) -> Option<usize> {
    (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b]).then(b.cmp(a)))
}

/// |got − want| in units of the last place of want in f32.
fn ulps(got: f64, want: f64) -> f64 {
    let near = (want as f32).abs();
    let unit = f64::from(near.next_up()) - f64::from(near);
    (got - want).abs() / unit
}

fn finite(x: f64) -> Option<f64> {
    x.is_finite().then_some(x)
}

#[cfg(test)]
#[path = "distance_tests.rs"]
mod tests;
