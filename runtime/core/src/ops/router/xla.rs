//! The router recorded for XLA.

use super::{
    Choices, HashCall, Hashed, LoadCall, LogitsCall, LogitsGradients, RouteCall, Routed,
    RouterGradients, RouterOps,
};
use crate::ops::Mask;
use crate::ops::xla::Results;
use burn::backend::TensorMetadata;
use burn::backend::tensor::{FloatTensor, IntTensor};
use moebius_ops::routing;
use moebius_xla::custom::{Call, router};
use moebius_xla::{BackendRouter, RouterChannel};

fn logits(x: &impl TensorMetadata, call: &LogitsCall) -> router::Logits {
    router::Logits {
        tokens: call.problem.tokens(),
        hidden: x.shape()[1],
        experts: call.problem.experts(),
    }
}

/// The descriptor of a choice with or without a mask and a bias.
fn route(problem: &routing::Problem, mask: bool, bias: bool) -> router::Route {
    let groups = problem.groups().map(|groups| router::Groups {
        count: groups.count,
        chosen: groups.chosen,
    });
    router::Route {
        tokens: problem.tokens(),
        experts: problem.experts(),
        top_k: problem.top_k(),
        score: match problem.score() {
            routing::Score::Softmax => router::Score::Softmax,
            routing::Score::Sigmoid => router::Score::Sigmoid,
        },
        renormalize: problem.renormalize(),
        groups,
        scale: problem.scale(),
        mask,
        bias,
    }
}

impl<C: RouterChannel> RouterOps for BackendRouter<C> {
    fn moe_router_logits(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        call: LogitsCall,
    ) -> FloatTensor<Self> {
        let call = Call::Logits(logits(&x, &call));
        Results::<C>::of(&call, vec![x, w]).take()
    }

    fn moe_route(
        logits: FloatTensor<Self>,
        choices: Choices<Self>,
        call: RouteCall,
    ) -> Routed<Self> {
        let (mask, bias) = (choices.mask.into_option(), choices.bias.into_option());
        let call = Call::Route(route(&call.problem, mask.is_some(), bias.is_some()));
        let inputs = [logits].into_iter().chain(mask).chain(bias);
        let mut results = Results::<C>::of(&call, inputs.collect());
        Routed {
            indices: results.take(),
            weights: results.take(),
            probs: results.take(),
            lse: results.take(),
        }
    }

    fn moe_hash(x: FloatTensor<Self>, mask: Mask<Self>, call: HashCall) -> Hashed<Self> {
        let mask = mask.into_option();
        let call = Call::Hash(router::Hash {
            tokens: call.routing.tokens(),
            hidden: x.shape()[1],
            experts: call.routing.experts(),
            top_k: call.routing.top_k(),
            key: match call.key {
                routing::HashKey::Position { sequence } => router::HashKey::Position { sequence },
                routing::HashKey::Content { .. } => router::HashKey::Content,
            },
            seed: call.seed,
            mask: mask.is_some(),
        });
        let mut results = Results::<C>::of(&call, [x].into_iter().chain(mask).collect());
        Hashed {
            indices: results.take(),
            weights: results.take(),
        }
    }

    fn moe_load(indices: IntTensor<Self>, call: LoadCall) -> IntTensor<Self> {
        let call = Call::Load(router::Load {
            tokens: call.routing.tokens(),
            top_k: call.routing.top_k(),
            experts: call.routing.experts(),
            groups: call.groups,
        });
        Results::<C>::of(&call, vec![indices]).take()
    }
}

impl<C: RouterChannel> RouterGradients for BackendRouter<C> {
    fn moe_router_logits_backward(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        dlogits: FloatTensor<Self>,
        call: LogitsCall,
    ) -> LogitsGradients<Self> {
        let logits = logits(&x, &call);
        let call = Call::LogitsBackward(router::LogitsBackward { logits });
        let mut results = Results::<C>::of(&call, vec![x, w, dlogits]);
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
        output: routing::TopkGradient,
        call: RouteCall,
    ) -> FloatTensor<Self> {
        let mask = mask.into_option();
        let call = Call::RouteBackward(router::RouteBackward {
            // What was chosen is known; the bias that chose it has no gradient.
            route: route(&call.problem, mask.is_some(), false),
            of: match output {
                routing::TopkGradient::Weights => router::RouteOutput::Weights,
                routing::TopkGradient::Probs => router::RouteOutput::Probs,
                routing::TopkGradient::Lse => router::RouteOutput::Lse,
            },
        });
        let Routed {
            indices,
            weights,
            probs,
            lse,
        } = routed;
        let inputs = [gradient, logits].into_iter().chain(mask);
        let inputs = inputs.chain([indices, weights, probs, lse]);
        Results::<C>::of(&call, inputs.collect()).take()
    }
}
