//! Ordinary layers on the experts' kernels, and their gradients, against the f64 oracle.

use crate::tensors::{dtype, floats, typed};
use burn::module::Param;
use burn::nn::RmsNormConfig;
use burn::tensor::{DType, Tensor};
use moebius::nn::Pairs;
use moebius::{Error, ErrorKind, nn, reduce};
use moebius_ops::Element;
use moebius_ops::permute;
use moebius_ops::segment_attention::{
    Problem, Segments, reference, reference_backward, reference_segments,
};
use moebius_shaders::DeviceElement;
use moebius_tests::data::Rng;
use moebius_tests::elements::{exact, rounded};
use moebius_tests::refusal::assert_refused;
use moebius_tests::target::Target;
use moebius_tests::tolerance::{assert_close, assert_gradient, rel_l2};

/// Host values of an element type, and a tensor of them that records gradients.
struct Operand<const D: usize> {
    host: Vec<f64>,
    tensor: Tensor<D>,
}

impl<const D: usize> Operand<D> {
    fn new(target: &Target, shape: [usize; D], seed: u64, element: Element) -> Self {
        let values = Rng::new(seed).vec(shape.iter().product(), 1.0);
        let values = rounded(values, element);
        let tensor = typed(&values, shape, dtype(element), &target.burn().autodiff());
        Self {
            host: exact(&values),
            tensor: tensor.require_grad(),
        }
    }
}

/// Checks the gradients of more rows than Mesa's software adapter lets a loop have rounds.
pub(crate) fn many_rows(target: &Target) {
    linear_of(target, [65_600, 2, 4], true, Element::F32);
}

/// Checks reductions along more elements than Mesa's software adapter lets a loop have rounds, of rows and of columns.
pub(crate) fn long_axes(target: &Target) {
    const LEN: usize = 70_001;
    let values: Vec<f32> = Rng::new(9).vec(2 * LEN, 1.0);
    let values: Vec<f32> = values.into_iter().map(f32::abs).collect();
    let host = exact(&values);
    let rows = || host.chunks(LEN);
    let sums: Vec<f64> = rows().map(|row| row.iter().sum()).collect();
    let means: Vec<f64> = sums.iter().map(|sum| sum / LEN as f64).collect();
    let most = |row: &[f64]| row.iter().copied().fold(0.0, f64::max);
    let most: Vec<f64> = rows().map(most).collect();
    let logs = |row: &[f64]| -> Vec<f64> {
        let total = row.iter().map(|x| x.exp()).sum::<f64>().ln();
        row.iter().map(|x| x - total).collect()
    };
    let logs: Vec<f64> = rows().flat_map(logs).collect();
    let x: Tensor<2> = typed(&values, [2, LEN], DType::F32, &target.burn());
    let close = |what: &str, got: Tensor<2>, want: &[f64]| {
        assert_close(what, &floats(got), want, 1e-3);
    };
    for (dim, x) in [(1, x.clone()), (0, x.clone().transpose())] {
        close("sum", reduce::sum_dim(x.clone(), dim), &sums);
        close("mean", reduce::mean_dim(x.clone(), dim), &means);
        close("max", reduce::max_dim(x.clone(), dim), &most);
        let got = reduce::log_softmax(x, dim);
        let got = if dim == 0 { got.transpose() } else { got };
        close("log_softmax", got, &logs);
    }
    let all = floats(reduce::sum(x));
    assert_close("sum of all", &all, &[sums[0] + sums[1]], 1e-3);
}

/// Checks y, dx, dW and db for x \[t,k\], W \[n,k\] and b \[n\].
fn linear_of(target: &Target, [t, n, k]: [usize; 3], bias: bool, element: Element) {
    let x = Operand::new(target, [t, k], 1, element);
    let w = Operand::new(target, [n, k], 2, element);
    let b = Operand::new(target, [n], 3, element);
    let dy = Operand::new(target, [t, n], 4, element);
    let given = bias.then(|| b.tensor.clone());
    let y = nn::linear(x.tensor.clone(), w.tensor.clone(), given).unwrap();
    let gradients = (y.clone() * dy.tensor.clone().detach()).sum().backward();
    let what = format!("[{t},{k}] by [{n},{k}] {element:?}, bias {bias}");
    let at = |row: usize, column: usize| -> f64 {
        let products = (0..k).map(|i| x.host[row * k + i] * w.host[column * k + i]);
        products.sum::<f64>() + if bias { b.host[column] } else { 0.0 }
    };
    let want: Vec<f64> = (0..t * n).map(|i| at(i / n, i % n)).collect();
    assert_close(&what, &floats(y), &want, rel_l2(element));
    let dx = (0..t * k).map(|i| {
        let products = (0..n).map(|c| dy.host[i / k * n + c] * w.host[c * k + i % k]);
        products.sum::<f64>()
    });
    let got = floats(x.tensor.grad(&gradients).unwrap());
    assert_gradient(&what, &got, &dx.collect::<Vec<_>>(), element);
    let dw = (0..n * k).map(|i| {
        let products = (0..t).map(|row| dy.host[row * n + i / k] * x.host[row * k + i % k]);
        products.sum::<f64>()
    });
    let got = floats(w.tensor.grad(&gradients).unwrap());
    assert_gradient(&what, &got, &dw.collect::<Vec<_>>(), element);
    if bias {
        let db = (0..n).map(|c| (0..t).map(|row| dy.host[row * n + c]).sum::<f64>());
        let got = floats(b.tensor.grad(&gradients).unwrap());
        assert_gradient(&what, &got, &db.collect::<Vec<_>>(), element);
    }
}

