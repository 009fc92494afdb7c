//! Layers with weights in blocks of codes against the same layers with the decoded weights.

use crate::block_gemm::random_blocks;
use crate::tensors::{bits, doubles, dtype, floats, integers, random};
use crate::{fp8_linear, fp8_models};
use burn::module::Param;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use moebius::blocks::{self, BlockFormat, BlockLayout, BlockTensor};
use moebius::fp8::Weight;
use moebius::fp8::training::Fp8Recipe;
use moebius::moe::switching::HostLayer;
use moebius::moe::{Activation, Experts, MoeConfig, MoeLayer, SharedExpertConfig};
use moebius::nn::{Linear, linear};
use moebius::{Error, ErrorKind, exact};
use moebius_device::Runtime;
use moebius_ops::Element;
use moebius_shaders::DeviceElement;
use moebius_tests::refusal::assert_refused;
use moebius_tests::target::Target;
use moebius_tests::tolerance::{assert_close, rel_l2};

fn stack(shape: [usize; 3], format: BlockFormat, device: &Device) -> BlockTensor {
    let [matrices, rows, columns] = shape;
    let bytes = random_blocks(format, [matrices * rows, columns]);
    BlockTensor::from_bytes(&bytes, BlockLayout { shape, format }, device).unwrap()
}

/// Compares layers with those of the decoded weights: bit for bit, except on XLA, which chooses the order of sums.
pub(crate) fn values(target: &Target) {
    let device = target.burn();
    let ordered = target.capability().runtime != Runtime::Xla;
    for format in BlockFormat::ALL {
        let k = 2 * format.layout().values;
        for [m, n] in [[1, 1], [1, 70], [7, 64], [40, 33]] {
            let weights = stack([1, n, k], format, &device);
            assert_eq!(weights.bytes(), n * 4 * format.row_words(k));
            let dense: Tensor<2> = weights.to_dense().unwrap().squeeze_dim(0);
            let bias = random(n as u64, [n], 1.0, &device);
            let of_blocks = Weight::from_blocks(weights).unwrap();
            let layer = Linear::new(of_blocks, Some(Param::from_tensor(bias.clone()))).unwrap();
            let x = random(m as u64, [m, k], 1.0, &device);
            let got = layer.forward(x.clone()).unwrap();
            let want = linear(x, dense, Some(bias)).unwrap();
            if ordered {
                assert_eq!(bits(got), bits(want), "{format}: {m} x {n} x {k}");
            } else {
                assert_close("y", &floats(got), &doubles(want), rel_l2(Element::F32));
            }
        }
    }
}

/// Checks x in 16 bits, whose products are those of weights in f32.
pub(crate) fn half(target: &Target, element: Element) -> Result<(), Error> {
    if target.client().is_some() {
        element.supported("blocks", target.capability())?;
    }
    let device = target.burn();
    let weights = stack([1, 70, 256], BlockFormat::Q4K, &device);
    let dense: Tensor<2> = weights.to_dense()?.squeeze_dim(0);
    let x = random(1, [21, 256], 1.0, &device).cast(dtype(element));
    let got = blocks::linear(x.clone(), &weights)?;
    assert_eq!(got.dtype(), dtype(element));
    let want = linear(x.cast(DType::F32), dense, None)?;
    assert_close("y", &floats(got), &doubles(want), rel_l2(element));
    Ok(())
}

