//! Arithmetic, reductions, order, functions.

use super::harness::{Case, Io, case};
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
            io.out(x.clone().add(y.clone()));
            io.out(x.clone().sub(y.clone()));
            io.out(x.clone().mul(y.clone()));
            io.out(x.clone().div(y));
            io.out(x.clone().add_scalar(0.7));
            io.out(x.clone().sub_scalar(0.7));
            io.out(x.clone().mul_scalar(-3.0));
            io.out(x.clone().div_scalar(3.0));
            io.out(x.clone().neg());
            io.out(x.abs());
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
            io.out(x.clone().remainder(y));
            io.out(x.clone().remainder_scalar(-1.5));
            io.out(x.remainder_scalar(2.0));
        }),
        case("clamp", |io| {
            let x = io.numbers(
                [6],
                &[-3.0, 0.25, 3.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY],
            );
            io.out(x.clone().clamp(-1.0, 1.0));
            io.out(x.clone().clamp_min(0.5));
            io.out(x.clone().clamp_max(0.5));
            io.out(x.sign());
            let x = io.int([6], -9, 9);
            io.out_int(x.clone().clamp(-3, 3));
            io.out_int(x.clone().clamp_min(0));
            io.out_int(x.clone().clamp_max(0));
            io.out_int(x.sign());
        }),
        case("pad", |io| {
            let x = io.float([3, 4]);
            io.out(x.clone().pad((1, 2, 0, 3), PadMode::Constant(0.5)));
            io.out(x.clone().pad((1, 2, 2, 1), PadMode::Reflect));
            io.out(x.pad((1, 2, 2, 0), PadMode::Edge));
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
            io.out_int(x.clone().add(y.clone()));
            io.out_int(x.clone().sub(y.clone()));
            io.out_int(x.clone().mul(y.clone()));
            io.out_int(x.clone().div(y.clone()));
            io.out_int(x.clone().remainder(y));
            io.out_int(x.clone().add_scalar(7));
            io.out_int(x.clone().sub_scalar(7));
            io.out_int(x.clone().mul_scalar(-7));
            io.out_int(x.clone().div_scalar(-7));
            io.out_int(x.clone().remainder_scalar(-7));
            io.out_int(x.clone().neg());
            io.out_int(x.abs());
        }),
        case("bits", |io| {
            for dtype in [DType::I64, DType::I32, DType::I8, DType::U32] {
                let low = if dtype == DType::U32 { 200 } else { -100 };
                let numbers = [low, 1, 2, 77, 100, 127];
                let x = io.integers([6], &numbers, dtype);
                let y = io.integers([6], &[1, 2, 3, 33, 7, 5], dtype);
                io.out_int(x.clone().bitwise_and(y.clone()));
                io.out_int(x.clone().bitwise_or(y.clone()));
                io.out_int(x.clone().bitwise_xor(y.clone()));
                io.out_int(x.clone().bitwise_left_shift(y.clone()));
                io.out_int(x.clone().bitwise_right_shift(y));
                io.out_int(x.clone().bitwise_and_scalar(6));
                io.out_int(x.clone().bitwise_or_scalar(6));
                io.out_int(x.clone().bitwise_xor_scalar(6));
                io.out_int(x.clone().bitwise_left_shift_scalar(3));
                io.out_int(x.clone().bitwise_right_shift_scalar(2));
                io.out_int(x.bitwise_not());
            }
        }),
        case("integer matmul", |io| {
            let (x, y) = (io.int([2, 3, 4], -9, 9), io.int([1, 4, 5], -9, 9));
            io.out_int(x.matmul(y));
        }),
        case("integer reductions", |io| {
            let x = io.int([3, 5], -9, 9);
            reductions_of_integers(io, &x);
            io.out_int(x.clone().argmax(1));
            io.out_int(x.clone().argmin(0));
            let numbers: Vec<i64> = (0..15).map(|i| (i * 37) % 100 - 50).collect();
            let x = io.integers([3, 5], &numbers, DType::I16);
            reductions_of_integers(io, &x);
        }),
    ]
}

fn reductions_of_integers(io: &mut Io, x: &Tensor<2, Int>) {
    io.out_int(x.clone().sum());
    io.out_int(x.clone().sum_dim(1));
    io.out_int(x.clone().sum_dims(&[0, 1]));
    io.out_int(x.clone().clamp(-1, 2).prod());
    io.out_int(x.clone().clamp(-3, 3).prod_dim(1));
    io.out_int(x.clone().mean());
    io.out_int(x.clone().mean_dim(0));
    io.out_int(x.clone().max());
    io.out_int(x.clone().max_dim(0));
    io.out_int(x.clone().min());
    io.out_int(x.clone().min_dim(1));
    io.out_int(x.clone().max_abs());
    io.out_int(x.clone().max_abs_dim(1));
    io.out_int(x.clone().cumsum(1));
    io.out_int(x.clone().clamp(-3, 3).cumprod(1));
    io.out_int(x.clone().cummax(0));
    io.out_int(x.clone().cummin(0));
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
            io.out(x.clone().powf(y.clone()));
            io.out(x.powi(y.round()));
        })
        .slack(4.0),
        case("integer powers", |io| {
            let (x, y) = (io.int([8], -5, 6), io.int([8], 0, 6));
            io.out_int(x.clone().powi(y));
            io.out_int(x.clone().powi_scalar(2));
            io.out_int(x.powi_scalar(5));
        }),
    ]
}

