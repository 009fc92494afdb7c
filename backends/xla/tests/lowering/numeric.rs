//! Tests of arithmetic, reductions, order and functions.

use super::harness::{Case, Io, case, gives};
use burn::tensor::ops::PadMode;
use burn::tensor::{DType, Int, Tensor};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = arithmetic();
    cases.extend(integers());
    cases.extend(powers());
    cases.extend(functions());
    cases.extend(edges());
    cases.extend(reductions());
    cases.extend(extremes());
    cases.extend(order());
    cases.extend(products());
    cases
}

fn arithmetic() -> Vec<Case> {
    vec![
        case("arithmetic", |io| {
            let (x, y) = (io.float([3, 5]), io.between([3, 5], 0.5, 2.0));
            gives!(io.out, x: add(y.clone()) sub(y.clone()) mul(y.clone()) div(y) add_scalar(0.7)
                sub_scalar(0.7) mul_scalar(-3.0) div_scalar(3.0) neg() abs());
        })
        .all_floats(),
        case("arithmetic broadcast", |io| {
            let (x, y, z) = (
                io.float([3, 1, 4]),
                io.float([1, 2, 1]),
                io.float([1, 1, 1]),
            );
            io.out(x.clone().mul(y.clone()));
            io.out(x.sub(y).add(z));
        }),
        case("remainder", |io| {
            let numbers = [5.5, -5.5, 5.5, -5.5, 0.0, f64::NAN, 6.0, f64::INFINITY];
            let x = io.numbers([8], &numbers);
            let y = io.numbers([8], &[2.0, 2.0, -2.0, -2.0, 3.0, 2.0, -3.0, 2.0]);
            gives!(io.out, x: remainder(y) remainder_scalar(-1.5) remainder_scalar(2.0));
        }),
        case("clamp", |io| {
            let x = io.numbers(
                [6],
                &[-3.0, 0.25, 3.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY],
            );
            gives!(io.out, x: clamp(-1.0, 1.0) clamp_min(0.5) clamp_max(0.5) sign());
            let x = io.int([6], -9, 9);
            gives!(io.out_int, x: clamp(-3, 3) clamp_min(0) clamp_max(0) sign());
        }),
        case("pad", |io| {
            let x = io.float([3, 4]);
            gives!(io.out, x: pad((1, 2, 0, 3), PadMode::Constant(0.5))
                pad((1, 2, 2, 1), PadMode::Reflect) pad((1, 2, 2, 0), PadMode::Edge));
            let x = io.int([3, 4], 0, 9);
            io.out_int(x.clone().pad((1, 2, 0, 3), PadMode::Constant(7.0)));
            io.out_int(x.pad((1, 2, 2, 1), PadMode::Reflect));
        }),
    ]
}

fn integers() -> Vec<Case> {
    vec![
        case("integer arithmetic", |io| {
            let (x, y) = (io.int([12], -50, 50), io.int([12], 1, 9));
            let y = y
                .clone()
                .mul(io.int([12], 0, 2).mul_scalar(2).sub_scalar(1));
            gives!(io.out_int, x: add(y.clone()) sub(y.clone()) mul(y.clone()) div(y.clone())
                remainder(y) add_scalar(7) sub_scalar(7) mul_scalar(-7) div_scalar(-7)
                remainder_scalar(-7) neg() abs());
        }),
        case("bits", |io| {
            for dtype in [DType::I64, DType::I32, DType::I8, DType::U32] {
                let low = if dtype == DType::U32 { 200 } else { -100 };
                let numbers = [low, 1, 2, 77, 100, 127];
                let x = io.integers([6], &numbers, dtype);
                let y = io.integers([6], &[1, 2, 3, 33, 7, 5], dtype);
                gives!(io.out_int, x: bitwise_and(y.clone()) bitwise_or(y.clone())
                    bitwise_xor(y.clone()) bitwise_left_shift(y.clone()) bitwise_right_shift(y)
                    bitwise_and_scalar(6) bitwise_or_scalar(6) bitwise_xor_scalar(6)
                    bitwise_left_shift_scalar(3) bitwise_right_shift_scalar(2) bitwise_not());
            }
        }),
        case("integer matmul", |io| {
            let (x, y) = (io.int([2, 3, 4], -9, 9), io.int([1, 4, 5], -9, 9));
            io.out_int(x.matmul(y));
        }),
        case("integer reductions", |io| {
            let x = io.int([3, 5], -9, 9);
            reductions_of_integers(io, &x);
            gives!(io.out_int, x: argmax(1) argmin(0));
            let numbers: Vec<i64> = (0..15).map(|i| (i * 37) % 100 - 50).collect();
            let x = io.integers([3, 5], &numbers, DType::I16);
            reductions_of_integers(io, &x);
        }),
    ]
}

