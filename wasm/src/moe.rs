//! A mixture-of-experts layer for JavaScript: its options, its forward pass, and the routing of tokens.

use std::rc::Rc;

use burn::module::Param;
use burn::tensor::{Device as BurnDevice, Tensor, TensorData, Transaction};
use js_sys::{Int32Array, Promise};
use moebius::fp8::{Fp8Format, Fp8Tensor, Granularity, Quantizer, Weight};
use moebius::moe::experts::FeedForwardExperts;
use moebius::moe::{
    Activation, Capacity, ExpertChoiceConfig, Experts, HashConfig, MoeConfig, MoeOutput,
    MoeWeights, RouteConfig, RouterConfig, SwitchConfig,
};
use moebius_model::moe_weights;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::device::Device;
use crate::failure::Failure;
use crate::linear::matrix;
use crate::objects::{Options, Record, counts, floats, given, number, numbers};
use crate::work::{Gpu, Held, Signal, promise};

/// One mixture-of-experts layer on a device.
#[wasm_bindgen]
pub struct MoeLayer(Held<Layer>);

/// A layer with the device it lives on.
pub(crate) struct Layer {
    pub(crate) gpu: Rc<Gpu>,
    pub(crate) moe: moebius::moe::MoeLayer,
    /// Bytes of the weights.
    pub(crate) bytes: usize,
}

#[wasm_bindgen]
impl MoeLayer {
    /// Makes a layer with the given weights, or with random weights from `options.seed`.
    ///
    /// Throws with the code 'shape' for numbers that don't fit, and 'out-of-memory' for weights larger than one buffer
    /// of the device.
    #[wasm_bindgen(constructor)]
    pub fn new(
        device: &Device,
        #[wasm_bindgen(unchecked_param_type = "MoeOptions")] options: JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "MoeWeights")] own_weights: JsValue,
    ) -> Result<Self, JsValue> {
        let options = MoeOptions::read(options)?;
        let layer = Layer::of(device.gpu()?, options, own_weights)?;
        Ok(Self(Held::new("layer", layer)))
    }

    /// Sends x [tokens, hidden] through the layer; resolves with the output and the routing of every token.
    #[wasm_bindgen(unchecked_return_type = "Promise<MoeOutput>")]
    pub fn forward(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Float32Array")] x: JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "RunOptions")] options: JsValue,
    ) -> Promise {
        self.run(x, options, async |layer, output| layer.read(output).await)
    }

    /// Like `forward`, but reads back only y.
    #[wasm_bindgen(
        js_name = forwardOutput,
        unchecked_return_type = "Promise<Float32Array>"
    )]
    pub fn forward_output(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Float32Array")] x: JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "RunOptions")] options: JsValue,
    ) -> Promise {
        self.run(x, options, async |layer, output| {
            let read = layer.gpu.read(Transaction::default().register(output.y));
            Ok(numbers(&read.await?, 0))
        })
    }

    /// Bytes of the weights on the device.
    #[wasm_bindgen(getter)]
    pub fn bytes(&self) -> Result<f64, JsValue> {
        Ok(self.0.get()?.bytes as f64)
    }

    /// Releases the weights' memory; later calls fail with the code 'disposed'.
    pub fn dispose(&self) {
        self.0.dispose();
    }
}

impl MoeLayer {
    /// Sends x through the layer; the promise resolves with what `read` returns for the output.
    fn run<T: Into<JsValue> + 'static>(
        &self,
        x: JsValue,
        options: JsValue,
        read: impl AsyncFnOnce(&Layer, MoeOutput<2>) -> Result<T, Failure> + 'static,
    ) -> Promise {
        let layer = self.0.get();
        promise(async move {
            let (layer, signal) = (layer?, Signal::only(options)?);
            signal.check()?;
            let output = layer.forward(floats("x", &x)?)?;
            let read = read(&layer, output).await?;
            signal.check()?;
            Ok(read)
        })
    }
}

impl Layer {
    /// A layer with `own_weights` (`MoeWeights` of `types.d.ts`), or with random weights if they are undefined.
    pub(crate) fn of(
        gpu: Rc<Gpu>,
        options: MoeOptions,
        own_weights: JsValue,
    ) -> Result<Self, Failure> {
        // Checks the options. The layer's own weights would be initialised at their first use, but they are replaced
        // before that.
        let mut moe = options.config.init(&gpu.burn)?;
        // Each of the two weight stacks is one buffer, and the first is the larger.
        let config = &options.config;
        let columns = if config.gated { 2 } else { 1 };
        let shape = [config.experts, columns, config.inter, config.hidden];
        let got = shape.map(|size| size.to_string()).join(" × ");
        gpu.holds("expert weights", shape, got)?;
        let weights = match given(own_weights) {
            None => moe_weights(&options.config, options.seed, &gpu.burn),
            Some(own) => weights(own, &options.config, &gpu.burn)?,
        };
        // A hash router's matrix must not be asked for: that would initialise one, which Burn then keeps.
        if !matches!(options.config.router, RouterConfig::Hash(_)) {
            moe = options.config.with_weights(weights.clone())?;
        }
        let bytes;
        (moe.experts, bytes) = experts(weights, &options)?;
        Ok(Self { gpu, moe, bytes })
    }

