//! The subjects of benchmarks: a product, a linear layer or a layer of experts with weights in f32 or FP8, or an attention;
//! each with a host computation in f64 of some rows of its result.

use std::rc::Rc;

use burn::tensor::{Tensor, Transaction};
use moebius::attention::Attend;
use moebius::fp8::Fp8Tensor;
use moebius::moe::{Experts, MoeConfig, RouteConfig};
use moebius::nn::Linear;
use moebius_ops::attention::{Inputs, Problem, Rule, Rules, Sizes, Tables, reference};
use moebius_ops::{Mismatch, distance, experts, routing};
use moebius_shaders::attention::plan;
use moebius_shaders::grouped_gemm::Variant;
use wasm_bindgen::JsValue;

use crate::failure::{Code, Failure};
use crate::linear::{Product, exactly};
use crate::moe::{Layer, MoeOptions, Precision, fp8};
use crate::objects::Options;
use crate::work::Gpu;

/// Number of rows of a result that are compared with the host's.
const CHECKED: usize = 4;

/// Name of a layer of experts as a subject.
const MOE: &str = "moe";

/// Name of an attention as a subject.
const ATTENTION: &str = "attention";

/// Function that enqueues one run.
type Launch = Box<dyn Fn() -> Result<Tensor<2>, Failure>>;

/// Function that gives the tensors other than the input that a result is computed from, each flat and in f32.
type Weights = Box<dyn Fn() -> Result<Vec<Tensor<1>>, Failure>>;

/// Function that computes some rows of the result in f64, from row numbers, the input and the weights.
type Expected = Box<dyn Fn(&[usize], &[f32], &[Vec<f32>]) -> Result<Vec<f64>, Mismatch>>;

/// The subject of a benchmark, with its input on the device.
pub(super) struct Subject {
    /// Name of the subject: `matmul`, `linear`, `moe` or `attention`.
    pub(super) what: &'static str,
    /// Precision of the weights: `f32` or `fp8`.
    pub(super) precision: &'static str,
    /// Floating-point operations of the products in one run.
    pub(super) flops: f64,
    pub(super) kernel: &'static str,
    /// Bytes of the weights; for an attention, of keys and values. They are computed from the tensors, since the page's
    /// garbage collector may free other layers at any moment, which changes what the device's allocator reports.
    pub(super) weight_bytes: usize,
    /// The input on the host (for an attention, the queries), and its number of rows.
    x: (Vec<f32>, usize),
    launch: Launch,
    weights: Weights,
    expected: Expected,
}

