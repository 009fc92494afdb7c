//! How CubeCL computes [`moebius_ops::grouped_gemm::bias_gradient`].

use super::{Problem as Product, Segments, Source, input_row, segment};
use crate::prelude::*;
use crate::rounds::{fits_rounds, looped};
use cubecl::prelude::*;
use moebius_ops::grouped_gemm::bias_gradient::Problem;

const KERNEL: &str = "bias_gradient";

fn name(problem: &Problem) -> String {
    let weighted = launched::suffix(problem.weighted, "_weighted");
    let dense = launched::suffix(problem.product.dense, "_dense");
    format!("bias_gradient_{}{weighted}{dense}", problem.product.element)
}

/// A [`Problem`], planned for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The problem.
    pub problem: Problem,
    lanes: usize,
    grid: Grid,
}

/// Plans `problem` on `device`.
///
/// # Errors
/// [`PlanError`] for wrong sizes, for an element type the device lacks, and for more than a binding or a grid holds.
pub fn plan(problem: Problem, device: &Capability) -> Result<Plan, PlanError> {
    let Product {
        experts,
        n,
        element,
        row_bound,
        ..
    } = problem.product;
    // Without rows nothing is launched.
    if row_bound > 0 {
        problem.check()?;
    }
    element.supported(KERNEL, device)?;
    let bytes = element.bytes();
    crate::fits_binding(KERNEL, problem.input_rows() * n * bytes, device)?;
    crate::fits_binding(KERNEL, experts * n * 4, device)?;
    if device.cpu_cores.is_none() {
        // One expert may have all rows.
        fits_rounds(KERNEL, looped(row_bound, 0), device)?;
    }
    // Sums are f32 for every type of the rows.
    let lanes = lanes(n, 4, device);
    Ok(Plan {
        problem,
        lanes,
        grid: Grid::elementwise(KERNEL, experts * (n / lanes), device)?,
    })
}

/// Computes db; one unit per vector.
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

/// The slot of a sorted row.
#[cube]
fn slot(order: &ComptimeOption<&[u32]>, row: usize) -> usize {
    #[comptime]
    match order {
        ComptimeOption::Some(order) => order[row] as usize,
        ComptimeOption::None => row,
    }
}

buffers! {
    /// Buffers of one bias gradient.
    pub struct Operands {
        pub rows: Handle => "[R,n] or [T,n]" read,
        /// The segments of the experts, read; absent in a dense product. The tiles aren't used.
        pub segments: Option<Segments> = "offsets",
        pub weights: Option<Handle> => "[S] f32" read: "present when the problem is weighted",
        pub out: Handle => "[E,n] f32" written,
    }
}

/// Enqueues the gradient: one launch, or none without slots; the caller must then write the zeros itself.
pub fn launch(client: &Client, plan: &Plan, operands: Operands) {
    let (problem, p) = (&plan.problem, &plan.problem.product);
    if p.row_bound == 0 {
        return;
    }
    let [order, offsets, _] = super::bind_segments(operands.segments);
    launched::note(|| name(problem));
    let (count, dim, lanes) = (plan.grid.count(), plan.grid.dim(), plan.lanes);
    let [rows, out] = [operands.rows, operands.out].map(bind);
    let weights = operands.weights.map(bind).into();
    let (order, offsets, element) = (order.into(), offsets.into(), p.element.elem_type());
    let (row, top_k, bound, source) = (p.n / lanes, p.top_k, p.row_bound, problem.rows);
    // SAFETY: the buffers are as long as they are described; units past the last vector return.
    unsafe {
        bias_gradient::launch_unchecked(
            client, count, dim, lanes, rows, order, offsets, weights, out, row, top_k, bound,
            source, element,
        );
    }
}

/// Weighted token rows of every element type, plain sorted rows, and dense rows.
#[cfg(feature = "emit")]
pub fn entries() -> Vec<crate::emit::KernelEntry> {
    use crate::emit::{KernelEntry, Machine, Planned, valid};
    let cases = [
        (Element::F32, false, false),
        (Element::F32, true, false),
        (Element::F16, true, false),
        (Element::Bf16, true, false),
        (Element::F32, false, true),
    ];
    let entry = |(element, weighted, dense): (Element, bool, bool)| {
        let all = valid(if dense {
            Product::dense(2048, 512, 1)
        } else {
            Product::new(2048, 8, 2, 512, 1)
        });
        let problem = Problem {
            product: Product { element, ..all },
            rows: if weighted {
                Source::Tokens
            } else {
                Source::Sorted
            },
            weighted,
        };
        let gradient = move |at: &Machine| -> Planned {
            let given = [("offsets", !dense), ("weights", weighted)];
            at.launch(&given, plan(problem, &at.capability), launch)
        };
        let name = name(&problem);
        KernelEntry::new("grouped_gemm", "bias_gradient", name, gradient).of(element)
    };
    cases.map(entry).into()
}
