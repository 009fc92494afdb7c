//! The benchmark of calls of a compiled program with next to no computation on XLA's devices: adding 1 to four numbers.

use crate::timing::Timing;
use crate::{BenchError, Checked};
use burn::tensor::{DType, Tensor, TensorData};
use moebius_device::{Device, XlaPlatform};
use moebius_pjrt::Platform;
use moebius_xla::{CompiledFunction, Machine, Spec, client, download, upload};
use std::time::Instant;

/// Number of calls in a row, each with the result of the previous one as its input.
const CALLS: usize = 200;
/// Number of timed rows of calls.
const ROUNDS: usize = 101;

/// Results of the benchmark; the time means something only when `verified`.
#[derive(Clone, Copy, Debug)]
pub struct CallReport {
    /// Whether every row of calls gave exactly the right numbers.
    pub checked: Checked,
    /// Time per call, over rows of calls.
    pub time: Timing,
}

/// The plugin that runs programs of a platform.
pub(crate) fn plugin(platform: XlaPlatform) -> Platform {
    match platform {
        XlaPlatform::Cpu => Platform::Cpu,
        XlaPlatform::Tpu => Platform::Tpu,
        XlaPlatform::Cuda => Platform::Cuda,
    }
}

/// Verifies every row of calls, and times all but the first.
///
/// # Errors
/// [`BenchError`] for a device that isn't XLA's, and when the plugin fails.
pub fn run(device: &Device) -> Result<CallReport, BenchError> {
    let Device::Xla(platform, index) = *device else {
        return Err(BenchError::Lacks {
            device: *device,
            what: "programs that XLA compiled",
        });
    };
    let client = client(plugin(platform)).map_err(BenchError::device)?;
    let device = client.device(index.unwrap_or(0) as usize);
    let machine = Machine::new(device.map_err(BenchError::device)?).map_err(BenchError::device)?;
    let spec = Spec::<1>::new([4], DType::F32);
    let add = CompiledFunction::compile(&machine, &spec, &[], |_, x: Tensor<1>| x + 1.0);
    let add = add.map_err(BenchError::device)?;
    let zeros = TensorData::new(vec![0.0_f32; 4], [4]);
    let zeros = upload(&machine, &zeros).map_err(BenchError::device)?;
    let (mut seconds, mut error) = (Vec::with_capacity(ROUNDS), 0.0_f64);
    for round in 0..=ROUNDS {
        let start = Instant::now();
        let mut x = zeros.clone();
        for _ in 0..CALLS {
            x = add.run(vec![x]).map_err(BenchError::device)?.remove(0);
        }
        let sums = download(&x).map_err(BenchError::device)?;
        let took = start.elapsed().as_secs_f64() / CALLS as f64;
        error = sums.iter::<f32>().map(off).fold(error, f64::max);
        // The first row warms up.
        if round > 0 {
            seconds.push(took);
        }
    }
    Ok(CallReport {
        checked: Checked::within(0.0, error),
        time: Timing::of(&mut seconds),
    })
}

/// Relative error of a sum; infinite if the sum is NaN.
fn off(sum: f32) -> f64 {
    let error = (f64::from(sum) - CALLS as f64).abs() / CALLS as f64;
    if error.is_nan() { f64::INFINITY } else { error }
}
