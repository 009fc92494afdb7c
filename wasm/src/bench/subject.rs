//! What is measured: a product, a linear layer or a layer of experts, with weights in f32 or FP8, or an attention.

use std::rc::Rc;

use burn::tensor::{Tensor, Transaction};
use moebius::attention::Attend;
use moebius::fp8::Fp8Tensor;
use moebius::moe::{Experts, MoeConfig, RouteConfig};
use moebius::nn::Linear;
use moebius_ops::attention::{Problem, Rule, Rules, Sizes};
use moebius_ops::routing::logits_reference;
use moebius_shaders::attention;
use moebius_shaders::grouped_gemm::Variant;
use wasm_bindgen::JsValue;

use super::oracle;
use crate::failure::{Code, Failure};
use crate::linear::{Product, exactly};
use crate::moe::Layer;
use crate::moe_options::{MoeOptions, Precision, fp8};
use crate::options::Options;
use crate::work::Gpu;

/// Rows of a result that are compared with the host's.
const CHECKED: usize = 4;

/// What is measured where it is a layer of experts.
const MOE: &str = "moe";

/// What is measured where it is an attention.
const ATTENTION: &str = "attention";

/// Something to run again and again, with its input on the device.
pub(super) struct Subject {
    /// `matmul`, `linear`, `moe` or `attention`.
    pub(super) what: &'static str,
    precision: Precision,
    /// Of a run's products.
    pub(super) flops: f64,
    pub(super) kernel: &'static str,
    /// The input, also on the host: of an attention its queries.
    x: (Tensor<2>, Vec<f32>),
    body: Body,
}

enum Body {
    Product(Box<Product>),
    Linear(Box<Linear>),
    Moe(Box<Layer>),
    Attention(Box<Attention>),
}

/// An attention with its keys and values.
struct Attention {
    attend: Attend,
    problem: Problem,
    k: Tensor<4>,
    v: Tensor<4>,
}

impl Subject {
    /// Reads the options, and puts weights and input on the device.
    pub(super) fn prepare(gpu: &Rc<Gpu>, mut options: Options) -> Result<Self, Failure> {
        let whats = ["matmul", "linear", MOE, ATTENTION].map(|what| (what, what));
        let what = options.choice("what", &whats)?;
        if what == ATTENTION {
            return Self::attention(gpu, options);
        }
        let precision = options.choice("precision", &[("f32", Precision::F32), ("fp8", fp8())])?;
        match what {
            MOE => Self::moe(gpu, precision, options),
            _ => Self::dense(gpu, (what, precision), options),
        }
    }

