//! Tests of activations and modules, with their gradients.

use super::harness::{Case, Inner, Io, case, gradient_case, gradients, learned};
use burn::backend::AutodiffBackend;
use burn::backend::ops::{ActivationOps, ModuleOps};
use burn::backend::tensor::FloatTensor;
use burn::tensor::activation as act;
use burn::tensor::module;
use burn::tensor::ops::{
    AttentionModuleOptions, ConvOptions, ConvTransposeOptions, GridSampleOptions,
    GridSamplePaddingMode, InterpolateMode, InterpolateOptions, MaxPoolOptions, UnfoldOptions,
};
use burn::tensor::{DType, Tensor};

/// The backend below the differentiating one.
type Plain<B> = <B as AutodiffBackend>::InnerBackend;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = activations();
    cases.extend(activation_gradients());
    cases.extend(linear());
    cases.extend(norms());
    cases.extend(attention());
    cases.extend(convolutions());
    cases.extend(pools());
    cases.extend(adaptive_pools());
    cases.extend(images());
    cases
}

type Function = fn(Tensor<2>) -> Tensor<2>;

fn activations() -> Vec<Case> {
    let functions: [(&'static str, Function); 14] = [
        ("relu", act::relu),
        ("gelu", act::gelu),
        ("gelu approximate", act::gelu_approximate),
        ("sigmoid", act::sigmoid),
        ("log_sigmoid", act::log_sigmoid),
        ("leaky_relu", |x| act::leaky_relu(x, 0.1)),
        ("hard_sigmoid", |x| act::hard_sigmoid(x, 0.3, 0.4)),
        ("silu", act::silu),
        ("softplus", |x| act::softplus(x, 1.5)),
        ("softmax", |x| act::softmax(x, 1)),
        ("softmax of columns", |x| act::softmax(x, 0)),
        ("log_softmax", |x| act::log_softmax(x, 1)),
        ("softmin", |x| act::softmin(x, 1)),
        ("quiet_softmax", |x| act::quiet_softmax(x, 1)),
    ];
    let forward = functions.map(|(name, f)| {
        case(name, move |io| {
            let x = io.between([3, 9], -4.0, 4.0);
            io.out(f(x));
        })
        .all_floats()
        .slack(4.0)
    });
    forward.into_iter().collect()
}

fn activation_gradients() -> Vec<Case> {
    vec![
        gradient_case!("gradients of activations", |io, B| {
            let functions: [fn(FloatTensor<B>) -> FloatTensor<B>; 6] = [
                B::relu,
                B::gelu,
                B::sigmoid,
                B::log_sigmoid,
                |x| B::softmax(x, 1),
                |x| B::log_softmax(x, 0),
            ];
            for f in functions {
                let x = learned::<B, 2>(io, [3, 9]);
                gradients::<B>(io, f(x.clone()), &[&x]);
            }
            let (x, slope) = (
                learned::<B, 3>(io, [2, 3, 4]),
                learned::<B, 3>(io, [1, 3, 1]),
            );
            gradients::<B>(io, B::prelu(x.clone(), slope.clone()), &[&x, &slope]);
        })
        .slack(8.0),
        case("prelu", |io| {
            let (x, slope) = (io.float([2, 3, 4]), io.float([3]));
            io.out(act::prelu(x, slope));
        }),
        case("activations at the edges", |io| {
            let numbers = [
                f64::NAN,
                f64::INFINITY,
                f64::NEG_INFINITY,
                0.0,
                -0.0,
                100.0,
                -100.0,
            ];
            let x = io.numbers([7], &numbers);
            io.out(act::relu(x.clone()));
            io.out(act::sigmoid(x.clone()));
            io.out(act::leaky_relu(x, 0.1));
            let x = io.numbers([3], &[100.0, -100.0, 0.0]);
            io.out(act::gelu(x.clone()));
            io.out(act::log_sigmoid(x));
        }),
    ]
}

fn linear() -> Vec<Case> {
    vec![
        case("linear", |io| {
            let (x, w, bias) = (io.float([2, 3, 4]), io.float([4, 5]), io.float([5]));
            io.out(module::linear(x.clone(), w.clone(), Some(bias)));
            io.out(module::linear(x, w, None));
        })
        .all_floats()
        .slack(2.0),
        gradient_case!("linear backward", |io, B| {
            let (x, w) = (learned::<B, 3>(io, [2, 3, 4]), learned::<B, 2>(io, [4, 5]));
            let bias = learned::<B, 1>(io, [5]);
            let y = B::linear(x.clone(), w.clone(), Some(bias.clone()));
            gradients::<B>(io, y, &[&x, &w, &bias]);
        })
        .slack(4.0),
        case("embedding", |io| {
            let (w, at) = (io.float([7, 4]), io.int([2, 5], 0, 7));
            io.out(module::embedding(w, at));
        })
        .all_floats(),
        gradient_case!("embedding backward", |io, B| {
            let w = learned::<B, 2>(io, [7, 4]);
            let at = Plain::<B>::take_int(io.int([2, 5], 0, 7));
            gradients::<B>(io, B::embedding(w.clone(), at), &[&w]);
        }),
    ]
}

fn norms() -> Vec<Case> {
    vec![
        case("layer_norm", |io| {
            let (x, gamma, beta) = (io.float([2, 3, 8]), io.float([8]), io.float([8]));
            io.out(module::layer_norm(
                x.clone(),
                gamma.clone(),
                Some(beta),
                1e-5,
            ));
            io.out(module::layer_norm(x, gamma, None, 1e-5));
        })
        .all_floats()
        .slack(4.0),
        case("batch_norm", |io| {
            let x = io.float([2, 3, 4, 5]);
            let [gamma, beta, mean] = [io.float([3]), io.float([3]), io.float([3])];
            let variance = io.between([3], 0.5, 2.0);
            io.out(module::batch_norm(x, gamma, beta, mean, variance, 1e-5));
        })
        .all_floats()
        .slack(4.0),
    ]
}

fn attention() -> Vec<Case> {
    let qkv = |io: &mut Io| {
        (
            io.float([2, 3, 5, 8]),
            io.float([2, 3, 7, 8]),
            io.float([2, 3, 7, 4]),
        )
    };
    vec![
        case("attention", move |io| {
            let (q, k, v) = qkv(io);
            let options = AttentionModuleOptions::default();
            io.out(module::attention(q, k, v, None, None, options));
        })
        .all_floats()
        .slack(4.0),
        case("attention with everything", move |io| {
            let (q, k, v) = qkv(io);
            let (mask, bias) = (io.bool([2, 3, 5, 7]), io.float([2, 3, 5, 7]));
            let options = AttentionModuleOptions {
                scale: Some(0.3),
                softcap: Some(1.5),
                is_causal: true,
            };
            io.out(module::attention(q, k, v, Some(mask), Some(bias), options));
        })
        .slack(4.0),
        // More scores than are computed at once, so that the lowering uses blocks.
        case("attention in blocks", |io| {
            let (q, k) = (io.float([1, 2, 2900, 4]), io.float([1, 2, 2900, 4]));
            let v = io.float([1, 2, 2900, 3]);
            let options = AttentionModuleOptions {
                scale: None,
                softcap: Some(1.5),
                is_causal: true,
            };
            io.out(module::attention(q, k, v, None, None, options));
        })
        .slack(4.0),
        case("attention to nothing", move |io| {
            let (q, k, v) = qkv(io);
            let mask = io.bool([2, 3, 5, 7]).mask_fill(io.bool([2, 3, 5, 7]), true);
            let all = mask.clone().bool_or(mask.clone().bool_not());
            let options = AttentionModuleOptions::default();
            io.out(module::attention(q, k, v, Some(all), None, options));
        }),
    ]
}

/// Makes cases of convolutions and transposed convolutions with their gradients, from the number of dimensions, the
/// shapes of x, weight and bias, the options, and the slack.
macro_rules! convolutions {
    ($($name:ident $rank:tt, $x:expr, $w:expr, $bias:expr, $options:expr, $slack:expr;)*) => {
        vec![$(
            gradient_case!(stringify!($name), |io, B| {
                let (x, w) = (learned::<B, $rank>(io, $x), learned::<B, $rank>(io, $w));
                let bias = learned::<B, 1>(io, [$bias]);
                let y = B::$name(x.clone(), w.clone(), Some(bias.clone()), $options);
                gradients::<B>(io, y, &[&x, &w, &bias]);
            })
            .slack($slack)
        ),*]
    };
}

fn convolutions() -> Vec<Case> {
    let mut cases = convolutions! {
        conv1d 3, [2, 4, 9], [6, 2, 3], 6, ConvOptions::new([2], [1], [2], 2), 4.0;
        conv2d 4, [2, 4, 7, 8], [6, 2, 3, 2], 6, ConvOptions::new([2, 3], [1, 2], [1, 2], 2), 8.0;
        conv3d 5, [1, 2, 4, 5, 6], [3, 2, 2, 3, 2], 3,
            ConvOptions::new([1, 2, 1], [1, 0, 1], [1, 1, 2], 1), 8.0;
        conv_transpose1d 3, [2, 4, 5], [4, 3, 3], 6,
            ConvTransposeOptions::new([2], [1], [1], [2], 2), 8.0;
        conv_transpose2d 4, [2, 3, 4, 5], [3, 2, 3, 2], 2,
            ConvTransposeOptions::new([2, 1], [1, 0], [1, 0], [1, 2], 1), 8.0;
        conv_transpose3d 5, [1, 2, 3, 3, 3], [2, 2, 2, 2, 2], 2,
            ConvTransposeOptions::new([2, 1, 1], [1, 0, 0], [1, 0, 0], [1, 1, 1], 1), 8.0;
    };
    let other_types = case("conv2d in other types", |io| {
        let (x, w) = (io.float([1, 2, 5, 5]), io.float([3, 2, 3, 3]));
        let options = ConvOptions::new([1, 1], [1, 1], [1, 1], 1);
        io.out(module::conv2d(x, w, None, options));
    });
    cases.push(other_types.all_floats().slack(8.0));
    cases
}

fn pools() -> Vec<Case> {
    vec![
        gradient_case!("avg_pool1d", |io, B| {
            for (include, ceil) in [(true, false), (false, false), (true, true), (false, true)] {
                let x = learned::<B, 3>(io, [2, 3, 8]);
                let y = B::avg_pool1d(x.clone(), 3, 2, 1, include, ceil);
                gradients::<B>(io, y, &[&x]);
            }
        }),
        gradient_case!("avg_pool2d", |io, B| {
            for include in [true, false] {
                let x = learned::<B, 4>(io, [2, 3, 6, 7]);
                let y = B::avg_pool2d(x.clone(), [3, 2], [2, 3], [1, 0], include, false);
                gradients::<B>(io, y, &[&x]);
            }
        }),
        case("max pools", |io| {
            let options = MaxPoolOptions {
                kernel_size: [3],
                stride: [2],
                padding: [(1, 1)],
                dilation: [2],
                ceil_mode: true,
            };
            let x = io.float([2, 3, 9]);
            io.out(module::max_pool1d(x.clone(), options.clone()));
            let (values, at) = module::max_pool1d_with_indices(x, options);
            io.out(values);
            io.out_int(at);
            let options = MaxPoolOptions {
                kernel_size: [3, 2],
                stride: [2, 1],
                padding: [(1, 1), (0, 0)],
                dilation: [1, 2],
                ceil_mode: false,
            };
            let x = io.float([2, 3, 6, 7]);
            io.out(module::max_pool2d(x.clone(), options.clone()));
            let (values, at) = module::max_pool2d_with_indices(x, options);
            io.out(values);
            io.out_int(at);
        })
        .all_floats(),
        gradient_case!("max pools backward", |io, B| {
            let x = learned::<B, 3>(io, [2, 3, 9]);
            gradients::<B>(io, B::max_pool1d(x.clone(), 3, 2, 1, 1, false), &[&x]);
            let x = learned::<B, 4>(io, [2, 3, 6, 7]);
            let y = B::max_pool2d(x.clone(), [3, 2], [2, 1], [1, 0], [1, 2], false);
            gradients::<B>(io, y, &[&x]);
        }),
    ]
}

fn adaptive_pools() -> Vec<Case> {
    vec![
        gradient_case!("adaptive pools", |io, B| {
            let x = learned::<B, 3>(io, [2, 3, 7]);
            gradients::<B>(io, B::adaptive_avg_pool1d(x.clone(), 3), &[&x]);
            let x = learned::<B, 4>(io, [2, 3, 7, 8]);
            gradients::<B>(io, B::adaptive_avg_pool2d(x.clone(), [3, 5]), &[&x]);
            let x = learned::<B, 5>(io, [1, 2, 4, 5, 6]);
            gradients::<B>(io, B::adaptive_avg_pool3d(x.clone(), [2, 3, 4]), &[&x]);
        })
        .slack(4.0),
    ]
}

/// A case that resizes an image by interpolation.
fn resize(name: &'static str, mode: InterpolateMode, align: bool) -> Case {
    gradient_case!(name, |io, B| {
        for size in [[5, 9], [3, 2], [8, 8]] {
            let x = learned::<B, 4>(io, [2, 2, 4, 6]);
            let options = InterpolateOptions::new(mode.clone()).with_align_corners(align);
            gradients::<B>(io, B::interpolate(x.clone(), size, options), &[&x]);
        }
    })
    .slack(16.0)
}

fn images() -> Vec<Case> {
    vec![
        resize("interpolate nearest", InterpolateMode::Nearest, false),
        resize("interpolate bilinear", InterpolateMode::Bilinear, false),
        resize("interpolate aligned", InterpolateMode::Bilinear, true),
        resize("interpolate bicubic", InterpolateMode::Bicubic, false),
        case("interpolate lanczos", |io| {
            let x = io.float([2, 2, 4, 6]);
            let options = InterpolateOptions::new(InterpolateMode::Lanczos3);
            for size in [[5, 9], [3, 2]] {
                io.out(module::interpolate(
                    x.clone(),
                    options.clone().with_output_size(size),
                ));
            }
        })
        .slack(16.0),
        // The loss is recorded as other operations.
        case("ctc_loss", |io| {
            let x = act::log_softmax(io.float([6, 2, 4]), 2);
            let targets = io.int([2, 3], 1, 4);
            let lengths = io.integers([2], &[6, 5], DType::I64);
            let target_lengths = io.integers([2], &[3, 2], DType::I64);
            io.out(module::ctc_loss(x, targets, lengths, target_lengths, 0));
        })
        .slack(8.0),
        case("unfold4d", |io| {
            let x = io.float([2, 3, 6, 7]);
            let options = UnfoldOptions::new([2, 1], [1, 0], [1, 2]);
            io.out(module::unfold4d(x, [2, 3], options));
        }),
        case("grid_sample", |io| {
            use GridSamplePaddingMode::{Border, Reflection, Zeros};
            let x = io.float([2, 3, 5, 6]);
            let grid = io.between([2, 4, 3, 2], -1.6, 1.6);
            for padding in [Zeros, Border, Reflection] {
                for align in [true, false] {
                    for mode in [InterpolateMode::Bilinear, InterpolateMode::Nearest] {
                        let options = GridSampleOptions::new(mode)
                            .with_padding_mode(padding)
                            .with_align_corners(align);
                        io.out(x.clone().grid_sample_2d(grid.clone(), options));
                    }
                }
            }
        })
        .slack(8.0),
    ]
}
