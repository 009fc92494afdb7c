//! The router recorded for XLA.

use super::{
    Choices, HashCall, Hashed, LoadCall, LogitsCall, LogitsGradients, RouteCall, Routed,
    RouterGradients, RouterOps,
};
use crate::ops::Mask;
use crate::ops::xla::record;
use burn::backend::tensor::{FloatTensor, IntTensor};
use moebius_ops::Routing;
use moebius_ops::routing::TopkGradient;
use moebius_xla::{BackendRouter, RouterChannel};

impl<C: RouterChannel> RouterOps for BackendRouter<C> {
    fn moe_router_logits(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        call: LogitsCall,
    ) -> FloatTensor<Self> {
        record::<C>(call.operation(false), vec![x, w]).take()
    }

    fn moe_route(
        logits: FloatTensor<Self>,
        choices: Choices<Self>,
        call: RouteCall,
    ) -> Routed<Self> {
        let (mask, bias) = (choices.mask.into_option(), choices.bias.into_option());
        let route = Routing::Route {
            problem: call.problem,
            mask: mask.is_some(),
            bias: bias.is_some(),
        };
        let inputs = [logits].into_iter().chain(mask).chain(bias);
        let mut results = record::<C>(route, inputs.collect());
        Routed {
            indices: results.take(),
            weights: results.take(),
            probs: results.take(),
            lse: results.take(),
        }
    }

    fn moe_hash(x: FloatTensor<Self>, mask: Mask<Self>, call: HashCall) -> Hashed<Self> {
        let mask = mask.into_option();
        let hash = call.operation(mask.is_some());
        let mut results = record::<C>(hash, [x].into_iter().chain(mask).collect());
        Hashed {
            indices: results.take(),
            weights: results.take(),
        }
    }

    fn moe_load(indices: IntTensor<Self>, call: LoadCall) -> IntTensor<Self> {
        record::<C>(Routing::Load(call.problem), vec![indices]).take()
    }
}

impl<C: RouterChannel> RouterGradients for BackendRouter<C> {
    fn moe_router_logits_backward(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        dlogits: FloatTensor<Self>,
        call: LogitsCall,
    ) -> LogitsGradients<Self> {
        let mut results = record::<C>(call.operation(true), vec![x, w, dlogits]);
        LogitsGradients {
            dx: results.take(),
            dw: results.take(),
        }
    }

    fn moe_route_backward(
        gradient: FloatTensor<Self>,
        logits: FloatTensor<Self>,
        mask: Mask<Self>,
        routed: Routed<Self>,
        of: TopkGradient,
        call: RouteCall,
    ) -> FloatTensor<Self> {
        let mask = mask.into_option();
        let backward = Routing::RouteBackward {
            problem: call.problem,
            mask: mask.is_some(),
            of,
        };
        let Routed {
            indices,
            weights,
            probs,
            lse,
        } = routed;
        let inputs = [gradient, logits].into_iter().chain(mask);
        let inputs = inputs.chain([indices, weights, probs, lse]);
        record::<C>(backward, inputs.collect()).take()
    }
}
