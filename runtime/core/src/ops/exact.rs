//! Operations with the same bits on every device; the shapes are those of [`moebius_ops::exact`]. None has a gradient, and XLA, which chooses
//! the order of its sums, has none of them.

pub(crate) use super::call::check_order;
use super::call::{Request, Results};
use super::fused::Pairs;
use super::routing::Chosen;
use super::tensors::DeviceValue;
use crate::Error;
use crate::check::{check_device, check_same};
use burn::nn::RmsNorm;
use burn::tensor::{DType, Device, Int, Tensor};
use moebius_ops::exact::{Activate, Combine, Norm, Product, Rotate};
use moebius_ops::grouped_gemm::Activation;
use moebius_ops::kv_cache::Attend;
use moebius_ops::routing::Problem;
use moebius_ops::{Exact, Mismatch, Operation};

pub use moebius_ops::exact::Function;

fn run(
    operation: Exact,
    device: &Device,
    operands: impl IntoIterator<Item = DeviceValue>,
) -> Result<Results, Error> {
    Operation::from(operation).check()?;
    let request = Request::new(operation, device, &())?;
    Ok(request.reads(operands).run())
}

/// Checks that a tensor is f32, and on the device of the others.
pub(crate) fn check<const D: usize>(
    what: &'static str,
    tensor: &Tensor<D>,
    device: &Device,
) -> Result<(), Mismatch> {
    check_same(what, tensor.dtype(), DType::F32)?;
    check_device(what, tensor.device(), device)
}

/// Computes a function of each element.
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for another dtype than f32, [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) on
/// XLA, on a device that records gradients, and for more than one binding of the device holds.
pub fn map<const D: usize>(function: Function, x: Tensor<D>) -> Result<Tensor<D>, Error> {
    let (shape, device) = (x.dims(), x.device());
    check("x of an exact function", &x, &device)?;
    let elements = x.shape().num_elements();
    if elements == 0 {
        return Ok(x);
    }
    let map = Exact::Map { function, elements };
    let y = run(map, &device, [x.into()])?.floats::<1>();
    Ok(y.reshape(shape))
}

/// Computes x · Wᵀ + b \[T, n\] from x \[T, k\], W \[n, k\] and b \[n\].
///
/// # Errors
/// As [`map`], and for other shapes.
pub fn linear(x: Tensor<2>, w: Tensor<2>, bias: Option<Tensor<1>>) -> Result<Tensor<2>, Error> {
    let bias = bias.map(Tensor::unsqueeze);
    experts(x, w.unsqueeze(), bias, None)
}

/// Computes x\[r / S\] · W_eᵀ + b_e \[R, n\] for each slot r of `chosen` \[T, K\], whose expert e is chosen\[r\], from x \[R / S, k\], W
/// \[E, n, k\] and b \[E, n\]; S follows from the rows of x. Without `chosen` there is one expert, and R = T.
///
/// # Errors
/// As [`linear`].
pub(crate) fn experts(
    x: Tensor<2>,
    w: Tensor<3>,
    bias: Option<Tensor<2>>,
    chosen: Option<&Tensor<2, Int>>,
) -> Result<Tensor<2>, Error> {
    let ([given, k], [experts, n, inner], device) = (x.dims(), w.dims(), x.device());
    check_same("columns of x [T, k], those of W [n, k]", k, inner)?;
    check("x of an exact product", &x, &device)?;
    check("weights of an exact product", &w, &device)?;
    if let Some(bias) = &bias {
        check("bias of an exact product", bias, &device)?;
        check_same("bias [E, n]", bias.dims(), [experts, n])?;
    }
    let rows = chosen.map_or(given, |chosen| chosen.shape().num_elements());
    if rows == 0 {
        return Ok(Tensor::empty([0, n], (&device, DType::F32)));
    }
    Mismatch::unless(given > 0, "rows of x", "at least one", given)?;
    let product = Product {
        rows,
        share: rows / given,
        experts,
        chosen: chosen.is_some(),
        bias: bias.is_some(),
        ..Product::dense(given, n, k)
    };
    let whole = rows.is_multiple_of(given);
    let expected = format_args!("a divisor of the {rows} slots");
    Mismatch::unless(whole, "rows of x", expected, given)?;
    let operands = [Some(x.into()), Some(w.into())].into_iter();
    let indices: Option<DeviceValue> = chosen.map(|chosen| chosen.clone().into());
    let operands = operands.chain([indices, bias.map(Into::into)]);
    Ok(run(Exact::Product(product), &device, operands.flatten())?.floats())
}

