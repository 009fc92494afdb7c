//! A small mixture of experts learns a text byte by byte, in f32 and with all products in FP8.

use std::error::Error;

use burn::tensor::Device;
use moebius::fp8::training::Fp8Recipe;
use moebius_model::{DecoderConfig, Precision, Text, TrainConfig, Trainer};

const SENTENCE: &str = "the whale is white, and the sea is wide; ";
const STEPS: usize = 80;

/// Computes the figures, the fact that they show, and whether it holds.
pub(crate) fn run(device: &Device) -> Result<(String, String, bool), Box<dyn Error>> {
    let sizes = DecoderConfig {
        hidden: 32,
        heads: 2,
        layers: 1,
        sequence: 32,
        experts: 4,
        inter: 32,
        top_k: 2,
    };
    let config = TrainConfig {
        batch: 4,
        sequence: 32,
        steps: STEPS,
        warm_up: 5,
        learning_rate: 0.02,
        ..TrainConfig::default()
    };
    let text = Text::new(SENTENCE.repeat(20).into_bytes());
    let precisions = [Precision::F32, Precision::Fp8(Fp8Recipe::default())];
    let mut curves = Vec::new();
    for precision in precisions {
        let config = config.with_precision(precision);
        let mut trainer = Trainer::new(config, sizes, text.ids(), device)?;
        while !trainer.is_finished() {
            trainer.step()?;
        }
        curves.push(trainer.report()?.losses);
    }
    let [in_f32, in_fp8] = [&curves[0], &curves[1]];
    let mut figures = String::from("step  nats a byte in f32  in FP8");
    for step in (0..STEPS).step_by(10).chain([STEPS - 1]) {
        figures += &format!("\n{step:4}  {:18.3}  {:6.3}", in_f32[step], in_fp8[step]);
    }
    let last = STEPS - 1;
    let (last_f32, last_fp8, known) = (in_f32[last], in_fp8[last], frequencies());
    let fact = format!(
        "the loss ends at {last_f32:.2} nats a byte in f32 and {last_fp8:.2} in FP8; how often each byte comes would give {known:.2}"
    );
    Ok((figures, fact, last_f32 < known && last_fp8 < known))
}

/// The loss of who knows how often each byte comes and nothing else: the entropy −Σ p · ln p.
fn frequencies() -> f32 {
    let all = SENTENCE.len() as f32;
    let of = |byte: u8| SENTENCE.bytes().filter(|other| *other == byte).count() as f32 / all;
    // A byte that comes n times is met n times, with the share p = n / all.
    -SENTENCE.bytes().map(|byte| of(byte).ln()).sum::<f32>() / all
}

fn main() -> Result<(), Box<dyn Error>> {
    let (figures, fact, holds) = run(&moebius::open(&moebius::Device::Auto)?)?;
    println!("{figures}\n{fact}");
    assert!(holds, "this doesn't hold");
    Ok(())
}
