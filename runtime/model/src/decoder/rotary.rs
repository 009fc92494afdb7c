//! Rotary positions on tensors.

use burn::tensor::{DType, Device, Tensor, TensorData};
use moebius::nn::{self, Pairs};

use super::rope::Rope;

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
