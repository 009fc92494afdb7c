//! Linear layers with 2:4 weights against the same layers with the dense weights.

use crate::tensors::{bits, doubles, dtype, floats, random};
use burn::module::{Module, Param};
use burn::tensor::{Bool, DType, Device, Tensor, TensorData};
use moebius::fp8::training::Fp8Recipe;
use moebius::nn::{Linear, linear};
use moebius::sparse::Sparse24Tensor;
use moebius::{Error, ErrorKind};
use moebius_device::Runtime;
use moebius_ops::Element;
use moebius_shaders::DeviceElement;
use moebius_tests::refusal::assert_refused;
use moebius_tests::target::Target;
use moebius_tests::tolerance::{assert_close, rel_l2};

/// A layer \[n, k\] with a bias and half of its random weights, and the dense weights that it computes with.
fn layer(device: &Device, [n, k]: [usize; 2], dtype: DType) -> (Linear, Tensor<2>) {
    let weight = random(n as u64, [n, k], 2.0, device).cast(dtype);
    let bias = Param::from_tensor(random(k as u64, [n], 2.0, device).cast(dtype));
    let sparse = Sparse24Tensor::from_dense(weight).unwrap();
    let dense = sparse.to_dense().unwrap();
    (Linear::from_sparse24(sparse, Some(bias)).unwrap(), dense)
}

/// Compares a layer with one of the dense weights: bit for bit in f32, except on XLA, which chooses the order of sums.
fn check(target: &Target, element: Element) {
    let (device, dtype) = (target.burn(), dtype(element));
    let ordered = target.capability().runtime != Runtime::Xla;
    for [m, n, k] in [[1, 1, 4], [1, 70, 132], [7, 64, 64], [40, 129, 256]] {
        let (sparse, dense) = layer(&device, [n, k], dtype);
        let x = random(m as u64, [m, k], 2.0, &device).cast(dtype);
        let bias = sparse.bias.as_ref().map(Param::val);
        let got = sparse.forward(x.clone()).unwrap();
        let want = linear(x, dense, bias).unwrap();
        if ordered && element == Element::F32 {
            assert_eq!(bits(got), bits(want), "{m} x {n} x {k}");
        } else {
            assert_close("y", &floats(got), &doubles(want), rel_l2(element));
        }
    }
}

pub(crate) fn values(target: &Target) {
    check(target, Element::F32);
}

pub(crate) fn half(target: &Target, element: Element) -> Result<(), Error> {
    if target.client().is_some() {
        element.supported("sparse24", target.capability())?;
    }
    check(target, element);
    Ok(())
}

/// Checks that layers lose half of their weights, and what is left of their bytes.
pub(crate) fn sparsified(target: &Target) {
    let device = target.burn();
    let weight = random(1, [8, 64], 2.0, &device);
    let dense = Linear::new(Param::from_tensor(weight), None).unwrap();
    let sparse = dense.sparsify().unwrap();
    assert_eq!([dense.bytes(), sparse.bytes()], [8 * 256, 8 * (128 + 8)]);
    let values = floats(sparse.weight.values().unwrap());
    let all = floats(dense.weight.values().unwrap());
    assert_eq!(values.iter().filter(|w| **w == 0.0).count(), 8 * 32);
    assert!(
        values
            .iter()
            .zip(&all)
            .all(|(w, all)| *w == 0.0 || w == all)
    );
    let copy = dense.sparsify().unwrap();
    let loaded = copy.load_record(sparse.into_record());
    assert_eq!(floats(loaded.weight.values().unwrap()), values);
}

/// Checks the gradients of x and of the bias against those of a layer of the dense weights; the weights have none.
pub(crate) fn gradients(target: &Target) {
    let device = target.burn().autodiff();
    let (sparse, dense) = layer(&device, [33, 68], DType::F32);
    let bias = sparse.bias.clone().unwrap();
    let x = random(3, [9, 68], 2.0, &device).require_grad();
    let of_y = random(4, [9, 33], 1.0, &device);
    let loss = |y: Tensor<2>| (y * of_y.clone()).sum().backward();
    let of_sparse = loss(sparse.forward(x.clone()).unwrap());
    let of_dense = loss(linear(x.clone(), dense, Some(bias.val())).unwrap());
    let tolerance = rel_l2(Element::F32);
    let [got, want] = [&of_sparse, &of_dense].map(|of| x.grad(of).unwrap());
    assert_close("dx", &floats(got), &doubles(want), tolerance);
    let [got, want] = [&of_sparse, &of_dense].map(|of| bias.val().grad(of).unwrap());
    assert_close("db", &floats(got), &doubles(want), tolerance);
}

/// Checks masks that another method has chosen, and what no layer can be made of.
pub(crate) fn masks_and_refusals(target: &Target) {
    let device = target.burn();
    let w = random(1, [4, 8], 2.0, &device);
    let shape = ErrorKind::Shape;
    assert_refused(shape, Sparse24Tensor::from_dense(w.clone().narrow(1, 0, 6)));
    assert_refused(shape, Sparse24Tensor::from_dense(w.clone() * f32::NAN));
    let mask = |kept: [bool; 8]| {
        let data = TensorData::new(kept.repeat(4), [4, 8]);
        Tensor::<2, Bool>::from_data(data, &device)
    };
    let (t, f) = (true, false);
    let three = mask([t, f, f, t, t, t, f, t]);
    assert_refused(shape, Sparse24Tensor::pack(w.clone(), three));
    let two = mask([t, f, f, t, f, t, f, t]);
    let narrow = w.clone().narrow(1, 0, 4);
    assert_refused(shape, Sparse24Tensor::pack(narrow, two.clone()));
    let sparse = Sparse24Tensor::pack(w.clone(), two).unwrap();
    let of_first = floats(sparse.to_dense().unwrap().narrow(0, 0, 1));
    let all = floats(w.narrow(0, 0, 1));
    let want = [all[0], 0.0, 0.0, all[3], 0.0, all[5], 0.0, all[7]];
    assert_eq!(of_first, want);
    let linear = Linear::from_sparse24(sparse, None).unwrap();
    let narrow = linear.forward(random(2, [3, 4], 1.0, &device));
    assert_refused(shape, narrow);
    assert_refused(ErrorKind::State, linear.in_fp8(Fp8Recipe::current()));
}
