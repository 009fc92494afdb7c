//! How CubeCL computes [`moebius_ops::permute::neighbours`].

use crate::prelude::*;
use cubecl::prelude::*;
use moebius_ops::permute::neighbours::{PLACES, Problem};

/// A [`Problem`] this device can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What is computed.
    pub problem: Problem,
    element: Element,
    lanes: usize,
    grid: Grid,
}

/// Plans both directions: one unit per vector of x.
///
/// # Errors
/// [`Unsupported`] for an element type the device lacks, or more than a binding or a grid holds.
pub fn plan(problem: Problem, element: Element, device: &Capability) -> Result<Plan, Unsupported> {
    const KERNEL: &str = "neighbours";
    element.supported(KERNEL, device)?;
    let elements = problem.row_bound() * PLACES * problem.width();
    crate::fits_binding(KERNEL, elements * element.bytes(), device)?;
    let lanes = lanes(problem.width(), element.bytes(), device);
    let vectors = problem.row_bound() * (problem.width() / lanes);
    Ok(Plan {
        problem,
        element,
        lanes,
        grid: Grid::elementwise(KERNEL, vectors, device)?,
    })
}

/// Sizes known at launch.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Sizes {
    experts: usize,
    /// Vectors of a row of x.
    vectors: usize,
    /// Slots of a sequence: K·L.
    sequence: u32,
}

/// First row and one past the last of the expert that owns `row`; no rows when none does.
#[cube]
fn segment(offsets: &[u32], row: u32, experts: usize) -> (u32, u32) {
    let mut low = 0usize;
    let mut high = experts;
    while low < high {
        let middle = (low + high) / 2;
        if offsets[middle + 1] > row {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    // Without an owner the search ends at E, where the last segment ends.
    (offsets[low], offsets[min(low + 1, experts)])
}

/// Whether row `other` lies in `segment` and in the sequence of row `own`.
#[cube]
fn beside(order: &[u32], segment: (u32, u32), own: u32, other: u32, sequence: u32) -> bool {
    let mut same = false;
    if other >= segment.0 && other < segment.1 {
        same = order[other as usize] / sequence == order[own as usize] / sequence;
    }
    same
}

#[cube(launch_unchecked)]
fn neighbours<F: Float, N: Size>(
    order: &[u32],
    offsets: &[u32],
    x: &[Vector<F, N>],
    out: &mut [Vector<F, N>],
    sizes: Sizes,
    #[comptime] back: usize,
    #[define(F)] _element: ElemType,
) {
    if ABSOLUTE_POS < x.len() {
        let row = (ABSOLUTE_POS / sizes.vectors) as u32;
        let column = ABSOLUTE_POS % sizes.vectors;
        let segment = segment(offsets, row, sizes.experts);
        #[unroll]
        for place in 0..comptime!(PLACES) {
            // Below row 0 the subtraction wraps around, to where no segment is.
            let other = row + comptime!(place as u32) - comptime!(back as u32);
            let mut value = Vector::<F, N>::new(F::new(0.0));
            if beside(order, segment, row, other, sizes.sequence) {
                value = x[other as usize * sizes.vectors + column];
            }
            out[(row as usize * comptime!(PLACES) + place) * sizes.vectors + column] = value;
        }
    }
}

#[cube(launch_unchecked)]
fn neighbours_backward<F: Float, N: Size>(
    order: &[u32],
    offsets: &[u32],
    dout: &[Vector<F, N>],
    dx: &mut [Vector<F, N>],
    sizes: Sizes,
    #[comptime] back: usize,
    #[define(F)] _element: ElemType,
) {
    if ABSOLUTE_POS < dx.len() {
        let row = (ABSOLUTE_POS / sizes.vectors) as u32;
        let column = ABSOLUTE_POS % sizes.vectors;
        let segment = segment(offsets, row, sizes.experts);
        let mut sum = Vector::<f32, N>::new(0.0f32);
        #[unroll]
        for place in 0..comptime!(PLACES) {
            let other = row + comptime!(back as u32) - comptime!(place as u32);
            if beside(order, segment, row, other, sizes.sequence) {
                let from = (other as usize * comptime!(PLACES) + place) * sizes.vectors + column;
                sum += Vector::<f32, N>::cast_from(dout[from]);
            }
        }
        dx[ABSOLUTE_POS] = Vector::cast_from(sum);
    }
}

buffers! {
    /// Buffers of either direction.
    pub struct NeighboursBuffers {
        pub order: Handle => "[S] u32" read,
        pub offsets: Handle => "[E+1] u32" read,
        /// \[R,n\]: x, read, or dx, written by the backward pass.
        pub narrow: Handle = "x" | "dx",
        /// \[R,3n\]: out, written, or dout, read by the backward pass.
        pub wide: Handle = "out" | "dout",
    }
}

fn name(kernel: &str, problem: &Problem, element: Element) -> String {
    let causal = launched::suffix(problem.causal(), "_causal");
    format!("{kernel}{causal}_{element}")
}

/// Enqueues out = neighbours of x: one launch, or none for no rows.
pub fn launch(client: &Client, plan: &Plan, buffers: NeighboursBuffers) {
    enqueue(client, plan, buffers, false);
}

/// Enqueues the gradient for x: one launch, or none for no rows.
pub fn launch_backward(client: &Client, plan: &Plan, buffers: NeighboursBuffers) {
    enqueue(client, plan, buffers, true);
}

fn enqueue(client: &Client, plan: &Plan, buffers: NeighboursBuffers, backward: bool) {
    let p = &plan.problem;
    let (rows, experts, vectors) = (p.row_bound(), p.sort().experts(), p.width() / plan.lanes);
    if rows == 0 {
        return;
    }
    let (count, dim, lanes) = (plan.grid.count(), plan.grid.dim(), plan.lanes);
    let sizes = SizesLaunch::new(experts, vectors, (p.top_k() * p.sequence()) as u32);
    let (back, element) = (p.back(), plan.element.elem_type());
    let bytes = plan.element.bytes() * lanes;
    // SAFETY: the buffers hold what is planned; units past the last vector return, and
    // only rows of the row's own segment are read.
    unsafe {
        let order = bind_words(buffers.order, p.sort().slots());
        let offsets = bind_words(buffers.offsets, experts + 1);
        let narrow = bind(buffers.narrow, rows * vectors, bytes);
        let wide = bind(buffers.wide, rows * PLACES * vectors, bytes);
        if backward {
            launched::note(|| name("neighbours_backward", p, plan.element));
            neighbours_backward::launch_unchecked(
                client, count, dim, lanes, order, offsets, wide, narrow, sizes, back, element,
            );
        } else {
            launched::note(|| name("neighbours", p, plan.element));
            neighbours::launch_unchecked(
                client, count, dim, lanes, order, offsets, narrow, wide, sizes, back, element,
            );
        }
    }
}