fn functions() -> Vec<Case> {
    vec![
        case("functions", |io| {
            let x = io.float([4, 8]);
            let y = x.clone().abs().add_scalar(0.1);
            io.out(x.clone().exp());
            io.out(y.clone().log());
            io.out(y.clone().log1p());
            io.out(y.clone().sqrt());
            io.out(y.clone().recip());
            io.out(x.clone().erf());
            io.out(x.clone().sin());
            io.out(x.clone().cos());
            io.out(x.clone().mul_scalar(0.7).tan());
            io.out(x.clone().sinh());
            io.out(x.clone().cosh());
            io.out(x.clone().tanh());
            let unit = x.clone().mul_scalar(0.49);
            io.out(unit.clone().asin());
            io.out(unit.clone().acos());
            io.out(unit.atanh());
            io.out(x.clone().atan());
            io.out(x.clone().asinh());
            io.out(y.clone().add_scalar(1.0).acosh());
            io.out(x.clone().atan2(y.clone()));
            io.out(x.hypot(y));
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
            io.out(x.clone().exp());
            io.out(x.clone().log());
            io.out(x.clone().log1p());
            io.out(x.clone().sqrt());
            io.out(x.clone().recip());
            io.out(x.clone().erf());
            io.out(x.clone().tanh());
            io.out(x.clone().atan());
            io.out(x.clone().hypot(x.clone().flip([0])));
            io.out_bool(x.clone().is_nan());
            io.out_bool(x.is_inf());
        })
        .slack(4.0),
        case("rounding", |io| {
            let x = io.numbers([8], &[0.5, 1.5, 2.5, -0.5, -1.5, 2.4, -2.6, f64::NAN]);
            io.out(x.clone().round());
            io.out(x.clone().floor());
            io.out(x.clone().ceil());
            io.out(x.trunc());
        })
        .all_floats(),
    ]
}

fn reductions() -> Vec<Case> {
    vec![
        case("sums", |io| {
            let x = io.float([3, 5, 7]);
            io.out(x.clone().sum());
            io.out(x.clone().mean());
            for dim in 0..3 {
                io.out(x.clone().sum_dim(dim));
                io.out(x.clone().mean_dim(dim));
                io.out(x.clone().cumsum(dim));
            }
            io.out(x.clone().sum_dims(&[0, 2]));
            io.out(x.var_mean(2).0);
        })
        .all_floats()
        .slack(2.0),
        case("sums of halves in f32", |io| {
            // 4096 ones: f16 and bf16 stop at 2048 and 256 when they add one by one.
            let x = io.numbers([4096], &[1.0; 4096]);
            io.out(x.clone().sum());
            io.out(x.mean());
        })
        .all_floats(),
        case("products", |io| {
            let x = io.between([3, 4], 0.5, 1.5);
            io.out(x.clone().prod());
            io.out(x.clone().prod_dim(0));
            io.out(x.cumprod(1));
        })
        .all_floats()
        .slack(2.0),
    ]
}

fn extremes() -> Vec<Case> {
    vec![
        case("extremes", |io| {
            let x = io.float([3, 5]);
            io.out(x.clone().max());
            io.out(x.clone().min());
            io.out(x.clone().max_dim(0));
            io.out(x.clone().min_dim(1));
            io.out(x.clone().max_abs());
            io.out(x.clone().max_abs_dim(1));
            io.out(x.clone().cummax(1));
            io.out(x.clone().cummin(0));
            io.out_int(x.clone().argmax(1));
            io.out_int(x.clone().argmin(0));
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
            io.out(x.clone().max());
            io.out(x.clone().min_dim(1));
            io.out(x.clone().cummax(1));
            io.out(x.clone().cummin(1));
            io.out_int(x.clone().argmax(1));
            io.out_int(x.clone().argmin(1));
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
            io.out(x.clone().sort(1));
            io.out(x.clone().sort_descending(0));
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
            io.out_int(x.clone().sort(1));
            io.out_int(x.clone().argsort_descending(0));
            let (values, at) = x.clone().sort_with_indices(1);
            io.out_int(values);
            io.out_int(at);
            io.out_int(x.clone().topk(3, 1));
            io.out_int(x.clone().argtopk(1, 0));
            let (values, at) = x.topk_with_indices(2, 1);
            io.out_int(values);
            io.out_int(at);
        }),
        case("sort with NaN", |io| {
            let x = io.numbers(
                [6],
                &[1.0, f64::NAN, f64::INFINITY, -0.0, 0.0, f64::NEG_INFINITY],
            );
            io.out(x.clone().sort(0));
            io.out(x.clone().topk(2, 0));
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