fn reductions_of_integers(io: &mut Io, x: &Tensor<2, Int>) {
    gives!(io.out_int, x: sum() sum_dim(1) sum_dims(&[0, 1]));
    io.out_int(x.clone().clamp(-1, 2).prod());
    io.out_int(x.clone().clamp(-3, 3).prod_dim(1));
    gives!(io.out_int, x: mean() mean_dim(0) max() max_dim(0) min() min_dim(1) max_abs()
        max_abs_dim(1) cumsum(1));
    io.out_int(x.clone().clamp(-3, 3).cumprod(1));
    gives!(io.out_int, x: cummax(0) cummin(0));
    io.out_int(x.clone().max_dim_with_indices(1).0);
    io.out_int(x.clone().min_dim_with_indices(0).0);
}

fn powers() -> Vec<Case> {
    vec![
        case("powers", |io| {
            let x = io.numbers([6], &[0.5, -2.0, 3.0, 0.0, 1.5, -1.0]);
            for exponent in [0.0, 1.0, 2.0, 3.0, -1.0, -2.0, -3.0] {
                io.out(x.clone().powf_scalar(exponent).add_scalar(0.0));
            }
            io.out(x.clone().powi_scalar(3));
            io.out(x.clone().abs().powf_scalar(0.3));
            let y = io.numbers([6], &[2.0, 3.0, -1.0, 0.0, 0.5, 5.0]);
            gives!(io.out, x: powf(y.clone()) powi(y.round()));
        })
        .slack(4.0),
        case("integer powers", |io| {
            let (x, y) = (io.int([8], -5, 6), io.int([8], 0, 6));
            gives!(io.out_int, x: powi(y) powi_scalar(2) powi_scalar(5));
        }),
    ]
}

fn functions() -> Vec<Case> {
    vec![
        case("functions", |io| {
            let x = io.float([4, 8]);
            let y = x.clone().abs().add_scalar(0.1);
            io.out(x.clone().exp());
            gives!(io.out, y: log() log1p() sqrt() recip());
            gives!(io.out, x: erf() sin() cos());
            io.out(x.clone().mul_scalar(0.7).tan());
            gives!(io.out, x: sinh() cosh() tanh());
            let unit = x.clone().mul_scalar(0.49);
            gives!(io.out, unit: asin() acos() atanh());
            gives!(io.out, x: atan() asinh());
            io.out(y.clone().add_scalar(1.0).acosh());
            gives!(io.out, x: atan2(y.clone()) hypot(y));
        })
        .all_floats()
        .slack(4.0),
    ]
}

fn edges() -> Vec<Case> {
    vec![
        case("functions at the edges", |io| {
            let numbers = [
                0.0,
                -0.0,
                f64::NAN,
                f64::INFINITY,
                f64::NEG_INFINITY,
                -1.0,
                1.0,
                90.0,
            ];
            let x = io.numbers([8], &numbers);
            gives!(io.out, x: exp() log() log1p() sqrt() recip() erf() tanh() atan()
                hypot(x.clone().flip([0])));
            gives!(io.out_bool, x: is_nan() is_inf());
        })
        .slack(4.0),
        case("rounding", |io| {
            let x = io.numbers([8], &[0.5, 1.5, 2.5, -0.5, -1.5, 2.4, -2.6, f64::NAN]);
            gives!(io.out, x: round() floor() ceil() trunc());
        })
        .all_floats(),
    ]
}

