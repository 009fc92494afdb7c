//! Rotary positions: how fast each pair of elements turns, the angles of positions, and their tables on tensors.
//!
//! Pair i of d/2 turns by p · ω_i at position p, with ω_i = θ^(−2i/d) (Su et al. 2021, "RoFormer"), changed by one of the ways to
//! stretch a context below. Frequencies and angles are f32, as in the programs that the models were trained with: at
//! positions beyond 10⁴ the rounding of an angle is no longer small.

use std::f64::consts::PI;

use burn::tensor::{DType, Device, Tensor, TensorData};
use moebius::nn::{self, Pairs};
use serde::Serialize;

/// Rotary positions of a head.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rope {
    /// θ.
    pub theta: f64,
    /// Elements d of a head that are turned, an even number; the others stay.
    pub rotated: usize,
    /// How frequencies are changed.
    pub scaling: RopeScaling,
    /// Pairs are neighbours (2i, 2i + 1) instead of (i, i + d/2).
    pub interleaved: bool,
}

/// How a context is stretched.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// ω / factor (Chen et al. 2023).
    Linear {
        /// How far.
        factor: f64,
    },
    /// ω of each pair is divided by a number of its own.
    Divided {
        /// d/2 numbers.
        by: Vec<f32>,
    },
    /// Slow pairs are divided by the factor, fast ones stay, with a ramp between (Llama 3.1, 2024).
    Llama3 {
        /// How far.
        factor: f64,
        /// Turns in the original context below which a pair is slow.
        low: f64,
        /// Turns from which it is fast.
        high: f64,
        /// Tokens of the original context.
        original: f64,
    },
    /// The same with a ramp over the number of the pair (Peng et al. 2023, "YaRN").
    Yarn {
        /// How far.
        factor: f64,
        /// Turns in the original context from which a pair stays.
        fast: f64,
        /// Turns below which it is divided.
        slow: f64,
        /// Tokens of the original context.
        original: f64,
        /// The ends of the ramp are whole numbers.
        truncate: bool,
        /// What cosine and sine are multiplied by.
        attention: f64,
    },
}

impl Rope {
    /// ω of each of the d/2 pairs.
    pub fn frequencies(&self) -> Vec<f32> {
        let d = self.rotated as f64;
        let plain = |pair: usize| self.theta.powf(-2.0 * pair as f64 / d);
        let pairs = 0..self.rotated / 2;
        let ramp = self.ramp();
        let scaled = |pair: usize| {
            let w = plain(pair);
            match &self.scaling {
                RopeScaling::None => w,
                RopeScaling::Linear { factor } => w / factor,
                RopeScaling::Divided { by } => w / f64::from(by[pair]),
                RopeScaling::Llama3 {
                    factor,
                    low,
                    high,
                    original,
                } => {
                    let turns = original * w / (2.0 * PI);
                    let stays = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                    (1.0 - stays) * w / factor + stays * w
                }
                RopeScaling::Yarn { factor, .. } => {
                    let [from, to] = ramp;
                    let divided = ((pair as f64 - from) / (to - from)).clamp(0.0, 1.0);
                    divided * w / factor + (1.0 - divided) * w
                }
            }
        };
        pairs.map(|pair| scaled(pair) as f32).collect()
    }

    /// The pairs between which YaRN's ramp lies.
    fn ramp(&self) -> [f64; 2] {
        let RopeScaling::Yarn {
            fast,
            slow,
            original,
            truncate,
            ..
        } = self.scaling
        else {
            return [0.0, 1.0];
        };
        let d = self.rotated as f64;
        // The pair that turns so often in the original context.
        let pair = |turns: f64| d * (original / (turns * 2.0 * PI)).ln() / (2.0 * self.theta.ln());
        let (mut from, mut to) = (pair(fast), pair(slow));
        if truncate {
            (from, to) = (from.floor(), to.ceil());
        }
        let (from, to) = (from.max(0.0), to.min(d - 1.0));
        // A ramp without a length would divide by 0.
        [from, if from == to { to + 0.001 } else { to }]
    }

    /// What cosine and sine are multiplied by.
    pub fn attention_factor(&self) -> f64 {
        match self.scaling {
            RopeScaling::Yarn { attention, .. } => attention,
            _ => 1.0,
        }
    }

    /// Cosines and sines \[positions, d/2\] of positions, times the factor.
    pub fn tables(&self, positions: impl Iterator<Item = usize>) -> [Vec<f32>; 2] {
        let (frequencies, factor) = (self.frequencies(), self.attention_factor());
        let mut tables = [Vec::new(), Vec::new()];
        for position in positions {
            for frequency in &frequencies {
                let angle = f64::from(position as f32 * frequency);
                tables[0].push((angle.cos() * factor) as f32);
                tables[1].push((angle.sin() * factor) as f32);
            }
        }
        tables
    }
}

/// 0.1 · m · ln s + 1, and 1 where nothing is stretched: YaRN's factor for a context that is s times as long.
pub fn yarn_attention(stretch: f64, m: f64) -> f64 {
    if stretch > 1.0 {
        0.1 * m * stretch.ln() + 1.0
    } else {
        1.0
    }
}

/// Which tokens of which sequences a forward pass computes.
#[derive(Clone, Debug)]
pub(super) struct Places {
    /// The position of each sequence's first token.
    pub(super) first: Vec<usize>,
    /// Tokens of each sequence.
    pub(super) tokens: usize,
}

impl Places {
    /// The positions of the sequences' first tokens; one where all begin at the same.
    pub(super) fn firsts(&self) -> &[usize] {
        let alike = self.first.windows(2).all(|pair| pair[0] == pair[1]);
        let count = if alike { 1 } else { self.first.len() };
        self.first.get(..count).unwrap_or_default()
    }
}

/// The angles of a forward pass's tokens, for every kind of turning that the layers have.
#[derive(Clone, Debug)]
pub(super) struct Angles {
    kinds: Vec<(Rope, [Tensor<4>; 2])>,
}

impl Angles {
    /// Those of `ropes`, of which equal ones are computed once.
    pub(super) fn new<'a>(
        ropes: impl Iterator<Item = &'a Rope>,
        places: &Places,
        (device, dtype): (&Device, DType),
    ) -> Self {
        let mut kinds: Vec<(Rope, [Tensor<4>; 2])> = Vec::new();
        let first = places.firsts();
        for rope in ropes {
            if kinds.iter().any(|(known, _)| known == rope) {
                continue;
            }
            let positions = first.iter().flat_map(|&from| from..from + places.tokens);
            let shape = [first.len(), places.tokens, 1, rope.rotated / 2];
            let tables = rope.tables(positions).map(|values| {
                let data = TensorData::new(values, shape);
                Tensor::from_data(data, (device, dtype))
            });
            kinds.push((rope.clone(), tables));
        }
        Self { kinds }
    }

    /// x \[B, S, heads, D\] with the elements from `at` on turned by their positions, as many as `rope` turns, none without one.
    pub(super) fn turn(&self, x: Tensor<4>, rope: Option<&Rope>, at: usize) -> Tensor<4> {
        let Some(rope) = rope else {
            return x;
        };
        let found = self.kinds.iter().find(|(known, _)| known == rope);
        let Some((_, tables)) = found else {
            unreachable!("the angles are those of all layers");
        };
        let pairs = Pairs {
            at,
            interleaved: rope.interleaved,
        };
        let turned = nn::rotate(x, tables.clone(), pairs);
        turned.unwrap_or_else(|error| unreachable!("the tables are those of all heads: {error}"))
    }
}

#[cfg(test)]
#[path = "rope_tests.rs"]
mod tests;
