//! The programs to compile, at the sizes of a real layer.

use burn::module::{Module, ModuleMapper, Param};
use burn::nn::transformer::{TransformerEncoderConfig, TransformerEncoderInput};
use burn::tensor::{DType, Device, Shape, Tensor, TensorData};
use moebius_device::{Placement, XlaPlatform};
use moebius_model::{DecoderConfig, Text, TrainConfig, Trainer};
use moebius_ops::fp8::Fp8Format;
use moebius_ops::grouped_gemm::{self, Activation};
use moebius_ops::permute::sorting;
use moebius_ops::routing::{self, TopkGradient};
use moebius_ops::scaling::{Fp8Scheme, Granularity};
use moebius_ops::{Element, Experts, GroupedGemm, Operation, Permute, Routing, experts};
use moebius_pjrt::{ElementType, Platform, TensorType};
use moebius_xla::Arguments;
use moebius_xla::custom;
use moebius_xla::lower::graph;
use moebius_xla::stablehlo::{Builder, Mesh, Program, Value};

/// A mixture-of-experts layer with softmax routing.
#[derive(Clone, Copy)]
struct Layer {
    problem: experts::Problem,
    /// The devices that have its experts; `None` for one device.
    mesh: Option<Mesh>,
}

impl Layer {
    /// A layer of 4096 tokens with H = 512, F = 2048 and K = 2.
    fn new(element: ElementType, experts: usize, mesh: Option<Mesh>) -> Self {
        let routing = routing::Problem::new(4096, experts, 2).unwrap();
        let problem = experts::Problem {
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
        };
        Self { problem, mesh }
    }

    fn builder(&self) -> Builder {
        self.mesh.map_or_else(Builder::new, Builder::placed)
    }

    /// Appends the weights as arguments: of the router, and the stacks of the experts' first and second products.
    fn weights(&self, b: &Builder, element: ElementType) -> [Value; 3] {
        let p = &self.problem;
        let (e, h) = (p.routing.experts(), p.hidden);
        let stack = |shape: [usize; 3]| b.argument_of(TensorType::new(shape, element), true);
        let router = b.argument(TensorType::new([e, h], element));
        let w_in = stack([e, p.columns_in(), h]);
        [router, w_in, stack([e, h, p.inter])]
    }

    /// Appends the forward pass: y, and what the backward pass reads of it.
    fn pass(&self, b: &Builder, x: Value, [router, w_in, w_out]: [Value; 3]) -> (Value, Pass) {
        let p = self.problem;
        let logits = Routing::Logits {
            problem: p.routing,
            hidden: p.hidden,
            element: p.element,
            backward: false,
        };
        let logits = lower(b, logits, &[x, router])[0];
        let route = Routing::Route {
            problem: p.routing,
            mask: false,
            bias: false,
        };
        let chosen = lower(b, route, &[logits]);
        let sort = Permute::Sort {
            problem: sorting::Problem::new(&p.routing, None, false).unwrap(),
            mask: false,
        };
        let sorted = lower(b, sort, &[chosen[1], chosen[0]]);
        // Several devices don't keep the first product.
        let keep = self.mesh.is_none();
        let experts = [x, chosen[1], sorted[0], sorted[1], sorted[2], w_in, w_out];
        let forward = Experts::Forward { problem: p, keep };
        let made = lower(b, forward, &experts);
        let route = [logits, chosen[0], chosen[1], chosen[2], chosen[3]];
        let pass = Pass {
            route,
            experts: [&experts[..], &made[1..]].concat(),
        };
        (made[0], pass)
    }

    /// The program that takes x and the weights, and gives y.
    fn forward(&self, element: ElementType) -> Program {
        let b = self.builder();
        let x = b.argument(self.rows(element));
        let weights = self.weights(&b, element);
        let (y, _) = self.pass(&b, x, weights);
        b.finish(&[y])
    }

