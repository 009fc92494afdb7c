//! A small mixture-of-experts transformer that learns to continue a text, byte by byte.
//!
//! Read in this order: [`Text`] gives batches, [`Decoder`] maps bytes to the logits of the next
//! byte, [`Trainer`] makes the loss fall, [`Checkpoint`] stops and goes on. Everything random is
//! drawn on the host from the seed and the step, so all devices start from the same bits and see
//! the same batches, and a resumed training repeats the uninterrupted one bit for bit.
//!
//! Published models run in one decoder: [`families`] tell from a `config.json` or a GGUF file what a model is made of, [`load`] reads its weights, and
//! [`decoder`] computes. [`Tuner`] trains such a model, and [`save`] writes it again.
//!
//! ```no_run
//! use moebius_model::{Text, TrainConfig, Trainer};
//!
//! # fn main() -> Result<(), moebius_model::Error> {
//! let device = moebius::open(&moebius::Device::Auto)?;
//! let mut trainer = Trainer::new(TrainConfig::default(), Text::bundled(), &device)?;
//! for _ in 0..20 {
//!     trainer.step()?;
//! }
//! println!("{:.2} nats a byte", trainer.report()?.loss);
//! # Ok(())
//! # }
//! ```

mod adam;
mod bytes;
mod checkpoint;
mod classifier;
mod clip;
mod config;
pub mod decoder;
mod error;
mod expert_load;
pub mod families;
mod likelihood;
pub mod load;
mod misfits;
mod parameters;
mod perplexity;
mod random;
mod report;
mod save;
mod spread;
mod text;
mod train;
mod tuning;
mod upcycle;
mod upload;

pub use bytes::{Attention, Block, Decoder, DecoderOutput};
pub use checkpoint::Checkpoint;
pub use classifier::{
    Classifier, ClassifierConfig, ClassifierTrainer, Prediction, Progress, Samples,
};
pub use config::{DecoderConfig, Precision, TrainConfig, VOCABULARY};
pub use error::{CheckpointError, Error};
pub use expert_load::{ExpertLoad, LayerTokens};
pub use misfits::Misfits;
pub use perplexity::{Perplexity, Windows};
pub use random::moe_weights;
pub use report::{Fp8Report, LayerLoad, Report};
pub use save::{Beside, check_target, save};
pub use spread::spread;
pub use text::{Batch, Text};
pub use train::Trainer;
pub use tuning::{Tuner, TuningConfig};
pub use upcycle::{Upcycled, Upcycling, upcycle};
pub use upload::upload;
