//! Runs programs on eight devices of the CPU plugin.

use crate::cpu::Cpu;
use moebius_pjrt::{ElementType, LoadedExecutable, Value};
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
    program: Program,
}

pub(crate) fn load(program: &Program, devices: usize) -> Loaded {
    let executable = cpu().compile(program, devices);
    Loaded {
        executable: executable.unwrap_or_else(|error| panic!("{error}\n{}", program.text)),
        program: program.clone(),
    }
}

/// The bytes of numbers in the type `element`.
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
    /// Runs the program: `arguments` and the results are lists by device, then by argument or result.
    pub(crate) fn run(&self, arguments: &[Vec<Vec<f32>>]) -> Vec<Vec<Vec<f32>>> {
        let Program {
            inputs, outputs, ..
        } = &self.program;
        let encoded = |values: &Vec<Vec<f32>>| -> Vec<Vec<u8>> {
            assert_eq!(values.len(), inputs.len());
            let values = inputs.iter().zip(values);
            let bytes = values.map(|(ty, values)| encode(ty.element, values));
            bytes.collect()
        };
        let arguments: Vec<Vec<Vec<u8>>> = arguments.iter().map(encoded).collect();
        let results = cpu().execute(&self.program, &arguments);
        let results = results.unwrap_or_else(|error| panic!("{error}"));
        let decoded = |results: Vec<Vec<u8>>| -> Vec<Vec<f32>> {
            let results = outputs.iter().zip(&results);
            let values = results.map(|(ty, bytes)| decode(ty.element, bytes));
            values.collect()
        };
        results.into_iter().map(decoded).collect()
    }
}
