//! The options of a layer.

use burn::tensor::{Device, Tensor, TensorData};
use moebius::fp8::{Fp8Format, Granularity, Quantizer};
use moebius::moe::{
    Activation, Capacity, ExpertChoiceConfig, HashConfig, MoeConfig, MoeWeights, RouteConfig,
    RouterConfig, SwitchConfig,
};
use wasm_bindgen::JsValue;

use crate::failure::Failure;
use crate::options::Options;

/// What `MoeOptions` of `types.d.ts` say.
pub(crate) struct MoeOptions {
    pub(crate) config: MoeConfig,
    pub(crate) precision: Precision,
    /// Of the first weights.
    pub(crate) seed: u64,
}

/// How the experts' weights are kept.
#[derive(Clone, Copy)]
pub(crate) enum Precision {
    F32,
    Fp8(Quantizer),
}

/// E4M3 with a scale for every output.
pub(crate) fn fp8() -> Precision {
    Precision::Fp8(Quantizer::new(Fp8Format::E4M3, Granularity::Row))
}

#[derive(Clone, Copy)]
enum Kind {
    TopK,
    Switch,
    Hash,
    ExpertChoice,
}

impl MoeOptions {
    pub(crate) fn read(options: JsValue) -> Result<Self, Failure> {
        let mut options = Options::new("layer options", options)?;
        let [hidden, inter, experts] = [
            options.size("hidden")?,
            options.size("inter")?,
            options.size("experts")?,
        ];
        let router = router(&mut options)?;
        let activations = [
            ("relu", Activation::Relu),
            ("gelu", Activation::Gelu),
            ("silu", Activation::Silu),
            ("mish", Activation::Mish),
        ];
        let config = MoeConfig::new(hidden, inter, experts)
            .with_router(router)
            .with_activation(options.choice("activation", &activations)?)
            .with_gated(options.flag("gated")?.unwrap_or(false))
            .with_bias(options.flag("bias")?.unwrap_or(false))
            .with_capacity(capacity(&mut options)?);
        let precisions = [("f32", Precision::F32), ("fp8", fp8())];
        let precision = options.choice("precision", &precisions)?;
        let seed = options.count("seed", 0)?.unwrap_or(0) as u64;
        options.finish()?;
        Ok(Self {
            config,
            precision,
            seed,
        })
    }
}

fn router(options: &mut Options) -> Result<RouterConfig, Failure> {
    let choices = [
        ("topk", Kind::TopK),
        ("switch", Kind::Switch),
        ("hash", Kind::Hash),
        ("expert-choice", Kind::ExpertChoice),
    ];
    let kind = options.choice("router", &choices)?;
    let top_k = options.count("topK", 1)?;
    Ok(match kind {
        Kind::TopK => RouteConfig::new(top_k.unwrap_or(2)).into(),
        Kind::Hash => RouterConfig::Hash(HashConfig {
            top_k: top_k.unwrap_or(2),
            ..HashConfig::default()
        }),
        Kind::Switch => match top_k {
            None | Some(1) => RouterConfig::Switch(SwitchConfig::default()),
            Some(more) => return Err(Failure::expected("topK of a switch router", 1, more)),
        },
        // As many slots in all as if every token chose so many experts.
        Kind::ExpertChoice => RouterConfig::ExpertChoice(ExpertChoiceConfig {
            factor: top_k.unwrap_or(2) as f64,
        }),
    })
}

fn capacity(options: &mut Options) -> Result<Option<Capacity>, Failure> {
    let (factor, min) = (
        options.number("capacityFactor")?,
        options.count("minCapacity", 0)?,
    );
    match (factor, min) {
        (Some(factor), min) => Ok(Some(Capacity {
            factor,
            min: min.unwrap_or(4),
        })),
        (None, None) => Ok(None),
        (None, Some(_)) => Err(Failure::expected(
            "minCapacity",
            "a capacityFactor beside it",
            "none",
        )),
    }
}

/// A layer's own weights: `MoeWeights` of `types.d.ts`.
pub(crate) fn weights(
    value: JsValue,
    config: &MoeConfig,
    device: &Device,
) -> Result<MoeWeights, Failure> {
    let mut given = Options::new("layer weights", value)?;
    let (e, h, f) = (config.experts, config.hidden, config.inter);
    let columns = if config.gated { 2 * f } else { f };
    let mut take = |key, numbers: usize, wanted: bool| {
        let values = given.floats(key)?;
        let got = values.as_ref().map(Vec::len);
        match (wanted, got) {
            (true, Some(got)) if got == numbers => Ok(values),
            (false, None) => Ok(None),
            (true, got) => {
                let got = got.unwrap_or(0);
                Err(Failure::expected(key, format!("{numbers} numbers"), got))
            }
            (false, Some(_)) => Err(Failure::expected(
                key,
                "nothing: the layer has no bias",
                "numbers",
            )),
        }
    };
    let matched = !matches!(config.router, RouterConfig::Hash(_));
    let router = take("router", e * h, matched)?;
    let w_in = take("wIn", e * columns * h, true)?;
    let b_in = take("bIn", e * columns, config.bias)?;
    let w_out = take("wOut", e * h * f, true)?;
    let b_out = take("bOut", e * h, config.bias)?;
    given.finish()?;
    let matrix = |values: Vec<f32>, width| {
        Tensor::<2>::from_data(TensorData::new(values, [e, width]), device)
    };
    let stack = |values: Option<Vec<f32>>, [rows, width]: [usize; 2]| {
        let data = TensorData::new(values.unwrap_or_default(), [e, rows, width]);
        Tensor::<3>::from_data(data, device)
    };
    Ok(MoeWeights {
        router: router.map_or_else(|| Tensor::zeros([e, h], device), |own| matrix(own, h)),
        w_in: stack(w_in, [columns, h]),
        b_in: b_in.map(|values| matrix(values, columns)),
        w_out: stack(w_out, [h, f]),
        b_out: b_out.map(|values| matrix(values, h)),
    })
}
