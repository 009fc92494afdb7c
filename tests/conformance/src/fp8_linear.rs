//! Linear layers with FP8 weights against the same layers with the decoded weights, and their preparation for inference.

use crate::fp8_training::{amax, resumed};
use crate::tensors::{bits, case_file, doubles, dtype, floats, random};
use burn::module::{Module, Param};
use burn::store::ModuleRecord;
use burn::tensor::{DType, Device, FloatDType, Tensor};
use moebius::fp8::{
    ActivationScaling, Activations, Fp8Format, Fp8Layout, Fp8Tensor, Granularity, LowRank,
    Quantizer, Weight, fake_quantize,
};
use moebius::nn::Linear;
use moebius::{Error, ErrorKind};
use moebius_ops::Element;
use moebius_shaders::DeviceElement;
use moebius_tests::refusal::assert_refused;
use moebius_tests::target::Target;
use moebius_tests::tolerance::{assert_close, rel_l2};
use moebius_weights::Unscaled;

pub(crate) const BLOCK: Granularity = Granularity::Block {
    rows: 128,
    columns: 128,
};

/// Blocks of 128 columns within a row.
pub(crate) const OF_ROW: Granularity = Granularity::Block {
    rows: 1,
    columns: 128,
};

const ROW: Granularity = Granularity::Row;

pub(crate) fn e4m3(granularity: Granularity) -> Quantizer {
    Quantizer::new(Fp8Format::E4M3, granularity)
}

pub(crate) fn normal<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    random(shape.iter().sum::<usize>() as u64, shape, 2.0, device)
}

/// A layer \[n, k\] with a bias, and the decoded weights and bias that it computes with.
fn layer(
    device: &Device,
    [n, k]: [usize; 2],
    quantizer: Quantizer,
) -> (Linear, Vec<f32>, Vec<f32>) {
    let weight = Fp8Tensor::quantize(normal([n, k], device), &quantizer).unwrap();
    let decoded = floats(weight.dequantize(FloatDType::F32).unwrap());
    let bias = normal([n], device);
    let linear = Linear::from_fp8(weight, Some(bias.clone())).unwrap();
    (linear, decoded, floats(bias))
}

/// Computes x · Wᵀ + b in f64.
fn reference(x: &[f32], w: &[f32], bias: &[f32]) -> Vec<f64> {
    let k = w.len() / bias.len();
    let dot = |x: &[f32], w: &[f32]| -> f64 {
        let products = x.iter().zip(w).map(|(x, w)| f64::from(*x) * f64::from(*w));
        products.sum()
    };
    let row = |x: &[f32]| -> Vec<f64> {
        let columns = w.chunks(k).zip(bias);
        columns.map(|(w, b)| dot(x, w) + f64::from(*b)).collect()
    };
    x.chunks(k).flat_map(row).collect()
}

/// Checks every kind of scale, few and many rows, and sizes that are no multiples of a tile.
pub(crate) fn values(target: &Target) {
    let device = target.burn();
    for format in [Fp8Format::E4M3, Fp8Format::E5M2] {
        for granularity in [Granularity::Tensor, ROW, BLOCK, Granularity::Mx] {
            for [m, n, k] in [[1, 1, 1], [1, 70, 131], [7, 64, 64], [40, 129, 257]] {
                let quantizer = Quantizer::new(format, granularity);
                let (linear, w, bias) = layer(&device, [n, k], quantizer);
                let x = normal([m, k], &device);
                let got = floats(linear.forward(x.clone()).unwrap());
                let want = reference(&floats(x), &w, &bias);
                let what = format!("{format:?} {granularity:?} {m} x {n} x {k}");
                assert_close(&what, &got, &want, rel_l2(Element::F32));
            }
        }
    }
}

/// Checks x of rank 1 to 4, and x without rows.
pub(crate) fn ranks(target: &Target) {
    let device = target.burn();
    let (linear, ..) = layer(&device, [10, 12], e4m3(ROW));
    let x = normal([2, 3, 4, 12], &device);
    let y = bits(linear.forward(x.clone()).unwrap());
    let flat = linear.forward(x.clone().reshape([24, 12])).unwrap();
    assert_eq!(bits(flat.clone()), y);
    let one = x.reshape([24 * 12]).narrow(0, 0, 12);
    let one = linear.forward(one).unwrap();
    assert_eq!(one.dims(), [10]);
    target.assert_same_rows("one row", &floats(one), &floats(flat)[..10]);
    let none = linear.forward(Tensor::<2>::zeros([0, 12], &device));
    assert_eq!(none.unwrap().dims(), [0, 10]);
}