    fn dense(
        gpu: &Rc<Gpu>,
        (what, precision): (&'static str, Precision),
        mut options: Options,
    ) -> Result<Self, Failure> {
        let [m, n, k] = [
            options.count_or("m", 512)?,
            options.count_or("n", 512)?,
            options.count_or("k", 512)?,
        ];
        options.finish()?;
        let values = noise(m, k, 1)?;
        let x = exactly("x", values.clone(), [m, k], gpu)?;
        let weight = exactly("weight", noise(n, k, 2)?, [n, k], gpu)?;
        let body = match precision {
            Precision::F32 => Body::Product(Box::new(Product {
                gpu: gpu.clone(),
                a: x.clone(),
                w: weight,
            })),
            Precision::Fp8(quantizer) => {
                let weight = Fp8Tensor::quantize(weight, &quantizer)?;
                Body::Linear(Box::new(Linear::from_fp8(weight, None)?))
            }
        };
        Ok(Self {
            what,
            precision,
            flops: 2.0 * m as f64 * n as f64 * k as f64,
            kernel: kernel(gpu, m, 1),
            x: (x, values),
            body,
        })
    }

    fn moe(gpu: &Rc<Gpu>, precision: Precision, mut options: Options) -> Result<Self, Failure> {
        let [tokens, hidden, inter, experts, top_k] = [
            options.count_or("tokens", 512)?,
            options.count_or("hidden", 256)?,
            options.count_or("inter", 512)?,
            options.count_or("experts", 8)?,
            options.count_or("topK", 2)?,
        ];
        options.finish()?;
        let options = MoeOptions {
            config: MoeConfig::new(hidden, inter, experts).with_router(RouteConfig::new(top_k)),
            precision,
            seed: 0,
        };
        let values = noise(tokens, hidden, 1)?;
        let x = exactly("x", values.clone(), [tokens, hidden], gpu)?;
        let layer = Layer::of(gpu.clone(), options, JsValue::UNDEFINED)?;
        Ok(Self {
            what: MOE,
            precision,
            flops: 4.0 * (tokens * top_k) as f64 * (hidden * inter) as f64,
            kernel: kernel(gpu, tokens * top_k, experts),
            x: (x, values),
            body: Body::Moe(Box::new(layer)),
        })
    }

    fn attention(gpu: &Rc<Gpu>, mut options: Options) -> Result<Self, Failure> {
        let precision = options.choice("precision", &[("f32", Precision::F32)])?;
        let [batch, heads, tokens, dim] = [
            options.count_or("batch", 1)?,
            options.count_or("heads", 8)?,
            options.count_or("tokens", 512)?,
            options.count_or("headDim", 64)?,
        ];
        let causal = options.flag("causal")?.unwrap_or(false);
        options.finish()?;
        let problem = problem([batch, heads, tokens, dim], causal)?;
        let plan = attention::plan(problem, None, &gpu.browser.opened().capability);
        let rows = problem.query_rows();
        let values = noise(rows, dim, 1)?;
        let x = exactly("q", values.clone(), [rows, dim], gpu)?;
        let stack = |what, seed| -> Result<Tensor<4>, Failure> {
            let matrix = exactly(what, noise(rows, dim, seed)?, [rows, dim], gpu)?;
            Ok(matrix.reshape([batch, heads, tokens, dim]))
        };
        let attend = if causal {
            Attend::new().causal()
        } else {
            Attend::new()
        };
        let body = Attention {
            attend,
            problem,
            k: stack("k", 2)?,
            v: stack("v", 3)?,
        };
        let seen = if causal {
            (tokens + 1) as f64 / 2.0
        } else {
            tokens as f64
        };
        Ok(Self {
            what: ATTENTION,
            precision,
            flops: 4.0 * rows as f64 * seen * dim as f64,
            kernel: plan.map_err(moebius::Error::from)?.variant.name(),
            x: (x, values),
            body: Body::Attention(Box::new(body)),
        })
    }

    pub(super) fn precision(&self) -> &'static str {
        match self.precision {
            Precision::F32 => "f32",
            Precision::Fp8(_) => "fp8",
        }
    }

    /// Bytes of the weights, of an attention those of keys and values. They are counted, not asked of the device's
    /// allocator: the page's garbage collector gives back other layers at any moment.
    pub(super) fn weight_bytes(&self) -> usize {
        let f32s = |dims: &[usize]| 4 * dims.iter().product::<usize>();
        match &self.body {
            Body::Product(product) => f32s(&product.w.dims()),
            Body::Linear(linear) => linear.bytes(),
            Body::Moe(layer) => layer.bytes,
            Body::Attention(attention) => f32s(&attention.k.dims()) + f32s(&attention.v.dims()),
        }
    }

    /// One run, not waited for.
    pub(super) fn launch(&self) -> Result<Tensor<2>, Failure> {
        let x = self.x.0.clone();
        match &self.body {
            Body::Product(product) => product.launch(),
            Body::Linear(linear) => Ok(linear.forward(x)?),
            Body::Moe(layer) => Ok(layer.moe.forward(x)?.y),
            Body::Attention(attention) => {
                let (k, v) = (attention.k.clone(), attention.v.clone());
                let q = x.reshape(k.dims());
                Ok(attention.attend.forward(q, k, v)?.o.flatten(0, 2))
            }
        }
    }