/// Checks rows that are decoded on the device, as an embedding takes them; those of an exact model, and its products, have the bits of decoded
/// weights.
pub(crate) fn rows(target: &Target) {
    let device = target.burn();
    for format in BlockFormat::ALL {
        let k = 2 * format.layout().values;
        let weights = stack([1, 9, k], format, &device);
        let ids = Tensor::<1, Int>::from_ints([8, 0, 3, 3], &device);
        assert_eq!(integers(ids.clone()), [8, 0, 3, 3]);
        let dense: Tensor<2> = weights.to_dense().unwrap().squeeze_dim(0);
        let some = dense.clone().select(0, ids.clone());
        let got = floats(weights.rows(ids.clone()).unwrap());
        assert_eq!(got, floats(some.clone()), "{format}");
        let none = Tensor::<1, Int>::empty([0], (&device, DType::I32));
        assert_eq!(weights.rows(none.clone()).unwrap().dims(), [0, k]);
        let got = exact::rows_in_blocks(&weights, ids);
        if target.capability().runtime == Runtime::Xla {
            assert_refused(ErrorKind::Unsupported, got);
            continue;
        }
        // Numbers that don't count in exact operations are +0.
        let want = exact::combine(some, None, None, 1.0).unwrap();
        assert_eq!(bits(got.unwrap()), bits(want), "{format}");
        assert_eq!(
            exact::rows_in_blocks(&weights, none).unwrap().dims(),
            [0, k]
        );
        let (x, bias) = (
            random(2, [3, k], 1.0, &device),
            random(3, [9], 1.0, &device),
        );
        let got = exact::linear_in_blocks(x.clone(), &weights, Some(bias.clone()));
        let want = exact::linear(x, dense, Some(bias)).unwrap();
        assert_eq!(bits(got.unwrap()), bits(want), "{format}");
    }
}

/// A layer of gated experts with a shared one, and its weights in blocks.
fn layer(device: &Device) -> (MoeLayer, [BlockTensor; 2]) {
    let config = MoeConfig::new(64, 96, 3)
        .with_activation(Activation::Silu)
        .with_gated(true)
        .with_shared(Some(SharedExpertConfig::new(32)));
    let w_in = stack([3, 2 * 96, 64], BlockFormat::Q4_0, device);
    let w_out = stack([3, 64, 96], BlockFormat::Mxfp4, device);
    (config.init(device).unwrap(), [w_in, w_out])
}

/// The layer with these weights.
fn with(mut layer: MoeLayer, w_in: Weight<3>, w_out: Weight<3>) -> MoeLayer {
    let Experts::FeedForward(experts) = &mut layer.experts else {
        panic!("they are feed-forward");
    };
    (experts.w_in, experts.w_out) = (w_in, w_out);
    layer
}

/// Checks that experts in blocks compute what they do on the device when they move there as tokens need them, within the bytes of their blocks.
fn check_switched(target: &Target, layer: &MoeLayer, of_each: u64) {
    for places in [1, 2] {
        let host = HostLayer::read(layer.clone()).unwrap();
        let budget = of_each * (places + 1);
        let mut switched = host.switched(budget, &target.burn()).unwrap();
        assert_eq!(switched.cache().device_bytes(), of_each * places);
        for tokens in [1, 7, 50] {
            let x = random(tokens as u64, [tokens, 64], 1.0, &target.burn());
            let want = floats(layer.forward(x.clone()).unwrap().y);
            let got = floats(switched.forward(x).unwrap().y);
            target.assert_same_rows(&format!("{places} places"), &got, &want);
        }
        let moves = switched.cache().statistics();
        assert_eq!(moves.moved_bytes, moves.misses * of_each);
    }
}

/// Compares experts with those of the decoded weights, counts their bytes, and has them move to the device when tokens need them.
pub(crate) fn experts(target: &Target) {
    let device = target.burn();
    let (layer, [w_in, w_out]) = layer(&device);
    let float = |weights: &BlockTensor, parts| {
        let values = Param::from_tensor(weights.to_dense().unwrap());
        Weight::from(values).with_parts(parts)
    };
    let decoded = with(layer.clone(), float(&w_in, 2), float(&w_out, 1));
    let bytes = w_in.bytes() + w_out.bytes();
    let [w_in, w_out] = [w_in, w_out].map(|weights| Weight::from_blocks(weights).unwrap());
    let layer = with(layer, w_in, w_out);
    for tokens in [1, 7, 50] {
        let x = random(tokens as u64, [tokens, 64], 1.0, &device);
        let got = layer.forward(x.clone()).unwrap().y;
        let want = decoded.forward(x.clone()).unwrap().y;
        assert_close("y", &floats(got), &doubles(want), rel_l2(Element::F32));
        // Of one token, only the experts that it chose are decoded.
        let [got, want] = [&layer, &decoded].map(|layer| layer.forward_exactly(x.clone()));
        if target.capability().runtime == Runtime::Xla {
            assert_refused(ErrorKind::Unsupported, got);
        } else {
            assert_eq!(bits(got.unwrap().y), bits(want.unwrap().y), "{tokens}");
        }
    }
    let Experts::FeedForward(experts) = &layer.experts else {
        panic!("they are feed-forward");
    };
    assert_eq!(experts.bytes(), bytes);
    assert_eq!(bytes, 3 * (192 * 36 + 64 * 52));
    check_switched(target, &layer, bytes as u64 / 3);
}