/// Computes act(gate) · up \[R, F\] of rows x \[R, 2F\] with the gate's columns before those of up, or act(x) of x \[R, F\].
///
/// # Errors
/// As [`map`], and for an odd number of columns of a gate and up.
pub fn activation(x: Tensor<2>, of: Activation, gated: bool) -> Result<Tensor<2>, Error> {
    let ([rows, columns], device) = (x.dims(), x.device());
    check("x of an exact activation", &x, &device)?;
    let activate = Activate {
        rows,
        inter: if gated { columns / 2 } else { columns },
        gated,
        activation: of,
    };
    let whole = columns == activate.columns();
    Mismatch::unless(whole, "columns of gate and up", "an even number", columns)?;
    if rows == 0 {
        return Ok(Tensor::empty([0, activate.inter], (&device, DType::F32)));
    }
    Ok(run(Exact::Activate(activate), &device, [x.into()])?.floats())
}

/// Computes Burn's norm, x / √(mean(x²) + ε) · γ over the last dimension.
///
/// # Errors
/// As [`map`], and for an x of another width.
pub fn rms_norm<const D: usize>(norm: &RmsNorm, x: Tensor<D>) -> Result<Tensor<D>, Error> {
    let (shape, gamma, device) = (x.dims(), norm.gamma.val(), x.device());
    let [width] = gamma.dims();
    let last = shape.last().copied().unwrap_or(0);
    Mismatch::check("last dimension of x", width, last)?;
    check("x of an exact norm", &x, &device)?;
    check("factors of an exact norm", &gamma, &device)?;
    let rows = x.shape().num_elements() / width.max(1);
    if rows == 0 {
        return Ok(x);
    }
    let of = Norm {
        rows,
        width,
        epsilon: norm.epsilon as f32,
    };
    let y = run(Exact::Norm(of), &device, [x.into(), gamma.into()])?.floats::<2>();
    Ok(y.reshape(shape))
}

/// Computes base_t + scale · Σ_k w_tk · rows\[t, k\], \[T, n\], from rows \[T·K, n\], weights \[T, K\] and a base \[T, n\]; without weights
/// they are 1 and K is 1, and without a base it is 0.
///
/// # Errors
/// As [`map`], and for other shapes.
pub fn combine(
    rows: Tensor<2>,
    weights: Option<Tensor<2>>,
    base: Option<Tensor<2>>,
    scale: f32,
) -> Result<Tensor<2>, Error> {
    let ([slots, width], device) = (rows.dims(), rows.device());
    check("rows of an exact sum", &rows, &device)?;
    let [tokens, top_k] = weights.as_ref().map_or([slots, 1], Tensor::dims);
    check_same("rows of an exact sum", slots, tokens * top_k)?;
    if let Some(weights) = &weights {
        check("weights of an exact sum", weights, &device)?;
    }
    if let Some(base) = &base {
        check("base of an exact sum", base, &device)?;
        check_same("base of an exact sum", base.dims(), [tokens, width])?;
    }
    if tokens == 0 {
        return Ok(Tensor::empty([tokens, width], (&device, DType::F32)));
    }
    let sum = Combine {
        tokens,
        top_k,
        width,
        weighted: weights.is_some(),
        based: base.is_some(),
        scale,
    };
    let others = [weights, base].map(|tensor| tensor.map(DeviceValue::from));
    let operands = [Some(rows.into())].into_iter().chain(others);
    Ok(run(Exact::Combine(sum), &device, operands.flatten())?.floats())
}

/// Rotates pairs of elements of x \[B, S, heads, D\] as [`rotate`](crate::nn::rotate) does, by cosines and sines \[B or 1, S, 1, half\].
///
/// # Errors
/// As [`map`], and as [`rotate`](crate::nn::rotate).
pub fn rotate(x: Tensor<4>, [cos, sin]: [Tensor<4>; 2], pairs: Pairs) -> Result<Tensor<4>, Error> {
    let ([batch, tokens, heads, width], device) = (x.dims(), x.device());
    let [sequences, _, _, half] = cos.dims();
    let shared = sequences == 1;
    let expected = [if shared { 1 } else { batch }, tokens, 1, half];
    for (what, tensor) in [("cosines", &cos), ("sines", &sin)] {
        check_same(what, tensor.dims(), expected)?;
        check(what, tensor, &device)?;
    }
    check("x of an exact rotation", &x, &device)?;
    let end = pairs.at + 2 * half;
    let expected = format_args!("at most {width}");
    Mismatch::unless(end <= width, "end of what is turned", expected, end)?;
    if batch * tokens * heads * half == 0 {
        return Ok(x);
    }
    let rotate = Rotate {
        batch,
        tokens,
        heads,
        width,
        half,
        at: pairs.at,
        interleaved: pairs.interleaved,
        shared,
    };
    let operands = [x.into(), cos.into(), sin.into()];
    Ok(run(Exact::Rotate(rotate), &device, operands)?.floats())
}

