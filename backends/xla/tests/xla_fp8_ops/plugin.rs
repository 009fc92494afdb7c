//! One operation on the CPU plugin.

use crate::cpu::Cpu;
use moebius_ops::Operation;
use moebius_xla::ElementType;
use moebius_xla::custom;
use moebius_xla::pjrt::{Buffer, Donate};
use moebius_xla::stablehlo::{Builder, Program, TensorType, Value};
use std::sync::OnceLock;

/// A tensor on the host.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Host {
    pub(crate) ty: TensorType,
    pub(crate) bytes: Vec<u8>,
}

impl Host {
    pub(crate) fn f32s(shape: &[usize], values: &[f32]) -> Self {
        Self::new(
            shape,
            ElementType::F32,
            values.iter().flat_map(|x| x.to_le_bytes()),
        )
    }

    pub(crate) fn ints(shape: &[usize], words: &[u32]) -> Self {
        Self::new(
            shape,
            ElementType::S32,
            words.iter().flat_map(|x| x.to_le_bytes()),
        )
    }

    /// Words as a host's i64.
    pub(crate) fn longs(words: &[u32]) -> Self {
        let longs = words.iter().map(|word| i64::from(*word as i32));
        Self::new(
            &[words.len()],
            ElementType::S64,
            longs.flat_map(|x| x.to_le_bytes()),
        )
    }

    pub(crate) fn halves(element: ElementType, bits: &[u16]) -> Self {
        Self::new(
            &[bits.len()],
            element,
            bits.iter().flat_map(|x| x.to_le_bytes()),
        )
    }

    fn new(shape: &[usize], element: ElementType, bytes: impl Iterator<Item = u8>) -> Self {
        let ty = TensorType::new(shape, element);
        let bytes: Vec<u8> = bytes.collect();
        assert_eq!(bytes.len(), ty.bytes());
        Self { ty, bytes }
    }

    pub(crate) fn reshaped(self, shape: &[usize]) -> Self {
        let ty = self.ty.with_shape(shape);
        Self { ty, ..self }
    }

    pub(crate) fn floats(&self) -> Vec<f32> {
        assert_eq!(self.ty.element, ElementType::F32);
        self.words().into_iter().map(f32::from_bits).collect()
    }

    pub(crate) fn words(&self) -> Vec<u32> {
        let words = self.bytes.chunks_exact(4);
        words
            .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
            .collect()
    }

    pub(crate) fn halves_of(&self) -> impl Iterator<Item = u16> + '_ {
        self.bytes
            .chunks_exact(2)
            .map(|half| u16::from_le_bytes([half[0], half[1]]))
    }
}

fn cpu() -> &'static Cpu {
    static CPU: OnceLock<Cpu> = OnceLock::new();
    CPU.get_or_init(|| Cpu::new(&[]))
}

/// The results of a program.
pub(crate) fn run(program: &Program, inputs: &[Host]) -> Vec<Host> {
    let device = cpu().client.device(0).expect("there is a device");
    let loaded = cpu().compile(program, 1);
    let loaded = loaded.unwrap_or_else(|error| panic!("{error}\n{}", program.text));
    let arguments = inputs.iter().map(|input| {
        Buffer::from_host(&device, &input.ty, &input.bytes).expect("the argument has its size")
    });
    let arguments: Vec<Buffer> = arguments.collect();
    let arguments: Vec<&Buffer> = arguments.iter().collect();
    let results = loaded.execute(&arguments, Donate::Nothing);
    let results = results.unwrap_or_else(|error| panic!("{error}"));
    let results = results
        .iter()
        .zip(&program.outputs)
        .map(|(result, ty)| Host {
            ty: ty.clone(),
            bytes: result.read().expect("a result can be read"),
        });
    results.collect()
}

/// The results of an operation, whose description goes through its scalars first.
pub(crate) fn call(operation: impl Into<Operation>, inputs: &[Host]) -> Vec<Host> {
    let operation = operation.into();
    let unpacked = custom::unpack(&custom::pack(&operation));
    let unpacked = unpacked.expect("a description survives its scalars");
    assert_eq!(unpacked, operation);
    let types: Vec<TensorType> = inputs.iter().map(|input| input.ty.clone()).collect();
    let b = Builder::new();
    let arguments: Vec<Value> = types.iter().map(|ty| b.argument(ty.clone())).collect();
    let results = custom::lower(&unpacked, &b, &arguments);
    let results = results.unwrap_or_else(|error| panic!("{error}"));
    let program = b.finish(&results);
    let described = custom::outputs(&operation, &types);
    assert_eq!(described.as_deref(), Ok(&program.outputs[..]));
    run(&program, inputs)
}
