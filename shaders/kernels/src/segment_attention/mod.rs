//! How CubeCL computes [`moebius_ops::segment_attention`].
//!
//! [`launch_segments()`] finds the segment of every row once, and every other kernel reads it. Sums are f32, in the order of the
//! rows; the softmax is rescaled as its largest score grows (Milakov & Gimelshein 2018), and the backward pass keeps only lse of
//! it (Dao 2022).
//!
//! This family doesn't call [`attention`](crate::attention) with segments as documents, for three reasons: segments are shorter
//! than that family's tiles of 32 or 64 keys, so most pairs of a tile would be hidden; its `unit` variant and its gradients look
//! at every key's document; and its tiles begin at multiples of their size, so a row's bits would depend on where its segment
//! lies.

#[cfg(feature = "emit")]
mod entries;
pub(crate) mod head;
mod passes;

#[cfg(feature = "emit")]
pub use entries::entries;
pub use passes::{BackwardBuffers, ForwardBuffers, launch, launch_backward};

use crate::expert_activation::expert_of;
use crate::prelude::*;
use crate::rounds::{fits_rounds, looped, search};
use cubecl::prelude::*;
use moebius_ops::segment_attention::Problem;

/// The name of kernel `kernel` for `problem`.
fn name(problem: &Problem, kernel: &str) -> String {
    let causal = launched::suffix(problem.causal(), "_causal");
    format!("{kernel}_{}{causal}", problem.element())
}

/// A [`Problem`], planned for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The problem.
    pub problem: Problem,
    lanes: usize,
    per_row: Grid,
    per_head: Grid,
}

/// Plans the segments, the attention and its backward pass.
///
/// # Errors
/// [`Unsupported`] for an element type the device lacks, and for more than a binding or a grid holds.
pub fn plan(problem: Problem, device: &Capability) -> Result<Plan, Unsupported> {
    let kernel = "segment_attention";
    let bytes = problem.element().bytes();
    problem.element().supported(kernel, device)?;
    let largest = [
        problem.elements() * bytes,
        problem.heads_of_rows() * 8,
        problem.segments().slots() * 8,
    ];
    for bytes in largest {
        crate::fits_binding(kernel, bytes, device)?;
    }
    let lanes = lanes(problem.head_dim(), bytes, device);
    fits_rounds(kernel, rounds(&problem, lanes), device)?;
    Ok(Plan {
        problem,
        lanes,
        per_row: Grid::elementwise(kernel, problem.rows(), device)?,
        per_head: Grid::elementwise(kernel, problem.heads_of_rows(), device)?,
    })
}

/// Rounds of the longest launch: the searches for a segment, or a gradient of scores, whose unit loads two heads and walks over
/// the rows of a segment. The longest segment is a whole sequence with one expert.
fn rounds(problem: &Problem, lanes: usize) -> usize {
    let segments = problem.segments();
    let searches = search(segments.experts()) + 2 * search(problem.rows());
    let head = head::rounds(problem.head_dim() / lanes);
    let longest = problem.rows().min(segments.sequence_slots());
    searches.max(4 * head + looped(longest, 3 * head))
}

impl Plan {
    fn form(&self) -> Form {
        Form {
            head_dim: self.problem.head_dim(),
            vectors: self.problem.head_dim() / self.lanes,
            causal: self.problem.causal(),
        }
    }
}

/// Compile-time parameters of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Form {
    head_dim: usize,
    /// Vectors per head.
    vectors: usize,
    causal: bool,
}

impl Form {
    fn scale(&self) -> f32 {
        (1.0 / (self.head_dim as f64).sqrt()) as f32
    }
}

/// The side whose row a unit holds while it walks over the rows of the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Side {
    Query,
    Key,
}

impl Side {
    /// The kernel of the side's gradient.
    fn kernel(self) -> &'static str {
        match self {
            Self::Query => "attention_query_gradient",
            Self::Key => "attention_key_gradient",
        }
    }
}

/// The rows of the other side that pair with `row` of this side: the first, and one past the last.
#[cube]
fn partners(
    segments: &[u32],
    row: usize,
    #[comptime] side: Side,
    #[comptime] causal: bool,
) -> (usize, usize) {
    let first = segments[2 * row] as usize;
    let end = segments[2 * row + 1] as usize;
    if comptime!(!causal) {
        (first, end)
    } else if comptime!(side == Side::Query) {
        (first, min(end, row + 1))
    } else {
        (min(end, row), end)
    }
}

/// The first row in \[low, high) whose slot is at least `slot`, or `high`; slots ascend in this range.
#[cube]
fn first_row_from(order: &[u32], low: usize, high: usize, slot: usize) -> usize {
    let mut first = low;
    let mut last = high;
    while first < last {
        let middle = (first + last) / 2;
        if (order[middle] as usize) < slot {
            first = middle + 1;
        } else {
            last = middle;
        }
    }
    first
}

/// Finds the segments; one unit per sorted row.
#[cube(launch_unchecked)]
fn attention_segments(
    order: &[u32],
    offsets: &[u32],
    segments: &mut [u32],
    experts: usize,
    rows: usize,
    sequence_slots: usize,
) {
    if ABSOLUTE_POS < rows {
        let mut first = 0usize;
        let mut end = 0usize;
        if ABSOLUTE_POS < offsets[experts] as usize {
            let expert = expert_of(offsets, ABSOLUTE_POS, experts);
            let begin = offsets[expert] as usize;
            let beyond = offsets[expert + 1] as usize;
            let sequence = order[ABSOLUTE_POS] as usize / sequence_slots;
            let slot = sequence * sequence_slots;
            first = first_row_from(order, begin, ABSOLUTE_POS, slot);
            end = first_row_from(order, ABSOLUTE_POS, beyond, slot + sequence_slots);
        }
        segments[2 * ABSOLUTE_POS] = first as u32;
        segments[2 * ABSOLUTE_POS + 1] = end as u32;
    }
}

/// Enqueues the search for segments, one launch: for each row, two binary searches among the rows of its expert.
///
/// `order` u32 \[S\] and `offsets` u32 \[E+1\] are read, `segments` u32 \[R,2\] is written.
pub fn launch_segments(
    client: &Client,
    plan: &Plan,
    order: Handle,
    offsets: Handle,
    segments: Handle,
) {
    let p = &plan.problem.segments();
    if p.rows() == 0 {
        return;
    }
    // SAFETY: the buffers are as long as they are described; searches stay inside an expert's rows.
    unsafe {
        launched::note(|| "attention_segments");
        attention_segments::launch_unchecked(
            client,
            plan.per_row.count(),
            plan.per_row.dim(),
            bind(order),
            bind(offsets),
            bind(segments),
            p.experts(),
            p.rows(),
            p.sequence_slots(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use moebius_ops::Element;
    use moebius_ops::segment_attention::Segments;
    use moebius_profiles as profiles;

    #[test]
    fn a_plan_refuses_what_the_device_lacks() {
        let device = profiles::webgpu_default();
        let problem = |rows| {
            let segments = Segments::new(rows, 8, 1, 512).unwrap();
            Problem::new(segments, 8, 64).unwrap()
        };
        assert!(plan(problem(1 << 10).with_element(Element::F16), &device).is_err());
        // 128 MiB hold 2^16 rows of 2 KiB.
        assert!(plan(problem(1 << 16), &device).is_ok());
        assert!(plan(problem((1 << 16) + 1), &device).is_err());
    }
}
