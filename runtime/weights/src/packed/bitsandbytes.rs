//! Weights of bitsandbytes: 4 bits by a table of 16 values (NF4 and FP4), and 8 bits with a scale for each row (LLM.int8()).
//!
//! | | codes | scales | table |
//! |---|---|---|---|
//! | 4 bits | `weight`, the first of a byte in its high half | `weight.absmax`, for `blocksize` neighbours | `weight.quant_map` F32 \[16\] |
//! | its scales, if they are bytes | `weight.absmax` U8 | `weight.nested_absmax`, plus `nested_offset` | `weight.nested_quant_map` F32 \[256\] |
//! | 8 bits | `weight` I8 \[n, k\] | `SCB` F32 \[n\], over 127 | none |
//!
//! Shape, sizes of blocks and the dtype to which values are rounded are JSON in the tensor `weight.quant_state.bitsandbytes__nf4` or
//! `…__fp4`. Values have the bits that bitsandbytes' own decoding on processors gives.

use half::{bf16, f16};
use safetensors::Dtype;
use serde::Deserialize;

use super::part::{Part, Parts, ReadParts};
use crate::error::{WeightsError, quoted};
use crate::header::byte_size;

/// Endings of the names of the tensors that describe weights of 4 bits.
pub(super) const STATES: [&str; 2] = [
    ".weight.quant_state.bitsandbytes__nf4",
    ".weight.quant_state.bitsandbytes__fp4",
];

/// Largest size in bytes of a description; those of bitsandbytes have some 200.
const MAX_STATE: u64 = 4096;

/// Description of a weight of 4 bits.
#[derive(Deserialize)]
struct State {
    blocksize: usize,
    dtype: String,
    shape: Vec<usize>,
    nested_blocksize: Option<usize>,
    nested_offset: Option<f64>,
}

/// Dtype to which decoded values are rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rounding {
    None,
    F16,
    Bf16,
}

impl Rounding {
    fn of(dtype: &str) -> Option<Self> {
        match dtype {
            "float32" => Some(Self::None),
            "float16" => Some(Self::F16),
            "bfloat16" => Some(Self::Bf16),
            _ => None,
        }
    }

    fn round(self, value: f32) -> f32 {
        match self {
            Self::None => value,
            Self::F16 => f16::from_f32(value).to_f32(),
            Self::Bf16 => bf16::from_f32(value).to_f32(),
        }
    }
}

/// A weight of 4-bit codes that index a table.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) codes: Part,
    /// Number of values.
    count: usize,
    table: Part,
    scales: Part,
    /// Number of neighbours that share a scale.
    block: usize,
    nested: Option<Nested>,
    rounding: Rounding,
}

/// Scales that are codes of 8 bits, which index a table, with scales of their own.
#[derive(Debug)]
struct Nested {
    table: Part,
    scales: Part,
    block: usize,
    /// What is added to each decoded scale.
    offset: f32,
}

impl Table {
    /// The weight that the tensor `state` describes, and its shape.
    pub(super) fn of(
        state: &str,
        of: Parts<'_>,
        read: &dyn ReadParts,
    ) -> Result<(Self, Vec<usize>), WeightsError> {
        let described = of.all.get(state).map(|info| Part {
            name: state.to_owned(),
            info: info.clone(),
        });
        let described =
            described.unwrap_or_else(|| unreachable!("the tensor was found by its name"));
        let wrong = |expected: &str, got: &str| read.unfit(&described, expected, got);
        let bytes = described.info.bytes();
        if bytes > MAX_STATE {
            let expected = format!("at most {MAX_STATE} bytes of JSON");
            return Err(wrong(&expected, &bytes.to_string()));
        }
        let text = read.bytes(&described)?;
        let expected = "the JSON of a quantization state of bitsandbytes";
        let parsed: State = serde_json::from_slice(&text)
            .map_err(|error| wrong(expected, &quoted(&error.to_string())))?;
        let shape = parsed.shape.clone();
        let weight = Self::fitting(parsed, of);
        let weight = weight.ok_or_else(|| {
            let expected = "tensors `weight`, `weight.absmax` and `weight.quant_map` of the shape that it describes";
            let shown = |ending: &str| of.get(ending).map_or("none".to_owned(), |part| part.shown());
            let [codes, scales] = ["weight", "weight.absmax"].map(shown);
            let state = quoted(&String::from_utf8_lossy(&text));
            wrong(expected, &format!("{codes} and {scales} with {state}"))
        })?;
        Ok((weight, shape))
    }