    /// Output y and routing of x \[tokens, hidden\], on the device.
    pub(crate) fn forward(&self, x: Vec<f32>) -> Result<MoeOutput<2>, Failure> {
        self.gpu.alive()?;
        let x = matrix("x", x, self.moe.config().hidden, &self.gpu)?;
        Ok(self.moe.forward(x)?)
    }

    async fn read(&self, output: MoeOutput<2>) -> Result<Record, Failure> {
        let [tokens, top_k] = output.routing.indices.dims();
        let losses = output.losses()?;
        let mut tensors = Transaction::default()
            .register(output.y)
            .register(output.routing.indices.clone())
            .register(output.routing.weights.clone())
            .register(output.routing.load()?)
            .register(output.dropped_slots)
            .register(losses.switch)
            .register(losses.gshard)
            .register(losses.entropy);
        let has_z = losses.z.is_some();
        if let Some(z) = losses.z {
            tensors = tensors.register(z);
        }
        let data = self.gpu.read(tensors).await?;
        let z = if has_z {
            number(&data, 8).into()
        } else {
            JsValue::NULL
        };
        let config = self.moe.config();
        let experts = data[1].iter::<i32>();
        let experts = experts.map(|e| if e == config.experts as i32 { -1 } else { e });
        let capacity = config
            .capacity
            .map(|limit| limit.slots_per_expert(tokens * top_k, config.experts));
        Ok(Record::new()
            .with("y", numbers(&data, 0))
            .with(
                "experts",
                Int32Array::from(experts.collect::<Vec<_>>().as_slice()),
            )
            .with("weights", numbers(&data, 2))
            .with("topK", top_k as u32)
            .with("load", counts(&data, 3))
            .with(
                "capacity",
                capacity.map_or(JsValue::NULL, |slots| (slots as f64).into()),
            )
            .with("dropped", number(&data, 4))
            .with(
                "losses",
                Record::new()
                    .with("switch", number(&data, 5))
                    .with("gshard", number(&data, 6))
                    .with("entropy", number(&data, 7))
                    .with("z", z),
            ))
    }
}

/// The experts of a layer, with the bytes of their weights.
fn experts(weights: MoeWeights, options: &MoeOptions) -> Result<(Experts, usize), Failure> {
    let parts = if options.config.gated { 2 } else { 1 };
    let weight = |w: Tensor<3>, parts: usize| -> Result<Weight<3>, Failure> {
        match options.precision {
            Precision::F32 => Ok(Weight::from(Param::from_tensor(w)).with_parts(parts)),
            Precision::Fp8(quantizer) => Ok(Weight::from_fp8(
                Fp8Tensor::quantize(w, &quantizer)?,
                parts,
            )?),
        }
    };
    let experts = FeedForwardExperts {
        w_in: weight(weights.w_in, parts)?,
        b_in: weights.b_in.map(Param::from_tensor),
        w_out: weight(weights.w_out, 1)?,
        b_out: weights.b_out.map(Param::from_tensor),
    };
    let bytes = experts.bytes();
    Ok((Experts::FeedForward(experts), bytes))
}

/// Options of a layer: `MoeOptions` of `types.d.ts`.
pub(crate) struct MoeOptions {
    pub(crate) config: MoeConfig,
    pub(crate) precision: Precision,
    /// Seed of the random weights.
    pub(crate) seed: u64,
}

/// Format in which the experts' weights are kept.
#[derive(Clone, Copy)]
pub(crate) enum Precision {
    F32,
    Fp8(Quantizer),
}

/// FP8 weights: E4M3 codes, with a scale for every output.
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
        let [hidden, inter, experts] = options.sizes(["hidden", "inter", "experts"])?;
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
        // The factor gives as many slots in all as if every token chose `topK` experts.
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

/// Reads a caller's weights: `MoeWeights` of `types.d.ts`.
fn weights(value: JsValue, config: &MoeConfig, device: &BurnDevice) -> Result<MoeWeights, Failure> {
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