impl Subject {
    /// Reads the options, and puts the weights and the input on the device.
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
        let [m, n, k] = options.counts_or([("m", 512), ("n", 512), ("k", 512)])?;
        options.finish()?;
        let values = noise(m, k, 1)?;
        let x = exactly("x", values.clone(), [m, k], gpu)?;
        let weight = exactly("weight", noise(n, k, 2)?, [n, k], gpu)?;
        let (weight_bytes, launch, weights): (usize, Launch, Weights) = match precision {
            Precision::F32 => {
                let product = Product {
                    gpu: gpu.clone(),
                    a: x,
                    w: weight.clone(),
                };
                let weights = move || Ok(vec![weight.clone().flatten(0, 1)]);
                let launch = move || product.launch();
                (4 * n * k, Box::new(launch), Box::new(weights))
            }
            Precision::Fp8(quantizer) => {
                let weight = Fp8Tensor::quantize(weight, &quantizer)?;
                let linear = Rc::new(Linear::from_fp8(weight, None)?);
                let (bytes, kept) = (linear.bytes(), linear.clone());
                let weights = move || Ok(vec![kept.weight.values()?.flatten(0, 1)]);
                let launch = move || Ok(linear.forward(x.clone())?);
                (bytes, Box::new(launch), Box::new(weights))
            }
        };
        Ok(Self {
            what,
            precision: named(precision),
            flops: 2.0 * m as f64 * n as f64 * k as f64,
            kernel: kernel(gpu, m, 1),
            weight_bytes,
            x: (values, m),
            launch,
            weights,
            expected: Box::new(move |rows, x, weights| {
                Ok(routing::logits_reference(
                    &lines(x, k, rows),
                    &weights[0],
                    k,
                ))
            }),
        })
    }

    fn moe(gpu: &Rc<Gpu>, precision: Precision, mut options: Options) -> Result<Self, Failure> {
        let [tokens, hidden, inter, experts, top_k] = options.counts_or([
            ("tokens", 512),
            ("hidden", 256),
            ("inter", 512),
            ("experts", 8),
            ("topK", 2),
        ])?;
        options.finish()?;
        let options = MoeOptions {
            config: MoeConfig::new(hidden, inter, experts).with_router(RouteConfig::new(top_k)),
            precision,
            seed: 0,
        };
        let values = noise(tokens, hidden, 1)?;
        let x = exactly("x", values.clone(), [tokens, hidden], gpu)?;
        let layer = Rc::new(Layer::of(gpu.clone(), options, JsValue::UNDEFINED)?);
        let kept = layer.clone();
        Ok(Self {
            what: MOE,
            precision: named(precision),
            flops: 4.0 * (tokens * top_k) as f64 * (hidden * inter) as f64,
            kernel: kernel(gpu, tokens * top_k, experts),
            weight_bytes: layer.bytes,
            x: (values, tokens),
            launch: Box::new(move || Ok(layer.moe.forward(x.clone())?.y)),
            weights: Box::new(move || weights_of(&kept)),
            expected: Box::new(move |rows, x, weights| {
                let sizes = [hidden, inter, experts, top_k];
                experts_of(sizes, &lines(x, hidden, rows), weights)
            }),
        })
    }

    fn attention(gpu: &Rc<Gpu>, mut options: Options) -> Result<Self, Failure> {
        let precision = options.choice("precision", &[("f32", Precision::F32)])?;
        let [batch, heads, tokens, dim] =
            options.counts_or([("batch", 1), ("heads", 8), ("tokens", 512), ("headDim", 64)])?;
        let causal = options.flag("causal")?.unwrap_or(false);
        options.finish()?;
        let problem = problem([batch, heads, tokens, dim], causal)?;
        let plan = plan(problem, None, &gpu.browser.opened().capability);
        let rows = problem.query_rows();
        let values = noise(rows, dim, 1)?;
        let stack = |what, values| -> Result<Tensor<4>, Failure> {
            let matrix = exactly(what, values, [rows, dim], gpu)?;
            Ok(matrix.reshape([batch, heads, tokens, dim]))
        };
        let q = stack("q", values.clone())?;
        let [k, v] = [
            stack("k", noise(rows, dim, 2)?)?,
            stack("v", noise(rows, dim, 3)?)?,
        ];
        let kept = [k.clone(), v.clone()];
        let (attend, seen) = if causal {
            (Attend::new().causal(), (tokens + 1) as f64 / 2.0)
        } else {
            (Attend::new(), tokens as f64)
        };
        Ok(Self {
            what: ATTENTION,
            precision: named(precision),
            flops: 4.0 * rows as f64 * seen * dim as f64,
            kernel: plan.map_err(moebius::Error::from)?.variant.name(),
            weight_bytes: 2 * 4 * rows * dim,
            x: (values, rows),
            launch: Box::new(move || {
                let attended = attend.forward(q.clone(), k.clone(), v.clone())?;
                Ok(attended.o.flatten(0, 2))
            }),
            weights: Box::new(move || {
                Ok(kept.iter().map(|kept| kept.clone().flatten(0, 3)).collect())
            }),
            expected: Box::new(move |rows, q, kept| {
                let rows = rows.iter().copied();
                attention_of(&problem, rows, q, [&kept[0], &kept[1]])
            }),
        })
    }

    /// Enqueues one run, without waiting for it.
    pub(super) fn launch(&self) -> Result<Tensor<2>, Failure> {
        (self.launch)()
    }

    /// Relative error of some rows of the result against sums in f64 with the weights as stored, since rounding them to
    /// FP8 is no error of a kernel.
    pub(super) async fn check(&self, gpu: &Gpu) -> Result<f64, Failure> {
        let y = self.launch()?;
        let weights = (self.weights)()?;
        let count = weights.len();
        let tensors = Transaction::default().register(y);
        let tensors = weights.into_iter().fold(tensors, Transaction::register);
        let data = gpu.read(tensors).await?;
        let values = |at: usize| data[at].iter().collect::<Vec<f32>>();
        let weights: Vec<Vec<f32>> = (1..=count).map(values).collect();
        let (x, rows) = &self.x;
        // Rows from the first to the last: for an attention, they lie in different heads and see few or many keys.
        let picked: [usize; CHECKED] = std::array::from_fn(|at| at * (rows - 1) / (CHECKED - 1));
        let expected = (self.expected)(&picked, x, &weights).map_err(moebius::Error::from)?;
        let y = values(0);
        Ok(distance(&lines(&y, y.len() / rows, &picked), &expected))
    }
}

