//! A linear layer with FP8 weights, and a plain product of two matrices.

use std::rc::Rc;

use burn::tensor::{Tensor, TensorData, Transaction};
use js_sys::Promise;
use moebius::fp8::{Fp8Format, Fp8Tensor, Granularity, Quantizer};
use moebius::nn;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::device::Device;
use crate::failure::Failure;
use crate::objects::{Options, floats, given, numbers};
use crate::work::{Gpu, Held, Signal, promise};

/// y = x · Wᵀ + b with W kept as FP8 codes and scales: a quarter of the memory of f32.
#[wasm_bindgen]
pub struct Fp8Linear(Held<Linear>);

struct Linear {
    gpu: Rc<Gpu>,
    linear: nn::Linear,
    inputs: usize,
}

#[wasm_bindgen]
impl Fp8Linear {
    /// Quantises weight [outputs, inputs]; the bias, one number per output, stays f32.
    #[wasm_bindgen(constructor)]
    pub fn new(
        device: &Device,
        #[wasm_bindgen(unchecked_param_type = "Fp8LinearOptions")] options: JsValue,
        #[wasm_bindgen(unchecked_param_type = "Float32Array")] weight: JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "Float32Array")] bias: JsValue,
    ) -> Result<Self, JsValue> {
        let bias = given(bias).map(|bias| floats("bias", &bias)).transpose()?;
        let weight = floats("weight", &weight)?;
        let linear = Linear::new(device.gpu()?, options, weight, bias)?;
        Ok(Self(Held::new("linear layer", linear)))
    }

    /// Computes y [rows, outputs] for x [rows, inputs].
    #[wasm_bindgen(unchecked_return_type = "Promise<Float32Array>")]
    pub fn forward(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Float32Array")] x: JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "RunOptions")] options: JsValue,
    ) -> Promise {
        let linear = self.0.get();
        promise(async move {
            let (layer, signal) = (linear?, Signal::only(options)?);
            signal.check()?;
            layer.gpu.alive()?;
            let x = matrix("x", floats("x", &x)?, layer.inputs, &layer.gpu)?;
            let y = Transaction::default().register(layer.linear.forward(x)?);
            let y = layer.gpu.read(y).await?;
            signal.check()?;
            Ok(numbers(&y, 0))
        })
    }

    /// Bytes of codes, scales and bias on the device.
    #[wasm_bindgen(getter)]
    pub fn bytes(&self) -> Result<f64, JsValue> {
        Ok(self.0.get()?.linear.bytes() as f64)
    }

    /// Releases the weights' memory; later calls fail with the code 'disposed'.
    pub fn dispose(&self) {
        self.0.dispose();
    }
}

impl Linear {
    fn new(
        gpu: Rc<Gpu>,
        options: JsValue,
        weight: Vec<f32>,
        bias: Option<Vec<f32>>,
    ) -> Result<Self, Failure> {
        let mut options = Options::new("linear options", options)?;
        let [inputs, outputs] = options.sizes(["inputs", "outputs"])?;
        let quantizer = quantizer(&mut options)?;
        options.finish()?;
        let weight = exactly("weight", weight, [outputs, inputs], &gpu)?;
        if let Some(bias) = bias.as_ref().filter(|bias| bias.len() != outputs) {
            let expected = format!("{outputs} numbers");
            return Err(Failure::expected("bias", expected, bias.len()));
        }
        let bias = bias.map(|bias| Tensor::from_data(TensorData::new(bias, [outputs]), &gpu.burn));
        let weight = Fp8Tensor::quantize(weight, &quantizer)?;
        let linear = nn::Linear::from_fp8(weight, bias)?;
        Ok(Self {
            gpu,
            linear,
            inputs,
        })
    }
}

