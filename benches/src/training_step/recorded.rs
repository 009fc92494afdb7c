//! The step as one program of XLA, called without Burn.

use super::network::Network;
use super::{Batch, COMPARED, Times, Training, difference, times};
use crate::BenchError;
use burn::optim::ModuleOptimizer;
use burn::tensor::{Device, TensorData};
use moebius_device::Platform as Name;
use moebius_xla::pjrt::Platform;
use moebius_xla::{Adam, Step, download};

/// Records a step of a training, compares the losses of the next with the same training on Flex, and
/// measures.
pub(super) fn run(
    (platform, index): (Name, Option<u32>),
    start: &Network,
    batches: &[Batch],
) -> Result<(Times, f32), BenchError> {
    let platform = match platform {
        Name::Cpu => Platform::Cpu,
        Name::Tpu => Platform::Tpu,
        Name::Cuda => Platform::Cuda,
    };
    let index = index.unwrap_or(0) as usize;
    let device = moebius_xla::open(platform, index).map_err(failed)?;
    let mut training = Training::new(start, batches, &device);
    training.optimizer = ModuleOptimizer::from(Adam::default());
    let given = |batch: &Batch| [batch.tokens.clone(), batch.classes.clone()];
    let mut recorded = Vec::new();
    let examples = [given(&batches[0]), given(&batches[1])];
    let step = Step::record(platform, index, [&examples[0], &examples[1]], |given| {
        let given = [given[0].clone(), given[1].clone()];
        // An error comes again as that of recording.
        let _ = training.learn(given.clone()).into_scalar_checked();
        recorded.push(given);
    });
    let step = step.map_err(failed)?;
    let mut at = 0;
    let mut play = |look: bool| {
        let loss = step.run(&given(&batches[at % batches.len()]));
        at += 1;
        let loss = loss.map_err(failed)?;
        match look {
            true => Ok(download(&loss[0]).map_err(failed)?.iter::<f32>().next()),
            false => Ok(None),
        }
    };
    let losses = (0..COMPARED).map(|_| Ok(play(true)?.unwrap_or(f32::NAN)));
    let losses = losses.collect::<Result<Vec<f32>, BenchError>>()?;
    let expected = expected((start, batches), recorded)?;
    let times = times(&mut |look| play(look).map(drop))?;
    Ok((times, difference(&losses, &expected)))
}

/// The losses on Flex after the steps that were recorded.
fn expected(
    (start, batches): (&Network, &[Batch]),
    recorded: Vec<[TensorData; 2]>,
) -> Result<Vec<f32>, BenchError> {
    let mut training = Training::new(start, batches, &Device::flex());
    for given in recorded {
        training.learn(given).into_scalar_checked()?;
    }
    // The batches begin anew.
    training.steps = 0;
    training.losses()
}

fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::Device(error.to_string())
}
