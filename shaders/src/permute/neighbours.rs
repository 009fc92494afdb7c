//! Sorted rows beside their neighbours, which a convolution over a sequence multiplies, and back.
//!
//! Forward: out\[r\] = (x\[r−1\], x\[r\], x\[r+1\]), causal (x\[r−2\], x\[r−1\], x\[r\]), for the rows r that have
//! an expert. A neighbour counts when it is of the same expert and the same sequence, the token of
//! sorted row r being order\[r\] / K and a sequence L tokens; for any other there are zeros, and the
//! rows from offsets\[E\] on are zeros. Backward: dx\[r\] = Σ_j dout\[r − shift_j, j\] over the three
//! places j where row r was put, summed in f32 in their order; 0 for rows without an expert.
//!
//! Shapes: x \[R,n\] and out \[R,3n\] of the element type, order u32 \[S\], offsets u32 \[E+1\].
//! Within an expert rows are in slot order, so those of a sequence lie together. No FLOPs forward,
//! 2·R·n backward; bytes 4·R·n elements.

use crate::element::Element;
use crate::error::{ShapeError, Unsupported};
use crate::grid::{Grid, lanes};
use crate::launched;
use cubecl::prelude::*;
use cubecl::server::Handle;
use moebius_device::Capability;

/// Rows side by side: the kernel size of a convolution over them.
pub const PLACES: usize = 3;

/// Rows and the sequences they belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    sort: super::Problem,
    width: usize,
    top_k: usize,
    sequence: usize,
    causal: bool,
}

impl Problem {
    /// Rows of `width` elements sorted by `sort`, of tokens in sequences of `sequence` tokens.
    ///
    /// # Errors
    /// [`ShapeError`] when a size is 0 or an index would not fit 31 bits.
    pub fn new(
        sort: super::Problem,
        width: usize,
        top_k: usize,
        sequence: usize,
        causal: bool,
    ) -> Result<Self, ShapeError> {
        for (what, size) in [("width", width), ("top_k", top_k), ("sequence", sequence)] {
            if size == 0 {
                return Err(ShapeError::new(what, "at least 1", size));
            }
        }
        let fits = |a: usize, b: usize| a.checked_mul(b).is_some_and(|n| n <= i32::MAX as usize);
        if !fits(sort.row_bound(), PLACES.saturating_mul(width)) {
            let got = format!("{} x {PLACES} x {width}", sort.row_bound());
            return Err(ShapeError::new(
                "neighbours",
                "at most 2^31 - 1 elements",
                got,
            ));
        }
        if !fits(sequence, top_k) {
            let got = format!("{sequence} x {top_k}");
            return Err(ShapeError::new("sequence x top_k", "at most 2^31 - 1", got));
        }
        Ok(Self {
            sort,
            width,
            top_k,
            sequence,
            causal,
        })
    }

    /// Rows of a sorted buffer R.
    pub fn row_bound(&self) -> usize {
        self.sort.row_bound()
    }

    /// Elements of a row n.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Slots per token K.
    pub fn top_k(&self) -> usize {
        self.top_k
    }

    /// Tokens of a sequence L.
    pub fn sequence(&self) -> usize {
        self.sequence
    }

    /// Whether no row sees one behind it.
    pub fn causal(&self) -> bool {
        self.causal
    }

    /// Rows before a row that it sees; its first place is for the first of them.
    fn back(&self) -> usize {
        if self.causal { PLACES - 1 } else { PLACES / 2 }
    }
}

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
    let elements = problem.row_bound() * PLACES * problem.width;
    crate::fits_binding(KERNEL, elements * element.bytes(), device)?;
    let lanes = lanes(problem.width, element.bytes(), device);
    let vectors = problem.row_bound() * (problem.width / lanes);
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
    /// # Safety
    /// The buffers must have the shapes of the plan's problem.
    unsafe fn new(plan: &Plan, buffers: NeighboursBuffers) -> Self {
        let p = &plan.problem;
        let vectors = p.width / plan.lanes;
        let (rows, experts) = (p.row_bound(), p.sort.experts());
        // SAFETY: lengths follow from the problem's shapes, which the caller vouches for.
        unsafe {
            Self {
                order: BufferArg::from_raw_parts(buffers.order, p.sort.slots()),
                offsets: BufferArg::from_raw_parts(buffers.offsets, experts + 1),
                narrow: BufferArg::from_raw_parts(buffers.narrow, rows * vectors),
                wide: BufferArg::from_raw_parts(buffers.wide, rows * PLACES * vectors),
                sizes: SizesLaunch::new(experts, vectors, (p.top_k * p.sequence) as u32),
            }
        }
    }
}

