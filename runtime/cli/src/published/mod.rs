//! What is read of a published model: its weights, its tokenizer, its chat template; and the text that it answers.

mod experts;
mod prompt;
mod source;
mod stream;

use std::time::Instant;

use burn::tensor::DType;
use indicatif::ProgressBar;
use moebius_device::{Device, Work};
use moebius_model::decoder::Model;
use moebius_model::load::{LoadOptions, ModelFiles, Progress};

use crate::args::{ModelPrecision, PlaceArgs};
use crate::error::CliError;
use crate::progress;
use crate::resolve::resolve_for;
use crate::screen::Screen;

pub(crate) use experts::{counted, show_experts};
pub(crate) use prompt::prompt;
pub(crate) use source::Source;
pub(crate) use stream::{Answer, AnswerStream};

/// A model on the device that was asked for.
pub(crate) struct Ready {
    pub(crate) name: Device,
    pub(crate) device: burn::tensor::Device,
    pub(crate) model: Model,
    pub(crate) load_s: f64,
}

/// Chooses the device, opens it and loads the model.
pub(crate) fn ready(
    files: &ModelFiles,
    place: &PlaceArgs,
    screen: &mut Screen,
) -> Result<Ready, CliError> {
    let name = resolve_for(Work::Tokens, place.device, screen)?;
    let device = moebius::open(&name)?;
    let begun = Instant::now();
    let model = load(files, place.dtype, &device, screen)?;
    Ok(Ready {
        name,
        device,
        model,
        load_s: begun.elapsed().as_secs_f64(),
    })
}

/// How far a loading is, on a bar of 100 steps.
pub(crate) fn show(bar: &ProgressBar, at: Progress<'_>) {
    bar.set_position(100 * at.read / at.bytes.max(1));
    bar.set_message(crate::screen::one_line(at.tensor));
}

/// The model on a device, with a bar for who watches.
fn load(
    files: &ModelFiles,
    precision: ModelPrecision,
    device: &burn::tensor::Device,
    screen: &Screen,
) -> Result<Model, CliError> {
    let bar = progress::steps(screen, "weights", 100);
    let of = |dtype| LoadOptions {
        dtype,
        ..LoadOptions::default()
    };
    let options = match precision {
        ModelPrecision::F32 => of(DType::F32),
        ModelPrecision::F16 => of(DType::F16),
        ModelPrecision::Bf16 => of(DType::BF16),
        ModelPrecision::Fp8 => LoadOptions::fp8(),
    };
    let model = files.load(device, options, &mut |progress| {
        show(&bar, progress);
    });
    bar.finish_and_clear();
    Ok(model?)
}
