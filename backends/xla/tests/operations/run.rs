//! Runs operations on the CPU plugin.

use crate::cpu::Cpu;
use moebius_ops::{Element, HostTensor, Operation, Scalar, TensorInfo};
use moebius_pjrt::{ElementType, TensorType};
use moebius_xla::custom;
use moebius_xla::stablehlo::{Builder, Program, Value};
use std::sync::OnceLock;

/// A tensor's elements in memory.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Host {
    pub(crate) ty: TensorType,
    pub(crate) bytes: Vec<u8>,
}

/// A float tensor of `element` with `values`, rounded.
pub(crate) fn floats(element: ElementType, shape: &[usize], values: &[f32]) -> Host {
    let ty = TensorType::new(shape, element);
    assert_eq!(ty.elements(), values.len());
    let bytes = values.iter().flat_map(|value| match element {
        ElementType::F16 => half::f16::from_f32(*value).to_le_bytes().to_vec(),
        ElementType::BF16 => half::bf16::from_f32(*value).to_le_bytes().to_vec(),
        _ => value.to_le_bytes().to_vec(),
    });
    Host {
        bytes: bytes.collect(),
        ty,
    }
}

pub(crate) fn f32s(shape: &[usize], values: &[f32]) -> Host {
    floats(ElementType::F32, shape, values)
}

pub(crate) fn i32s(shape: &[usize], values: &[i32]) -> Host {
    let ty = TensorType::new(shape, ElementType::S32);
    assert_eq!(ty.elements(), values.len());
    let bytes = values.iter().flat_map(|value| value.to_le_bytes());
    Host {
        bytes: bytes.collect(),
        ty,
    }
}

pub(crate) fn i64s(shape: &[usize], values: &[i32]) -> Host {
    let bytes = values
        .iter()
        .flat_map(|value| i64::from(*value).to_le_bytes());
    Host {
        bytes: bytes.collect(),
        ty: TensorType::new(shape, ElementType::S64),
    }
}

/// A tensor of words, as i32.
pub(crate) fn words(shape: &[usize], words: &[u32]) -> Host {
    let words: Vec<i32> = words.iter().map(|word| *word as i32).collect();
    i32s(shape, &words)
}

impl Host {
    /// The values of a float tensor, as f32.
    pub(crate) fn to_floats(&self) -> Vec<f32> {
        let of = |bytes: &[u8]| match self.ty.element {
            ElementType::F16 => half::f16::from_le_bytes(bytes.try_into().unwrap()).to_f32(),
            ElementType::BF16 => half::bf16::from_le_bytes(bytes.try_into().unwrap()).to_f32(),
            ElementType::F32 => f32::from_le_bytes(bytes.try_into().unwrap()),
            other => panic!("{other}"),
        };
        self.bytes.chunks(self.ty.element.bytes()).map(of).collect()
    }

    /// A tensor on the host, in the type of its description.
    pub(crate) fn of(info: &TensorInfo, tensor: &HostTensor) -> Self {
        match (info.scalar, tensor) {
            (Scalar::Float(element), HostTensor::Floats(values)) => {
                let values: Vec<f32> = values.iter().map(|value| *value as f32).collect();
                floats(float(element), &info.shape, &values)
            }
            (Scalar::Word, HostTensor::Words(values)) => words(&info.shape, values),
            _ => panic!("{}: {tensor:?}", info.name),
        }
    }

    /// The tensor in the form that references read.
    pub(crate) fn to_tensor(&self) -> HostTensor {
        match self.ty.element {
            ElementType::S32 => HostTensor::Words(self.to_words()),
            ElementType::S64 => {
                let longs = self.bytes.chunks(8);
                let long = |bytes: &[u8]| i64::from_le_bytes(bytes.try_into().unwrap()) as u32;
                HostTensor::Words(longs.map(long).collect())
            }
            _ => HostTensor::of_f32(&self.to_floats()),
        }
    }

    /// The values of an i32 tensor, reinterpreted as u32.
    pub(crate) fn to_words(&self) -> Vec<u32> {
        self.to_ints().into_iter().map(|word| word as u32).collect()
    }

    /// The values of an i32 tensor.
    pub(crate) fn to_ints(&self) -> Vec<i32> {
        assert_eq!(self.ty.element, ElementType::S32);
        let words = self.bytes.chunks(4);
        words
            .map(|w| i32::from_le_bytes(w.try_into().unwrap()))
            .collect()
    }
}

fn cpu() -> &'static Cpu {
    static CPU: OnceLock<Cpu> = OnceLock::new();
    CPU.get_or_init(|| Cpu::new(&[]))
}