/// Checks that a row's result doesn't depend on the number of rows, whichever kernel that number selects.
pub(crate) fn independent_of_the_batch(target: &Target) {
    let device = target.burn();
    for granularity in [ROW, BLOCK] {
        let (linear, ..) = layer(&device, [100, 200], e4m3(granularity));
        let x = normal([70, 200], &device);
        let all = floats(linear.forward(x.clone()).unwrap());
        for rows in [1, 2, 5, 6, 7, 9, 64] {
            let some = linear.forward(x.clone().narrow(0, 0, rows)).unwrap();
            target.assert_same_rows(&format!("{rows} rows"), &floats(some), &all[..rows * 100]);
        }
    }
}

/// Checks that a layer that rounds its activations gives the same bits as one that is given rounded x.
pub(crate) fn rounded_activations(target: &Target) {
    let device = target.burn();
    let (linear, ..) = layer(&device, [33, 256], e4m3(BLOCK));
    let x = normal([9, 256], &device) * 10.0;
    for granularity in [ROW, OF_ROW, Granularity::Tensor, Granularity::Mx] {
        let scaling = ActivationScaling::new(Activations::Dynamic(granularity), &device);
        let rounded = fake_quantize(x.clone(), &e4m3(granularity), None).unwrap();
        let want = bits(linear.forward(rounded).unwrap());
        let rounding = linear.clone().with_activations(scaling).unwrap();
        let got = rounding.forward(x.clone());
        assert_eq!(bits(got.unwrap()), want, "{granularity:?}");
    }
}

/// Checks that a calibrated scale is used and stays fixed, and that larger values saturate.
pub(crate) fn static_activations(target: &Target) {
    let device = target.burn();
    let (linear, ..) = layer(&device, [8, 16], e4m3(ROW));
    let mut scaling = ActivationScaling::new(Activations::Static, &device);
    let uncalibrated = linear.clone().with_activations(scaling.clone()).unwrap();
    let x = normal([4, 16], &device).clamp(-2.0, 1.5);
    assert_refused(ErrorKind::State, uncalibrated.forward(x.clone()));
    assert!(scaling.fix().is_err(), "nothing was observed");
    scaling.observe();
    let observing = linear.clone().with_activations(scaling).unwrap();
    let float = bits(linear.forward(x.clone()).unwrap());
    assert_eq!(bits(observing.forward(x.clone()).unwrap()), float);
    observing.forward(x.clone() * 2.0).unwrap();
    observing.forward(x.clone()).unwrap();
    let mut scaling = observing.weight.activations().unwrap().clone();
    scaling.fix().unwrap();
    let observing = observing.with_activations(scaling).unwrap();
    let largest = 2.0 * amax(&floats(x.clone()));
    let fixed = ActivationScaling::fixed(largest / 448.0, &device).unwrap();
    let fixed = linear.with_activations(fixed).unwrap();
    for x in [x.clone(), x * 100.0] {
        let want = bits(fixed.forward(x.clone()).unwrap());
        assert_eq!(bits(observing.forward(x).unwrap()), want);
    }
    assert!(ActivationScaling::fixed(f32::NAN, &device).is_err());
    assert!(ActivationScaling::fixed(0.0, &device).is_err());
}

/// Checks scales from the history of batches: the first batch uses its own amax, and batches that left the history don't count.
pub(crate) fn delayed_activations(target: &Target) {
    let device = target.burn();
    let (linear, ..) = layer(&device, [8, 16], e4m3(ROW));
    let source = Activations::Delayed { history: 2 };
    let scaling = ActivationScaling::new(source, &device);
    let delayed = linear.clone().with_activations(scaling).unwrap();
    let x = normal([4, 16], &device);
    let unit = amax(&floats(x.clone()));
    // Factors of the batches' values, and below of the batches that their scales come from.
    let batches = [3.0, 1.0, 5.0, 1.0, 1.0, 9.0];
    for (batch, scale) in batches.into_iter().zip([3.0, 3.0, 3.0, 5.0, 5.0, 1.0]) {
        let fixed = ActivationScaling::fixed(unit * scale / 448.0, &device).unwrap();
        let x = x.clone() * batch;
        let fixed = linear.clone().with_activations(fixed).unwrap();
        let want = doubles(fixed.forward(x.clone()).unwrap());
        // The device may round a quotient differently, and then a code differs.
        assert_close("y", &floats(delayed.forward(x).unwrap()), &want, 1e-2);
    }
}

