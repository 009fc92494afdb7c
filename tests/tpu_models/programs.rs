//! The programs to compile, at the sizes of a real layer.

use burn::module::{Module, ModuleMapper, Param};
use burn::nn::transformer::{TransformerEncoderConfig, TransformerEncoderInput};
use burn::tensor::{DType, Device, Shape, Tensor, TensorData};
use moebius_device::XlaPlatform;
use moebius_model::{DecoderConfig, Text, TrainConfig, Trainer};
use moebius_ops::fp8::Fp8Format;
use moebius_ops::grouped_gemm::{self, Activation};
use moebius_ops::scaling::{Fp8Scheme, Granularity};
use moebius_ops::{Element, GroupedGemm, experts, routing};
use moebius_pjrt::{ElementType, Platform, TensorType};
use moebius_xla::Arguments;
use moebius_xla::custom;
use moebius_xla::lower::graph;
use moebius_xla::parallel::{Divided, Layer, Whole};
use moebius_xla::stablehlo::{Builder, Program, Value};

/// A layer of 4096 tokens with H = 512, F = 2048 and K = 2.
pub(crate) fn layer(element: ElementType, experts: usize) -> Layer {
    let routing = routing::Problem::new(4096, experts, 2).unwrap();
    Layer {
        problem: experts::Problem {
            routing,
            hidden: 512,
            inter: 2048,
            element: float(element),
            gated: true,
            activation: Activation::Silu,
            bias: false,
            capacity: None,
            row_bound: routing.slots(),
            dense: false,
        },
        selection_bias: false,
    }
}

/// A program, with its name in the table.
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) chips: usize,
    pub(crate) program: Program,
}

pub(crate) fn named(name: impl Into<String>, chips: usize, program: Program) -> Named {
    Named {
        name: name.into(),
        chips,
        program,
    }
}

/// The programs for one chip.
pub(crate) fn of_one_chip(element: ElementType) -> Vec<Named> {
    let whole = Whole {
        layer: layer(element, 8),
        devices: 1,
    };
    let block = block(element);
    let one = |name: &str, program| named(format!("{name}, {element}"), 1, program);
    vec![
        one("MoE, forward", whole.forward().unwrap()),
        one("MoE, both passes", whole.gradients().unwrap()),
        one("FP8 linear", fp8(element)),
        one("transformer block of Burn", block),
    ]
}

fn float(element: ElementType) -> Element {
    match element {
        ElementType::F16 => Element::F16,
        ElementType::BF16 => Element::Bf16,
        _ => Element::F32,
    }
}

/// A product of 4096 rows of 512 columns with 2048 columns of FP8 weights.
fn fp8(element: ElementType) -> Program {
    let linear = GroupedGemm::Fp8Linear(grouped_gemm::Problem {
        element: float(element),
        bias: true,
        fp8: Some(Fp8Scheme {
            format: Fp8Format::E4M3,
            granularity: Granularity::Row,
        }),
        ..grouped_gemm::Problem::dense(4096, 2048, 512).unwrap()
    });
    let types = [
        TensorType::new([4096, 512], element),
        TensorType::new([32, 128, 64], ElementType::S32),
        TensorType::new([1, 2048, 1], ElementType::F32),
        TensorType::new([1, 2048], element),
    ];
    let b = Builder::new();
    let operands: Vec<Value> = types.into_iter().map(|ty| b.argument(ty)).collect();
    let results = custom::lower(&linear.into(), &b, &operands);
    let results = results.unwrap_or_else(|error| panic!("{error}"));
    b.finish(&results)
}

/// The programs for several chips, with at least one expert on each: all programs if `every`, else some.
pub(crate) fn of_chips(chips: usize, every: bool) -> Vec<Named> {
    let layer = layer(ElementType::BF16, chips.max(8));
    let even = Divided::balanced(layer, chips).unwrap();
    let whole = Divided::worst_case(layer, chips).unwrap();
    let replicated = Whole {
        layer,
        devices: chips,
    };
    let (experts, half) = (layer.problem.routing.experts(), layer.element());
    let mut all = vec![(
        format!("{experts} experts divided, both passes"),
        even.gradients().unwrap(),
    )];
    if every {
        all.extend([
            (
                format!("{experts} experts divided, forward"),
                even.forward().unwrap(),
            ),
            (
                format!("{experts} experts divided, both passes in one round"),
                whole.gradients().unwrap(),
            ),
            (
                format!("{experts} experts on each, both passes"),
                replicated.gradients().unwrap(),
            ),
        ]);
    }
    let all = all.into_iter();
    all.map(|(name, program)| named(format!("{name}, {half}"), chips, program))
        .collect()
}

/// Casts a module's parameters to a type.
struct Cast(DType);

impl ModuleMapper for Cast {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|tensor| tensor.cast(self.0))
    }
}

/// Captures a transformer block of Burn's modules: 8 sequences of 512 tokens with 512 columns, 8 heads, 2048 hidden columns.
fn block(element: ElementType) -> Program {
    let dtype = match element {
        ElementType::BF16 => DType::BF16,
        _ => DType::F32,
    };
    let config = TransformerEncoderConfig::new(512, 2048, 8, 1).with_dropout(0.0);
    let block = config.init(&Device::flex()).map(&mut Cast(dtype));
    let shape = Shape::from([8, 512, 512]);
    let bytes = vec![0; shape.num_elements() * dtype.size()];
    let zeros = TensorData::from_bytes_vec(bytes, shape, dtype);
    let device = Device::capture();
    let captured = device.capture_scope(|scope| {
        let x = Tensor::<3>::from_data(zeros, (&device, dtype));
        let y = block
            .fork(&device)
            .forward(TransformerEncoderInput::new(x.clone()));
        scope.complete(x.ids().into_iter().flatten(), y.ids().into_iter().flatten())
    });
    let captured = captured.unwrap_or_else(|error| panic!("{error:?}"));
    let lowered = graph(&captured).unwrap_or_else(|error| panic!("{error}"));
    lowered.program
}

/// The program of a later training step of a decoder with the default sizes, in f32. The programs of the first two steps
/// differ, because the optimizer has no state from before.
pub(crate) fn training_step() -> Program {
    let device = moebius::open(&moebius_device::Device::Xla(XlaPlatform::Cpu, None));
    let device = device.unwrap_or_else(|error| panic!("{error}"));
    let (config, sizes) = (TrainConfig::default(), DecoderConfig::default());
    let mut trainer = Trainer::new(config, sizes, Text::bundled().ids(), &device).unwrap();
    for _ in 0..4 {
        trainer.step().unwrap();
    }
    device.sync().unwrap();
    let programs = moebius_xla::programs(Platform::Cpu, 0).unwrap();
    Program::clone(&programs[0])
}
