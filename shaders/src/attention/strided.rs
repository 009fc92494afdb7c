//! Operands whose rows lie where a view has them: heads side by side in a row of tokens, or the parts of one projection.

use super::{ForwardBuffers, Plan};
use crate::bound::bind;
use crate::named::{FromNames, Lookup};
use cubecl::prelude::*;
use cubecl::server::Handle;

/// A buffer of rows \[B, H, S, D\], each of them without gaps.
#[derive(Clone)]
pub struct Strided {
    /// The first row begins where the buffer does.
    pub buffer: Handle,
    /// Elements from a sequence, a head and a row to the next, multiples of D; without them rows follow each other in this order.
    pub strides: Option<[usize; 3]>,
}

impl From<Handle> for Strided {
    fn from(buffer: Handle) -> Self {
        let strides = None;
        Self { buffer, strides }
    }
}

impl FromNames for Strided {
    fn from_names(buffers: &impl Lookup, names: &[&str]) -> Self {
        Self {
            buffer: Handle::from_names(buffers, names),
            strides: names.iter().find_map(|name| buffers.strides(name)),
        }
    }
}

impl Strided {
    /// The strides of rows \[B, H, S, D\].
    fn strides(&self, [_, heads, rows, dim]: [usize; 4]) -> [usize; 3] {
        self.strides
            .unwrap_or([heads * rows * dim, rows * dim, dim])
    }

    /// The buffer as vectors of so many elements and bytes, and their strides; without rows `other`, which has a vector.
    pub(super) fn bind(
        &self,
        shape: [usize; 4],
        (elements, bytes): (usize, usize),
        other: &Handle,
    ) -> (BufferArg, StridesLaunch) {
        let strides = self.strides(shape);
        let [batch, head, row] = strides.map(|stride| stride / elements);
        let launch = StridesLaunch::new(batch, head, row);
        if shape.contains(&0) {
            return (bind(other.clone(), 1, bytes), launch);
        }
        let last: usize = shape.iter().zip(strides).map(|(n, s)| (n - 1) * s).sum();
        let vectors = (last + shape[3]) / elements;
        (bind(self.buffer.clone(), vectors, bytes), launch)
    }
}

/// Vectors from a sequence, a head and a row to the next.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(super) struct Strides {
    batch: usize,
    head: usize,
    pub(super) row: usize,
}

/// Where rows of each operand lie.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(super) struct Layout {
    pub(super) q: Strides,
    pub(super) k: Strides,
    pub(super) v: Strides,
}

impl ForwardBuffers {
    /// q, k and v as the plan's vectors, and where their rows lie; where there are none, something else is bound.
    pub(super) fn operands(&self, plan: &Plan) -> [(BufferArg, StridesLaunch); 3] {
        let [queries, keys, values] = plan.shapes();
        let of = |x: &Strided, shape| x.bind(shape, (plan.lanes, plan.bytes()), &self.o);
        [of(&self.q, queries), of(&self.k, keys), of(&self.v, values)]
    }
}

/// Where the rows of a head begin.
#[cube]
pub(super) fn head_at(strides: &Strides, batch: usize, head: usize) -> usize {
    batch * strides.batch + head * strides.head
}
