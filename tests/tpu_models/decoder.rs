//! The decoder's training step.

use moebius_device::Device;
use moebius_model::{DecoderConfig, Text, TrainConfig, Trainer};
use moebius_pjrt::Platform;
use moebius_xla::stablehlo::Program;

/// The program of a step with the default sizes, in f32: the first two differ from the others, which have the
/// optimizer's state from before.
pub(crate) fn step() -> Program {
    let device = moebius::open(&Device::Xla(moebius_device::XlaPlatform::Cpu, None));
    let device = device.unwrap_or_else(|error| panic!("{error}"));
    let (config, sizes) = (TrainConfig::default(), DecoderConfig::default());
    let mut trainer = Trainer::new(config, sizes, Text::bundled().ids(), &device).unwrap();
    for _ in 0..4 {
        trainer.step().unwrap();
    }
    device.sync().unwrap();
    let programs = moebius_xla::programs(Platform::Cpu, 0).unwrap();
    Program::clone(&programs[0])
}
