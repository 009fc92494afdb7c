//! Tests of element-wise operations, shapes and slices.

use super::harness::{Case, case, gives};
use burn::tensor::{DType, Int, IntDType, Slice, Tensor, TensorData, s};

const INTEGERS: [IntDType; 7] = [
    IntDType::I32,
    IntDType::I16,
    IntDType::I8,
    IntDType::U64,
    IntDType::U32,
    IntDType::U16,
    IntDType::U8,
];

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = comparisons();
    cases.extend(booleans());
    cases.extend(masks());
    cases.extend(creation());
    cases.extend(shapes());
    cases.extend(slices());
    cases.extend(casts());
    cases
}

fn comparisons() -> Vec<Case> {
    vec![
        case("compare", |io| {
            let x = io.numbers([5], &[1.0, f64::NAN, f64::INFINITY, -0.0, 2.0]);
            let y = io.numbers([5], &[1.0, f64::NAN, 3.0, 0.0, 7.0]);
            gives!(io.out_bool, x: equal(y.clone()) not_equal(y.clone()) greater(y.clone())
                greater_equal(y.clone()) lower(y.clone()) lower_equal(y));
        }),
        case("compare with numbers", |io| {
            let x = io.numbers([4], &[1.0, f64::NAN, 0.5, -3.0]);
            gives!(io.out_bool, x: equal_scalar(0.5f32) not_equal_scalar(1.0f32)
                greater_scalar(0.5) greater_equal_scalar(0.5) lower_scalar(0.5)
                lower_equal_scalar(0.5));
        })
        .all_floats(),
        case("compare broadcast", |io| {
            let (x, y) = (io.float([3, 1]), io.float([1, 4]));
            io.out_bool(x.greater(y));
        }),
        case("compare integers", |io| {
            let (x, y) = (io.int([7], -2, 3), io.int([7], -2, 3));
            gives!(io.out_bool, x: equal(y.clone()) not_equal(y.clone()) greater(y.clone())
                greater_equal(y.clone()) lower(y.clone()) lower_equal(y) equal_scalar(1)
                not_equal_scalar(1) greater_scalar(0) greater_equal_scalar(0) lower_scalar(0)
                lower_equal_scalar(0));
        }),
    ]
}

fn booleans() -> Vec<Case> {
    vec![
        case("booleans", |io| {
            let (x, y) = (io.bool([2, 5]), io.bool([2, 5]));
            gives!(io.out_bool, x: bool_and(y.clone()) bool_or(y.clone()) bool_xor(y.clone())
                bool_not() equal(y.clone()) not_equal(y) equal_scalar(true)
                not_equal_scalar(true));
        }),
        case("any and all", |io| {
            let x = io.numbers([2, 3], &[0.0, -0.0, 0.0, 1.0, f64::NAN, 2.0]);
            gives!(io.out_bool, x: any() all() any_dim(1) all_dim(1));
            let x = io.int([3, 4], 0, 2);
            gives!(io.out_bool, x: any() all() any_dim(0) all_dim(0));
            let x = io.bool([3, 4]);
            gives!(io.out_bool, x: any() all() any_dim(0) all_dim(1));
        }),
    ]
}

fn masks() -> Vec<Case> {
    vec![
        case("mask_where", |io| {
            let (x, y, mask) = (io.float([3, 4]), io.float([3, 4]), io.bool([3, 4]));
            io.out(x.mask_where(mask, y));
            let (x, y, mask) = (io.int([2, 3], 0, 9), io.int([2, 3], 0, 9), io.bool([2, 3]));
            io.out_int(x.mask_where(mask, y));
            let (x, y, mask) = (io.bool([6]), io.bool([6]), io.bool([6]));
            io.out_bool(x.mask_where(mask, y));
        }),
        case("mask_fill", |io| {
            let (x, mask) = (io.float([3, 4]), io.bool([3, 4]));
            io.out(x.mask_fill(mask, f32::NEG_INFINITY));
            let (x, mask) = (io.int([5], 0, 9), io.bool([5]));
            io.out_int(x.mask_fill(mask, -7));
            let (x, mask) = (io.bool([5]), io.bool([5]));
            io.out_bool(x.mask_fill(mask, true));
        })
        .all_floats(),
    ]
}

