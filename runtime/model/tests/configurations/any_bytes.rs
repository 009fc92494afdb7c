//! Describes a model by any configuration, or refuses it. `fuzz/fuzz_targets/configuration.rs` runs this, too.

use moebius_model::load::ModelFiles;
use moebius_weights::{Reader, python_json};

/// Reads `data` as the `config.json` of a checkpoint without tensors, if `data` is JSON.
pub(crate) fn any_bytes(data: &[u8]) {
    let Ok(config) = python_json(data) else {
        return;
    };
    let reader = Reader::from_sources([], Some(("config.json", config)));
    if let Ok(reader) = reader {
        let _ = ModelFiles::of(reader).map_err(|error| error.to_string());
    }
}
