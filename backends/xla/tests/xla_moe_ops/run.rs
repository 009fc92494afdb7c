//! Running a call on the CPU plugin.

use crate::cpu::Cpu;
use moebius_ops::{Element, HostTensor, Operation};
use moebius_xla::ElementType;
use moebius_xla::custom;
use moebius_xla::pjrt::{Buffer, Donate};
use moebius_xla::stablehlo::{Builder, Program, TensorType, Value};
use std::sync::OnceLock;

/// A tensor's elements in memory.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Host {
    pub(crate) ty: TensorType,
    pub(crate) bytes: Vec<u8>,
}

/// A tensor of `element` that holds `values`, rounded.
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

impl Host {
    /// Floats of any type.
    pub(crate) fn to_floats(&self) -> Vec<f32> {
        let of = |bytes: &[u8]| match self.ty.element {
            ElementType::F16 => half::f16::from_le_bytes(bytes.try_into().unwrap()).to_f32(),
            ElementType::BF16 => half::bf16::from_le_bytes(bytes.try_into().unwrap()).to_f32(),
            ElementType::F32 => f32::from_le_bytes(bytes.try_into().unwrap()),
            other => panic!("{other}"),
        };
        self.bytes.chunks(self.ty.element.bytes()).map(of).collect()
    }

    /// For the reference.
    fn to_tensor(&self) -> HostTensor {
        match self.ty.element {
            ElementType::S32 => {
                let words = self.to_ints().into_iter().map(|word| word as u32);
                HostTensor::Words(words.collect())
            }
            ElementType::S64 => {
                let longs = self.bytes.chunks(8);
                let long = |bytes: &[u8]| i64::from_le_bytes(bytes.try_into().unwrap()) as u32;
                HostTensor::Words(longs.map(long).collect())
            }
            _ => HostTensor::of_f32(&self.to_floats()),
        }
    }

    /// 32-bit integers.
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

/// The name that descriptions have for a float type.
pub(crate) fn element(element: ElementType) -> Element {
    match element {
        ElementType::F16 => Element::F16,
        ElementType::BF16 => Element::Bf16,
        ElementType::F32 => Element::F32,
        other => panic!("{other}"),
    }
}

/// The program of one operation on tensors of these types.
pub(crate) fn program(operation: impl Into<Operation>, inputs: &[Host]) -> Program {
    let operation = operation.into();
    let unpacked = custom::unpack(&custom::pack(&operation)).unwrap();
    assert_eq!(unpacked, operation);
    let b = Builder::new();
    let arguments: Vec<Value> = inputs
        .iter()
        .map(|host| b.argument(host.ty.clone()))
        .collect();
    let results = custom::lower(&operation, &b, &arguments).unwrap();
    let types: Vec<TensorType> = inputs.iter().map(|host| host.ty.clone()).collect();
    let program = b.finish(&results);
    let described = custom::outputs(&operation, &types).unwrap();
    assert_eq!(described, program.outputs);
    program
}

/// The results of one operation.
pub(crate) fn run(operation: impl Into<Operation>, inputs: &[Host]) -> Vec<Host> {
    let program = program(operation, inputs);
    let executable = cpu().compile(&program, 1);
    let executable = executable.unwrap_or_else(|error| panic!("{error}\n{}", program.text));
    let device = cpu().client.device(0).unwrap();
    let upload = |host: &Host| Buffer::from_host(&device, &host.ty, &host.bytes).unwrap();
    let arguments: Vec<Buffer> = inputs.iter().map(upload).collect();
    let arguments: Vec<&Buffer> = arguments.iter().collect();
    let results = executable.execute(&arguments, Donate::Marked).unwrap();
    let results = results.iter().zip(program.outputs);
    let host = |(buffer, ty): (&Buffer, TensorType)| Host {
        bytes: buffer.read().unwrap(),
        ty,
    };
    results.map(host).collect()
}

/// The results of one operation, held to those of the reference: words exactly, floats within what `tolerance` makes of the
/// expected ones, relative above 1.
pub(crate) fn check(
    operation: impl Into<Operation>,
    inputs: &[Host],
    tolerance: impl Fn(&[f64]) -> f64,
) -> Vec<Host> {
    let operation = operation.into();
    let operands: Vec<HostTensor> = inputs.iter().map(Host::to_tensor).collect();
    let want = operation.reference(&operands).unwrap();
    let got = run(operation.clone(), inputs);
    let results = operation.signature().results;
    for ((info, got), want) in results.iter().zip(&got).zip(want) {
        let what = format!("{} of {operation:?}", info.name);
        match (got.to_tensor(), want) {
            (HostTensor::Floats(_), HostTensor::Floats(want)) => {
                close(&what, &got.to_floats(), &want, tolerance(&want));
            }
            (got, want) => assert_eq!(got, want, "{what}"),
        }
    }
    got
}

/// So many times the largest of the expected values: what a sum in half precision may be off by.
pub(crate) fn of_largest(tolerance: f64) -> impl Fn(&[f64]) -> f64 {
    move |want| {
        let largest = want
            .iter()
            .fold(1.0f64, |most, value| most.max(value.abs()));
        tolerance * largest
    }
}

/// Numbers in −1 … 1 that look random and repeat.
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

/// Asserts that values agree within `tolerance`, relative above 1; NaN agrees with NaN, an infinity with itself.
pub(crate) fn close(what: &str, got: &[f32], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (at, (got, want)) in got.iter().zip(want).enumerate() {
        let got = f64::from(*got);
        let same = got == *want || (got.is_nan() && want.is_nan());
        let near = (got - want).abs() <= tolerance * want.abs().max(1.0);
        assert!(same || near, "{what}[{at}]: got {got}, want {want}");
    }
}