fn creation() -> Vec<Case> {
    vec![
        case("creation", |io| {
            let options = (&io.device.clone(), io.dtype());
            io.out(Tensor::<2>::zeros([2, 3], options));
            io.out(Tensor::<2>::ones([2, 3], options));
            io.out(Tensor::<1>::full([4], 0.3, options));
            let x = Tensor::<2, Int>::ones([2, 2], &io.device);
            io.out_int(x);
            let x = Tensor::<2, Int>::zeros([2, 2], &io.device);
            io.out_int(x);
            let x = Tensor::<1, Int>::full([3], -4, &io.device);
            io.out_int(x);
            let x = Tensor::<1, burn::tensor::Bool>::zeros([3], &io.device);
            io.out_bool(x);
            let x = Tensor::<1, burn::tensor::Bool>::ones([3], &io.device);
            io.out_bool(x);
        })
        .all_floats(),
        case("empty", |io| {
            let x = Tensor::<2>::empty([2, 3], &io.device);
            io.out(x.zeros_like());
            let x = Tensor::<2>::empty([2, 3], &io.device);
            let y = x.greater_scalar(0.0).bool_or(io.bool([2, 3]));
            io.out_bool(y.ones_like());
            let x = Tensor::<1, Int>::empty([3], &io.device);
            io.out_int(x.mul_scalar(0));
            let x = Tensor::<1, burn::tensor::Bool>::empty([3], &io.device);
            io.out_bool(x.clone().bool_or(x.bool_not()));
            let x = Tensor::<1>::empty([3], &io.device);
            io.out(
                x.clone()
                    .mask_fill(x.clone().equal(x).bool_not(), 0.0)
                    .mul_scalar(0.0)
                    .abs(),
            );
        }),
        case("constants", |io| {
            let x = io.float([2, 3]);
            let y = Tensor::<2>::from_data([[1.0, 2.0, 3.0]], &io.device);
            let at = Tensor::<1, Int>::from_data([1, 0], &io.device);
            io.out(x.add(y).select(0, at));
            let steps = Tensor::<1, Int>::arange(2..9, &io.device);
            io.out_int(steps);
            let eye = Tensor::<2>::eye(3, &io.device);
            io.out(eye);
        }),
    ]
}

fn shapes() -> Vec<Case> {
    vec![
        case("reshape and transpose", |io| {
            let x = io.float([2, 3, 4]);
            gives!(io.out, x: reshape([4, 6]) swap_dims(0, 2) permute([1, 2, 0]) flip([0, 2]));
            io.out(x.unsqueeze::<5>().expand([3, 1, 2, 3, 4]));
            let x = io.int([2, 3], 0, 9);
            gives!(io.out_int, x: reshape([6]) swap_dims(0, 1) permute([1, 0]) flip([1]));
            io.out_int(x.unsqueeze::<3>().expand([2, 2, 3]));
            let x = io.bool([2, 3]);
            gives!(io.out_bool, x: reshape([6]) swap_dims(0, 1) permute([1, 0]) flip([1]));
            io.out_bool(x.unsqueeze::<3>().expand([2, 2, 3]));
        }),
        case("repeat and cat", |io| {
            let (x, y) = (io.float([2, 3]), io.float([2, 1]));
            gives!(io.out, x: repeat_dim(0, 3) repeat_dim(1, 2));
            io.out(Tensor::cat(vec![x.clone(), y, x], 1));
            let (x, y) = (io.int([2, 3], 0, 9), io.int([1, 3], 0, 9));
            io.out_int(x.clone().repeat_dim(0, 2));
            io.out_int(Tensor::cat(vec![x, y], 0));
            let (x, y) = (io.bool([2, 3]), io.bool([1, 3]));
            io.out_bool(x.clone().repeat_dim(1, 2));
            io.out_bool(Tensor::cat(vec![x, y], 0));
        }),
        case("unfold", |io| {
            let x = io.float([2, 7, 3]);
            io.out::<4>(x.unfold(1, 3, 2));
            let x = io.int([7], 0, 9);
            io.out_int::<2>(x.unfold(0, 2, 1));
            let x = io.bool([6]);
            io.out_bool::<2>(x.unfold(0, 2, 2));
        }),
        case("no elements", |io| {
            let x = io.float([0, 3]);
            let y = io.float([2, 3]);
            io.out(x.clone().add_scalar(1.0));
            io.out(Tensor::cat(vec![x.clone(), y.clone()], 0));
            gives!(io.out, x: sum() sum_dim(0));
            io.out(x.clone().transpose().matmul(x.clone()));
            io.out(y.slice(s![1..1, ..]));
            io.out(x.mean_dim(0));
        }),
    ]
}

