//! Attention among the rows of one expert and one sequence, or of one sequence when all rows are one
//! expert's; shapes as in [`moebius_ops::segment_attention`].

#[cfg(feature = "flex")]
pub(super) mod flex;

use super::call::Request;
use super::{Assignment, Sorted};
use crate::Error;
use crate::check::element;
use burn::tensor::Tensor;
use moebius_ops::segment_attention::{Problem, Segments};
use moebius_ops::{Fault, SegmentAttention};

/// \[R, heads·D\]: the rows of `segments` attend to each other, to earlier ones and themselves only when
/// `causal`. The caller has checked that q, k and v \[R, heads·D\] are alike.
pub(crate) fn run(
    [q, k, v]: [Tensor<2>; 3],
    sorted: Option<&Sorted>,
    segments: Segments,
    (heads, causal): (usize, bool),
) -> Result<Tensor<2>, Error> {
    let width = q.dims()[1];
    let right = heads > 0 && width.is_multiple_of(heads);
    let expected = format_args!("a divisor of {width} (the width)");
    Fault::Config.unless(right, "attention heads", expected, heads)?;
    let problem = Problem::new(segments, heads, width / heads)?
        .with_element(element(q.dtype())?)
        .with_causal(causal);
    let attention = SegmentAttention {
        problem,
        dense: sorted.is_none(),
        backward: false,
    };
    let call = Request::new(attention, &q.device(), &())?.reads([q, k, v]);
    let sort = sorted.into_iter().flat_map(Sorted::segments);
    Ok(call.reads(sort).run().floats())
}

impl Assignment {
    /// \[R, heads·D\]: rows of one expert and one sequence of `sequence` tokens attend to each
    /// other, to earlier ones and themselves only when `causal`.
    pub(crate) fn attention(
        &self,
        [q, k, v]: [Tensor<2>; 3],
        heads: usize,
        sequence: usize,
        causal: bool,
    ) -> Result<Tensor<2>, Error> {
        let r = &self.routing;
        let segments = Segments::new(r.slots(), r.experts(), r.top_k(), sequence)?;
        let segments = segments.with_row_bound(self.row_bound)?;
        run([q, k, v], Some(&self.sorted), segments, (heads, causal))
    }
}
