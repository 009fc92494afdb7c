//! Gradient of an expert's bias: db_e = Σ_r w_r · rows\[r\] over the rows r of expert e.
//!
//! Rows are sorted, or one per token and found through the sort ([`Source`]); w_r is the router
//! weight of the slot behind row r, 1 without weights. Shapes: rows \[R,n\] or \[T,n\] of f32, f16 or
//! bf16; weights f32 \[S\]; db \[E,n\] f32, zeros for an expert without rows. Sums run over the rows in
//! order, in f32. [`Problem::dense`] sums all rows, and nothing is sorted. FLOPs R·n, twice that weighted; bytes R·n elements.

use super::{Segments, Source, input_row, segment};
use crate::element::Element;
use crate::error::{ShapeError, Unsupported};
use crate::grid::{Grid, lanes};
use crate::launched;
use cubecl::prelude::*;
use cubecl::server::Handle;
use moebius_device::Capability;

const KERNEL: &str = "bias_gradient";

/// One bias gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Slots S.
    pub slots: usize,
    /// The most sorted rows R any routing produces, at most S.
    pub row_bound: usize,
    /// Experts E.
    pub experts: usize,
    /// Slots per token K.
    pub top_k: usize,
    /// Columns.
    pub n: usize,
    /// Type of the rows.
    pub element: Element,
    /// Which rows are read.
    pub rows: Source,
    /// Whether rows are multiplied by the weights of their slots.
    pub weighted: bool,
    /// One expert has all rows, in their order, unweighted; there is no sort.
    pub dense: bool,
}

impl Problem {
    /// The sum of the rows of \[`rows`, `n`\].
    ///
    /// # Errors
    /// As [`Problem::new`].
    pub fn dense(rows: usize, n: usize) -> Result<Self, ShapeError> {
        Ok(Self {
            dense: true,
            ..Self::new(rows, 1, 1, n)?
        })
    }

    /// The gradient of \[`experts`, `n`\] biases from sorted rows of `slots` = T·`top_k` slots.
    ///
    /// # Errors
    /// [`ShapeError`] when a size is 0 or an index would not fit 31 bits.
    pub fn new(slots: usize, experts: usize, top_k: usize, n: usize) -> Result<Self, ShapeError> {
        let product = super::Problem::new(slots, experts, top_k, n, 1)?;
        Ok(Self {
            slots,
            row_bound: slots,
            experts,
            top_k,
            n,
            element: product.element,
            rows: Source::Sorted,
            weighted: false,
            dense: false,
        })
    }

    /// What its kernel is called.
    fn name(&self) -> String {
        let weighted = launched::suffix(self.weighted, "_weighted");
        let dense = launched::suffix(self.dense, "_dense");
        format!("bias_gradient_{}{weighted}{dense}", self.element)
    }

    /// Rows of the operand.
    pub fn input_rows(&self) -> usize {
        match self.rows {
            Source::Tokens => self.slots / self.top_k,
            Source::Sorted => self.row_bound,
        }
    }
}

/// A [`Problem`] this device can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What is computed.
    pub problem: Problem,
    lanes: usize,
    grid: Grid,
}

/// Plans `problem` on `device`.
///
/// # Errors
/// [`Unsupported`] for an element type the device lacks, or more than a binding or a grid holds.
pub fn plan(problem: Problem, device: &Capability) -> Result<Plan, Unsupported> {
    let Problem { experts, n, .. } = problem;
    problem.element.supported(KERNEL, device)?;
    let bytes = problem.element.bytes();
    crate::fits_binding(KERNEL, problem.input_rows() * n * bytes, device)?;
    crate::fits_binding(KERNEL, experts * n * 4, device)?;
    // Sums are f32, whatever the rows are.
    let lanes = lanes(n, 4, device);
    Ok(Plan {
        problem,
        lanes,
        grid: Grid::elementwise(KERNEL, experts * (n / lanes), device)?,
    })
}

/// One unit per vector of db.
#[cube(launch_unchecked)]
fn bias_gradient<F: Float, N: Size>(
    rows: &[Vector<F, N>],
    order: ComptimeOption<&[u32]>,
    offsets: ComptimeOption<&[u32]>,
    weights: ComptimeOption<&[f32]>,
    out: &mut [Vector<f32, N>],
    row_vectors: usize,
    top_k: usize,
    all_rows: usize,
    #[comptime] source: Source,
    #[define(F)] _element: ElemType,
) {
    if ABSOLUTE_POS < out.len() {
        let expert = ABSOLUTE_POS / row_vectors;
        let column = ABSOLUTE_POS % row_vectors;
        let mut sum = Vector::<f32, N>::new(0.0f32);
        let (begin, end) = segment(&offsets, expert, all_rows);
        for row in begin..end {
            let from = input_row(&order, row, top_k, source);
            let value = Vector::<f32, N>::cast_from(rows[from * row_vectors + column]);
            #[comptime]
            match &weights {
                ComptimeOption::Some(weights) => {
                    let weight = weights[slot(&order, row)];
                    sum = fma(Vector::<f32, N>::new(weight), value, sum);
                }
                ComptimeOption::None => sum += value,
            }
        }
        out[ABSOLUTE_POS] = sum;
    }
}

