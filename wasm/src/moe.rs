//! A mixture-of-experts layer: tokens in, tokens out, and who computed them.

use std::rc::Rc;

use burn::module::Param;
use burn::tensor::{Tensor, Transaction};
use js_sys::{Int32Array, Promise};
use moebius::fp8::{Fp8Tensor, Weight};
use moebius::moe::experts::FeedForwardExperts;
use moebius::moe::{Experts, MoeConfig, MoeOutput, MoeWeights, RouterConfig};
use moebius_model::moe_weights;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::device::Device;
use crate::failure::{Code, Failure};
use crate::linear::matrix;
use crate::moe_options::{MoeOptions, Precision, weights};
use crate::options::{floats, given};
use crate::record::{Record, counts, number, numbers};
use crate::work::{Gpu, Held, Signal, promise};

/// One mixture-of-experts layer on a device.
#[wasm_bindgen]
pub struct MoeLayer(Held<Layer>);

/// A layer with the device it lives on.
pub(crate) struct Layer {
    pub(crate) gpu: Rc<Gpu>,
    pub(crate) moe: moebius::moe::MoeLayer,
    /// Of its weights.
    pub(crate) bytes: usize,
}

#[wasm_bindgen]
impl MoeLayer {
    /// A layer with these weights, or with weights drawn from `options.seed`.
    ///
    /// Throws with the code 'shape' for numbers that don't fit, 'out-of-memory' for weights larger
    /// than one buffer of the device.
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

    /// Sends x [tokens, hidden] through the layer, and tells where every token went.
    #[wasm_bindgen(unchecked_return_type = "Promise<MoeOutput>")]
    pub fn forward(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Float32Array")] x: JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "RunOptions")] options: JsValue,
    ) -> Promise {
        self.run(x, options, async |layer, output| layer.read(output).await)
    }

    /// As `forward`, for y alone: less to read back.
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

    /// Bytes of its weights on the device.
    #[wasm_bindgen(getter)]
    pub fn bytes(&self) -> Result<f64, JsValue> {
        Ok(self.0.get()?.bytes as f64)
    }

    /// Gives the weights' memory back; calls fail with the code 'disposed' from then on.
    pub fn dispose(&self) {
        self.0.dispose();
    }
}

impl MoeLayer {
    /// Sends x through the layer, and promises what `read` reads of the output.
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
    /// With `own_weights`, `MoeWeights` of `types.d.ts`, or drawn ones.
    pub(crate) fn of(
        gpu: Rc<Gpu>,
        options: MoeOptions,
        own_weights: JsValue,
    ) -> Result<Self, Failure> {
        // Checks the numbers; its weights would be drawn at their first use, which never comes.
        let mut moe = options.config.init(&gpu.burn)?;
        check_size(&options.config, &gpu)?;
        let weights = match given(own_weights) {
            None => moe_weights(&options.config, options.seed, &gpu.burn),
            Some(own) => weights(own, &options.config, &gpu.burn)?,
        };
        // Asking the router for its matrix would draw one, which Burn then keeps.
        if !matches!(options.config.router, RouterConfig::Hash(_)) {
            moe = options.config.with_weights(weights.clone())?;
        }
        let bytes;
        (moe.experts, bytes) = experts(weights, &options)?;
        Ok(Self { gpu, moe, bytes })
    }

    /// y and the routing of x \[tokens, hidden\], on the device.
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

/// Refuses weights before memory is asked for: each of the two stacks is one buffer.
fn check_size(config: &MoeConfig, gpu: &Gpu) -> Result<(), Failure> {
    let columns = if config.gated { 2 } else { 1 };
    let numbers = [config.experts, columns, config.inter, config.hidden];
    let bytes = numbers
        .iter()
        .try_fold(4_usize, |all, n| all.checked_mul(*n));
    let most = gpu.browser.opened().capability.limits.max_binding_bytes;
    match bytes {
        Some(bytes) if bytes as u64 <= most => Ok(()),
        _ => {
            let [experts, columns, inter, hidden] = numbers;
            let message = format!(
                "expert weights: expected at most {most} bytes, got \
                 {experts} × {columns} × {inter} × {hidden} f32s"
            );
            Err(Failure::new(Code::OUT_OF_MEMORY, message))
        }
    }
}

/// The experts of a layer, and the bytes of their weights.
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
