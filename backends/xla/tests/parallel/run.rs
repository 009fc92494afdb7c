//! Programs on eight devices of the CPU plugin.

use crate::cpu::Cpu;
use moebius_pjrt::{Buffer, Donate, ElementType, LoadedExecutable, TensorType, Value};
use moebius_xla::stablehlo::Program;
use std::sync::{Arc, OnceLock};

const DEVICES: i64 = 8;

fn cpu() -> &'static Cpu {
    static CPU: OnceLock<Cpu> = OnceLock::new();
    CPU.get_or_init(|| Cpu::new(&[("cpu_device_count", Value::Int(DEVICES))]))
}

/// A program compiled for its devices.
pub(crate) struct Loaded {
    pub(crate) executable: Arc<LoadedExecutable>,
    inputs: Vec<TensorType>,
    outputs: Vec<TensorType>,
}

pub(crate) fn load(program: &Program, devices: usize) -> Loaded {
    let executable = cpu().compile(program, devices);
    Loaded {
        executable: executable.unwrap_or_else(|error| panic!("{error}\n{}", program.text)),
        inputs: program.inputs.clone(),
        outputs: program.outputs.clone(),
    }
}

/// The bytes of numbers as `element`.
fn encode(element: ElementType, values: &[f32]) -> Vec<u8> {
    match element {
        ElementType::F32 => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
        ElementType::BF16 => values
            .iter()
            .flat_map(|x| half::bf16::from_f32(*x).to_le_bytes())
            .collect(),
        other => panic!("no test has {other}"),
    }
}

fn decode(element: ElementType, bytes: &[u8]) -> Vec<f32> {
    let words = bytes.chunks_exact(4).map(|word| word.try_into().unwrap());
    let halves = bytes.chunks_exact(2).map(|half| half.try_into().unwrap());
    match element {
        ElementType::F32 => words.map(f32::from_le_bytes).collect(),
        ElementType::S32 => words.map(|word| i32::from_le_bytes(word) as f32).collect(),
        ElementType::BF16 => halves
            .map(|half| half::bf16::from_le_bytes(half).to_f32())
            .collect(),
        other => panic!("no test has {other}"),
    }
}

impl Loaded {
    /// The results of every device, for the arguments of every device.
    pub(crate) fn run(&self, arguments: &[Vec<Vec<f32>>]) -> Vec<Vec<Vec<f32>>> {
        let devices = self.executable.devices();
        let upload = |(device, values): (_, &Vec<Vec<f32>>)| -> Vec<Buffer> {
            assert_eq!(values.len(), self.inputs.len());
            let values = values.iter().zip(&self.inputs);
            let buffers = values.map(|(values, ty)| {
                Buffer::from_host(device, ty, &encode(ty.element, values)).unwrap()
            });
            buffers.collect()
        };
        let buffers: Vec<Vec<Buffer>> = devices.iter().zip(arguments).map(upload).collect();
        let lists: Vec<Vec<&Buffer>> = buffers.iter().map(|list| list.iter().collect()).collect();
        let results = self.executable.execute_sharded(&lists, Donate::Nothing);
        let results = results.unwrap_or_else(|error| panic!("{error}"));
        let read = |buffers: Vec<Buffer>| {
            let buffers = buffers.iter().zip(&self.outputs);
            buffers
                .map(|(buffer, ty)| decode(ty.element, &buffer.read().unwrap()))
                .collect()
        };
        results.into_iter().map(read).collect()
    }
}