/// The slot behind a sorted row.
#[cube]
fn slot(order: &ComptimeOption<&[u32]>, row: usize) -> usize {
    #[comptime]
    match order {
        ComptimeOption::Some(order) => order[row] as usize,
        ComptimeOption::None => row,
    }
}

/// Buffers of one bias gradient.
#[derive(Clone)]
pub struct Operands {
    /// \[R,n\] or \[T,n\], read.
    pub rows: Handle,
    /// Read; absent in a dense product. Its tiles aren't used.
    pub segments: Option<Segments>,
    /// \[S\] f32, read; present when the problem is weighted.
    pub weights: Option<Handle>,
    /// \[E,n\] f32, written.
    pub out: Handle,
}

/// Enqueues the gradient: one launch; none for a batch without slots, whose gradient of zeros is
/// the caller's.
pub fn launch(client: &Client, plan: &Plan, operands: Operands) {
    let p = &plan.problem;
    if p.row_bound == 0 {
        return;
    }
    let row_vectors = p.n / plan.lanes;
    // SAFETY: the caller's buffers have the planned shapes; units past the last vector return.
    unsafe {
        let bind = |buffer: Option<Handle>, len| buffer.map(|b| BufferArg::from_raw_parts(b, len));
        let (order, offsets) = operands.segments.map(|s| (s.order, s.offsets)).unzip();
        launched::note(|| p.name());
        bias_gradient::launch_unchecked(
            client,
            plan.grid.count(),
            plan.grid.dim(),
            plan.lanes,
            BufferArg::from_raw_parts(operands.rows, p.input_rows() * row_vectors),
            bind(order, p.slots).into(),
            bind(offsets, p.experts + 1).into(),
            bind(operands.weights, p.slots).into(),
            BufferArg::from_raw_parts(operands.out, p.experts * row_vectors),
            row_vectors,
            p.top_k,
            p.row_bound,
            p.rows,
            p.element.elem_type(),
        );
    }
}

/// The oracle, in f64; `order` and `offsets` come from the sort, `weights` are those of the slots.
pub fn reference(
    problem: &Problem,
    sorted: &crate::permute::Sorted,
    rows: &[f64],
    weights: Option<&[f32]>,
) -> Vec<f64> {
    let n = problem.n;
    let mut out = vec![0.0; problem.experts * n];
    for (e, out) in out.chunks_mut(n).enumerate() {
        for row in sorted.offsets[e] as usize..sorted.offsets[e + 1] as usize {
            let slot = sorted.order[row] as usize;
            let from = match problem.rows {
                Source::Tokens => slot / problem.top_k,
                Source::Sorted => row,
            };
            let weight = weights.map_or(1.0, |weights| f64::from(weights[slot]));
            let values = &rows[from * n..][..n];
            out.iter_mut()
                .zip(values)
                .for_each(|(out, value)| *out += weight * value);
        }
    }
    out
}

/// Weighted token rows of every element type, plain sorted rows, and dense ones.
#[cfg(feature = "emit")]
pub(crate) fn entries() -> Vec<crate::emit::KernelEntry> {
    use super::optional;
    use crate::emit::{KernelEntry, Machine, Planned, buffer};
    let cases = [
        (Element::F32, false, false),
        (Element::F32, true, false),
        (Element::F16, true, false),
        (Element::Bf16, true, false),
        (Element::F32, false, true),
    ];
    let entry = |(element, weighted, dense): (Element, bool, bool)| {
        let problem = Problem {
            slots: 2048,
            row_bound: 2048,
            experts: if dense { 1 } else { 8 },
            top_k: if dense { 1 } else { 2 },
            n: 512,
            element,
            rows: if weighted {
                Source::Tokens
            } else {
                Source::Sorted
            },
            weighted,
            dense,
        };
        let build = move |at: &Machine| -> Planned {
            let plan = plan(problem, &at.capability)?;
            let (settings, device, target) = at.parts(plan.grid.dim());
            Ok(Box::new(bias_gradient::BiasGradient::new(
                settings,
                device,
                target,
                buffer(),
                optional(!dense),
                optional(!dense),
                optional(weighted),
                buffer(),
                (),
                (),
                (),
                plan.lanes,
                problem.rows,
                element.elem_type(),
            )))
        };
        let name = problem.name();
        KernelEntry::new(("grouped_gemm", "bias_gradient"), name, build).of(element)
    };
    cases.map(entry).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two tokens, two experts each; expert 1 gets slots 0 and 3, expert 0 slot 1, nobody slot 2.
    #[test]
    fn reference_sums_the_rows_of_an_expert() {
        let sorted = crate::permute::reference(&[1, 0, 3, 1], 3);
        let tokens = Problem {
            rows: Source::Tokens,
            ..Problem::new(4, 3, 2, 2).unwrap()
        };
        let rows = [1.0, 10.0, 2.0, 20.0, 4.0, 40.0];
        let weights = [0.5, 3.0, f32::NAN, 0.25];
        let got = reference(&tokens, &sorted, &rows[..4], Some(&weights));
        assert_eq!(got, [3.0, 30.0, 1.0, 10.0, 0.0, 0.0]);
        let plain = Problem::new(4, 3, 2, 2).unwrap();
        let got = reference(&plain, &sorted, &rows, None);
        assert_eq!(got, [1.0, 10.0, 6.0, 60.0, 0.0, 0.0]);
    }
}
