//! Weights that lie in several tensors, codes and what the codes stand for, and are decoded when they are read, or become blocks of codes.
//!
//! [`find`] knows a weight by the names of its tensors. Each kind has a file: [`integers`] GPTQ, AWQ, compressed-tensors and MLX, [`fours`]
//! NVFP4 and MXFP4, [`bitsandbytes`] NF4, FP4 and LLM.int8(). Integers of four bits become blocks in [`blocks`].

mod bitsandbytes;
mod blocks;
mod fours;
mod integers;
mod part;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::OnceLock;

use moebius_ops::blocks::BlockFormat;
use safetensors::Dtype;
use serde_json::Value;

use crate::error::WeightsError;
use crate::header::byte_size;
use crate::source::TensorInfo;
use bitsandbytes::{Bytes, Table};
use fours::Fours;
use integers::{Affine, Declared, IntegerWeight, stored_shape};
use part::Parts;
pub(crate) use part::{Part, ReadParts};

/// A weight that is stored in several tensors.
#[derive(Debug)]
pub(crate) struct PackedWeight {
    /// Extents of the weight, outermost first.
    pub(crate) shape: Vec<usize>,
    /// Index of the file with the codes.
    pub(crate) file: usize,
    /// The format of the codes' blocks by the headers and the configuration, if they can be such.
    declared: Option<BlockFormat>,
    /// The tensors that the weight lies in.
    pub(crate) parts: Vec<TensorInfo>,
    layout: Layout,
}

/// How the values lie in the tensors.
#[derive(Debug)]
enum Layout {
    /// With the format of the blocks by the zeros, once these have been read.
    Integers(IntegerWeight, OnceLock<BlockFormat>),
    Affine(Affine),
    Fours(Fours),
    Table(Table),
    Bytes(Bytes),
}

impl PackedWeight {
    /// Bytes of all tensors that the weight lies in.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.parts.iter().map(TensorInfo::bytes).sum()
    }

    /// The format of the blocks that [`PackedWeight::read_blocks`] makes of the codes, if they can be such. The first call reads the zeros of integers
    /// that are declared to need none in blocks.
    pub(crate) fn blocks(&self, read: &dyn ReadParts) -> Option<BlockFormat> {
        let declared = self.declared?;
        Some(match &self.layout {
            Layout::Integers(weight, found) => {
                *found.get_or_init(|| blocks::by_zeros(weight, declared, read))
            }
            _ => declared,
        })
    }

    /// Whether [`PackedWeight::read_blocks`] reads nothing but what the rows have.
    pub(crate) fn has_rows(&self) -> bool {
        matches!(self.layout, Layout::Fours(_))
    }

    /// Appends the decoded values of the weight, row-major, to `values`.
    pub(crate) fn decode(
        &self,
        read: &dyn ReadParts,
        values: &mut Vec<f32>,
    ) -> Result<(), WeightsError> {
        match &self.layout {
            Layout::Integers(weight, _) => weight.decode(read, values),
            Layout::Affine(weight) => weight.decode(read, values),
            Layout::Fours(weight) => weight.decode(read, values),
            Layout::Table(weight) => weight.decode(read, values),
            Layout::Bytes(weight) => weight.decode(read, values),
        }
    }

    /// Fills `out` with the blocks of `rows` of the weight's rows, one after the other; nothing for a weight that can't be in blocks.
    pub(crate) fn read_blocks(
        &self,
        rows: Range<usize>,
        read: &dyn ReadParts,
        out: &mut [u8],
    ) -> Result<(), WeightsError> {
        match (&self.layout, self.blocks(read), self.shape.last()) {
            (Layout::Integers(weight, _), Some(format), _) => {
                blocks::read(weight, format, rows, read, out)
            }
            (Layout::Fours(weight), Some(_), Some(columns)) => {
                weight.read_blocks(rows, *columns, read, out)
            }
            _ => Ok(()),
        }
    }
}