/// The weights of the router and the experts, each flat.
fn weights_of(layer: &Layer) -> Result<Vec<Tensor<1>>, Failure> {
    let unknown = || Failure::new(Code::UNSUPPORTED, "no oracle for this layer");
    let Experts::FeedForward(experts) = &layer.moe.experts else {
        return Err(unknown());
    };
    let w_in = experts.w_in.values()?.flatten(0, 2);
    let w_out = experts.w_out.values()?.flatten(0, 2);
    let router = layer.moe.router.matrix().ok_or_else(unknown)?;
    Ok(vec![router.flatten(0, 1), w_in, w_out])
}

/// The given rows of a matrix with `width` columns.
fn lines(values: &[f32], width: usize, rows: &[usize]) -> Vec<f32> {
    let lines = rows.iter().flat_map(|row| &values[row * width..][..width]);
    lines.copied().collect()
}

fn named(precision: Precision) -> &'static str {
    match precision {
        Precision::F32 => "f32",
        Precision::Fp8(_) => "fp8",
    }
}

/// Problem of an attention with as many keys as queries, in f32.
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

/// Pseudorandom numbers in ±1, the same for the same seed.
fn noise(rows: usize, columns: usize, seed: u32) -> Result<Vec<f32>, Failure> {
    /// Largest number of values: 1 GiB of f32s.
    const MOST: usize = 1 << 28;
    let count = rows.checked_mul(columns).filter(|count| *count <= MOST);
    let count = count.ok_or_else(|| {
        Failure::expected(
            "matrix",
            format!("at most {MOST} numbers"),
            format!("{rows} × {columns}"),
        )
    })?;
    // A linear congruential generator (Numerical Recipes); its high bits are random enough here.
    let mut state = seed;
    Ok((0..count)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1u32 << 23) as f32 - 1.0
        })
        .collect())
}

/// Output y \[T,H\] for tokens x \[T,H\] of ungated relu experts behind a softmax router, whose `top_k` chosen weights sum
/// to 1. `weights` are the router's \[E,H\], then the experts' \[E,F,H\] and \[E,H,F\].
fn experts_of(
    [hidden, inter, experts, top_k]: [usize; 4],
    x: &[f32],
    weights: &[Vec<f32>],
) -> Result<Vec<f64>, Mismatch> {
    let [router, w_in, w_out] = weights else {
        unreachable!("a layer of experts has three")
    };
    let routing = routing::Problem::new(x.len() / hidden, experts, top_k)?;
    let logits = routing::logits_reference(x, router, hidden);
    let logits: Vec<f32> = logits.iter().map(|logit| *logit as f32).collect();
    let routed = routing::reference(&routing, &logits, None);
    let problem = experts::Problem::new(routing, hidden, inter);
    let inputs = experts::ReferenceInputs {
        x,
        indices: &routed.indices,
        weights: &routed.weights,
        w_in,
        b_in: None,
        w_out,
        b_out: None,
    };
    let (y, _) = experts::reference(&problem, &inputs)?;
    Ok(y)
}

/// Some rows of o \[B,H,S,D\] for queries, keys and values of that shape; each row is computed as an attention of one
/// query.
fn attention_of(
    problem: &Problem,
    rows: impl Iterator<Item = usize>,
    q: &[f32],
    [k, v]: [&[f32]; 2],
) -> Result<Vec<f64>, Mismatch> {
    let (tokens, dim) = (problem.sizes().queries, problem.sizes().head_dim);
    let wide = |values: &[f32], first: usize, rows: usize| -> Vec<f64> {
        let values = &values[first * dim..][..rows * dim];
        values.iter().map(|value| f64::from(*value)).collect()
    };
    let mut o = Vec::new();
    for row in rows {
        let (own, mask) = problem.of_queries(1, &[row % tokens])?;
        let head = row / tokens * tokens;
        let inputs = Inputs {
            q: &wide(q, row, 1),
            k: &wide(k, head, tokens),
            v: &wide(v, head, tokens),
            tables: Tables {
                mask: &mask,
                ..Tables::default()
            },
        };
        o.extend(reference(&own, &inputs).o);
    }
    Ok(o)
}

#[cfg(test)]
#[path = "subject_tests.rs"]
mod tests;