    fn fitting(state: State, of: Parts<'_>) -> Option<Self> {
        // The number of values; `None` where the extents overflow.
        let count = byte_size(Dtype::U8, &state.shape)?;
        let codes = of.get("weight")?;
        let (table, scales) = (of.get("weight.quant_map")?, of.get("weight.absmax")?);
        let block = Some(state.blocksize).filter(|&block| block > 0)?;
        let blocks = count.div_ceil(block);
        let nested = match scales.info.dtype {
            Dtype::F32 => None,
            _ => Some(Nested::of(&state, of, blocks)?),
        };
        let dtype = match nested {
            Some(_) => Dtype::U8,
            None => Dtype::F32,
        };
        let fits = (1..=3).contains(&state.shape.len())
            && codes.info.bytes() == count.div_ceil(2) as u64
            && table.is(Dtype::F32, &[16])
            && scales.is(dtype, &[blocks]);
        let rounding = Rounding::of(&state.dtype)?;
        fits.then_some(Self {
            codes,
            count,
            table,
            scales,
            block,
            nested,
            rounding,
        })
    }

    /// Appends the values, row-major.
    pub(super) fn decode(
        &self,
        read: &dyn ReadParts,
        values: &mut Vec<f32>,
    ) -> Result<(), WeightsError> {
        let table = read.floats(&self.table)?;
        let scales = match &self.nested {
            Some(nested) => nested.decode(&read.bytes(&self.scales)?, read)?,
            None => read.floats(&self.scales)?,
        };
        let codes = read.bytes(&self.codes)?;
        let halves = codes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        let decoded = halves.take(self.count).enumerate().map(|(at, code)| {
            let value = table[usize::from(code)] * scales[at / self.block];
            self.rounding.round(value)
        });
        values.extend(decoded);
        Ok(())
    }
}

impl Nested {
    /// The scales of `count` scales; `None` where tensors or sizes are missing or don't fit.
    fn of(state: &State, of: Parts<'_>, count: usize) -> Option<Self> {
        let scales = of.get("weight.nested_absmax")?;
        let table = of.get("weight.nested_quant_map")?;
        let block = state.nested_blocksize.filter(|&block| block > 0)?;
        let fits = scales.is(Dtype::F32, &[count.div_ceil(block)]) && table.is(Dtype::F32, &[256]);
        fits.then_some(Self {
            table,
            scales,
            block,
            offset: state.nested_offset? as f32,
        })
    }

    fn decode(&self, codes: &[u8], read: &dyn ReadParts) -> Result<Vec<f32>, WeightsError> {
        let (table, scales) = (read.floats(&self.table)?, read.floats(&self.scales)?);
        let decoded = codes
            .iter()
            .enumerate()
            .map(|(at, &code)| table[usize::from(code)] * scales[at / self.block] + self.offset);
        Ok(decoded.collect())
    }
}

/// A weight of 8-bit integers with a scale for each row.
#[derive(Debug)]
pub(super) struct Bytes {
    codes: Part,
    scales: Part,
}

/// One over the largest code, 127.
const STEP: f32 = 7.874_016e-3;

impl Bytes {
    /// The weight with the tensors `weight` and `SCB`, and its shape.
    pub(super) fn of(
        of: Parts<'_>,
        read: &dyn ReadParts,
    ) -> Result<(Self, Vec<usize>), WeightsError> {
        let (Some(codes), Some(scales)) = (of.get("weight"), of.get("SCB")) else {
            unreachable!("both tensors were found by their names");
        };
        let rows = codes.matrix().map(|[rows, _]| rows);
        if rows.is_none_or(|rows| !scales.is(Dtype::F32, &[rows])) {
            let got = format!(
                "{}, and {} is {}",
                codes.shown(),
                quoted(&scales.name),
                scales.shown()
            );
            return Err(read.unfit(&codes, "a matrix with an F32 scale for each row", &got));
        }
        // Other orders are those of single kinds of cards.
        if let Some(format) = of.get("weight_format") {
            let one = format.info.bytes() == 1;
            let order = if one {
                read.bytes(&format)?
            } else {
                Vec::new()
            };
            if order != [0] {
                let expected = "0, for codes in the order of rows";
                return Err(read.unfit(&format, expected, &format!("{order:?}")));
            }
        }
        let shape = codes.info.shape.clone();
        Ok((Self { codes, scales }, shape))
    }

    /// Appends the values, row-major.
    pub(super) fn decode(
        &self,
        read: &dyn ReadParts,
        values: &mut Vec<f32>,
    ) -> Result<(), WeightsError> {
        let (codes, scales) = (read.bytes(&self.codes)?, read.floats(&self.scales)?);
        let columns = codes.len() / scales.len().max(1);
        for (codes, scale) in codes.chunks_exact(columns.max(1)).zip(scales) {
            let value = |code: &u8| f32::from(code.cast_signed()) * scale * STEP;
            values.extend(codes.iter().map(value));
        }
        Ok(())
    }
}