/// Endings of the names of a packed weight's parts.
const ENDINGS: &[&str] = &[
    "weight",
    "weight_packed",
    "weight_scale",
    "weight_scale_2",
    "weight_global_scale",
    "weight_zero_point",
    "weight_shape",
    "weight_g_idx",
    "weight_format",
    "qweight",
    "qzeros",
    "scales",
    "biases",
    "g_idx",
    "SCB",
    "input_scale",
    "input_global_scale",
    "weight.absmax",
    "weight.quant_map",
    "weight.nested_absmax",
    "weight.nested_quant_map",
    "weight.quant_state.bitsandbytes__nf4",
    "weight.quant_state.bitsandbytes__fp4",
];

/// Packed weights by the names that they would have in floating point, and the names of all their parts.
pub(crate) type Found = (BTreeMap<String, PackedWeight>, Vec<String>);

/// Finds the packed weights among `tensors`.
///
/// # Errors
/// [`WeightsError::WrongTensor`] for a tensor whose name leaves no doubt about its layout, and whose dtype, shape or contents don't fit it.
pub(crate) fn find(
    tensors: &BTreeMap<String, TensorInfo>,
    config: Option<&Value>,
    read: &dyn ReadParts,
) -> Result<Found, WeightsError> {
    let (mut found, mut parts) = (BTreeMap::new(), Vec::new());
    let declared = Declared::of(config);
    for (name, info) in tensors {
        let state = bitsandbytes::STATES
            .iter()
            .find_map(|state| name.strip_suffix(state));
        let split = state.map(|layer| (layer, "quant_state"));
        let Some((layer, ending)) = split.or_else(|| name.rsplit_once('.')) else {
            continue;
        };
        let of = Parts {
            all: tensors,
            layer,
        };
        let weight = match ending {
            "qweight" => Some(words(&declared, of, read)?),
            "weight_packed" => Some(packed(&declared, of, read)?),
            "weight" => plain(&declared, of, read)?,
            "quant_state" if state.is_some() => Some(table(name, of, read)?),
            _ => None,
        };
        if let Some(mut weight) = weight {
            // A code of few bits has more values than bytes, so the size is checked again.
            if byte_size(Dtype::F32, &weight.shape).is_none() {
                let (name, info) = (name.clone(), info.clone());
                let part = Part { name, info };
                let got = format!("{:?}", weight.shape);
                return Err(read.unfit(&part, "codes of a weight whose size fits", &got));
            }
            // A header with an extent of 0 needs no bytes, whatever its other extents claim: such rows and blocks may be too many to visit.
            if weight.shape.contains(&0) {
                weight.declared = None;
            }
            for part in ENDINGS.iter().filter_map(|ending| of.get(ending)) {
                weight.parts.push(part.info);
                parts.push(part.name);
            }
            found.insert(format!("{layer}.weight"), weight);
        }
    }
    Ok((found, parts))
}

/// The error that a layer's codes don't fit its other tensors.
fn refused(
    of: Parts<'_>,
    [codes, scales]: [&str; 2],
    expected: &str,
    read: &dyn ReadParts,
) -> Option<WeightsError> {
    let part = of.get(codes)?;
    let shown = of
        .get(scales)
        .map_or("none".to_owned(), |part| part.shown());
    let instead = "take the model in a layout that is read, or as a GGUF file";
    let got = format!("{}, {scales} {shown}: {instead}", part.shown());
    Some(read.unfit(&part, expected, &got))
}

/// The weight, or the error that [`refused`] makes.
fn or_refused(
    weight: Option<PackedWeight>,
    of: Parts<'_>,
    names: [&str; 2],
    (expected, read): (&str, &dyn ReadParts),
) -> Result<PackedWeight, WeightsError> {
    weight.ok_or_else(|| {
        let error = refused(of, names, expected, read);
        error.unwrap_or_else(|| unreachable!("the codes were found by their name"))
    })
}

fn words(
    declared: &Declared<'_>,
    of: Parts<'_>,
    read: &dyn ReadParts,
) -> Result<PackedWeight, WeightsError> {
    let weight = declared.words(of);
    let weight = weight.map(|weight| of_integers(weight, declared));
    let expected = "words with 2, 3, 4 or 8 bits of GPTQ, or 4 of AWQ (version gemm), and scales and zeros that fit them";
    or_refused(weight, of, ["qweight", "scales"], (expected, read))
}

