//! Operands whose rows lie where a view has them: heads side by side in a row of tokens, or the parts of one projection.

use super::{ForwardBuffers, Plan};
use crate::bound::{bind, first};
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

    /// The buffer to its last row, of elements of so many bytes, and its strides in vectors of so many elements; without rows
    /// `other`, because no binding is empty.
    pub(super) fn bind(
        &self,
        shape: [usize; 4],
        lanes: usize,
        bytes: usize,
        other: &Handle,
    ) -> (BufferArg, StridesLaunch) {
        let strides = self.strides(shape);
        let [batch, head, row] = strides.map(|stride| stride / lanes);
        let launch = StridesLaunch::new(batch, head, row);
        if shape.contains(&0) {
            return (bind(other.clone()), launch);
        }
        let last: usize = shape.iter().zip(strides).map(|(n, s)| (n - 1) * s).sum();
        let rows = first(self.buffer.clone(), (last + shape[3]) * bytes);
        (bind(rows), launch)
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
        let bytes = plan.problem.element().bytes();
        let of = |x: &Strided, shape| x.bind(shape, plan.lanes, bytes, &self.o);
        [of(&self.q, queries), of(&self.k, keys), of(&self.v, values)]
    }
}

/// Where the rows of a head begin.
#[cube]
pub(super) fn head_at(strides: &Strides, batch: usize, head: usize) -> usize {
    batch * strides.batch + head * strides.head
}
