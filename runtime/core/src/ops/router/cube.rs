//! The router as kernels.

use super::{
    Choices, HashCall, Hashed, LoadCall, LogitsCall, LogitsGradients, RouteCall, Routed,
    RouterGradients, RouterOps,
};
use crate::ops::Mask;
use crate::ops::buffers::{empty_like, handle, planned};
use burn::tensor::DType;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use moebius_shaders::routing::{self, Output};

impl RouterOps for CubeBackend {
    fn moe_router_logits(x: CubeTensor, w: CubeTensor, call: LogitsCall) -> CubeTensor {
        let shape = [call.problem.tokens(), call.problem.experts()];
        let logits = empty_like(&x, shape, DType::F32);
        let client = x.client.clone();
        let out = logits.handle.clone();
        routing::launch_logits(&client, &planned(call.plan), handle(x), handle(w), out);
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
            mask: match choices.mask {
                Mask::All => None,
                Mask::Only(mask) => Some(handle(mask)),
            },
            indices: routed.indices.handle.clone(),
            weights: routed.weights.handle.clone(),
            probs: routed.probs.handle.clone(),
        };
        routing::launch(&client, &planned(call.plan), buffers);
        routed
    }

    fn moe_hash(_x: CubeTensor, _mask: Mask<Self>, _call: HashCall) -> Hashed<Self> {
        todo!()
    }

    fn moe_load(_indices: CubeTensor, _call: LoadCall) -> CubeTensor {
        todo!()
    }
}

impl RouterGradients for CubeBackend {
    fn moe_router_logits_backward(
        _x: CubeTensor,
        _w: CubeTensor,
        _dlogits: CubeTensor,
        _call: LogitsCall,
    ) -> LogitsGradients<Self> {
        todo!()
    }

    fn moe_route_backward(
        _gradient: CubeTensor,
        _logits: CubeTensor,
        _mask: Mask<Self>,
        _routed: Routed<Self>,
        _output: Output,
        _call: RouteCall,
    ) -> CubeTensor {
        todo!()
    }
}
