//! STUB

use super::{Attended, AttentionCall, Projections, SegmentAttentionGradients, SegmentAttentionOps};
use crate::ops::Sorted;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;

impl SegmentAttentionOps for CubeBackend {
    fn moe_segment_attention(
        _: Projections<Self>,
        _: Sorted<Self>,
        _: AttentionCall,
    ) -> Attended<Self> {
        todo!()
    }
}
impl SegmentAttentionGradients for CubeBackend {
    fn moe_segment_attention_backward(
        _: CubeTensor,
        _: Projections<Self>,
        _: Attended<Self>,
        _: Sorted<Self>,
        _: AttentionCall,
    ) -> Projections<Self> {
        todo!()
    }
}