fn slices() -> Vec<Case> {
    vec![
        case("slice", |io| {
            let x = io.float([5, 7]);
            gives!(io.out, x: slice([1..3, 2..7]) slice(s![..;2, 1..6;3]) slice(s![..;-1, ..;-2])
                slice(s![-3.., 1..6;-3]) slice([Slice::new(1, Some(-1), 2)]));
            let x = io.int([5], 0, 9);
            io.out_int(x.slice(s![1..;2]));
            let x = io.bool([5]);
            io.out_bool(x.slice(s![..;-2]));
        }),
        case("slice_assign", |io| {
            let x = io.float([5, 7]);
            let y = io.float([2, 5]);
            io.out(x.clone().slice_assign([1..3, 2..7], y));
            let y = io.float([3, 2]);
            io.out(x.clone().slice_assign(s![..;2, 1..6;3], y));
            let y = io.float([5, 4]);
            gives!(io.out, x: slice_assign(s![..;-1, ..;-2], y) slice_fill([0..2, 0..2], 3.0));
            let (x, y) = (io.int([5], 0, 9), io.int([2], 0, 9));
            io.out_int(x.slice_assign(s![3..5], y));
            let (x, y) = (io.bool([5]), io.bool([2]));
            io.out_bool(x.slice_assign(s![3..5], y));
        }),
    ]
}

fn casts() -> Vec<Case> {
    vec![
        case("floats to floats", |io| {
            let x = io.numbers([4], &[1.0 / 3.0, -70000.0, 1e-9, f64::NAN]);
            for dtype in [DType::F16, DType::BF16, DType::F64, DType::F32] {
                if dtype != x.dtype() {
                    io.out(x.clone().cast(dtype));
                }
            }
        })
        .all_floats(),
        case("floats to integers", |io| {
            let numbers = [
                1.5,
                -1.5,
                0.5,
                f64::NAN,
                f64::INFINITY,
                f64::NEG_INFINITY,
                300.0,
                -3e4,
            ];
            let x = io.numbers([8], &numbers);
            io.out_int(x.clone().cast(IntDType::I64));
            for dtype in INTEGERS {
                io.out_int(x.clone().cast(dtype));
            }
        })
        .all_floats(),
        case("integers", |io| {
            let x = io.integers([5], &[-1, 300, 65_536, -40_000, 1 << 40], DType::I64);
            for dtype in INTEGERS {
                io.out_int(x.clone().cast(dtype));
            }
            io.out(x.clone().float());
            io.out_bool(x.bool());
        }),
        case("booleans to numbers", |io| {
            let x = io.bool([7]);
            io.out(x.clone().float());
            io.out_int(x.int());
        }),
        case("data of several types", |io| {
            let x = io.integers([3], &[-1, 0, 127], DType::I8);
            let y =
                Tensor::<1, Int>::from_data(TensorData::from([1i8, 2, 3]), (&io.device, DType::I8));
            io.out_int(x.add(y));
        }),
    ]
}
