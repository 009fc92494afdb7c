//! Norms and rotations in a single pass, compared with Burn's operations, which run on a device that records gradients.

use burn::module::Param;
use burn::nn::RmsNorm;
use burn::tensor::{DType, Device, Distribution, Tensor, Tolerance};
use moebius::nn::{self, Pairs};

fn flex() -> Device {
    moebius::open(&moebius::Device::Flex).unwrap()
}

fn random<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    Tensor::random(shape, Distribution::Uniform(-2.0, 2.0), &flex())
}

fn assert_near<const D: usize>(got: Tensor<D>, want: Tensor<D>) {
    let (got, want) = (got.into_data(), want.without_autodiff().into_data());
    got.assert_approx_eq::<f32>(&want, Tolerance::absolute(2e-6));
}

#[test]
fn norms() {
    // The shapes have few and many rows, and a width that isn't a multiple of the number of parallel sums.
    for shape in [[1, 1, 3, 24], [2, 300, 2, 37]] {
        let [.., width] = shape;
        let norm = |gamma| RmsNorm {
            gamma: Param::from_tensor(gamma),
            epsilon: 1e-5,
        };
        let (x, gamma) = (random(shape), random([width]));
        let recording = |x: Tensor<4>| x.autodiff();
        let want = norm(gamma.clone().autodiff()).forward(recording(x.clone()));
        assert_near(nn::rms_norm(&norm(gamma), x), want);
    }
}

#[test]
fn rotations() {
    // There is a table per sequence, or one for all; some cases have elements before and after the rotated ones.
    for (tables, at, interleaved) in [(3, 0, false), (1, 2, false), (3, 5, true), (1, 0, true)] {
        let (x, pairs) = (random([3, 7, 4, 24]), Pairs { at, interleaved });
        let [cos, sin] = [(); 2].map(|()| random([tables, 7, 1, 8]));
        let recorded = [&cos, &sin].map(|table| table.clone().autodiff());
        let want = nn::rotate(x.clone().autodiff(), recorded, pairs).unwrap();
        // Both compute the same products and sums, so the bits agree.
        let got = nn::rotate(x, [cos, sin], pairs).unwrap();
        assert_eq!(got.into_data(), want.without_autodiff().into_data());
    }
}

/// Values in 16 bits are computed with in f32, and results are rounded once.
#[test]
fn sixteen_bits() {
    for dtype in [DType::F16, DType::BF16] {
        let x = random([2, 7, 4, 24]).cast(dtype);
        let gamma = random([24]).cast(dtype);
        let norm = |dtype| RmsNorm {
            gamma: Param::from_tensor(gamma.clone().cast(dtype)),
            epsilon: 1e-5,
        };
        let in_f32 = x.clone().cast(DType::F32);
        let want = nn::rms_norm(&norm(DType::F32), in_f32.clone()).cast(dtype);
        for of_gamma in [dtype, DType::F32] {
            let got = nn::rms_norm(&norm(of_gamma), x.clone());
            assert_eq!(got.into_data(), want.clone().into_data());
        }

        let tables = [(); 2].map(|()| random([1, 7, 1, 8]).cast(dtype));
        let pairs = Pairs {
            at: 2,
            interleaved: true,
        };
        let wide = tables.each_ref().map(|of| of.clone().cast(DType::F32));
        let want = nn::rotate(in_f32, wide, pairs).unwrap().cast(dtype);
        let got = nn::rotate(x, tables, pairs).unwrap();
        assert_eq!(got.into_data(), want.into_data());
    }
}

#[test]
fn views_and_many_rows() {
    let x = random([64, 5, 3, 40]);
    let view = x.swap_dims(1, 2).narrow(3, 4, 32);
    let tables = [(); 2].map(|()| random([1, 3, 1, 16]));
    let pairs = Pairs {
        at: 0,
        interleaved: false,
    };
    let recorded = tables.each_ref().map(|table| table.clone().autodiff());
    let want = nn::rotate(view.clone().autodiff(), recorded, pairs).unwrap();
    let got = nn::rotate(view, tables, pairs).unwrap();
    assert_eq!(got.into_data(), want.without_autodiff().into_data());
}

#[test]
fn misshapen_tables_are_refused() {
    let refused = |tables: [[usize; 4]; 2], at| {
        let pairs = Pairs {
            at,
            interleaved: false,
        };
        nn::rotate(random([2, 5, 3, 16]), tables.map(random), pairs)
            .unwrap_err()
            .to_string()
    };
    let wrong = refused([[3, 5, 1, 4]; 2], 0);
    assert!(
        wrong.contains("cosines and sines") && wrong.contains("[3, 5, 1, 4]"),
        "{wrong}"
    );
    refused([[1, 5, 1, 4], [1, 5, 1, 3]], 0);
    let wide = refused([[1, 5, 1, 8]; 2], 1);
    assert!(wide.contains("at most 16") && wide.contains("17"), "{wide}");
}
