//! What a conversion did.

use std::path::PathBuf;

use serde::Serialize;

/// What became of a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// From floating point to FP8.
    Quantized,
    /// From FP8 to FP8 of another kind.
    Requantized,
    /// FP8 of this kind already: the same codes and scales.
    Carried,
}

/// One weight that is in FP8 now.
#[derive(Clone, Debug, Serialize)]
pub struct ConvertedLayer {
    /// Its name.
    pub name: String,
    /// \[n, k\], or \[experts, n, k\].
    pub shape: Vec<usize>,
    /// What was done.
    pub action: Action,
    /// What it was: a dtype, or a scheme.
    pub from: String,
    /// Bytes it had, scales included.
    pub bytes_before: u64,
    /// Bytes it has, scales included.
    pub bytes_after: u64,
    /// ‖decoded − original‖₂ / ‖original‖₂ over finite values; 0 for one that is carried over.
    pub relative_rms: f64,
    /// Largest |decoded − original| of a finite value.
    pub max_abs: f32,
    /// Values that are NaN or infinite.
    pub non_finite: u64,
}

/// What a conversion did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ConvertReport {
    /// The weights in FP8, in the order of the files.
    pub layers: Vec<ConvertedLayer>,
    /// Other tensors, the same bytes as before.
    pub copied_tensors: usize,
    /// Their bytes.
    pub copied_bytes: u64,
    /// Bytes of the files of weights that were read.
    pub bytes_before: u64,
    /// Bytes of the files of weights that were written.
    pub bytes_after: u64,
    /// The files of weights, and the index.
    pub files: Vec<PathBuf>,
    /// Other files of the folder that were copied.
    pub copied_files: Vec<String>,
    /// Files of the folder that were not: weights in other formats, and what describes the old ones.
    pub left_out: Vec<String>,
}
