//! The router as kernels.

use super::{
    Choices, HashCall, Hashed, LoadCall, LogitsCall, LogitsGradients, RouteCall, Routed,
    RouterGradients, RouterOps,
};
use crate::ops::Mask;
use crate::ops::buffers::{cast_like, empty_like, handle, planned};
use burn::tensor::DType;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use cubecl::server::Handle;
use moebius_ops::routing::{HashKey, TopkGradient};
use moebius_shaders::checked;
use moebius_shaders::routing;

impl RouterOps for CubeBackend {
    fn moe_router_logits(x: CubeTensor, w: CubeTensor, call: LogitsCall) -> CubeTensor {
        let shape = [call.problem.tokens(), call.problem.experts()];
        let logits = empty_like(&x, shape, DType::F32);
        let client = x.client.clone();
        let out = logits.handle.clone();
        checked(&client, &[&logits.handle], || {
            routing::launch_logits(&client, &planned(call.plan), handle(x), handle(w), out);
        });
        logits
    }

    fn moe_route(logits: CubeTensor, choices: Choices<Self>, call: RouteCall) -> Routed<Self> {
        let p = &call.problem;
        let routed: Routed<Self> = Routed {
            indices: empty_like(&logits, [p.tokens(), p.top_k()], DType::I32),
            weights: empty_like(&logits, [p.tokens(), p.top_k()], DType::F32),
            probs: empty_like(&logits, [p.tokens(), p.experts()], DType::F32),
            lse: empty_like(&logits, [p.tokens()], DType::F32),
        };
        let client = logits.client.clone();
        let buffers = routing::RouteBuffers {
            logits: handle(logits),
            mask: mask_handle(choices.mask),
            bias: choices.bias.into_option().map(handle),
            indices: routed.indices.handle.clone(),
            weights: routed.weights.handle.clone(),
            probs: routed.probs.handle.clone(),
            lse: routed.lse.handle.clone(),
        };
        let Routed {
            indices,
            weights,
            probs,
            lse,
        } = &routed;
        let outputs = [indices, weights, probs, lse].map(|tensor| &tensor.handle);
        checked(&client, &outputs, || {
            routing::launch(&client, &planned(call.plan), buffers);
        });
        routed
    }

    fn moe_hash(x: CubeTensor, mask: Mask<Self>, call: HashCall) -> Hashed<Self> {
        let sizes = call.problem.routing();
        let shape = [sizes.tokens(), sizes.top_k()];
        let hashed: Hashed<Self> = Hashed {
            indices: empty_like(&x, shape, DType::I32),
            weights: empty_like(&x, shape, DType::F32),
        };
        let client = x.client.clone();
        let buffers = routing::HashBuffers {
            x: matches!(call.problem.key(), HashKey::Content { .. }).then(|| handle(x)),
            mask: mask_handle(mask),
            indices: hashed.indices.handle.clone(),
            weights: hashed.weights.handle.clone(),
        };
        let outputs = [&hashed.indices.handle, &hashed.weights.handle];
        checked(&client, &outputs, || {
            routing::launch_hash(&client, &planned(call.plan), call.seed, buffers);
        });
        hashed
    }

    fn moe_load(indices: CubeTensor, call: LoadCall) -> CubeTensor {
        let counts = empty_like(
            &indices,
            [call.problem.groups(), call.problem.routing().experts()],
            DType::I32,
        );
        let client = indices.client.clone();
        let out = counts.handle.clone();
        checked(&client, &[&counts.handle], || {
            routing::launch_load(&client, &planned(call.plan), handle(indices), out);
        });
        counts
    }
}

fn mask_handle(mask: Mask<CubeBackend>) -> Option<Handle> {
    match mask {
        Mask::All => None,
        Mask::Only(mask) => Some(handle(mask)),
    }
}

impl RouterGradients for CubeBackend {
    fn moe_router_logits_backward(
        x: CubeTensor,
        w: CubeTensor,
        dlogits: CubeTensor,
        call: LogitsCall,
    ) -> LogitsGradients<Self> {
        let [tokens, hidden] = x.meta.shape().dims();
        let dtype = w.dtype;
        let dx = empty_like(&x, [tokens, hidden], x.dtype);
        let dw = empty_like(&x, [call.problem.experts(), hidden], DType::F32);
        let client = x.client.clone();
        let buffers = routing::LogitsBackwardBuffers {
            dlogits: handle(dlogits),
            x: handle(x),
            w: handle(w),
            dx: Some(dx.handle.clone()),
            dw: Some(dw.handle.clone()),
        };
        checked(&client, &[&dx.handle, &dw.handle], || {
            routing::launch_logits_backward(&client, &planned(call.backward), buffers);
        });
        LogitsGradients {
            dx,
            dw: cast_like(dw, dtype),
        }
    }

    fn moe_route_backward(
        gradient: CubeTensor,
        logits: CubeTensor,
        mask: Mask<Self>,
        routed: Routed<Self>,
        output: TopkGradient,
        call: RouteCall,
    ) -> CubeTensor {
        let p = &call.problem;
        let dlogits = empty_like(&logits, [p.tokens(), p.experts()], DType::F32);
        let client = logits.client.clone();
        let [weights, probs, lse] = planned(call.backward);
        let plan = match output {
            TopkGradient::Weights => weights,
            TopkGradient::Probs => probs,
            TopkGradient::Lse => lse,
        };
        let buffers = routing::TopkBackwardBuffers {
            logits: handle(logits),
            mask: mask_handle(mask),
            indices: handle(routed.indices),
            weights: handle(routed.weights),
            probs: handle(routed.probs),
            lse: handle(routed.lse),
            gradient: handle(gradient),
            dlogits: dlogits.handle.clone(),
        };
        checked(&client, &[&dlogits.handle], || {
            routing::launch_topk_backward(&client, &plan, buffers);
        });
        dlogits
    }
}
