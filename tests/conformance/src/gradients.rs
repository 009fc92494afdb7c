//! Gradients of whole layers, against central differences for every router and every kind of expert, and against PyTorch.

use crate::tensors::{case_file, floats, params, tensor};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use moebius::moe::{
    Activation, Adapted, DynamicConfig, ExpertChoiceConfig, ExpertKind, Groups, HashConfig,
    HashKey, LearnedConfig, MoeConfig, MoeLayer, MoeWeights, RouteConfig, RouterConfig, Score,
    SharedExpertConfig, SigmoidBiasConfig, SwitchConfig, TopKConfig,
};
use moebius_tests::elements::exact;
use moebius_tests::gradients::{Probe, filled, trained_parameters};
use moebius_tests::target::Target;
use moebius_tests::tolerance::assert_close;
use moebius_weights::Reader;

/// Checks the gradients of Σ y∘dy plus losses for a layer with this router.
fn router(target: &Target, router: RouterConfig, seed: u64) {
    let config = MoeConfig::new(12, 10, 6)
        .with_router(router)
        .with_activation(Activation::Silu)
        .with_gated(true);
    let layer = config.init(&target.burn()).unwrap();
    Probe::new(filled(layer, seed, 0.6), 7, seed).check(router.name());
}

pub(crate) fn top_k(target: &Target) {
    let route = RouteConfig::default();
    let after = RouteConfig {
        softmax_after_topk: true,
        top_k: 3,
        ..route
    };
    let raw = RouteConfig {
        renormalize: false,
        scale: 1.5,
        ..route
    };
    let sigmoid = RouteConfig {
        score: Score::Sigmoid,
        ..route
    };
    let biased = RouterConfig::TopK(TopKConfig {
        route,
        bias: true,
        ..TopKConfig::default()
    });
    let routes = [route, after, raw, sigmoid].map(RouterConfig::from);
    for config in routes.into_iter().chain([biased]) {
        router(target, config, 11);
    }
}

pub(crate) fn switch(target: &Target) {
    let config = SwitchConfig { jitter: 0.0 };
    router(target, RouterConfig::Switch(config), 12);
}

pub(crate) fn hash(target: &Target) {
    // The key is the position: with a hash of the content, any change of x would change the choice of experts.
    let config = HashConfig {
        key: HashKey::Position { sequence: 7 },
        ..HashConfig::default()
    };
    router(target, RouterConfig::Hash(config), 13);
}

pub(crate) fn learned(target: &Target) {
    let config = LearnedConfig {
        width: 16,
        layers: 3,
        ..LearnedConfig::default()
    };
    router(target, RouterConfig::Learned(config), 14);
}

pub(crate) fn dynamic(target: &Target) {
    router(target, RouterConfig::Dynamic(DynamicConfig::default()), 15);
}

pub(crate) fn sigmoid_bias(target: &Target) {
    let route = RouteConfig {
        score: Score::Sigmoid,
        groups: Some(Groups {
            count: 3,
            chosen: 2,
            best: 2,
        }),
        scale: 2.5,
        ..RouteConfig::default()
    };
    let config = SigmoidBiasConfig { route, rate: 0.001 };
    router(target, RouterConfig::SigmoidBias(config), 16);
}

pub(crate) fn expert_choice(target: &Target) {
    let config = ExpertChoiceConfig { factor: 1.5 };
    router(target, RouterConfig::ExpertChoice(config), 17);
}

fn expert(kind: ExpertKind) -> MoeConfig {
    let config = MoeConfig::new(12, 16, 4).with_kind(kind);
    match kind {
        ExpertKind::Attention { .. } => config,
        _ => config.with_activation(Activation::Silu),
    }
}

fn experts(target: &Target, config: MoeConfig, seed: u64) {
    let layer = filled(config.init(&target.burn()).unwrap(), seed, 0.5);
    Probe::new(layer, 9, seed).check(&format!("{:?}", config.kind));
}

pub(crate) fn feed_forward(target: &Target) {
    let kind = ExpertKind::FeedForward;
    let activations = [
        Activation::Relu,
        Activation::Gelu,
        Activation::Silu,
        Activation::Mish,
        Activation::Clamped,
        Activation::GeluTanh,
    ];
    for (seed, activation) in (0..).zip(activations) {
        let config = expert(kind).with_activation(activation);
        let biased = config.with_bias(true);
        experts(target, config, 60 + seed);
        experts(target, biased, 30 + seed);
        experts(target, biased.with_gated(true), 40 + seed);
    }
}

pub(crate) fn convolutional(target: &Target) {
    for causal in [false, true] {
        let config = expert(ExpertKind::Convolutional { causal });
        experts(target, config, 50);
        experts(target, config.with_bias(true).with_gated(true), 51);
    }
}