/// Checks o and the gradients of q, k and v, for sequences of which the last may be shorter.
fn attention_of(target: &Target, [tokens, sequence]: [usize; 2], causal: bool, element: Element) {
    let (heads, head) = (2, 8);
    let shape = [tokens, heads * head];
    let operands = [5, 6, 7].map(|seed| Operand::new(target, shape, seed, element));
    let d_o = Operand::new(target, shape, 8, element);
    let given = operands.each_ref().map(|operand| operand.tensor.clone());
    let o = nn::attention(given, heads, sequence, causal).unwrap();
    let gradients = (o.clone() * d_o.tensor.clone().detach()).sum().backward();
    let segments = Segments::new(tokens, 1, 1, sequence).unwrap();
    let problem = Problem::new(segments, heads, head)
        .unwrap()
        .with_causal(causal);
    let sorted = permute::reference(&vec![0; tokens], 1);
    let spans = reference_segments(&segments, &sorted);
    let qkv = operands.each_ref().map(|operand| operand.host.as_slice());
    let what = format!("{tokens} in sequences of {sequence}, causal {causal} {element:?}");
    let [want, _] = reference(&problem, &spans, qkv);
    assert_close(&what, &floats(o), &want, rel_l2(element));
    let want = reference_backward(&problem, &spans, qkv, &d_o.host);
    for (operand, want) in operands.iter().zip(&want) {
        let got = floats(operand.tensor.grad(&gradients).unwrap());
        assert_gradient(&what, &got, want, element);
    }
}

pub(crate) fn linear(target: &Target) {
    let sizes = [[1, 1, 1], [17, 9, 33], [70, 65, 20], [3, 130, 64]];
    for (size, bias) in sizes.into_iter().zip([false, true, false, true]) {
        linear_of(target, size, bias, Element::F32);
    }
}

pub(crate) fn attention(target: &Target) {
    for causal in [false, true] {
        for sizes in [[2, 2], [9, 3], [23, 10], [40, 100]] {
            attention_of(target, sizes, causal, Element::F32);
        }
    }
}

/// Checks tokens, heads and widths of 0: an empty answer of the right shape, or an error.
pub(crate) fn empty(target: &Target) {
    let device = target.burn();
    let zeros = |shape: [usize; 2]| Tensor::<2>::zeros(shape, &device);
    let y = nn::linear(zeros([0, 5]), zeros([3, 5]), None).unwrap();
    assert_eq!(y.dims(), [0, 3]);
    for (x, w) in [([2, 0], [3, 0]), ([2, 5], [0, 5])] {
        assert_refused(ErrorKind::Shape, nn::linear(zeros(x), zeros(w), None));
        let layer = nn::Linear::new(Param::from_tensor(zeros(w)), None).unwrap();
        let x = Tensor::<3>::zeros([3, x[0], x[1]], &device);
        assert_refused(ErrorKind::Shape, layer.forward(x));
    }
    let qkv = |shape: [usize; 2]| [shape; 3].map(zeros);
    let o = nn::attention(qkv([0, 16]), 2, 4, true).unwrap();
    assert_eq!(o.dims(), [0, 16]);
    assert_refused(ErrorKind::Shape, nn::attention(qkv([3, 0]), 2, 4, true));
    let norm = RmsNormConfig::new(6).init(&device);
    assert_eq!(nn::rms_norm(&norm, zeros([0, 6])).dims(), [0, 6]);
    for [tokens, heads, pairs] in [[0, 2, 4], [3, 0, 4], [3, 2, 0]] {
        let table = || Tensor::<4>::zeros([1, tokens, 1, pairs], &device);
        for interleaved in [false, true] {
            let x = Tensor::<4>::zeros([2, tokens, heads, 8], &device);
            let at = Pairs { at: 0, interleaved };
            let y = nn::rotate(x, [table(), table()], at).unwrap();
            assert_eq!(y.dims(), [2, tokens, heads, 8]);
        }
    }
}

pub(crate) fn halves(target: &Target, element: Element) -> Result<(), Error> {
    element.supported("nn", target.capability())?;
    for tokens in [3, 34, 130] {
        linear_of(target, [tokens, 20, 48], true, element);
    }
    attention_of(target, [23, 10], true, element);
    Ok(())
}