/// The float type in the terms of descriptions.
pub(crate) fn element(element: ElementType) -> Element {
    let known = [Element::F32, Element::F16, Element::Bf16];
    let found = known.into_iter().find(|known| float(*known) == element);
    found.unwrap_or_else(|| panic!("{element}"))
}

/// The float type in the terms of programs.
pub(crate) fn float(element: Element) -> ElementType {
    match element {
        Element::F32 => ElementType::F32,
        Element::F16 => ElementType::F16,
        Element::Bf16 => ElementType::BF16,
    }
}

/// The type of a described tensor.
pub(crate) fn type_of(info: &TensorInfo) -> TensorType {
    let element = match info.scalar {
        Scalar::Float(element) => float(element),
        Scalar::Word => ElementType::S32,
    };
    TensorType::new(info.shape.clone(), element)
}

/// The operation after its description was packed into words and unpacked.
pub(crate) fn travelled(operation: impl Into<Operation>) -> Operation {
    let operation = operation.into();
    let unpacked = custom::unpack(&custom::pack(&operation)).unwrap();
    assert_eq!(unpacked, operation);
    unpacked
}

/// The program of one operation on tensors of these types.
pub(crate) fn program(operation: impl Into<Operation>, inputs: &[Host]) -> Program {
    let operation = travelled(operation);
    let b = Builder::new();
    let types: Vec<TensorType> = inputs.iter().map(|host| host.ty.clone()).collect();
    let arguments: Vec<Value> = types.iter().map(|ty| b.argument(ty.clone())).collect();
    let results = custom::lower(&operation, &b, &arguments).unwrap();
    let program = b.finish(&results);
    let described = custom::outputs(&operation, &types).unwrap();
    assert_eq!(described, program.outputs);
    program
}

/// Runs a program and returns its results.
pub(crate) fn execute(program: &Program, inputs: &[Host]) -> Vec<Host> {
    let arguments = inputs.iter().map(|host| host.bytes.clone()).collect();
    let results = cpu().execute(program, &[arguments]);
    let results = results.unwrap_or_else(|error| panic!("{error}\n{}", program.text));
    let results = results.into_iter().flatten().zip(&program.outputs);
    let host = |(bytes, ty): (Vec<u8>, &TensorType)| Host {
        bytes,
        ty: ty.clone(),
    };
    results.map(host).collect()
}

/// Runs one operation and returns its results.
pub(crate) fn run(operation: impl Into<Operation>, inputs: &[Host]) -> Vec<Host> {
    execute(&program(operation, inputs), inputs)
}

/// Runs an operation and compares its results with the reference's, rounded to their type: words exactly, and floats
/// within `tolerance` of the expected values, relative above 1.
pub(crate) fn check(
    operation: impl Into<Operation>,
    inputs: &[Host],
    tolerance: impl Fn(&[f64]) -> f64,
) -> Vec<Host> {
    let operation = operation.into();
    let got = run(operation.clone(), inputs);
    compare(&operation, inputs, &got, tolerance);
    got
}

/// Compares the results of an operation with the reference's, as [`check`] does.
pub(crate) fn compare(
    operation: &Operation,
    inputs: &[Host],
    got: &[Host],
    tolerance: impl Fn(&[f64]) -> f64,
) {
    let operands: Vec<HostTensor> = inputs.iter().map(Host::to_tensor).collect();
    let want = operation.reference(&operands).unwrap();
    let results = operation.signature().results;
    assert_eq!(got.len(), results.len());
    for ((info, got), want) in results.iter().zip(got).zip(want) {
        let what = format!("{} of {operation:?}", info.name);
        match (got.to_tensor(), Host::of(info, &want).to_tensor()) {
            (HostTensor::Floats(_), HostTensor::Floats(want)) => {
                close(&what, &got.to_floats(), &want, tolerance(&want));
            }
            (got, want) => assert_eq!(got, want, "{what}"),
        }
    }
}

/// A tolerance of `tolerance` times the largest expected magnitude (at least 1), for sums in half precision.
pub(crate) fn of_largest(tolerance: f64) -> impl Fn(&[f64]) -> f64 {
    move |want| {
        let largest = want
            .iter()
            .fold(1.0f64, |most, value| most.max(value.abs()));
        tolerance * largest
    }
}

/// Reproducible pseudo-random numbers in −1 … 1.
pub(crate) fn noise(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) + 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(next).collect()
}

/// Asserts that values agree within `tolerance`, relative above 1; NaN agrees with NaN, and an infinity with itself.
pub(crate) fn close(what: &str, got: &[f32], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (at, (got, want)) in got.iter().zip(want).enumerate() {
        let got = f64::from(*got);
        let same = got == *want || (got.is_nan() && want.is_nan());
        let near = (got - want).abs() <= tolerance * want.abs().max(1.0);
        assert!(same || near, "{what}[{at}]: got {got}, want {want}");
    }
}