pub(crate) fn attention(target: &Target) {
    for causal in [false, true] {
        let config = expert(ExpertKind::Attention { heads: 2, causal });
        experts(target, config, 52);
        experts(target, config.with_bias(true), 53);
    }
}

pub(crate) fn parameter_efficient(target: &Target) {
    for form in [Adapted::Lora, Adapted::Adapter] {
        let config = expert(ExpertKind::ParameterEfficient { form, rank: 3 });
        experts(target, config, 54);
        experts(target, config.with_bias(true).with_gated(true), 55);
    }
}

pub(crate) fn shared_expert(target: &Target) {
    for gate in [false, true] {
        let shared = SharedExpertConfig::new(20).with_sigmoid_gate(gate);
        let config = expert(ExpertKind::FeedForward).with_shared(Some(shared));
        experts(target, config.with_gated(true).with_bias(true), 56);
    }
}

/// A case file from PyTorch, with its tensors on a recording device.
struct Recorded {
    case: Reader,
    device: burn::tensor::Device,
    gated: bool,
}

impl Recorded {
    fn read(name: &str, target: &Target) -> Self {
        let case = case_file(&format!("moe_layer_backward_{name}.safetensors"));
        let gated = params(&case)["gated"].as_bool().unwrap();
        let device = target.burn().autodiff();
        Self {
            case,
            device,
            gated,
        }
    }

    fn input<const D: usize>(&self, name: &str) -> Tensor<D> {
        let name = format!("in.{name}");
        let shape = self.case.get(&name).unwrap().shape.clone();
        let values = self.case.read_f32(&name).unwrap();
        tensor(&values, shape.try_into().unwrap(), &self.device)
    }

    fn layer(&self) -> MoeLayer {
        let w_in = |names: &[&str]| -> Tensor<3> {
            Tensor::cat(names.iter().map(|name| self.input(name)).collect(), 1)
        };
        let router = self.input("router");
        let weights = if self.gated {
            MoeWeights {
                router,
                w_in: w_in(&["w_gate", "w_up"]),
                b_in: None,
                w_out: self.input("w_down"),
                b_out: None,
            }
        } else {
            MoeWeights {
                router,
                w_in: w_in(&["w_in"]),
                b_in: Some(self.input("b_in")),
                w_out: self.input("w_out"),
                b_out: Some(self.input("b_out")),
            }
        };
        let params = params(&self.case);
        let route = RouteConfig {
            top_k: params["top_k"].as_u64().unwrap() as usize,
            renormalize: params["renormalize"].as_bool().unwrap(),
            ..RouteConfig::default()
        };
        let [experts, hidden, inter] = weights.w_out.dims();
        MoeConfig::new(hidden, inter, experts)
            .with_router(route)
            .with_activation(serde_json::from_value(params["activation"].clone()).unwrap())
            .with_gated(self.gated)
            .with_bias(!self.gated)
            .with_weights(weights)
            .unwrap()
    }

    fn check(&self, name: &str, gradient: &[f32]) {
        let want = self.case.read_f32(&format!("out.d_{name}")).unwrap();
        assert_close(name, gradient, &exact(&want), 1e-4);
    }
}

/// Compares the public API's gradients with those that PyTorch computed in f64.
pub(crate) fn as_pytorch(target: &Target) {
    for name in ["gelu", "relu", "glu_silu", "glu_silu_raw"] {
        let recorded = Recorded::read(name, target);
        let layer = recorded.layer();
        let x = recorded.input::<2>("x").require_grad();
        let y = layer.forward(x.clone()).unwrap().y;
        let grads = (y * recorded.input("dy")).sum().backward();
        recorded.check("x", &floats(x.grad(&grads).unwrap()));
        let grads = GradientsParams::from_grads(grads, &layer);
        let trained = trained_parameters(&layer);
        assert_eq!(grads.len(), trained.len());
        let id = |name: &str| {
            let named = trained.iter().find(|p| p.path.ends_with(name));
            named.unwrap_or_else(|| panic!("{name}")).id
        };
        recorded.check("router", &floats(grads.get::<2>(id("weight")).unwrap()));
        let d_in = grads.get::<3>(id("w_in")).unwrap();
        let d_out = floats(grads.get::<3>(id("w_out")).unwrap());
        if recorded.gated {
            let inter = d_in.dims()[1] / 2;
            recorded.check("w_gate", &floats(d_in.clone().narrow(1, 0, inter)));
            recorded.check("w_up", &floats(d_in.narrow(1, inter, inter)));
            recorded.check("w_down", &d_out);
        } else {
            recorded.check("w_in", &floats(d_in));
            recorded.check("w_out", &d_out);
            for name in ["b_in", "b_out"] {
                recorded.check(name, &floats(grads.get::<2>(id(name)).unwrap()));
            }
        }
    }
}
