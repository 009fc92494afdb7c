//! Runs a closure over ordinary tensors twice, once on Flex, and once captured, lowered and executed by the CPU plugin,
//! and compares the results.

use crate::cpu::Cpu;
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{AutodiffBackend, Backend, Capture, Flex, TensorMetadata};
use burn::tensor::{Bool, CapturedGraph, DType, Device, Float, Int, Tensor, TensorData, TensorId};
use moebius_xla::lower::{LowerError, Lowered, graph};
use std::collections::HashMap;
use std::sync::OnceLock;

/// Gives a case's closure its inputs and takes its results.
pub(crate) struct Io {
    /// The device on which tensors are made: Flex, or the capture device.
    pub(crate) device: Device,
    float: DType,
    captures: bool,
    seed: u64,
    inputs: Vec<TensorId>,
    outputs: Vec<TensorId>,
    results: Vec<TensorData>,
    /// Handles of outputs, kept because an operation may overwrite a tensor that nothing else holds.
    kept: Vec<FloatTensor<Capture>>,
}

/// A number in [0, 1) that depends on the seed and the place.
pub(crate) fn noise(seed: u64, place: u64) -> f64 {
    let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ place.wrapping_add(0x2545_F491);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((x ^ (x >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

impl Io {
    fn new(device: Device, float: DType, captures: bool) -> Self {
        Self {
            device,
            float,
            captures,
            seed: 0,
            inputs: Vec::new(),
            outputs: Vec::new(),
            results: Vec::new(),
            kept: Vec::new(),
        }
    }

    /// Whether operations are captured.
    pub(crate) fn captures(&self) -> bool {
        self.captures
    }

    /// The case's float type.
    pub(crate) fn dtype(&self) -> DType {
        self.float
    }

    /// An input of random numbers between −2 and 2.
    pub(crate) fn float<const D: usize>(&mut self, shape: [usize; D]) -> Tensor<D> {
        self.between(shape, -2.0, 2.0)
    }

    /// An input of random numbers between `low` and `high`.
    pub(crate) fn between<const D: usize>(
        &mut self,
        shape: [usize; D],
        low: f64,
        high: f64,
    ) -> Tensor<D> {
        self.seed += 1;
        let count: usize = shape.iter().product();
        let number = |i| low + (high - low) * noise(self.seed, i as u64);
        let numbers: Vec<f64> = (0..count).map(number).collect();
        self.numbers(shape, &numbers)
    }

    /// An input of the given numbers.
    pub(crate) fn numbers<const D: usize>(
        &mut self,
        shape: [usize; D],
        numbers: &[f64],
    ) -> Tensor<D> {
        let data = TensorData::new(numbers.to_vec(), shape).convert_dtype(self.float);
        self.input(Tensor::from_data(data, (&self.device, self.float)))
    }

    /// An input of random integers from `low` to `high` − 1.
    pub(crate) fn int<const D: usize>(
        &mut self,
        shape: [usize; D],
        low: i64,
        high: i64,
    ) -> Tensor<D, Int> {
        self.seed += 1;
        let count: usize = shape.iter().product();
        let number = |i| low + ((high - low) as f64 * noise(self.seed, i as u64)) as i64;
        let numbers: Vec<i64> = (0..count).map(number).collect();
        self.integers(shape, &numbers, DType::I64)
    }

    /// An input of the given integers.
    pub(crate) fn integers<const D: usize>(
        &mut self,
        shape: [usize; D],
        numbers: &[i64],
        dtype: DType,
    ) -> Tensor<D, Int> {
        let data = TensorData::new(numbers.to_vec(), shape).convert_dtype(dtype);
        self.input_int(Tensor::from_data(data, (&self.device, dtype)))
    }

    /// An input of random booleans, about half of them true.
    pub(crate) fn bool<const D: usize>(&mut self, shape: [usize; D]) -> Tensor<D, Bool> {
        self.seed += 1;
        let count: usize = shape.iter().product();
        let values: Vec<bool> = (0..count)
            .map(|i| noise(self.seed, i as u64) < 0.5)
            .collect();
        let data = TensorData::new(values, shape);
        self.input_bool(Tensor::from_data(data, &self.device))
    }

    fn keep(&mut self, x: FloatTensor<Capture>) {
        self.outputs.push(x.id());
        self.kept.push(x);
    }
}

/// Defines methods of [`Io`] for tensors of one kind: one that notes an input, and one that takes the case's next
/// result.
macro_rules! kinds {
    ($($input:ident $output:ident $kind:ty;)*) => {
        impl Io {
            $(
                fn $input<const D: usize>(&mut self, x: Tensor<D, $kind>) -> Tensor<D, $kind> {
                    if self.captures {
                        let id = x.clone().try_into_primitive::<Capture>().unwrap().id();
                        self.inputs.push(id);
                    }
                    x
                }

                /// Takes a tensor as the case's next result.
                pub(crate) fn $output<const D: usize>(&mut self, x: Tensor<D, $kind>) {
                    if self.captures {
                        self.keep(x.try_into_primitive::<Capture>().unwrap())
                    } else {
                        self.results.push(x.into_data())
                    }
                }
            )*
        }
    };
}

kinds! {
    input out Float;
    input_int out_int Int;
    input_bool out_bool Bool;
}

/// Takes the results of several methods of one tensor as the case's next results.
macro_rules! gives {
    ($io:ident.$out:ident, $x:ident: $($method:ident($($argument:expr),*))*) => {
        $($io.$out($x.clone().$method($($argument),*));)*
    };
}
pub(crate) use gives;

/// A closure whose results on Flex and through the lowering are compared.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// The float types that the case runs with.
    pub(crate) floats: &'static [DType],
    /// The factor on the float type's tolerance.
    slack: f64,
    run: Box<dyn Fn(&mut Io)>,
}

/// A case in f32.
pub(crate) fn case(name: &'static str, run: impl Fn(&mut Io) + 'static) -> Case {
    Case {
        name,
        floats: &[DType::F32],
        slack: 1.0,
        run: Box::new(run),
    }
}

impl Case {
    /// Runs the case in f16, bf16 and f64, too.
    pub(crate) fn all_floats(mut self) -> Self {
        self.floats = &[DType::F32, DType::F16, DType::BF16, DType::F64];
        self
    }

    /// Widens the tolerance by the factor `slack`, for long sums and steep functions.
    pub(crate) fn slack(mut self, slack: f64) -> Self {
        self.slack = slack;
        self
    }

    /// Captures the graph of the closure.
    pub(crate) fn capture(&self, float: DType) -> CapturedGraph {
        let device = Device::capture();
        let captured = device.capture_scope(|scope| {
            let mut io = Io::new(device.clone(), float, true);
            (self.run)(&mut io);
            scope.complete(io.inputs.clone(), io.outputs.clone())
        });
        captured.unwrap()
    }

    fn expected(&self, float: DType) -> Vec<TensorData> {
        let mut io = Io::new(Device::flex(), float, false);
        (self.run)(&mut io);
        io.results
    }

    /// Lowers the captured closure, runs it by the CPU plugin and compares its results with Flex's. The error says
    /// which result is wrong and shows the program.
    pub(crate) fn check(&self, float: DType) -> Result<(), String> {
        let captured = self.capture(float);
        let lowered = graph(&captured).map_err(|error: LowerError| error.to_string())?;
        let got = execute(&lowered, &captured, None)
            .map_err(|error| format!("{error}\n{}", lowered.program.text))?;
        let expected = self.expected(float);
        if got.len() != expected.len() {
            return Err(format!(
                "{} results, expected {}",
                got.len(),
                expected.len()
            ));
        }
        for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
            compare(got, expected, self.slack)
                .map_err(|wrong| format!("result {i}: {wrong}\n{}", lowered.program.text))?;
        }
        Ok(())
    }
}

/// Runs every case with each of its float types, and fails with a list of the wrong ones.
pub(crate) fn run(cases: &[Case]) {
    let mut wrong = Vec::new();
    for case in cases {
        for float in case.floats {
            let checked =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case.check(*float)));
            let checked = checked.unwrap_or_else(|_| Err("panicked".to_owned()));
            if let Err(error) = checked {
                wrong.push(format!("{} in {float:?}: {error}", case.name));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

fn cpu() -> &'static Cpu {
    static CPU: OnceLock<Cpu> = OnceLock::new();
    CPU.get_or_init(|| Cpu::new(&[]))
}

/// Runs a lowered graph on its captured values; `state` is the state of the random number generator.
pub(crate) fn execute(
    lowered: &Lowered,
    captured: &CapturedGraph,
    state: Option<[u64; 2]>,
) -> Result<Vec<TensorData>, String> {
    let ids = captured.graph.inputs.iter().chain(&lowered.constants);
    let mut bytes: Vec<Vec<u8>> = ids
        .map(|id| captured.values[id].as_bytes().to_vec())
        .collect();
    if let Some(state) = state {
        bytes.push(state.iter().flat_map(|word| word.to_le_bytes()).collect());
    }
    let results = cpu().execute(&lowered.program, &[bytes])?;
    let results = lowered.program.outputs.iter().zip(results.concat());
    results
        .map(|(ty, bytes)| -> Result<TensorData, String> {
            let dtype = moebius_xla::dtype(ty.element).ok_or("FP8")?;
            Ok(TensorData::from_bytes_vec(bytes, ty.shape.clone(), dtype))
        })
        .collect()
}

/// The relative and the absolute tolerance: a few units in the last place, and more because functions are approximated
/// by different polynomials (erf, tan, power).
fn tolerance(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::F64 => (1e-11, 1e-12),
        DType::F32 => (2e-5, 4e-6),
        DType::F16 => (4e-3, 1e-3),
        _ => (2e-2, 8e-3),
    }
}

fn compare(got: &TensorData, expected: &TensorData, slack: f64) -> Result<(), String> {
    // If no type is asked for, Flex makes i32 and the capture device i64. Flex also returns booleans of some operations
    // as u8.
    let default = [expected.dtype(), got.dtype()] == [DType::I32, DType::I64];
    let boolean = |dtype: DType| dtype.is_bool() || dtype == DType::U8;
    let booleans = got.dtype().is_bool() && boolean(expected.dtype());
    let same = got.dtype() == expected.dtype() || default || booleans;
    if got.shape() != expected.shape() || !same {
        return Err(format!(
            "expected {:?} of {:?}, got {:?} of {:?}",
            expected.dtype(),
            expected.shape(),
            got.dtype(),
            got.shape()
        ));
    }
    if !got.dtype().is_float() {
        let (x, y) = (whole(got), whole(expected));
        return if x == y {
            Ok(())
        } else {
            Err(format!("expected {y:?}, got {x:?}"))
        };
    }
    let (relative, absolute) = tolerance(got.dtype());
    for (i, (x, y)) in got.iter::<f64>().zip(expected.iter::<f64>()).enumerate() {
        let near = (x - y).abs() <= slack * (absolute + relative * y.abs());
        if !(near || x == y || (x.is_nan() && y.is_nan())) {
            return Err(format!("element {i}: expected {y}, got {x}"));
        }
    }
    Ok(())
}

fn whole(data: &TensorData) -> Vec<i128> {
    match data.dtype() {
        DType::U64 => data.iter::<u64>().map(i128::from).collect(),
        _ => data.iter::<i64>().map(i128::from).collect(),
    }
}

/// How often each kind of operation occurs in the cases' graphs.
pub(crate) fn covered(cases: &[Case]) -> HashMap<moebius_xla::lower::Leaf, usize> {
    let mut counts = HashMap::new();
    for case in cases {
        for operation in &case.capture(DType::F32).graph.operations {
            *counts
                .entry(moebius_xla::lower::leaf(operation))
                .or_insert(0) += 1;
        }
    }
    counts
}

/// The backend below the differentiating one, for cases with gradients.
pub(crate) trait Inner: Backend {
    /// The primitive of a float tensor.
    fn take<const D: usize>(x: Tensor<D>) -> FloatTensor<Self>;

    /// The primitive of an integer tensor.
    fn take_int<const D: usize>(x: Tensor<D, Int>) -> IntTensor<Self>;

    /// Takes a tensor as the case's next result of `io`.
    fn give(io: &mut Io, x: FloatTensor<Self>);
}

macro_rules! inner {
    ($($backend:ident, |$io:ident, $x:ident| $give:expr;)*) => {$(
        impl Inner for $backend {
            fn take<const D: usize>(x: Tensor<D>) -> FloatTensor<Self> {
                x.try_into_primitive::<Self>().unwrap()
            }

            fn take_int<const D: usize>(x: Tensor<D, Int>) -> IntTensor<Self> {
                x.try_into_primitive::<Self>().unwrap()
            }

            fn give($io: &mut Io, $x: FloatTensor<Self>) {
                $give;
            }
        }
    )*};
}

inner! {
    Capture, |io, x| io.keep(x);
    Flex, |io, x| io.results.push(x.into_data());
}

/// An input that requires a gradient.
pub(crate) fn learned<B, const D: usize>(io: &mut Io, shape: [usize; D]) -> FloatTensor<B>
where
    B: AutodiffBackend<InnerBackend: Inner>,
{
    let x = B::InnerBackend::take(io.float(shape));
    B::float_set_require_grad(B::from_inner(x), true)
}

/// Gives the result y, and the gradients of Σ weights · y for each of `xs`.
pub(crate) fn gradients<B>(io: &mut Io, y: FloatTensor<B>, xs: &[&FloatTensor<B>])
where
    B: AutodiffBackend<InnerBackend: Inner>,
{
    B::InnerBackend::give(io, B::inner(y.clone()));
    let shape = y.shape();
    let weights = B::InnerBackend::take(io.float([shape.num_elements()]));
    let weights = B::InnerBackend::float_reshape(weights, shape);
    let weighted = B::float_mul(y, B::from_inner(weights));
    let grads = B::backward(B::float_sum(weighted));
    for x in xs {
        B::InnerBackend::give(io, B::grad(x, &grads).unwrap());
    }
}

/// Makes a case whose body names the differentiating backend by a type.
macro_rules! gradient_case {
    ($name:expr, |$io:ident, $backend:ident| $body:block) => {
        $crate::harness::case($name, move |$io| {
            if $io.captures() {
                type $backend = burn::backend::Autodiff<burn::backend::Capture>;
                $body
            } else {
                type $backend = burn::backend::Autodiff<burn::backend::Flex>;
                $body
            }
        })
    };
}
pub(crate) use gradient_case;

/// Whether generated files are to be rewritten.
pub(crate) fn blesses() -> bool {
    std::env::var_os("MOEBIUS_BLESS").is_some()
}

/// Compares a generated file of this crate with `text`, and rewrites it first if [`blesses`] says so.
pub(crate) fn bless(path: &str, text: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if blesses() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == text,
        "{} is not what is generated; MOEBIUS_BLESS=1 writes it:\n{text}",
        path.display()
    );
}