    /// The program that takes x, dy and the weights, and gives y and the gradients of x and of the weights.
    fn both_passes(&self, element: ElementType) -> Program {
        let (b, p) = (self.builder(), self.problem);
        let [x, dy] = [0; 2].map(|_| b.argument(self.rows(element)));
        let weights = self.weights(&b, element);
        let (y, pass) = self.pass(&b, x, weights);
        let backward = Experts::Backward {
            problem: p,
            pre: self.mesh.is_none(),
            x: true,
            weights: true,
        };
        let made = lower(&b, backward, &[&[dy], pass.experts.as_slice()].concat());
        let backward = Routing::RouteBackward {
            problem: p.routing,
            mask: false,
            of: TopkGradient::Weights,
        };
        let dlogits = lower(&b, backward, &[&[made[1]], pass.route.as_slice()].concat())[0];
        let logits = Routing::Logits {
            problem: p.routing,
            hidden: p.hidden,
            element: Element::F32,
            backward: true,
        };
        let [wide_x, router] = [x, weights[0]].map(|value| b.convert(value, ElementType::F32));
        let routed = lower(&b, logits, &[wide_x, router, dlogits]);
        let dx = b.add(b.convert(made[0], ElementType::F32), routed[0]);
        let [dx, router] = [dx, routed[1]].map(|value| b.convert(value, element));
        let results = [y, dx, router, made[2], made[3]];
        b.finish_divided(&results, &[false, false, false, true, true])
    }

    /// The type of x.
    fn rows(&self, element: ElementType) -> TensorType {
        let p = &self.problem;
        TensorType::new([p.routing.tokens(), p.hidden], element)
    }
}

/// What a backward pass reads of the forward pass.
struct Pass {
    /// The router's logits, and the choice of experts.
    route: [Value; 5],
    /// The operands of the experts, and what they keep.
    experts: Vec<Value>,
}

/// Appends an operation and returns its results.
fn lower(b: &Builder, operation: impl Into<Operation>, inputs: &[Value]) -> Vec<Value> {
    let results = custom::lower(&operation.into(), b, inputs);
    results.unwrap_or_else(|error| panic!("{error}"))
}

/// A program, with its name in the table.
#[derive(Clone)]
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
    let layer = Layer::new(element, 8, None);
    let block = block(element);
    let one = |name: &str, program| named(format!("{name}, {element}"), 1, program);
    vec![
        one("MoE, forward", layer.forward(element)),
        one("MoE, both passes", layer.both_passes(element)),
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
    let linear = GroupedGemm::CodedLinear(grouped_gemm::Problem {
        element: float(element),
        bias: true,
        stored: grouped_gemm::Stored::Fp8(Fp8Scheme {
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
    let results = lower(&b, linear, &operands);
    b.finish(&results)
}

/// The programs for several chips, with at least one expert on each: all programs if `every`, else some.
pub(crate) fn of_chips(chips: usize, every: bool) -> Vec<Named> {
    let (experts, half) = (chips.max(8), ElementType::BF16);
    let layer = |data: usize| {
        let mesh = Mesh::new(chips / data, data).unwrap();
        Layer::new(half, experts, Some(mesh))
    };
    let name = |data: usize| format!("{experts} experts in {} places", chips / data);
    let program = |name, program| named(format!("{name}, {half}"), chips, program);
    let both = |data| {
        let name = format!("{}, both passes", name(data));
        program(name, layer(data).both_passes(half))
    };
    let mut all = vec![both(1)];
    if every {
        let forward = format!("{}, forward", name(1));
        all.extend([both(2), program(forward, layer(1).forward(half))]);
    }
    all
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

/// The program of a later training step of a decoder with the default sizes, in f32, on one device or on `places` of experts.
/// The programs of the first two steps differ, because the optimizer has no state from before.
pub(crate) fn training_step(places: usize) -> Program {
    let cpu = moebius_device::Device::Xla(XlaPlatform::Cpu, None);
    let placement = Placement::new(places, 1).unwrap();
    let device = moebius::open_placed(&cpu, placement);
    let device = device.unwrap_or_else(|error| panic!("{error}"));
    let (config, sizes) = (TrainConfig::default(), DecoderConfig::default());
    let mut trainer = Trainer::new(config, sizes, Text::bundled().ids(), &device).unwrap();
    for _ in 0..4 {
        trainer.step().unwrap();
    }
    device.sync().unwrap();
    let programs = match places {
        1 => moebius_xla::programs(Platform::Cpu, 0).unwrap(),
        _ => {
            let mesh = Mesh::new(places, 1).unwrap();
            let placed = moebius_xla::place(Platform::Cpu, 0, mesh).unwrap();
            placed.programs()
        }
    };
    Program::clone(&programs[0])
}