/// Checks shapes that no blocks have: without values, with more bytes than are counted, and with more than a buffer of the device has.
fn assert_shapes_refused(target: &Target) {
    let made = |shape| {
        let format = BlockFormat::Q8_0;
        BlockTensor::from_bytes(&[], BlockLayout { shape, format }, &target.burn())
    };
    for shape in [[1, 0, 64], [1, 2, 0], [usize::MAX, usize::MAX, 64]] {
        assert_refused(ErrorKind::Shape, made(shape));
    }
    // Where no buffer is too large, its bytes are missing.
    let blocks = isize::MAX as usize / 64;
    let holds = target.capability().limits.max_buffer_bytes >= 34 * blocks as u64;
    let refused = if target.client().is_none() || holds {
        ErrorKind::Shape
    } else {
        ErrorKind::Unsupported
    };
    assert_refused(refused, made([1, 1, 32 * blocks]));
}

/// Checks that gradients pass weights in blocks, and train low-rank changes beside them.
pub(crate) fn gradients(target: &Target) {
    let device = target.burn();
    for format in BlockFormat::ALL {
        let weights = stack([1, 70, 2 * format.layout().values], format, &device);
        fp8_linear::check_gradients(format.name(), Weight::from_blocks(weights).unwrap());
    }
    let (layer, weights) = layer(&device);
    let [w_in, w_out] = weights.map(|weights| Weight::from_blocks(weights).unwrap());
    fp8_models::check_gradients(&with(layer, w_in, w_out));
}

/// Checks what no layer can be made of, and what a layer with blocks can't do.
pub(crate) fn refusals(target: &Target) {
    assert_shapes_refused(target);
    let (device, shape) = (target.burn(), ErrorKind::Shape);
    let layout = BlockLayout {
        shape: [1, 2, 64],
        format: BlockFormat::Q8_0,
    };
    let made = |bytes: usize, layout| BlockTensor::from_bytes(&vec![0; bytes], layout, &device);
    assert_refused(shape, made(2 * 68 - 1, layout));
    let uneven = BlockLayout {
        shape: [1, 2, 48],
        ..layout
    };
    assert_refused(shape, made(2 * 51, uneven));
    // Only processors multiply interleaved rows.
    if target.name != "flex" {
        let words = TensorData::zeros::<i32, _>(layout.words_shape());
        assert_refused(
            ErrorKind::Unsupported,
            BlockTensor::from_interleaved(words, layout, &device),
        );
    }
    let several = stack([2, 2, 64], BlockFormat::Q8_0, &device);
    assert_refused(shape, Weight::<2>::from_blocks(several.clone()));
    assert_refused(
        shape,
        blocks::linear(random(1, [1, 64], 1.0, &device), &several),
    );
    let one = made(2 * 68, layout).unwrap();
    assert_refused(
        shape,
        blocks::linear(random(1, [1, 32], 1.0, &device), &one),
    );
    let linear = Linear::new(Weight::from_blocks(one).unwrap(), None).unwrap();
    assert_refused(
        ErrorKind::State,
        linear.clone().in_fp8(Fp8Recipe::current()),
    );
    let trained = device.clone().autodiff();
    let x = random(1, [1, 64], 1.0, &trained);
    assert_refused(ErrorKind::Device, linear.forward(x));
}
