//! Rotary positions: the frequency of each pair of elements, the angles of positions, and their tables as tensors.
//!
//! Pair i of d/2 turns by p · ω_i at position p, with ω_i = θ^(−2i/d) (Su et al. 2021, "RoFormer"), modified by one of the methods below to
//! stretch the context. Frequencies and angles are f32, as in the programs that the models were trained with: at positions beyond 10⁴ the
//! rounding of an angle is no longer small.

use std::borrow::Cow;
use std::f64::consts::PI;

use burn::tensor::{Bool, DType, Device, Int, Tensor, TensorData};
use moebius::exact;
use moebius::nn::{self, Pairs};
use serde::Serialize;

use crate::error::Error;

/// Rotary position embedding of a head.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rope {
    /// Base θ of the frequencies.
    pub theta: f64,
    /// Elements d of a head that are rotated, an even number; the others stay as they are.
    pub rotated: usize,
    /// Scaling of the frequencies, which stretches the context.
    pub scaling: RopeScaling,
    /// Whether pairs are neighbours (2i, 2i + 1) instead of (i, i + d/2).
    pub interleaved: bool,
}

/// Method to stretch a context beyond the trained length.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum RopeScaling {
    /// No stretching.
    None,
    /// Divides every ω by the factor (Chen et al. 2023).
    Linear {
        /// Factor that the context is stretched by.
        factor: f64,
    },
    /// Divides the ω of each pair by a divisor of its own.
    Divided {
        /// Divisors of the d/2 pairs.
        by: Vec<f32>,
        /// Factor on cosine and sine.
        attention: f64,
    },
    /// Divides the ω of each pair by a divisor of its own, which is another one for sequences longer than the original context (Ding et al.
    /// 2024, "LongRoPE").
    LongRope {
        /// Divisors of the d/2 pairs in sequences within the original context.
        short: Vec<f32>,
        /// Divisors of the d/2 pairs in longer sequences.
        long: Vec<f32>,
        /// Tokens of the original context.
        original: f64,
        /// Factor on cosine and sine.
        attention: f64,
    },
    /// Divides slow pairs by the factor and keeps fast ones, with a linear ramp between (Llama 3.1, 2024).
    Llama3 {
        /// Factor that the context is stretched by.
        factor: f64,
        /// Turns within the original context below which a pair is slow.
        low: f64,
        /// Turns within the original context from which a pair is fast.
        high: f64,
        /// Tokens of the original context.
        original: f64,
    },
    /// Like `Llama3`, with a ramp over the index of the pair (Peng et al. 2023, "YaRN").
    Yarn {
        /// Factor that the context is stretched by.
        factor: f64,
        /// Turns within the original context from which a pair keeps its ω.
        fast: f64,
        /// Turns within the original context below which the ω of a pair is divided by the factor.
        slow: f64,
        /// Tokens of the original context.
        original: f64,
        /// Whether the ends of the ramp are rounded to whole numbers.
        truncate: bool,
        /// Factor on cosine and sine.
        attention: f64,
    },
}

impl Rope {
    /// The rotary positions of sequences of `tokens` tokens: where divisors depend on the length, the ones of this length.
    pub fn of_length(&self, tokens: usize) -> Cow<'_, Self> {
        let RopeScaling::LongRope {
            short,
            long,
            original,
            attention,
        } = &self.scaling
        else {
            return Cow::Borrowed(self);
        };
        let by = if tokens as f64 > *original {
            long
        } else {
            short
        };
        Cow::Owned(Self {
            scaling: RopeScaling::Divided {
                by: by.clone(),
                attention: *attention,
            },
            ..self.clone()
        })
    }

    /// Frequencies ω of the d/2 pairs; those within the original context where they depend on the length.
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
                RopeScaling::Divided { by, .. } | RopeScaling::LongRope { short: by, .. } => {
                    w / f64::from(by[pair])
                }
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

    /// Indices of the pairs between which YaRN's ramp lies.
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
        // Index of the pair that makes this many turns in the original context.
        let pair = |turns: f64| d * (original / (turns * 2.0 * PI)).ln() / (2.0 * self.theta.ln());
        let (mut from, mut to) = (pair(fast), pair(slow));
        if truncate {
            (from, to) = (from.floor(), to.ceil());
        }
        let (from, to) = (from.max(0.0), to.min(d - 1.0));
        // A ramp of length 0 would divide by 0.
        [from, if from == to { to + 0.001 } else { to }]
    }

    /// Factor on cosine and sine.
    pub fn attention_factor(&self) -> f64 {
        match self.scaling {
            RopeScaling::Divided { attention, .. }
            | RopeScaling::LongRope { attention, .. }
            | RopeScaling::Yarn { attention, .. } => attention,
            _ => 1.0,
        }
    }

    /// Cosines and sines \[positions, d/2\] at `positions`, times the attention factor.
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

/// YaRN's attention factor 0.1 · m · ln s + 1 for a context that is stretched by s; 1 where nothing is stretched.
pub fn yarn_attention(stretch: f64, m: f64) -> f64 {
    if stretch > 1.0 {
        0.1 * m * stretch.ln() + 1.0
    } else {
        1.0
    }
}

/// Positions of the tokens that a forward pass computes.
#[derive(Clone, Debug)]
pub(super) struct Places {
    /// The position of each sequence's first token.
    pub(super) first: Vec<usize>,
    /// Number of tokens of each sequence.
    pub(super) tokens: usize,
    /// Tokens of the longest sequence that is computed together with these: all tokens of the pass, or those that a cache has room for.
    pub(super) longest: usize,
    /// The documents that the sequences are made of; `None` where each is one.
    pub(super) packed: Option<Packed>,
    /// The number of tokens of each sequence where rows are filled up to `tokens`. Then all tables have the sizes that those of any sequences
    /// have, and positions are data.
    pub(super) counts: Option<Vec<usize>>,
}

