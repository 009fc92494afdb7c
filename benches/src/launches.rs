//! The benchmark of launches with next to no work: additions of 1 to one number, and one byte through the small byte
//! model.
//!
//! With Burn's fusion, additions in a row become one kernel; on XLA, they become one program.

use crate::ceiling::{finish, finish_with};
use crate::oracle::{distance, floats, tolerance};
use crate::timing::{Timing, timing};
use crate::{BenchError, Checked, Progress};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use moebius::Error;
use moebius_device::Device as Name;
use moebius_model::DecoderConfig;
use moebius_model::computation::Computation;
use moebius_model::decoder::Model;

/// Number of additions after which the host waits for CubeCL's CPU runtime, whose queue is short.
const PACE: usize = 8;
/// Input byte of the byte model.
const BYTE: u8 = b'a';

/// Results of the benchmark.
#[derive(Clone, Debug)]
pub struct LaunchReport {
    /// A result for each number of additions; on `cpu` also one each where the host waits every few additions.
    pub additions: Vec<Additions>,
    /// Forward pass of `moebius train`'s initial model for one byte, the first of its sequence.
    pub byte: Forward,
}

/// Result of additions in a row; the time means something only when `verified`.
#[derive(Clone, Copy, Debug)]
pub struct Additions {
    /// Number of additions.
    pub count: usize,
    /// Number of additions after which the host waits; `None` if it waits only at the end.
    pub pace: Option<usize>,
    /// Whether the sum was exact.
    pub checked: Checked,
    /// Time of all additions.
    pub time: Timing,
}

/// Result of a forward pass; the time means something only when `verified`.
#[derive(Clone, Copy, Debug)]
pub struct Forward {
    /// Whether the logits agree with those of the same network in f64.
    pub checked: Checked,
    /// Time of the forward pass.
    pub time: Timing,
}

/// Verifies, then measures each of `counts` additions in a row, and one byte; `progress` is called with each step.
///
/// # Errors
/// [`BenchError`] when the device can't be opened or fails.
pub fn run(name: &Name, counts: &[usize], progress: Progress) -> Result<LaunchReport, BenchError> {
    let opened = moebius_device::open(name).map_err(Error::from)?;
    let device = moebius::open(&opened.device)?;
    let paces: &[Option<usize>] = match opened.device {
        Name::Cpu => &[None, Some(PACE)],
        // On other devices, a host that runs ahead costs nothing.
        _ => &[None],
    };
    let mut all = Vec::new();
    for count in counts {
        progress(&format!("adding {count} times"));
        for pace in paces {
            all.push(additions(*count, *pace, &device)?);
        }
    }
    progress("one byte through the byte model");
    Ok(LaunchReport {
        additions: all,
        byte: byte(&device)?,
    })
}

/// A number on a device, and the sum it should be.
struct Sum<'a> {
    x: Tensor<1>,
    expected: usize,
    device: &'a Device,
}

impl Sum<'_> {
    /// Adds 1 `count` times and waits for the result; also waits after every `pace` additions.
    fn add(&mut self, count: usize, pace: Option<usize>) -> Result<(), BenchError> {
        for done in 1..=count {
            self.x = self.x.clone().add_scalar(1.0);
            if pace.is_some_and(|pace| done % pace == 0) {
                moebius::keep_pace(self.device)?;
            }
        }
        self.expected += count;
        finish(self.device)
    }

    /// Relative error of the number against the expected sum; f32 counts exactly up to 2^24.
    fn error(&self) -> f64 {
        distance(&floats(self.x.clone()), &[self.expected as f64])
    }
}

fn additions(count: usize, pace: Option<usize>, device: &Device) -> Result<Additions, BenchError> {
    let mut sum = Sum {
        x: Tensor::zeros([1], device),
        expected: 0,
        device,
    };
    sum.add(count, pace)?;
    let first = sum.error();
    let time = timing(|| sum.add(count, pace))?;
    let error = sum.error().max(first);
    Ok(Additions {
        count,
        pace,
        checked: Checked::within(0.0, error),
        time,
    })
}

fn byte(device: &Device) -> Result<Forward, BenchError> {
    let config = DecoderConfig::default();
    let decoder = config.init(0, device).map_err(BenchError::device)?;
    let input = TensorData::from([[i32::from(BYTE)]]);
    let input = Tensor::<2, Int>::from_data(input, device);
    let forward = || {
        let out = decoder.forward(input.clone());
        Ok::<_, BenchError>(out.map_err(BenchError::device)?.logits.flatten::<2>(0, 1))
    };
    let want = reference(&decoder)?;
    let error = distance(&floats(forward()?), &want);
    let time = timing(|| finish_with(forward()?, device))?;
    Ok(Forward {
        // Each block adds a rounding error.
        checked: Checked::within(config.layers as f64 * tolerance(DType::F32), error),
        time,
    })
}

/// Logits \[256\] after the byte, the first of its sequence, in f64.
fn reference(decoder: &Model) -> Result<Vec<f64>, BenchError> {
    let mut weights = decoder;
    let computed = Computation::reference(decoder.spec(), &mut weights, &[u32::from(BYTE)]);
    let mut parts = computed.map_err(BenchError::device)?.parts;
    Ok(parts.pop().map_or_else(Vec::new, |head| head.values))
}

#[cfg(test)]
#[cfg(feature = "flex")]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_weight_of_the_byte_model_is_seen() {
        let device = Device::flex();
        let decoder = |seed| DecoderConfig::default().init(seed, &device).unwrap();
        let (right, other) = (decoder(0), decoder(1));
        let byte = TensorData::from([[i32::from(BYTE)]]);
        let byte = Tensor::<2, Int>::from_data(byte, &device);
        let logits = floats(right.forward(byte).unwrap().logits.flatten::<2>(0, 1));
        let error = |of: &Model| distance(&logits, &reference(of).unwrap());
        assert!(error(&right) < 1e-5, "{}", error(&right));
        let mut wrong = right.clone();
        wrong.blocks[1].attention = other.blocks[1].attention.clone();
        assert!(error(&wrong) > 1e-3, "{}", error(&wrong));
    }

    #[test]
    fn additions_are_counted_exactly() {
        let found = additions(3, Some(2), &Device::flex()).unwrap();
        assert!(found.checked.verified && found.time.runs > 0, "{found:?}");
        let mut sum = Sum {
            x: Tensor::zeros([1], &Device::flex()),
            expected: 1,
            device: &Device::flex(),
        };
        sum.add(3, None).unwrap();
        assert_eq!(sum.error(), 0.25);
    }
}
