//! How CubeCL computes [`moebius_ops::permute::neighbours`].

use crate::bound::{bind, bind_words};
use crate::element::DeviceElement;
use crate::error::Unsupported;
use crate::grid::{Grid, lanes};
use crate::launched;
use cubecl::prelude::*;
use cubecl::server::Handle;
use moebius_device::Capability;
use moebius_ops::Element;
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

/// Buffers of either direction.
pub struct NeighboursBuffers {
    /// \[S\] u32, read.
    pub order: Handle,
    /// \[E+1\] u32, read.
    pub offsets: Handle,
    /// \[R,n\]: x, read, or dx, written by the backward pass.
    pub narrow: Handle,
    /// \[R,3n\]: out, written, or dout, read by the backward pass.
    pub wide: Handle,
}

/// The arguments of both kernels but `narrow` and `wide`, whose order differs.
struct Bound {
    order: BufferArg,
    offsets: BufferArg,
    narrow: BufferArg,
    wide: BufferArg,
    sizes: SizesLaunch,
}

impl Bound {
    fn new(plan: &Plan, buffers: NeighboursBuffers) -> Self {
        let p = &plan.problem;
        let vectors = p.width() / plan.lanes;
        let (rows, experts) = (p.row_bound(), p.sort().experts());
        Self {
            order: bind_words(buffers.order, p.sort().slots()),
            offsets: bind_words(buffers.offsets, experts + 1),
            narrow: bind(
                buffers.narrow,
                rows * vectors,
                plan.element.bytes() * plan.lanes,
            ),
            wide: bind(
                buffers.wide,
                rows * PLACES * vectors,
                plan.element.bytes() * plan.lanes,
            ),
            sizes: SizesLaunch::new(experts, vectors, (p.top_k() * p.sequence()) as u32),
        }
    }
}

fn name(kernel: &str, problem: &Problem, element: Element) -> String {
    let causal = launched::suffix(problem.causal(), "_causal");
    format!("{kernel}{causal}_{element}")
}

/// Enqueues out = neighbours of x: one launch, or none for no rows.
pub fn launch(client: &Client, plan: &Plan, buffers: NeighboursBuffers) {
    if plan.problem.row_bound() == 0 {
        return;
    }
    // SAFETY: the buffers hold what is planned; units past the last vector return, and
    // only rows of the row's own segment are read.
    unsafe {
        let bound = Bound::new(plan, buffers);
        launched::note(|| name("neighbours", &plan.problem, plan.element));
        neighbours::launch_unchecked(
            client,
            plan.grid.count(),
            plan.grid.dim(),
            plan.lanes,
            bound.order,
            bound.offsets,
            bound.narrow,
            bound.wide,
            bound.sizes,
            plan.problem.back(),
            plan.element.elem_type(),
        );
    }
}

/// Enqueues the gradient for x: one launch, or none for no rows.
pub fn launch_backward(client: &Client, plan: &Plan, buffers: NeighboursBuffers) {
    if plan.problem.row_bound() == 0 {
        return;
    }
    // SAFETY: as for `launch`.
    unsafe {
        let bound = Bound::new(plan, buffers);
        launched::note(|| name("neighbours_backward", &plan.problem, plan.element));
        neighbours_backward::launch_unchecked(
            client,
            plan.grid.count(),
            plan.grid.dim(),
            plan.lanes,
            bound.order,
            bound.offsets,
            bound.wide,
            bound.narrow,
            bound.sizes,
            plan.problem.back(),
            plan.element.elem_type(),
        );
    }
}
