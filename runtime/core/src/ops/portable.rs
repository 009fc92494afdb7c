//! Our operations on Flex, where the host is the device: the layer composed of Burn's primitive
//! operations, the routing and the FP8 codec in plain Rust.
//!
//! An oracle for the kernels that shares no code with them. The codec and the drop rule are the
//! host's own, which the committed case files check.

use super::{
    Biases, Combined, Experts, ExpertsCall, Fp8Cast, Fp8Ops, LogitsCall, Mask, MoeOps, RouteCall,
    Routed,
};
use burn::backend::ops::{FloatTensorOps, IntTensorOps};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Flex, TensorMetadata};
use burn::tensor::{DType, FloatDType, Shape, Slice, TensorData};
use moebius_shaders::grouped_gemm::Activation;
use moebius_shaders::moe::Stage;
use moebius_shaders::permute::capacity;
use moebius_shaders::routing::Score;
use moebius_shaders::{fp8, moe, routing};

/// The f32 values of a tensor that lives on the host.
fn floats(tensor: FloatTensor<Flex>) -> Vec<f32> {
    let tensor = Flex::float_cast(tensor, FloatDType::F32).to_contiguous();
    tensor.storage::<f32>().to_vec()
}

/// The 32-bit words of an integer tensor that lives on the host.
fn words(tensor: IntTensor<Flex>) -> Vec<u32> {
    let tensor = tensor.to_contiguous();
    match tensor.dtype() {
        DType::I64 => tensor.storage::<i64>().iter().map(|w| *w as u32).collect(),
        DType::U32 => tensor.storage::<u32>().to_vec(),
        _ => tensor.storage::<i32>().iter().map(|w| *w as u32).collect(),
    }
}

fn int_tensor(words: &[u32], shape: &[usize]) -> IntTensor<Flex> {
    let words: Vec<i32> = words.iter().map(|w| *w as i32).collect();
    Flex::int_from_data(TensorData::new(words, shape.to_vec()), &Default::default())
}

fn float_tensor(values: Vec<f32>, shape: &[usize]) -> FloatTensor<Flex> {
    Flex::float_from_data(TensorData::new(values, shape.to_vec()), &Default::default())
}

impl Fp8Ops for Flex {
    fn fp8_encode(x: FloatTensor<Self>, call: Fp8Cast, overflow: fp8::Overflow) -> IntTensor<Self> {
        let codes: Vec<u8> = floats(x)
            .iter()
            .map(|value| fp8::encode_host(*value, call.format, overflow))
            .collect();
        let words = fp8::pack(&codes);
        int_tensor(&words, &[words.len()])
    }

    fn fp8_decode(packed: IntTensor<Self>, call: Fp8Cast) -> FloatTensor<Self> {
        let codes = fp8::unpack(&words(packed), call.len);
        let values = codes
            .iter()
            .map(|code| fp8::decode_host(*code, call.format));
        float_tensor(values.collect(), &[call.len])
    }
}

impl MoeOps for Flex {
    fn moe_router_logits(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        _: LogitsCall,
    ) -> FloatTensor<Self> {
        matmul_transposed::<Self>(to_f32::<Self>(x), to_f32::<Self>(w))
    }

    fn moe_route(logits: FloatTensor<Self>, mask: Mask<Self>, call: RouteCall) -> Routed<Self> {
        let problem = &call.problem;
        let logits = floats(logits);
        let mask = match mask {
            Mask::All => None,
            Mask::Only(mask) => Some(words(mask)),
        };
        let (mut indices, mut weights) = (Vec::new(), Vec::new());
        let mut probs = Vec::with_capacity(logits.len());
        for row in logits.chunks(problem.experts()) {
            let available = |e: &usize| mask.as_ref().is_none_or(|mask| mask[*e] != 0);
            let scores = scores(row, &available, problem.score());
            let (experts, chosen) = choose(problem, row, &available, &scores);
            indices.extend(experts);
            weights.extend(chosen);
            probs.extend(scores);
        }
        let (t, k, e) = (problem.tokens(), problem.top_k(), problem.experts());
        Routed {
            indices: int_tensor(&indices, &[t, k]),
            weights: float_tensor(weights, &[t, k]),
            probs: float_tensor(probs, &[t, e]),
        }
    }

