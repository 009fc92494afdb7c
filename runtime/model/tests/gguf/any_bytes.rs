//! Makes a model of any GGUF file or refuses it. `fuzz/fuzz_targets/models.rs` runs this, too.

use moebius_model::load::ModelFiles;
use moebius_weights::gguf::GgufFile;

/// Loads a model from `data`, if `data` is a GGUF file.
pub(crate) fn any_bytes(data: &[u8]) {
    if let Ok(file) = GgufFile::from_bytes("fuzz", data.to_vec()) {
        let _ = ModelFiles::of_gguf(file).map_err(|error| error.to_string());
    }
}