fn quantizer(options: &mut Options) -> Result<Quantizer, Failure> {
    let formats = [("e4m3", Fp8Format::E4M3), ("e5m2", Fp8Format::E5M2)];
    let block = Granularity::of_blocks(128, 128);
    let granularities = [
        ("row", Granularity::Row),
        ("tensor", Granularity::Tensor),
        ("block128", block),
        ("mx", Granularity::Mx),
    ];
    let format = options.choice("format", &formats)?;
    let granularity = options.choice("granularity", &granularities)?;
    Ok(Quantizer::new(format, granularity))
}

/// The product a · b in f32, by the kernels of the layers; a and b stay on the device.
#[wasm_bindgen]
pub struct Matmul(Held<Product>);

/// The factors of a product.
pub(crate) struct Product {
    pub(crate) gpu: Rc<Gpu>,
    /// Left factor a \[m,k\].
    pub(crate) a: Tensor<2>,
    /// Right factor, transposed as layers keep their weights: bᵀ \[n,k\].
    pub(crate) w: Tensor<2>,
}

#[wasm_bindgen]
impl Matmul {
    /// Puts a [m, k] and b [k, n] on the device.
    #[wasm_bindgen(constructor)]
    pub fn new(
        device: &Device,
        #[wasm_bindgen(unchecked_param_type = "MatmulOptions")] options: JsValue,
        #[wasm_bindgen(unchecked_param_type = "Float32Array")] a: JsValue,
        #[wasm_bindgen(unchecked_param_type = "Float32Array")] b: JsValue,
    ) -> Result<Self, JsValue> {
        let mut options = Options::new("matmul options", options)?;
        let [m, n, k] = options.sizes(["m", "n", "k"])?;
        options.finish()?;
        let gpu = device.gpu()?;
        let b = exactly("b", floats("b", &b)?, [k, n], &gpu)?;
        let a = exactly("a", floats("a", &a)?, [m, k], &gpu)?;
        // Stored transposed once, since a product with a transposed view would copy it every time.
        let w = b.transpose().reshape([n * k]).reshape([n, k]);
        Ok(Self(Held::new("product", Product { gpu, a, w })))
    }

    /// Computes a · b [m, n].
    #[wasm_bindgen(unchecked_return_type = "Promise<Float32Array>")]
    pub fn run(&self) -> Promise {
        let product = self.0.get();
        promise(async move {
            let product = product?;
            let y = product.launch()?;
            let y = product.gpu.read(Transaction::default().register(y));
            Ok(numbers(&y.await?, 0))
        })
    }

    /// Releases the factors' memory; later calls fail with the code 'disposed'.
    pub fn dispose(&self) {
        self.0.dispose();
    }
}

impl Product {
    /// Enqueues a · wᵀ, without waiting for it.
    pub(crate) fn launch(&self) -> Result<Tensor<2>, Failure> {
        self.gpu.alive()?;
        Ok(nn::linear(self.a.clone(), self.w.clone(), None)?)
    }
}

/// A matrix with `columns` columns and as many rows as the values fill.
pub(crate) fn matrix(
    what: &str,
    values: Vec<f32>,
    columns: usize,
    gpu: &Gpu,
) -> Result<Tensor<2>, Failure> {
    if values.is_empty() || !values.len().is_multiple_of(columns) {
        let expected = format!("a multiple of {columns} numbers");
        return Err(Failure::expected(what, expected, values.len()));
    }
    let shape = [values.len() / columns, columns];
    Ok(Tensor::from_data(TensorData::new(values, shape), &gpu.burn))
}

/// A matrix of the given shape; refuses another number of values.
pub(crate) fn exactly(
    what: &str,
    values: Vec<f32>,
    shape: [usize; 2],
    gpu: &Gpu,
) -> Result<Tensor<2>, Failure> {
    let [rows, columns] = shape;
    if Some(values.len()) != rows.checked_mul(columns) {
        let expected = format!("{rows} × {columns} numbers");
        return Err(Failure::expected(what, expected, values.len()));
    }
    Ok(Tensor::from_data(TensorData::new(values, shape), &gpu.burn))
}