    fn moe_experts(
        x: FloatTensor<Self>,
        indices: IntTensor<Self>,
        weights: FloatTensor<Self>,
        weights_of: Experts<Self>,
        call: ExpertsCall,
    ) -> Combined<Self> {
        let problem = &call.problem;
        let (experts, slots) = (problem.routing.experts(), problem.routing.slots());
        let (b_in, b_out) = match weights_of.biases {
            Biases::Absent => (None, None),
            Biases::Present { b_in, b_out } => (Some(b_in), Some(b_out)),
        };
        let mut keys = words(indices);
        if let Some(capacity) = problem.capacity {
            let limits = capacity::capacities_reference(&capacity, slots, experts, None, None);
            keys = capacity::reference(&keys, &floats(weights.clone()), &limits);
        }
        let done = |stage| call.clock.iter().for_each(|clock| clock.mark(stage));
        let groups = slots_by_expert(&keys, experts);
        done(Stage::Sort);
        let bias = |b: &Option<FloatTensor<Self>>, e| b.clone().map(|b| expert_row::<Self>(b, e));
        let mut hidden = Vec::with_capacity(groups.len());
        for (e, slots) in &groups {
            let tokens: Vec<u32> = slots
                .iter()
                .map(|s| s / problem.routing.top_k() as u32)
                .collect();
            let rows = Self::float_select(x.clone(), 0, int_tensor(&tokens, &[tokens.len()]));
            let w = expert::<Self>(weights_of.w_in.clone(), *e);
            let rows = matmul_transposed::<Self>(to_f32::<Self>(rows), w);
            hidden.push(activate::<Self>(
                problem,
                add_bias::<Self>(rows, bias(&b_in, *e)),
            ));
        }
        done(Stage::Gemm1);
        let mut outputs = Vec::with_capacity(groups.len() + 1);
        for ((e, _), hidden) in groups.iter().zip(hidden) {
            let out =
                matmul_transposed::<Self>(hidden, expert::<Self>(weights_of.w_out.clone(), *e));
            outputs.push(add_bias::<Self>(out, bias(&b_out, *e)));
        }
        done(Stage::Gemm2);
        let order: Vec<u32> = groups.into_iter().flat_map(|(_, slots)| slots).collect();
        let y = combine(problem, outputs, &order, weights);
        done(Stage::Combine);
        Combined {
            y: Self::float_cast(y, float_dtype(x.dtype())),
            dropped: int_tensor(&[(slots - order.len()) as u32], &[1]),
        }
    }
}

/// The experts that have slots, with them, in order.
fn slots_by_expert(keys: &[u32], experts: usize) -> Vec<(usize, Vec<u32>)> {
    let mut groups = vec![Vec::new(); experts];
    for (slot, key) in keys.iter().enumerate() {
        if let Some(group) = groups.get_mut(*key as usize) {
            group.push(slot as u32);
        }
    }
    let occupied = groups
        .into_iter()
        .enumerate()
        .filter(|(_, slots)| !slots.is_empty());
    occupied.collect()
}

/// Scores of one token; 0 for experts that aren't available.
fn scores(row: &[f32], available: &dyn Fn(&usize) -> bool, score: Score) -> Vec<f32> {
    let each = |f: &dyn Fn(f32) -> f32| -> Vec<f32> {
        let value = |e: usize| if available(&e) { f(row[e]) } else { 0.0 };
        (0..row.len()).map(value).collect()
    };
    match score {
        Score::Sigmoid => each(&|logit| 1.0 / (1.0 + (-logit).exp())),
        Score::Softmax => {
            let logits = (0..row.len()).filter(available).map(|e| row[e]);
            let largest = logits.fold(f32::NEG_INFINITY, f32::max);
            let exp = each(&|logit| (logit - largest).exp());
            let sum: f32 = exp.iter().sum();
            exp.iter()
                .map(|exp| if sum == 0.0 { 0.0 } else { exp / sum })
                .collect()
        }
    }
}

