//! `cargo bench --features xla --bench xla_call`: what a call of a compiled program costs on `xla:cpu`, beside next
//! to no computation: adding 1 to four numbers.

use burn::tensor::{DType, Tensor, TensorData};
use moebius_benches::timing::middle;
use moebius_xla::pjrt::Platform;
use moebius_xla::{Executable, Machine, Spec, client, download, upload};
use std::error::Error;
use std::time::Instant;

/// Calls in a row, each with the result of the one before.
const CALLS: usize = 200;
/// Timed rows of calls.
const ROUNDS: usize = 101;

fn main() -> Result<(), Box<dyn Error>> {
    let machine = Machine::new(client(Platform::Cpu)?.device(0)?)?;
    let spec = Spec::<1>::new([4], DType::F32);
    let add = Executable::compile(&machine, &spec, &[], |_, x: Tensor<1>| x + 1.0)?;
    let zeros = upload(&machine, &TensorData::new(vec![0.0_f32; 4], [4]))?;
    let mut times = Vec::with_capacity(ROUNDS);
    for round in 0..=ROUNDS {
        let start = Instant::now();
        let mut x = zeros.clone();
        for _ in 0..CALLS {
            x = add.run(vec![x])?.remove(0);
        }
        let sums = download(&x)?;
        let took = start.elapsed().as_secs_f64() / CALLS as f64 * 1e6;
        if sums.iter::<f32>().any(|sum| sum != CALLS as f32) {
            return Err(format!("wrong result: expected {CALLS}, got {sums}").into());
        }
        // The first row warms up.
        if round > 0 {
            times.push(took);
        }
    }
    let median = middle(&mut times);
    println!("xla:cpu {median:.2} µs a call, {:.2} at best", times[0]);
    Ok(())
}