fn reductions() -> Vec<Case> {
    vec![
        case("sums", |io| {
            let x = io.float([3, 5, 7]);
            gives!(io.out, x: sum() mean());
            for dim in 0..3 {
                gives!(io.out, x: sum_dim(dim) mean_dim(dim) cumsum(dim));
            }
            io.out(x.clone().sum_dims(&[0, 2]));
            io.out(x.var_mean(2).0);
        })
        .all_floats()
        .slack(2.0),
        case("sums of halves in f32", |io| {
            // 4096 ones: sums in f16 and bf16 that add one by one would stop at 2048 and 256.
            let x = io.numbers([4096], &[1.0; 4096]);
            gives!(io.out, x: sum() mean());
        })
        .all_floats(),
        case("products", |io| {
            let x = io.between([3, 4], 0.5, 1.5);
            gives!(io.out, x: prod() prod_dim(0) cumprod(1));
        })
        .all_floats()
        .slack(2.0),
    ]
}

fn extremes() -> Vec<Case> {
    vec![
        case("extremes", |io| {
            let x = io.float([3, 5]);
            gives!(io.out, x: max() min() max_dim(0) min_dim(1) max_abs() max_abs_dim(1)
                cummax(1) cummin(0));
            gives!(io.out_int, x: argmax(1) argmin(0));
            let (value, at) = x.clone().max_dim_with_indices(0);
            io.out(value);
            io.out_int(at);
            let (value, at) = x.min_dim_with_indices(1);
            io.out(value);
            io.out_int(at);
        })
        .all_floats(),
        case("extremes with NaN and equals", |io| {
            let (nan, low) = (f64::NAN, f64::NEG_INFINITY);
            let numbers = [1.0, nan, 3.0, nan, 2.0, 2.0, -1.0, 2.0, low, low, low, low];
            let x = io.numbers([3, 4], &numbers);
            gives!(io.out, x: max() min_dim(1) cummax(1) cummin(1));
            gives!(io.out_int, x: argmax(1) argmin(1));
            let (value, at) = x.max_dim_with_indices(1);
            io.out(value);
            io.out_int(at);
        }),
    ]
}

fn order() -> Vec<Case> {
    vec![
        case("sort", |io| {
            let x = io.float([4, 9]);
            gives!(io.out, x: sort(1) sort_descending(0));
            io.out_int(x.clone().argsort(1));
            let (values, at) = x.clone().sort_descending_with_indices(1);
            io.out(values);
            io.out_int(at);
            io.out(x.clone().topk(3, 1));
            io.out_int(x.clone().argtopk(3, 1));
            let (values, at) = x.topk_with_indices(2, 0);
            io.out(values);
            io.out_int(at);
        }),
        case("sort integers", |io| {
            let x = io.integers([2, 5], &[5, -3, 9, 0, 2, 7, 1, -8, 4, 3], DType::I64);
            gives!(io.out_int, x: sort(1) argsort_descending(0));
            let (values, at) = x.clone().sort_with_indices(1);
            io.out_int(values);
            io.out_int(at);
            gives!(io.out_int, x: topk(3, 1) argtopk(1, 0));
            let (values, at) = x.topk_with_indices(2, 1);
            io.out_int(values);
            io.out_int(at);
        }),
        case("sort with NaN", |io| {
            let x = io.numbers(
                [6],
                &[1.0, f64::NAN, f64::INFINITY, -0.0, 0.0, f64::NEG_INFINITY],
            );
            gives!(io.out, x: sort(0) topk(2, 0));
            io.out_int(x.argsort(0));
        }),
    ]
}

fn products() -> Vec<Case> {
    vec![
        case("matmul", |io| {
            let (x, y) = (io.float([3, 4]), io.float([4, 5]));
            io.out(x.matmul(y));
            let (x, y) = (io.float([2, 3, 4]), io.float([2, 4, 5]));
            io.out(x.matmul(y));
            let (x, y) = (io.float([2, 1, 3, 4]), io.float([1, 3, 4, 2]));
            io.out(x.matmul(y));
            let (x, y) = (io.float([5, 3, 4]), io.float([1, 4, 2]));
            io.out(x.matmul(y));
            let (x, y) = (io.float([1, 3, 4]), io.float([5, 4, 2]));
            io.out(x.matmul(y));
        })
        .all_floats()
        .slack(2.0),
        case("matmul over nothing", |io| {
            let (x, y) = (io.float([3, 0]), io.float([0, 5]));
            io.out(x.matmul(y));
        }),
        case("cross", |io| {
            let (x, y) = (io.float([4, 3]), io.float([4, 3]));
            io.out(x.cross(y, 1));
        }),
    ]
}