impl Places {
    /// The positions of the sequences' first tokens; a single one where all sequences begin at the same position.
    pub(super) fn firsts(&self) -> &[usize] {
        let alike = self.first.windows(2).all(|pair| pair[0] == pair[1]);
        let one = alike && self.counts.is_none();
        let count = if one { 1 } else { self.first.len() };
        self.first.get(..count).unwrap_or_default()
    }

    /// True for the tokens \[B · S\] that routers may learn from; `None` where they may from all.
    pub(super) fn learned_from(&self) -> Option<&Tensor<1, Bool>> {
        self.packed.as_ref()?.counts.as_ref()
    }

    /// The number of positions up to the end of the longest sequence or document, without what fills rows up.
    pub(super) fn end(&self) -> usize {
        let ends = |(at, first): (usize, &usize)| match &self.counts {
            Some(counts) => first + counts[at],
            None => first + self.tokens,
        };
        match &self.packed {
            Some(_) => self.longest,
            None => self.first.iter().enumerate().map(ends).max().unwrap_or(0),
        }
    }

    /// The number of sequences whose tokens have positions of their own, 1 where those of all are alike, and these positions, one sequence after
    /// the other.
    pub(super) fn positions(&self) -> (usize, Vec<usize>) {
        if let Some(packed) = &self.packed {
            return (self.first.len(), packed.positions.clone());
        }
        let firsts = self.firsts();
        let positions = firsts.iter().flat_map(|&from| from..from + self.tokens);
        (firsts.len(), positions.collect())
    }
}

/// The documents of a pass's sequences, as layers read them.
#[derive(Clone, Debug)]
pub(super) struct Packed {
    /// The position of each token in its document \[B · S\].
    pub(super) positions: Vec<usize>,
    /// The number of each token's document in its sequence \[B, S\].
    pub(super) numbers: Tensor<2, Int>,
    /// True for the tokens \[B · S\] of documents, where others fill sequences up.
    pub(super) counts: Option<Tensor<1, Bool>>,
}

impl Packed {
    /// The values \[B, S, H\] with 0 in place of those of the first `back` tokens of each document.
    pub(super) fn without_first(&self, values: Tensor<3>, back: usize) -> Tensor<3> {
        if back == 0 {
            return values;
        }
        let [sequences, tokens, _] = values.dims();
        let kept = self
            .positions
            .iter()
            .map(|&at| f32::from(u8::from(at >= back)));
        let kept = TensorData::new(kept.collect::<Vec<f32>>(), [sequences, tokens, 1]);
        let options = (&values.device(), values.dtype());
        values * Tensor::from_data(kept, options)
    }
}

/// Cosines and sines of a forward pass's tokens, for every kind of rotary positions in the layers.
#[derive(Clone, Debug)]
pub(super) struct Angles {
    kinds: Vec<(Rope, [Tensor<4>; 2])>,
}

impl Angles {
    /// The tables for `ropes`; equal ones are computed once.
    pub(super) fn new<'a>(
        ropes: impl Iterator<Item = &'a Rope>,
        places: &Places,
        (device, dtype): (&Device, DType),
    ) -> Self {
        let mut kinds: Vec<(Rope, [Tensor<4>; 2])> = Vec::new();
        let (sequences, positions) = places.positions();
        for rope in ropes {
            if kinds.iter().any(|(known, _)| known == rope) {
                continue;
            }
            let shape = [sequences, places.tokens, 1, rope.rotated / 2];
            let tables = rope.of_length(places.longest);
            let tables = tables.tables(positions.iter().copied());
            let tables = tables.map(|values| {
                let data = TensorData::new(values, shape);
                Tensor::from_data(data, (device, dtype))
            });
            kinds.push((rope.clone(), tables));
        }
        Self { kinds }
    }

    /// Rotates x \[B, S, heads, D\] by the tokens' positions: as many elements as `rope` rotates, from element `at` on. Without a `rope`, x
    /// stays as it is.
    pub(super) fn turn(&self, x: Tensor<4>, rope: Option<&Rope>, at: usize) -> Tensor<4> {
        let Some(rope) = rope else {
            return x;
        };
        let (tables, pairs) = self.tables(rope, at);
        let turned = nn::rotate(x, tables, pairs);
        turned.unwrap_or_else(|error| unreachable!("the tables are those of all heads: {error}"))
    }

    /// Rotates the first elements of x \[B, S, heads, D\] as [`turn`](Self::turn) does, with the same bits on every device.
    pub(super) fn turn_exactly(
        &self,
        x: Tensor<4>,
        rope: Option<&Rope>,
    ) -> Result<Tensor<4>, Error> {
        let Some(rope) = rope else {
            return Ok(x);
        };
        let (tables, pairs) = self.tables(rope, 0);
        Ok(exact::rotate(x, tables, pairs)?)
    }

    /// The tables of a layer's rotary positions, and the pairs from element `at` on.
    fn tables(&self, rope: &Rope, at: usize) -> ([Tensor<4>; 2], Pairs) {
        let found = self.kinds.iter().find(|(known, _)| known == rope);
        let Some((_, tables)) = found else {
            unreachable!("the angles are those of all layers");
        };
        let interleaved = rope.interleaved;
        (tables.clone(), Pairs { at, interleaved })
    }
}

#[cfg(test)]
#[path = "rope_tests.rs"]
mod tests;