pub(crate) fn half(target: &Target, element: Element) -> Result<(), Error> {
    let (device, dtype) = (target.burn(), dtype(element));
    if target.client().is_some() {
        element.supported("fp8_linear", target.capability())?;
    }
    let weight = Fp8Tensor::quantize(normal([70, 132], &device), &e4m3(BLOCK)).unwrap();
    let w = floats(weight.dequantize(FloatDType::F32).unwrap());
    let bias = normal([70], &device);
    let linear = Linear::from_fp8(weight, Some(bias.clone().cast(dtype))).unwrap();
    for rows in [3, 20] {
        let x = normal([rows, 132], &device).cast(dtype);
        let got = floats(linear.forward(x.clone()).unwrap());
        let bias = floats(bias.clone().cast(dtype));
        let want = reference(&floats(x), &w, &bias);
        assert_close("y", &got, &want, rel_l2(element));
    }
    Ok(())
}

/// Checks that records hold codes, scales and calibrated scales.
pub(crate) fn records(target: &Target) {
    let device = target.burn();
    for granularity in [BLOCK, Granularity::Mx] {
        let scaling = ActivationScaling::fixed(0.01, &device).unwrap();
        let (linear, ..) = layer(&device, [20, 200], e4m3(granularity));
        let linear = linear.with_activations(scaling).unwrap();
        let x = normal([3, 200], &device);
        let want = bits(linear.forward(x.clone()).unwrap());
        let other = Tensor::<2>::ones([20, 200], &device);
        let other = Fp8Tensor::quantize(other, &e4m3(granularity)).unwrap();
        let other = Linear::from_fp8(other, Some(Tensor::zeros([20], &device))).unwrap();
        let empty = ActivationScaling::new(Activations::Static, &device);
        let loaded = resumed(linear.clone(), other.with_activations(empty).unwrap());
        assert!(loaded.forward(x.clone()).is_err(), "not prepared yet");
        let mut scaling = loaded.weight.activations().unwrap().clone();
        scaling.fix().unwrap();
        let loaded = loaded.with_activations(scaling).unwrap();
        assert_eq!(bits(loaded.forward(x).unwrap()), want);
        // A record of E4M3 codes isn't taken for weights in E5M2.
        let e5m2 = Quantizer::new(Fp8Format::E5M2, granularity);
        let (other, ..) = layer(&device, [20, 200], e5m2);
        let record = ModuleRecord::from_bytes(linear.into_record().into_bytes().unwrap()).unwrap();
        let refused = match other.try_load_record(record) {
            Ok(loaded) => loaded.forward(normal([3, 200], &device)).is_err(),
            Err(_) => true,
        };
        assert!(refused, "a record of e4m3 was taken for e5m2");
    }
}

pub(crate) fn refuses_wrong_input(target: &Target) {
    let device = target.burn();
    let (linear, ..) = layer(&device, [8, 16], e4m3(ROW));
    let error = linear.forward(normal([2, 15], &device)).unwrap_err();
    let want = "x [.., in]: expected [.., 16], got [2, 15]";
    assert_eq!(error.to_string(), want);
    let recorded = normal([2, 16], &device.clone().autodiff());
    assert_refused(ErrorKind::Device, linear.forward(recorded));
    if target.capability().f16 || target.client().is_none() {
        let short = normal([2, 16], &device).cast(DType::F16);
        assert_refused(ErrorKind::Shape, linear.forward(short));
    }
    let mut replaced = linear.clone();
    replaced.bias = Some(Param::from_tensor(Tensor::ones([7], &device)));
    let error = replaced.forward(normal([2, 16], &device)).unwrap_err();
    assert_eq!(error.to_string(), "bias [out]: expected [8], got [7]");
    // Weights of a model that records gradients: only their values are taken.
    let recording = device.clone().autodiff();
    let weight = Fp8Tensor::quantize(normal([8, 16], &recording), &e4m3(BLOCK)).unwrap();
    let bias = Tensor::ones([8], &recording);
    let trained = Linear::from_fp8(weight, Some(bias)).unwrap();
    trained.forward(normal([2, 16], &device)).unwrap();
    let stack = Fp8Tensor::quantize(normal([2, 4, 4], &device), &e4m3(ROW)).unwrap();
    assert!(Linear::from_fp8(stack, None).is_err());
    let one = || Fp8Tensor::quantize(normal([4, 4], &device), &e4m3(ROW)).unwrap();
    assert!(Linear::from_fp8(one(), Some(Tensor::zeros([5], &device))).is_err());
    // A block whose edge lies within a word of codes.
    let odd = Granularity::Block {
        rows: 2,
        columns: 6,
    };
    let odd = Fp8Tensor::quantize(normal([4, 16], &device), &e4m3(odd)).unwrap();
    assert_refused(ErrorKind::Config, Linear::from_fp8(odd, None));
}