/// The experts of one token, best first, and their weights.
fn choose(
    problem: &routing::Problem,
    row: &[f32],
    available: &dyn Fn(&usize) -> bool,
    scores: &[f32],
) -> (Vec<u32>, Vec<f32>) {
    let rank = |e: usize| (!row[e].is_nan(), if row[e].is_nan() { 0.0 } else { row[e] });
    let mut best: Vec<usize> = (0..row.len()).filter(available).collect();
    // A stable sort keeps equal logits in the order of their index.
    best.sort_by(|a, b| {
        rank(*b)
            .partial_cmp(&rank(*a))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    best.truncate(problem.top_k());
    let mut weights: Vec<f32> = best.iter().map(|e| scores[*e]).collect();
    if problem.renormalize() {
        // Logarithms of the scores, so that a tiny sum of sigmoids doesn't divide 0 by 0.
        let log = |e: &usize| match problem.score() {
            Score::Softmax => row[*e],
            Score::Sigmoid => row[*e].min(0.0) - (-row[*e].abs()).exp().ln_1p(),
        };
        let logs: Vec<f32> = best.iter().map(log).collect();
        let exp = logs.iter().map(|l| (l - logs[0]).exp());
        let sum: f32 = exp.clone().sum();
        weights = exp.map(|exp| exp / sum).collect();
    }
    let mut experts: Vec<u32> = best.iter().map(|e| *e as u32).collect();
    experts.resize(problem.top_k(), problem.experts() as u32);
    weights.resize(problem.top_k(), 0.0);
    (experts, weights)
}

fn to_f32<B: Backend>(tensor: FloatTensor<B>) -> FloatTensor<B> {
    if tensor.dtype() == DType::F32 {
        return tensor;
    }
    B::float_cast(tensor, FloatDType::F32)
}

fn float_dtype(dtype: DType) -> FloatDType {
    match dtype {
        DType::F16 => FloatDType::F16,
        DType::BF16 => FloatDType::BF16,
        _ => FloatDType::F32,
    }
}

/// Rows below which Flex's matmul may sum in another order than above.
///
/// Its gemm crate turns one row into a matrix-vector product, sums products of at most 16 × 16
/// outputs across the vector lanes, and cuts k > 512 differently when rows and columns are at most
/// 64. Padding keeps a token's output independent of its batch.
fn fewest_rows(columns: usize, k: usize) -> usize {
    let beyond_small = 256 / columns + 1;
    let beyond_blocks = if columns <= 64 && k > 512 { 65 } else { 2 };
    beyond_small.max(beyond_blocks)
}

/// a · bᵀ.
fn matmul_transposed<B: Backend>(a: FloatTensor<B>, b: FloatTensor<B>) -> FloatTensor<B> {
    let (rows, k, columns) = (a.shape()[0], a.shape()[1], b.shape()[0]);
    let b = B::float_swap_dims(b, 0, 1);
    let padding = fewest_rows(columns, k).saturating_sub(rows);
    if padding == 0 {
        return B::float_matmul(a, b);
    }
    let zeros = B::float_zeros(Shape::from([padding, k]), &a.device(), FloatDType::F32);
    let product = B::float_matmul(B::float_cat(vec![a, zeros], 0), b);
    B::float_slice(product, &[Slice::from(0..rows), Slice::full()])
}

/// Matrix `e` of a stack, in f32.
fn expert<B: Backend>(stack: FloatTensor<B>, e: usize) -> FloatTensor<B> {
    let shape = stack.shape();
    let one = Slice::from(e..e + 1);
    let matrix = B::float_slice(stack, &[one, Slice::full(), Slice::full()]);
    to_f32::<B>(B::float_reshape(matrix, Shape::from([shape[1], shape[2]])))
}

/// Row `e` of a matrix of biases, in f32.
fn expert_row<B: Backend>(biases: FloatTensor<B>, e: usize) -> FloatTensor<B> {
    to_f32::<B>(B::float_slice(
        biases,
        &[Slice::from(e..e + 1), Slice::full()],
    ))
}

fn add_bias<B: Backend>(rows: FloatTensor<B>, bias: Option<FloatTensor<B>>) -> FloatTensor<B> {
    match bias {
        Some(bias) => B::float_add(rows, bias),
        None => rows,
    }
}

/// The activation, and the product with the up projection when gated.
fn activate<B: Backend>(problem: &moe::Problem, hidden: FloatTensor<B>) -> FloatTensor<B> {
    let act = |x: FloatTensor<B>| match problem.activation {
        Activation::Relu => B::relu(x),
        Activation::Gelu => B::gelu(x),
        Activation::Silu => B::float_mul(x.clone(), B::sigmoid(x)),
    };
    if !problem.gated {
        return act(hidden);
    }
    let f = problem.inter;
    let part = |from: usize| {
        B::float_slice(
            hidden.clone(),
            &[Slice::full(), Slice::from(from..from + f)],
        )
    };
    B::float_mul(act(part(0)), part(f))
}

/// Weighted sum of the slots of every token; `outputs` are rows of the slots in `order`.
fn combine(
    problem: &moe::Problem,
    outputs: Vec<FloatTensor<Flex>>,
    order: &[u32],
    weights: FloatTensor<Flex>,
) -> FloatTensor<Flex> {
    let r = &problem.routing;
    let (t, k, h) = (r.tokens(), r.top_k(), problem.hidden);
    // One row of zeros stands for the slots that reached no expert.
    let nowhere = order.len() as u32;
    let mut position = vec![nowhere; r.slots()];
    for (at, slot) in order.iter().enumerate() {
        position[*slot as usize] = at as u32;
    }
    // Its weight is 0 too, because 0 times a NaN weight would not be.
    let mut weights = floats(weights);
    for (weight, at) in weights.iter_mut().zip(&position) {
        if *at == nowhere {
            *weight = 0.0;
        }
    }
    let mut outputs = outputs;
    outputs.push(float_tensor(vec![0.0; h], &[1, h]));
    let rows = Flex::float_cat(outputs, 0);
    let slots = Flex::float_select(rows, 0, int_tensor(&position, &[position.len()]));
    let slots = Flex::float_reshape(slots, Shape::from([t, k, h]));
    let weights = float_tensor(weights, &[t, k, 1]);
    let sum = Flex::float_sum_dim(Flex::float_mul(slots, weights), 1);
    Flex::float_reshape(sum, Shape::from([t, h]))
}
