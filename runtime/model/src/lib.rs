//! Language models: one [`decoder`] for all, and one [`Trainer`].
//!
//! Of published models, [`families`] tell from a `config.json` or a GGUF file what a model is made of, [`load`] reads its weights, and [`save`] writes
//! it again. [`DecoderConfig`] is a small mixture of experts that learns to continue a text, byte by byte.
//!
//! [`TrainConfig`] is the course of a training, [`Subject`] what it is of, and [`Checkpoint`] stops and goes on. Everything random is
//! drawn on the host from the seed and the step, so all devices start from the same bits and see
//! the same batches, and a resumed training repeats the uninterrupted one bit for bit.
//!
//! ```no_run
//! use moebius_model::{DecoderConfig, Text, TrainConfig, Trainer};
//!
//! # fn main() -> Result<(), moebius_model::Error> {
//! let device = moebius::open(&moebius::Device::Auto)?;
//! let (config, sizes) = (TrainConfig::default(), DecoderConfig::default());
//! let mut trainer = Trainer::new(config, sizes, Text::bundled().ids(), &device)?;
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
mod subject;
mod text;
mod train;
mod upcycle;
mod upload;

pub use bytes::{DecoderConfig, VOCABULARY};
pub use checkpoint::Checkpoint;
pub use classifier::{
    Classifier, ClassifierConfig, ClassifierTrainer, Prediction, Progress, Samples,
};
pub use config::{Precision, TrainConfig};
pub use error::{CheckpointError, Error};
pub use expert_load::{ExpertLoad, LayerTokens};
pub use misfits::Misfits;
pub use perplexity::{Perplexity, Windows};
pub use random::moe_weights;
pub use report::{Fp8Report, LayerLoad, Report};
pub use save::{Beside, check_target, save};
pub use spread::spread;
pub use subject::Subject;
pub use text::{Batch, Text};
pub use train::Trainer;
pub use upcycle::{Upcycled, Upcycling, upcycle};
pub use upload::upload;
