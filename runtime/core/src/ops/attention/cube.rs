//! Attention within segments as kernels.

use super::{Attended, AttentionCall, Projections, SegmentAttentionGradients, SegmentAttentionOps};
use crate::ops::Grouping;
use crate::ops::buffers::{empty_like, handle, planned};
use burn::tensor::DType;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use moebius_shaders::checked;
use moebius_shaders::segment_attention::{
    self, BackwardBuffers, ForwardBuffers, Plan, launch_backward, launch_segments, launch_sequences,
};

/// \[R,2\]: where the segment of every row begins and ends.
fn segments(like: &CubeTensor, grouping: Grouping<CubeBackend>, plan: &Plan) -> CubeTensor {
    let segments = empty_like(like, [plan.problem.rows(), 2], DType::I32);
    let (client, to) = (&like.client, segments.handle.clone());
    checked(client, &[&segments.handle], || match grouping.segments() {
        Some(sorted) => launch_segments(client, plan, sorted.order, sorted.offsets, to),
        None => launch_sequences(client, plan, to),
    });
    segments
}

impl SegmentAttentionOps for CubeBackend {
    fn moe_segment_attention(
        projections: Projections<Self>,
        grouping: Grouping<Self>,
        call: AttentionCall,
    ) -> Attended<Self> {
        let plan = planned(call.plan);
        let Projections { q, k, v } = projections;
        let client = q.client.clone();
        let attended: Attended<Self> = Attended {
            o: empty_like(
                &q,
                [
                    call.problem.rows(),
                    call.problem.heads() * call.problem.head_dim(),
                ],
                q.dtype,
            ),
            lse: empty_like(&q, [call.problem.rows(), call.problem.heads()], DType::F32),
        };
        let segments = segments(&q, grouping, &plan);
        let buffers = ForwardBuffers {
            q: handle(q),
            k: handle(k),
            v: handle(v),
            segments: segments.handle,
            o: attended.o.handle.clone(),
            lse: attended.lse.handle.clone(),
        };
        checked(&client, &[&attended.o.handle, &attended.lse.handle], || {
            segment_attention::launch(&client, &plan, buffers);
        });
        attended
    }
}

impl SegmentAttentionGradients for CubeBackend {
    fn moe_segment_attention_backward(
        gradient: CubeTensor,
        projections: Projections<Self>,
        attended: Attended<Self>,
        grouping: Grouping<Self>,
        call: AttentionCall,
    ) -> Projections<Self> {
        let plan = planned(call.plan);
        let Projections { q, k, v } = projections;
        let client = q.client.clone();
        let like = |t: &CubeTensor| {
            empty_like(
                t,
                [
                    call.problem.rows(),
                    call.problem.heads() * call.problem.head_dim(),
                ],
                t.dtype,
            )
        };
        let out: Projections<Self> = Projections {
            q: like(&q),
            k: like(&k),
            v: like(&v),
        };
        let segments = segments(&q, grouping, &plan);
        let buffers = BackwardBuffers {
            q: handle(q),
            k: handle(k),
            v: handle(v),
            o: handle(attended.o),
            lse: handle(attended.lse),
            segments: segments.handle,
            d_o: handle(gradient),
            dq: out.q.handle.clone(),
            dk: out.k.handle.clone(),
            dv: out.v.handle.clone(),
        };
        checked(
            &client,
            &[&out.q, &out.k, &out.v].map(|t| &t.handle),
            || {
                launch_backward(&client, &plan, buffers);
            },
        );
        out
    }
}