/// Chooses experts for `problem` from logits \[T, E\]; a bias \[E\] is added to the scores for the selection only. T is at least 1.
pub(crate) fn route(
    logits: Tensor<2>,
    bias: Option<Tensor<1>>,
    problem: Problem,
) -> Result<Chosen, Error> {
    let device = logits.device();
    check("logits of an exact choice", &logits, &device)?;
    let route = Exact::Route {
        problem,
        bias: bias.is_some(),
    };
    let operands: [Option<DeviceValue>; 2] = [Some(logits.into()), bias.map(Into::into)];
    let mut results = run(route, &device, operands.into_iter().flatten())?;
    Ok(Chosen {
        indices: results.words(),
        weights: results.floats(),
        probs: results.floats(),
        logsumexp: results.floats(),
    })
}

/// Computes o \[B, Hq, Sq, Dv\] of q over the pool; `sinks` are there if the problem has them. The caller has checked all shapes.
pub(crate) fn attend(
    q: Tensor<4>,
    pool: Tensor<2, Int>,
    [table, spans]: [Tensor<2, Int>; 2],
    sinks: Vec<DeviceValue>,
    problem: Attend,
) -> Result<Tensor<4>, Error> {
    let device = q.device();
    let operands = [q.into(), pool.into(), table.into(), spans.into()];
    let operands = operands.into_iter().chain(sinks);
    Ok(run(Exact::Attend(problem), &device, operands)?.floats())
}

#[cfg(feature = "flex")]
pub(super) mod flex {
    //! The operations on Flex.

    use crate::ops::host::{Computed, Floats, Operands, contiguous, signed_words, words};
    use moebius_host::exact as host;
    use moebius_host::kv_cache::Places;
    use moebius_ops::Exact;
    use moebius_ops::kv_cache::Attend;

    pub(in crate::ops) fn run(operation: &Exact, mut b: Operands) -> Vec<Computed> {
        let mut floats = |name: &str| Floats::of(&mut b, name);
        let y = match operation {
            Exact::Map { function, .. } => host::map(*function, floats("x").values()),
            Exact::Product(p) => {
                let operands = ["x", "W", "b"].map(floats);
                let indices = b.maybe_word("indices").map(words).unwrap_or_default();
                host::product(p, operands.each_ref().map(Floats::values), &indices)
            }
            Exact::Activate(p) => host::activate(p, floats("x").values()),
            Exact::Norm(p) => host::norm(p, floats("x").values(), floats("gamma").values()),
            Exact::Route { problem, .. } => {
                let [logits, bias] = ["logits", "bias"].map(floats);
                let chosen = host::route(problem, logits.values(), bias.maybe());
                return vec![
                    chosen.indices.into(),
                    chosen.weights.into(),
                    chosen.probs.into(),
                    chosen.logsumexp.into(),
                ];
            }
            Exact::Combine(p) => {
                let operands = ["rows", "weights", "base"].map(floats);
                host::combine(p, operands.each_ref().map(Floats::values))
            }
            Exact::Rotate(p) => {
                let [x, cos, sin] = ["x", "cos", "sin"].map(floats);
                host::rotate(p, x.values(), [cos.values(), sin.values()])
            }
            Exact::Attend(p) => attended(p, b),
        };
        vec![y.into()]
    }

    fn attended(attend: &Attend, mut b: Operands) -> Vec<f32> {
        let step = ["table", "spans"].map(|name| contiguous(b.word(name)));
        let [table, spans] = step.each_ref().map(signed_words);
        let pool = contiguous(b.word("pool"));
        let [q, sinks] = ["q", "sinks"].map(|name| Floats::of(&mut b, name));
        let places = Places {
            table: &table,
            spans: &spans,
            pages: attend.table(),
        };
        host::attend(
            attend,
            &places,
            [q.values(), sinks.values()],
            pool.storage(),
        )
    }
}
