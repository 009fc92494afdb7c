//! Attention among the rows of one expert and one sequence; the shapes are those of [`moebius_ops::segment_attention`].

#[cfg(feature = "flex")]
pub(super) mod flex;

use super::Assignment;
use super::call::Request;
use crate::Error;
use crate::check::element;
use burn::tensor::Tensor;
use moebius_ops::SegmentAttention;
use moebius_ops::segment_attention::{Problem, Segments};

impl Assignment {
    /// Computes attention \[R, heads·D\] among the rows of one expert and one sequence of `sequence` tokens; if `causal`, a row attends to
    /// itself and earlier rows only. The caller has checked that the heads divide the width.
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
        let problem = Problem::new(segments, heads, q.dims()[1] / heads)?
            .with_element(element(q.dtype())?)
            .with_causal(causal);
        let attention = SegmentAttention {
            problem,
            backward: false,
        };
        let call = Request::new(attention, &q.device(), &())?.reads([q, k, v]);
        Ok(call.reads(self.sorted.segments()).run().floats())
    }
}