fn name(kernel: &str, problem: &Problem, element: Element) -> String {
    let causal = launched::suffix(problem.causal, "_causal");
    format!("{kernel}{causal}_{element}")
}

/// Enqueues out = neighbours of x: one launch, or none for no rows.
pub fn launch(client: &Client, plan: &Plan, buffers: NeighboursBuffers) {
    if plan.problem.row_bound() == 0 {
        return;
    }
    // SAFETY: the caller's buffers have the planned shapes; units past the last vector return, and
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

/// (row, place, the row it sees there), rows and places in order.
fn pairs(problem: &Problem, sorted: &super::Sorted) -> Vec<(usize, usize, usize)> {
    let mut pairs = Vec::new();
    let sequence = |row: usize| sorted.order[row] as usize / problem.top_k / problem.sequence;
    for segment in sorted.offsets.windows(2) {
        let segment = segment[0] as usize..segment[1] as usize;
        for row in segment.clone() {
            for place in 0..PLACES {
                let other = (row + place).wrapping_sub(problem.back());
                if segment.contains(&other) && sequence(other) == sequence(row) {
                    pairs.push((row, place, other));
                }
            }
        }
    }
    pairs
}

/// The oracle: out \[R,3n\].
///
/// # Errors
/// [`ShapeError`] when x isn't \[R,n\].
pub fn reference(
    problem: &Problem,
    sorted: &super::Sorted,
    x: &[f64],
) -> Result<Vec<f64>, ShapeError> {
    let width = problem.width;
    ShapeError::check("x", problem.row_bound() * width, x.len())?;
    let mut out = vec![0.0; problem.row_bound() * PLACES * width];
    for (row, place, other) in pairs(problem, sorted) {
        out[(row * PLACES + place) * width..][..width]
            .copy_from_slice(&x[other * width..][..width]);
    }
    Ok(out)
}

/// The oracle of the gradient: dx \[R,n\].
///
/// # Errors
/// [`ShapeError`] when dout isn't \[R,3n\].
pub fn reference_backward(
    problem: &Problem,
    sorted: &super::Sorted,
    dout: &[f64],
) -> Result<Vec<f64>, ShapeError> {
    let width = problem.width;
    let rows = problem.row_bound();
    ShapeError::check("gradient of neighbours", rows * PLACES * width, dout.len())?;
    let mut dx = vec![0.0; rows * width];
    for (row, place, other) in pairs(problem, sorted) {
        let sums = &mut dx[other * width..][..width];
        for (sum, value) in sums.iter_mut().zip(&dout[(row * PLACES + place) * width..]) {
            *sum += value;
        }
    }
    Ok(dx)
}

/// Both directions of every element type, centred; forward causal, too.
#[cfg(feature = "emit")]
pub(super) fn entries() -> Vec<crate::emit::KernelEntry> {
    use crate::emit::{KernelEntry, Machine, Planned};
    type Build = fn(&Machine, &Plan) -> Box<dyn CubeKernel>;
    let entry = |(name, element, causal, kernel): (&str, Element, bool, Build)| {
        let build = move |at: &Machine| -> Planned {
            let sort = super::Problem::new(2048, 8, 64)?;
            let problem = Problem::new(sort, 512, 2, 128, causal)?;
            Ok(kernel(at, &plan(problem, element, &at.capability)?))
        };
        let name = format!("{name}_{element}");
        KernelEntry::new(("permute", "neighbours"), name, build).of(element)
    };
    let forward: Build = |at, plan| Box::new(kernel(at, plan));
    let backward: Build = |at, plan| Box::new(kernel_backward(at, plan));
    let of = |element| {
        [
            ("neighbours", element, false, forward),
            ("neighbours_backward", element, false, backward),
        ]
    };
    let causal = ("neighbours_causal", Element::F32, true, forward);
    let all = Element::ALL.into_iter().flat_map(of).chain([causal]);
    all.map(entry).collect()
}

#[cfg(feature = "emit")]
fn kernel(at: &crate::emit::Machine, plan: &Plan) -> neighbours::Neighbours {
    use crate::emit::buffer;
    let (settings, device, target) = at.parts(plan.grid.dim());
    neighbours::Neighbours::new(
        settings,
        device,
        target,
        buffer(),
        buffer(),
        buffer(),
        buffer(),
        sizes_argument(),
        plan.lanes,
        plan.problem.back(),
        plan.element.elem_type(),
    )
}

#[cfg(feature = "emit")]
fn kernel_backward(
    at: &crate::emit::Machine,
    plan: &Plan,
) -> neighbours_backward::NeighboursBackward {
    use crate::emit::buffer;
    let (settings, device, target) = at.parts(plan.grid.dim());
    neighbours_backward::NeighboursBackward::new(
        settings,
        device,
        target,
        buffer(),
        buffer(),
        buffer(),
        buffer(),
        sizes_argument(),
        plan.lanes,
        plan.problem.back(),
        plan.element.elem_type(),
    )
}

#[cfg(feature = "emit")]
fn sizes_argument() -> SizesCompilationArg {
    SizesCompilationArg {
        experts: (),
        vectors: (),
        sequence: (),
    }
}

#[cfg(test)]
mod tests {
    use super::{Problem, reference, reference_backward};
    use crate::permute;

    /// Six tokens in sequences of 3; tokens 0, 1, 2 and 4 go to expert 0, 3 to expert 1, 5 nowhere.
    fn rows(causal: bool) -> (Problem, permute::Sorted) {
        let sort = permute::Problem::new(6, 2, 4).unwrap();
        let problem = Problem::new(sort, 1, 1, 3, causal).unwrap();
        (problem, permute::reference(&[0, 0, 0, 1, 0, 2], 2))
    }

    #[test]
    fn a_row_sees_its_sequence_in_its_expert() {
        let x = [1.0, 2.0, 3.0, 5.0, 4.0, f64::NAN];
        let (problem, sorted) = rows(false);
        let out = reference(&problem, &sorted, &x).unwrap();
        let want = [
            [0.0, 1.0, 2.0],
            [1.0, 2.0, 3.0],
            [2.0, 3.0, 0.0],
            [0.0, 5.0, 0.0],
            [0.0, 4.0, 0.0],
            [0.0; 3],
        ];
        assert_eq!(out, want.concat());
        let (problem, sorted) = rows(true);
        let out = reference(&problem, &sorted, &x).unwrap();
        let want = [
            [0.0, 0.0, 1.0],
            [0.0, 1.0, 2.0],
            [1.0, 2.0, 3.0],
            [0.0, 0.0, 5.0],
            [0.0, 0.0, 4.0],
            [0.0; 3],
        ];
        assert_eq!(out, want.concat());
    }

    /// ⟨neighbours(x), d⟩ = ⟨x, backward(d)⟩.
    #[test]
    fn the_backward_pass_is_the_adjoint() {
        for causal in [false, true] {
            let (problem, sorted) = rows(causal);
            let x: Vec<f64> = (0..6).map(|i| f64::from(i * i + 1)).collect();
            let d: Vec<f64> = (0..18).map(|i| f64::from(i * 7 % 11) - 4.0).collect();
            let out = reference(&problem, &sorted, &x).unwrap();
            let dx = reference_backward(&problem, &sorted, &d).unwrap();
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            assert_eq!(dot(&out, &d), dot(&x, &dx));
        }
    }

    #[test]
    fn sizes_that_make_no_sense_are_shape_errors() {
        let sort = permute::Problem::new(6, 2, 4).unwrap();
        for (width, top_k, sequence) in [(0, 1, 3), (1, 0, 3), (1, 1, 0), (1 << 30, 1, 3)] {
            assert!(Problem::new(sort, width, top_k, sequence, false).is_err());
        }
    }
}