    /// The relative error of some rows of the result against sums in f64 of the weights as they are
    /// kept: rounding them to FP8 is no error of a kernel.
    pub(super) async fn check(&self, gpu: &Gpu) -> Result<f64, Failure> {
        let y = self.launch()?;
        let weights = self.weights()?;
        let count = weights.len();
        let tensors = Transaction::default().register(y);
        let tensors = weights.into_iter().fold(tensors, Transaction::register);
        let data = gpu.read(tensors).await?;
        let values = |at: usize| data[at].iter().collect::<Vec<f32>>();
        let weights: Vec<Vec<f32>> = (1..=count).map(values).collect();
        self.compare(&values(0), &weights)
    }

    /// The weights as f32s, flat; keys and values of an attention.
    fn weights(&self) -> Result<Vec<Tensor<1>>, Failure> {
        Ok(match &self.body {
            Body::Product(product) => vec![product.w.clone().flatten(0, 1)],
            Body::Linear(linear) => vec![linear.weight.values()?.flatten(0, 1)],
            Body::Moe(layer) => {
                let unknown = || Failure::new(Code::UNSUPPORTED, "no oracle for this layer");
                let Experts::FeedForward(experts) = &layer.moe.experts else {
                    return Err(unknown());
                };
                let w_in = experts.w_in.values()?.flatten(0, 2);
                let w_out = experts.w_out.values()?.flatten(0, 2);
                let router = layer.moe.router.matrix().ok_or_else(unknown)?;
                vec![router.flatten(0, 1), w_in, w_out]
            }
            Body::Attention(attention) => {
                let flat = |tensor: &Tensor<4>| tensor.clone().flatten(0, 3);
                vec![flat(&attention.k), flat(&attention.v)]
            }
        })
    }

    fn compare(&self, y: &[f32], weights: &[Vec<f32>]) -> Result<f64, Failure> {
        let [rows, columns] = self.x.0.dims();
        // From the first to the last: those of an attention are of different heads, and see few keys and many.
        let picked = (0..CHECKED).map(|at| at * (rows - 1) / (CHECKED - 1));
        let lines = |values: &[f32], width: usize| -> Vec<f32> {
            let lines = picked
                .clone()
                .flat_map(|row| &values[row * width..][..width]);
            lines.copied().collect()
        };
        let x = lines(&self.x.1, columns);
        let expected = match &self.body {
            Body::Moe(layer) => {
                let c = layer.moe.config();
                let sizes = [c.hidden, c.inter, c.experts, c.top_k()];
                oracle::experts(sizes, &x, weights).map_err(moebius::Error::from)?
            }
            Body::Attention(attention) => oracle::attention(
                &attention.problem,
                picked.clone(),
                &self.x.1,
                [&weights[0], &weights[1]],
            )
            .map_err(moebius::Error::from)?,
            _ => logits_reference(&x, &weights[0], columns),
        };
        Ok(oracle::relative_error(&lines(y, y.len() / rows), &expected))
    }
}

/// Attention of as many keys as queries, in f32.
fn problem([batch, heads, tokens, dim]: [usize; 4], causal: bool) -> Result<Problem, Failure> {
    let sizes = Sizes {
        batch,
        heads,
        kv_heads: heads,
        queries: tokens,
        keys: tokens,
        head_dim: dim,
        value_dim: dim,
    };
    let ruled = || Problem::new(sizes)?.with_rules(Rules::new(causal.then_some(Rule::Causal))?);
    Ok(ruled().map_err(moebius::Error::from)?)
}

fn kernel(gpu: &Gpu, rows: usize, experts: usize) -> &'static str {
    Variant::portable(rows, experts, &gpu.browser.opened().capability).name()
}

/// Numbers in ±1 that can be drawn again.
fn noise(rows: usize, columns: usize, seed: u32) -> Result<Vec<f32>, Failure> {
    /// 1 GiB of f32s.
    const MOST: usize = 1 << 28;
    let count = rows.checked_mul(columns).filter(|count| *count <= MOST);
    let count = count.ok_or_else(|| {
        Failure::expected(
            "matrix",
            format!("at most {MOST} numbers"),
            format!("{rows} × {columns}"),
        )
    })?;
    // A linear congruential generator (Numerical Recipes); its high bits are good enough here.
    let mut state = seed;
    Ok((0..count)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1u32 << 23) as f32 - 1.0
        })
        .collect())
}
