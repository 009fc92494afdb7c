//! Our operations on every CubeCL runtime: contiguous buffers in, launches, buffers out.

use super::{
    Biases, Combined, Experts, ExpertsCall, Fp8Cast, Fp8Ops, LogitsCall, Mask, MoeOps, RouteCall,
    Routed,
};
use burn::tensor::{DType, Shape};
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;
use cubecl::server::Handle;
use moebius_shaders::{fp8, moe, routing};

/// A new tensor beside `like`, contents undefined.
fn empty_like<const D: usize>(like: &CubeTensor, shape: [usize; D], dtype: DType) -> CubeTensor {
    let (client, device) = (like.client.clone(), like.device.clone());
    empty_device_contiguous_dtype(client, device, Shape::from(shape), dtype)
}

/// The buffer of a tensor laid out row by row.
fn handle(tensor: CubeTensor) -> Handle {
    into_contiguous(tensor).handle
}

/// The plan of a call on a CubeCL device; [`crate::device::capability`] gave it one.
fn planned<P>(plan: Option<P>) -> P {
    match plan {
        Some(plan) => plan,
        None => unreachable!("a call on a CubeCL device carries a plan"),
    }
}

impl Fp8Ops for CubeBackend {
    fn fp8_encode(x: CubeTensor, call: Fp8Cast, overflow: fp8::Overflow) -> CubeTensor {
        let words = empty_like(&x, [call.len.div_ceil(fp8::LANES_PER_WORD)], DType::I32);
        let client = x.client.clone();
        fp8::launch_encode(
            &client,
            &planned(call.plan),
            overflow,
            handle(x),
            words.handle.clone(),
        );
        words
    }

    fn fp8_decode(words: CubeTensor, call: Fp8Cast) -> CubeTensor {
        let y = empty_like(&words, [call.len], DType::F32);
        let client = words.client.clone();
        fp8::launch_decode(
            &client,
            &planned(call.plan),
            handle(words),
            y.handle.clone(),
        );
        y
    }
}

impl MoeOps for CubeBackend {
    fn moe_router_logits(x: CubeTensor, w: CubeTensor, call: LogitsCall) -> CubeTensor {
        let logits = empty_like(
            &x,
            [call.problem.tokens(), call.problem.experts()],
            DType::F32,
        );
        let client = x.client.clone();
        let out = logits.handle.clone();
        routing::launch_logits(&client, &planned(call.plan), handle(x), handle(w), out);
        logits
    }

    fn moe_route(logits: CubeTensor, mask: Mask<Self>, call: RouteCall) -> Routed<Self> {
        let p = &call.problem;
        let routed: Routed<Self> = Routed {
            indices: empty_like(&logits, [p.tokens(), p.top_k()], DType::I32),
            weights: empty_like(&logits, [p.tokens(), p.top_k()], DType::F32),
            probs: empty_like(&logits, [p.tokens(), p.experts()], DType::F32),
        };
        let client = logits.client.clone();
        let buffers = routing::RouteBuffers {
            logits: handle(logits),
            mask: match mask {
                Mask::All => None,
                Mask::Only(mask) => Some(handle(mask)),
            },
            indices: routed.indices.handle.clone(),
            weights: routed.weights.handle.clone(),
            probs: routed.probs.handle.clone(),
            bias: None,
            lse: client.empty(p.tokens() * 4),
        };
        routing::launch(&client, &planned(call.plan), buffers);
        routed
    }

    fn moe_experts(
        x: CubeTensor,
        indices: CubeTensor,
        weights: CubeTensor,
        experts: Experts<Self>,
        call: ExpertsCall,
    ) -> Combined<Self> {
        let client = x.client.clone();
        let p = &call.problem;
        let combined: Combined<Self> = Combined {
            y: empty_like(&x, [p.routing.tokens(), p.hidden], x.dtype),
            dropped: empty_like(&x, [1], DType::I32),
        };
        let (b_in, b_out) = match experts.biases {
            Biases::Absent => (None, None),
            Biases::Present { b_in, b_out } => (Some(handle(b_in)), Some(handle(b_out))),
        };
        let buffers = moe::Buffers {
            x: handle(x),
            indices: handle(indices),
            weights: handle(weights),
            w_in: handle(experts.w_in),
            b_in,
            w_out: handle(experts.w_out),
            b_out,
            y: combined.y.handle.clone(),
            dropped: combined.dropped.handle.clone(),
        };
        moe::launch(&client, &planned(call.plan), buffers, &mut |stage| {
            if let Some(clock) = &call.clock {
                // A device error shows at the caller's next read; the clock only needs the wait.
                let _ = cubecl::future::block_on(client.sync());
                clock.mark(stage);
            }
        });
        combined
    }
}