/// Checks the gradients through codes with every kind of scale.
pub(crate) fn gradients(target: &Target) {
    for granularity in [ROW, BLOCK, Granularity::Mx] {
        let (coded, ..) = layer(&target.burn(), [70, 132], e4m3(granularity));
        check_gradients(&format!("{granularity:?}"), coded.weight);
    }
}

/// Checks the gradients of x, a bias and low-rank changes through a weight of codes against those through the decoded weight.
pub(crate) fn check_gradients(what: &str, coded: Weight<2>) {
    let recording = coded.device().autodiff();
    let [n, k] = coded.dims();
    let x = normal([9, k], &recording).require_grad();
    let dy = random(4, [9, n], 1.0, &recording);
    let with = |weight: Weight<2>| {
        let change = LowRank {
            down: Param::from_tensor(normal([1, 3, k], &recording)),
            up: Param::from_tensor(normal([1, n, 3], &recording)),
            first: 0,
            scale: 0.5,
        };
        let bias = Param::from_tensor(normal([n], &recording));
        Linear::new(weight.with_changes(vec![change]).unwrap(), Some(bias)).unwrap()
    };
    let decoded = Tensor::from_inner(coded.values().unwrap());
    let layers = [
        with(coded.train()),
        with(Weight::from(Param::from_tensor(decoded)).no_grad()),
    ];
    let [got, want] = layers.map(|layer| {
        let y = layer.forward(x.clone()).unwrap();
        let of = (y.clone() * dy.clone()).sum().backward();
        let [change] = layer.weight.changes() else {
            panic!("one change")
        };
        let factors = [&change.down, &change.up].map(|param| param.val().grad(&of).unwrap());
        let bias = layer.bias.unwrap().val().grad(&of).unwrap();
        (y.inner(), x.grad(&of).unwrap(), bias, factors)
    });
    let near = |of: &str, got: Vec<f32>, want: Vec<f64>| {
        assert_close(&format!("{of}, {what}"), &got, &want, 1e-5);
    };
    near("y", floats(got.0), doubles(want.0));
    near("dx", floats(got.1), doubles(want.1));
    near("db", floats(got.2), doubles(want.2));
    for (got, want) in got.3.into_iter().zip(want.3) {
        near("a factor", floats(got), doubles(want));
    }
}

/// Checks weights from files that PyTorch wrote: their values, and layers made of them.
pub(crate) fn checkpoints(target: &Target) {
    let device = target.burn();
    for (name, values) in [
        ("blocks", "expected_blocks.safetensors"),
        ("schemes.safetensors", "expected_schemes.safetensors"),
    ] {
        let [reader, values] = [name, values].map(|name| case_file(&format!("weights/{name}")));
        let layouts = reader.fp8_layouts(Unscaled::Refuse).unwrap();
        assert!(!layouts.is_empty());
        for layout in layouts {
            let read = reader.fp8_weight(&layout).unwrap();
            let on_device = Fp8Layout {
                shape: read.extents(),
                scheme: read.scheme,
            };
            let weight = Fp8Tensor::from_codes(&read.codes, &read.scales, on_device, &device);
            let weight = weight.unwrap();
            let want = values.read_f32(&layout.name).unwrap();
            let got = floats(weight.dequantize(FloatDType::F32).unwrap());
            let mut pairs = got.iter().zip(&want);
            let same = pairs.all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(got.len() == want.len() && same, "{}", layout.name);
            let [stack, n, k] = weight.layout().shape;
            if stack == 1 {
                let x = normal([5, k], &device);
                let y = Linear::from_fp8(weight, None).unwrap().forward(x.clone());
                let want = reference(&floats(x), &want, &vec![0.0; n]);
                assert_close(&layout.name, &floats(y.unwrap()), &want, 1e-5);
            }
        }
    }
}
