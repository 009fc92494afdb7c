//! How CubeCL computes [`moebius_ops::segment_attention`].
//!
//! [`launch_segments()`] finds the segment of every row once, and every other kernel reads it. Sums are f32, in the order of the rows;
//! the softmax is rescaled as its largest score grows (Milakov & Gimelshein 2018), and what the backward pass keeps of it is lse (Dao
//! 2022).
//!
//! Not a caller of [`attention`](crate::attention) with its documents: segments are shorter than that family's tiles of 32 or 64 keys, most
//! pairs of which would be hidden, and its `unit` variant looks at every key's document.

mod backward;
#[cfg(feature = "emit")]
mod entries;
mod forward;
pub(crate) mod head;
mod segments;

pub use backward::{BackwardBuffers, launch_backward};
#[cfg(feature = "emit")]
pub use entries::entries;
pub use forward::{ForwardBuffers, launch};
pub use segments::{launch_segments, launch_sequences};

use crate::prelude::*;
use cubecl::prelude::*;
use moebius_ops::segment_attention::Problem;

/// What one of the kernels is called for `problem`.
fn name(problem: &Problem, kernel: &str) -> String {
    let causal = launched::suffix(problem.causal(), "_causal");
    format!("{kernel}_{}{causal}", problem.element())
}

/// A [`Problem`] this device can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What is computed.
    pub problem: Problem,
    lanes: usize,
    per_row: Grid,
    per_head: Grid,
}

/// Plans the segments, the attention and its backward pass.
///
/// # Errors
/// [`Unsupported`] for an element type the device lacks, or more than a binding or a grid holds.
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
    Ok(Plan {
        problem,
        lanes: lanes(problem.head_dim(), bytes, device),
        per_row: Grid::elementwise(kernel, problem.rows(), device)?,
        per_head: Grid::elementwise(kernel, problem.heads_of_rows(), device)?,
    })
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

/// What the kernels are specialised on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Form {
    head_dim: usize,
    /// Vectors of a head.
    vectors: usize,
    causal: bool,
}

impl Form {
    fn scale(&self) -> f32 {
        (1.0 / (self.head_dim as f64).sqrt()) as f32
    }
}

/// Whose rows a unit holds while it walks over the other side's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Side {
    Query,
    Key,
}

impl Side {
    /// The kernel of its gradient.
    fn kernel(self) -> &'static str {
        match self {
            Self::Query => "attention_query_gradient",
            Self::Key => "attention_key_gradient",
        }
    }
}

/// The rows that `row` of this side meets: the first, and one past the last.
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

#[cfg(test)]
mod tests {
    use super::*;
    use moebius_device::profiles;
    use moebius_ops::Element;
    use moebius_ops::segment_attention::Segments;

    #[test]
    fn a_plan_refuses_what_the_device_lacks() {
        let device = profiles::webgpu_default();
        let problem = |rows| {
            let segments = Segments::new(rows, 8, 1, 512).unwrap();
            Problem::new(segments, 8, 64).unwrap()
        };
        assert!(plan(problem(1 << 10).with_element(Element::F16), &device).is_err());
        // 128 MiB are 2^16 rows of 2 KiB.
        assert!(plan(problem(1 << 16), &device).is_ok());
        assert!(plan(problem((1 << 16) + 1), &device).is_err());
    }
}