fn packed(
    declared: &Declared<'_>,
    of: Parts<'_>,
    read: &dyn ReadParts,
) -> Result<PackedWeight, WeightsError> {
    let stored = stored_shape(of, read)?;
    let integers = declared.packed(of, stored);
    let integers = integers.map(|weight| of_integers(weight, declared));
    let weight = integers.or_else(|| of_fours(Fours::compressed(of)?));
    let expected = "words (I32) with 1 to 8 bits of compressed-tensors, or its NVFP4 or MXFP4 (U8), and scales that fit them";
    or_refused(
        weight,
        of,
        ["weight_packed", "weight_scale"],
        (expected, read),
    )
}

fn of_integers(weight: IntegerWeight, declared: &Declared<'_>) -> PackedWeight {
    PackedWeight {
        shape: weight.shape.to_vec(),
        file: weight.codes.info.file,
        declared: blocks::format_of(&weight, declared),
        parts: Vec::new(),
        layout: Layout::Integers(weight, OnceLock::new()),
    }
}

fn of_fours(weight: Fours) -> Option<PackedWeight> {
    Some(PackedWeight {
        shape: weight.shape()?,
        file: weight.codes.info.file,
        declared: weight.blocks(),
        parts: Vec::new(),
        layout: Layout::Fours(weight),
    })
}

fn table(state: &str, of: Parts<'_>, read: &dyn ReadParts) -> Result<PackedWeight, WeightsError> {
    let (weight, shape) = Table::of(state, of, read)?;
    Ok(PackedWeight {
        shape,
        file: weight.codes.info.file,
        declared: None,
        parts: Vec::new(),
        layout: Layout::Table(weight),
    })
}

/// A packed weight whose codes are called `weight`; `None` where the tensor is a weight by itself.
fn plain(
    declared: &Declared<'_>,
    of: Parts<'_>,
    read: &dyn ReadParts,
) -> Result<Option<PackedWeight>, WeightsError> {
    let Some(codes) = of.get("weight") else {
        return Ok(None);
    };
    let file = codes.info.file;
    match codes.info.dtype {
        Dtype::I8 if of.get("SCB").is_some() => {
            let (weight, shape) = Bytes::of(of, read)?;
            let layout = Layout::Bytes(weight);
            Ok(Some(PackedWeight {
                shape,
                file,
                declared: None,
                parts: Vec::new(),
                layout,
            }))
        }
        Dtype::I8 => {
            let weight = declared.whole_bytes(of);
            Ok(weight.map(|weight| of_integers(weight, declared)))
        }
        Dtype::U8 if of.get("weight_scale_2").is_some() => {
            let weight = Fours::modelopt(of).and_then(of_fours);
            let expected = "NVFP4 of ModelOpt: U8 codes, F8_E4M3 scales, and one F32 scale of all";
            let names = ["weight", "weight_scale"];
            or_refused(weight, of, names, (expected, read)).map(Some)
        }
        Dtype::U8 => {
            let scale = of.get("weight_scale");
            let bytes = scale.is_some_and(|scale| scale.info.dtype == Dtype::U8);
            let fours = || of_fours(Fours::of_bytes(of)?);
            Ok(bytes.then(fours).flatten())
        }
        Dtype::U32 if of.get("scales").is_some() => {
            let affine = declared.affine(of).map(|(weight, shape)| PackedWeight {
                shape,
                file,
                declared: None,
                parts: Vec::new(),
                layout: Layout::Affine(weight),
            });
            let fours = || of_fours(Fours::of_mlx(of, declared.mode(of.layer))?);
            let expected = "words of MLX with 2, 3, 4, 5, 6 or 8 bits, scales and biases, or its modes mxfp4 or nvfp4";
            let names = ["weight", "scales"];
            or_refused(affine.or_else(fours), of, names, (expected, read)).map(Some)
        }
        _ => Ok(None),
    }
}
