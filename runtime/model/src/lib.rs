//! Language models: one [`decoder`] for all, and one [`Trainer`].
//!
//! For published models, [`families`] read the description of a model from a `config.json` or a GGUF file, [`load`] reads its weights, and
//! [`save`] and [`save_gguf`] write the model. [`computation`] compares what a device computes, part by part, with a reference in f64.
//! [`DecoderConfig`] is a small mixture of experts that learns to continue a text, byte by byte.
//!
//! [`TrainConfig`] configures a training, [`Subject`] is the model to train, and [`Checkpoint`] stores a training to resume it. Everything
//! random is drawn on the host from the seed and the step, so all devices start from the same bits and see the same batches, and a resumed
//! training repeats the uninterrupted one bit for bit.
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

mod accumulate;
mod adapter;
mod bytes;
mod checkpoint;
mod classifier;
pub mod computation;
mod config;
mod dataset;
pub mod decoder;
mod error;
pub mod families;
mod gguf_types;
pub mod load;
mod lora;
mod memory;
mod optimizer;
mod perplexity;
mod random;
mod recompute;
mod report;
mod save;
mod to_gguf;
mod train;
mod upcycle;

pub use adapter::{Adapter, AdapterConfig, AdapterFiles, Factors};
pub use bytes::{Batch, DecoderConfig, Text, VOCABULARY};
pub use checkpoint::Checkpoint;
pub use classifier::{
    Classifier, ClassifierConfig, ClassifierTrainer, Prediction, Progress, Samples,
};
pub use config::{Precision, Schedule, Subject, TrainConfig};
pub use dataset::{Dataset, Sample, TrainingData};
pub use error::{CheckpointError, Error, Misfits, NoRoom, NoRoomToTrain};
pub use gguf_types::{GGUF_TYPES, GgufTypes};
pub use load::BaseWeights;
pub use load::placing::upload;
pub use memory::{Savings, TrainMemory};
pub use perplexity::{ExpertLoad, LayerTokens, Perplexity, Windows};
pub use random::moe_weights;
pub use report::{Fp8Report, LayerLoad, Measured, Report};
pub use save::{Beside, check_target, save};
pub use to_gguf::{GgufOptions, GgufReport, save_gguf};
pub use train::{AdapterCourse, Trainer};
pub use upcycle::{Upcycled, Upcycling, spread, upcycle};
