//! Names of the files of a checkpoint, and of what is in them.

/// Name of the file of a checkpoint that is one file.
pub(crate) const MODEL_FILE: &str = "model.safetensors";
/// Name of the index of a checkpoint of several files.
pub(crate) const INDEX_FILE: &str = "model.safetensors.index.json";
/// Name of a model's configuration.
pub const CONFIG_FILE: &str = "config.json";
/// Metadata of a file whose blocks no configuration describes: `[rows, columns]`.
pub(crate) const BLOCK_SIZE: &str = "weight_block_size";
