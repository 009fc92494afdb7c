//! Encoding of values as blocks of GGUF types.
//!
//! [`encode`] looks for the codes whose decoded values have the least sum of squared differences from the values, all with the same weight.
//! Scales and minima that ggml's own encoders would take are among those that are compared for Q8_0, Q4_0, Q4_1, Q5_0, Q5_1 and MXFP4, so
//! that no block of these is worse than one of theirs. Numbers are rounded to the nearest, of two equally near ones to the even code, in F16
//! and BF16 to the number whose last bit is 0; in tables to the lower code (IQ4_NL) or the one nearer to 0 (MXFP4).

mod grid;
mod groups;
mod tables;
mod uniform;

use std::thread;

use half::{bf16, f16};

use super::element::GgmlType;
use crate::error::{Unfit, WeightsError, tensor};

/// Types that can be encoded.
pub const ENCODED: &[GgmlType] = &[
    GgmlType::F32,
    GgmlType::F16,
    GgmlType::BF16,
    GgmlType::Q8_0,
    GgmlType::Q4_0,
    GgmlType::Q4_1,
    GgmlType::Q5_0,
    GgmlType::Q5_1,
    GgmlType::Q4_K,
    GgmlType::Q5_K,
    GgmlType::Q6_K,
    GgmlType::IQ4_NL,
    GgmlType::MXFP4,
];

/// Values from which on another thread is worth its start; encoding as many takes some milliseconds.
const SHARE: usize = 1 << 16;

impl GgmlType {
    /// Whether values can be encoded in this type.
    pub fn is_encoded(self) -> bool {
        ENCODED.contains(&self)
    }

    /// The type that rows of `row` values get where this one is asked for: this one if they are whole blocks, else the one that llama.cpp
    /// takes in its place, with blocks of 32 values, or F16 if they aren't whole blocks of that one either.
    #[must_use]
    pub fn fitting(self, row: usize) -> Self {
        let smaller = match self {
            Self::Q4_K => Self::Q5_0,
            Self::Q5_K => Self::Q5_1,
            Self::Q6_K => Self::Q8_0,
            _ => Self::F16,
        };
        let mut kinds = [self, smaller].into_iter();
        let fitting = kinds.find(|kind| row.is_multiple_of(kind.values));
        fitting.unwrap_or(Self::F16)
    }

    /// The largest magnitude that can be encoded. Scales in F16 could hold larger values, which no weight has.
    fn largest(self) -> f32 {
        match self {
            Self::F32 => f32::MAX,
            Self::BF16 => bf16::MAX.to_f32(),
            _ => f16::MAX.to_f32(),
        }
    }
}

/// Encodes values of the tensor `name`, whole blocks, on all of the processor's cores; the bytes don't depend on how many there are.
///
/// # Errors
/// [`WeightsError::WrongTensor`] for a type that isn't [`ENCODED`], values that are no whole blocks, values that are NaN or infinite, and
/// values that are too large for the type.
pub fn encode(name: &str, kind: GgmlType, values: &[f32]) -> Result<Vec<u8>, WeightsError> {
    let wrong = |expected: String, got: String| {
        WeightsError::WrongTensor(Unfit::new(tensor(name), expected, got))
    };
    if !kind.is_encoded() {
        let names: Vec<_> = ENCODED.iter().map(|kind| kind.name()).collect();
        let expected = format!("one of the types {}", names.join(", "));
        return Err(wrong(expected, kind.to_string()));
    }
    let size = kind.size(values.len() as u64);
    let size = size.and_then(|size| usize::try_from(size).ok());
    let size = size.ok_or_else(|| {
        let expected = format!("whole blocks of {} values", kind.values);
        wrong(expected, values.len().to_string())
    })?;
    let most = kind.largest();
    let fits = |value: &f32| value.is_finite() && value.abs() <= most;
    if let Some(bad) = values.iter().find(|value| !fits(value)) {
        let expected = format!("numbers of at most {most:e} either way for {kind}");
        return Err(wrong(expected, bad.to_string()));
    }
    let mut bytes = vec![0; size];
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let workers = cores.min(values.len() / SHARE);
    if workers < 2 {
        encode_blocks(kind, values, &mut bytes);
        return Ok(bytes);
    }
    let share = (values.len() / kind.values).div_ceil(workers);
    let parts = values.chunks(share * kind.values);
    let parts = parts.zip(bytes.chunks_mut(share * kind.bytes));
    thread::scope(|scope| {
        for (values, bytes) in parts {
            scope.spawn(move || encode_blocks(kind, values, bytes));
        }
    });
    Ok(bytes)
}

/// Encodes whole blocks of a type that is [`ENCODED`].
fn encode_blocks(kind: GgmlType, values: &[f32], bytes: &mut [u8]) {
    match kind {
        GgmlType::F32 => blocks::<1, 4>(values, bytes, |[value], out| *out = value.to_le_bytes()),
        GgmlType::F16 => blocks::<1, 2>(values, bytes, |[value], out| {
            *out = f16::from_f32(*value).to_le_bytes();
        }),
        GgmlType::BF16 => blocks::<1, 2>(values, bytes, |[value], out| {
            *out = bf16::from_f32(*value).to_le_bytes();
        }),
        GgmlType::Q8_0 => blocks(values, bytes, uniform::q8_0),
        GgmlType::Q4_0 => blocks(values, bytes, uniform::q4_0),
        GgmlType::Q4_1 => blocks(values, bytes, uniform::q4_1),
        GgmlType::Q5_0 => blocks(values, bytes, uniform::q5_0),
        GgmlType::Q5_1 => blocks(values, bytes, uniform::q5_1),
        GgmlType::Q4_K => blocks(values, bytes, groups::q4_k),
        GgmlType::Q5_K => blocks(values, bytes, groups::q5_k),
        GgmlType::Q6_K => blocks(values, bytes, groups::q6_k),
        GgmlType::IQ4_NL => blocks(values, bytes, tables::iq4_nl),
        GgmlType::MXFP4 => blocks(values, bytes, tables::mxfp4),
        other => unreachable!("{other} isn't among those that are written"),
    }
}

/// Encodes blocks of `VALUES` values to `BYTES` bytes each, like the decoder's counterpart.
fn blocks<const VALUES: usize, const BYTES: usize>(
    values: &[f32],
    bytes: &mut [u8],
    block: impl Fn(&[f32; VALUES], &mut [u8; BYTES]),
) {
    let (values, bytes) = (values.as_chunks().0, bytes.as_chunks_mut().0);
    for (values, bytes) in values.iter().zip(bytes) {
        block(values, bytes);
    }
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
