//! A common interface to safetensors checkpoints and GGUF files for planning and loading, and the facts that a GGUF file shows only in its
//! tensors.

use std::ops::Range;

use burn::tensor::DType;
use moebius::blocks::BlockFormat;
use moebius_weights::gguf::{GgmlType, GgufFile, expected_types};
use moebius_weights::{Fp8Weight, Reader, StoredFp8, Unfit, Unscaled, WeightsError, quoted};
use safetensors::Dtype;

use crate::decoder::RopeScaling;
use crate::error::{Error, Misfits};
use crate::families::{Described, ROPE_FACTORS, describe_gguf};

/// A checkpoint of either kind.
#[derive(Clone, Copy, Debug)]
pub(super) enum Checkpoint<'a> {
    Safetensors(&'a Reader),
    Gguf(&'a GgufFile),
}

/// Header information of one tensor.
pub(super) struct Info<'a> {
    pub(super) element: Element,
    pub(super) shape: &'a [usize],
    /// Bytes in the files.
    pub(super) bytes: u64,
}

/// Encoding of a tensor's values.
#[derive(Clone, Copy)]
pub(super) enum Element {
    Safetensors(Dtype),
    Gguf(GgmlType),
}

impl Element {
    /// Whether values are codes in blocks, of any type.
    pub(super) fn is_quantized(self) -> bool {
        let floats = [GgmlType::F32, GgmlType::F16, GgmlType::BF16];
        matches!(self, Self::Gguf(kind) if !floats.contains(&kind))
    }

    /// The name of the type.
    pub(super) fn shown(self) -> String {
        match self {
            Self::Safetensors(dtype) => dtype.to_string(),
            Self::Gguf(kind) => kind.to_string(),
        }
    }

    /// For values that can't be read, or that must be bytes and aren't: what was expected and what was found.
    pub(super) fn unfit(self, bytes: bool) -> Option<(String, String)> {
        let (fits, expected, got) = match self {
            Self::Safetensors(dtype) if bytes => {
                (dtype == Dtype::U8, "U8".to_owned(), dtype.to_string())
            }
            Self::Safetensors(dtype) => {
                let fits = matches!(dtype, Dtype::F64 | Dtype::F32 | Dtype::F16 | Dtype::BF16);
                let expected = "F64, F32, F16, BF16 or FP8".to_owned();
                (fits, expected, dtype.to_string())
            }
            Self::Gguf(kind) => (kind.is_decoded(), expected_types(), kind.to_string()),
        };
        (!fits).then_some((expected, got))
    }
}

impl<'a> Checkpoint<'a> {
    /// Names of all tensors.
    pub(super) fn names(self) -> Vec<&'a str> {
        match self {
            Self::Safetensors(reader) => reader.tensors().map(|(name, _)| name).collect(),
            Self::Gguf(file) => file.tensors().map(|(name, _)| name).collect(),
        }
    }

    pub(super) fn get(self, name: &str) -> Option<Info<'a>> {
        Some(match self {
            Self::Safetensors(reader) => {
                let info = reader.get(name)?;
                Info {
                    element: Element::Safetensors(info.dtype),
                    shape: &info.shape,
                    bytes: reader.stored_bytes(name)?,
                }
            }
            Self::Gguf(file) => {
                let info = file.get(name)?;
                Info {
                    element: Element::Gguf(info.kind),
                    shape: &info.shape,
                    bytes: info.bytes(),
                }
            }
        })
    }

    /// Whether a tensor has the shape `shape`. In ggml a vector is a matrix of one row.
    pub(super) fn has_shape(self, info: &Info<'_>, shape: &[usize]) -> bool {
        let inner = |shape: &[usize]| {
            let ones = shape.iter().take_while(|&&extent| extent == 1).count();
            shape[ones..].to_vec()
        };
        match self {
            Self::Safetensors(_) => info.shape == shape,
            Self::Gguf(_) => inner(info.shape) == inner(shape),
        }
    }

    /// The format of a tensor's blocks, if it has such that devices decode, values of 16 bits among them, or codes that can become such.
    pub(super) fn blocks(self, name: &str) -> Option<BlockFormat> {
        match self {
            Self::Safetensors(reader) => reader.blocks(name).or_else(|| of_16_bits(reader, name)),
            Self::Gguf(file) => file.get(name)?.kind.blocks(),
        }
    }

    /// Whether some weights of a safetensors checkpoint are codes that lie in several tensors.
    pub(super) fn is_packed(self) -> bool {
        matches!(self, Self::Safetensors(reader) if reader.is_packed())
    }

    /// Whether a tensor has values of 16 bits of this dtype, as they lie in memory.
    pub(super) fn has_halves(self, name: &str, dtype: DType) -> bool {
        match (self.get(name).map(|info| info.element), dtype) {
            (Some(Element::Safetensors(stored)), DType::F16) => stored == Dtype::F16,
            (Some(Element::Safetensors(stored)), DType::BF16) => stored == Dtype::BF16,
            (Some(Element::Gguf(stored)), DType::F16) => stored == GgmlType::F16,
            (Some(Element::Gguf(stored)), DType::BF16) => stored == GgmlType::BF16,
            _ => false,
        }
    }

    /// Whether rows of a tensor are read alone, in blocks or as values.
    pub(super) fn has_rows(self, name: &str, in_blocks: bool) -> bool {
        match self {
            Self::Safetensors(reader) => reader.has_rows(name, in_blocks),
            Self::Gguf(_) => true,
        }
    }

    /// Layout of a tensor of FP8 codes and its scales; `None` for other tensors.
    pub(super) fn fp8_layout(self, name: &str) -> Option<Result<StoredFp8, WeightsError>> {
        let Self::Safetensors(reader) = self else {
            return None;
        };
        let dtype = reader.get(name)?.dtype;
        let codes = matches!(dtype, Dtype::F8_E4M3 | Dtype::F8_E5M2);
        codes.then(|| reader.fp8_layout(name, Unscaled::Refuse))
    }

    pub(super) fn fp8_weight(self, layout: &StoredFp8) -> Result<Fp8Weight, WeightsError> {
        self.safetensors().fp8_weight(layout)
    }

    /// Matrix `number` of a stack of FP8 matrices.
    pub(super) fn fp8_matrix(
        self,
        layout: &StoredFp8,
        number: usize,
    ) -> Result<Fp8Weight, WeightsError> {
        self.safetensors().fp8_matrix(layout, number)
    }

    /// Tells the file that bytes of a tensor will be read soon.
    pub(super) fn expect(self, name: &str, bytes: Range<u64>) {
        match self {
            Self::Safetensors(reader) => reader.expect(name, bytes),
            Self::Gguf(file) => file.expect(name, bytes),
        }
    }

    /// Reads bytes of a tensor, from byte `at` on.
    pub(super) fn read_part(self, name: &str, at: u64, out: &mut [u8]) -> Result<(), WeightsError> {
        match self {
            Self::Safetensors(reader) => reader.read_part(name, at, out),
            Self::Gguf(file) => file.read_part(name, at, out),
        }
    }

    /// Fills `out` with rows of `row` bytes in blocks, from row `first` of a tensor on.
    pub(super) fn read_blocks(
        self,
        name: &str,
        [first, row]: [usize; 2],
        out: &mut [u8],
    ) -> Result<(), WeightsError> {
        match self {
            Self::Safetensors(reader) if of_16_bits(reader, name).is_none() => {
                reader.read_blocks(name, first, out)
            }
            Self::Safetensors(reader) => reader.read_part(name, (first * row) as u64, out),
            Self::Gguf(file) => file.read_part(name, (first * row) as u64, out),
        }
    }

    /// Whether two tensors of a safetensors checkpoint differ in dtype, shape or bytes. Tensors of a GGUF file are not compared.
    pub(super) fn differ(self, one: &str, other: &str) -> Result<bool, WeightsError> {
        const CHUNK: u64 = 1 << 20;
        let Self::Safetensors(reader) = self else {
            return Ok(false);
        };
        let of = |name| {
            reader
                .get(name)
                .map(|info| (info.dtype, &info.shape, info.bytes()))
        };
        let (Some(first), Some(second)) = (of(one), of(other)) else {
            return Ok(false);
        };
        if first != second {
            return Ok(true);
        }
        let bytes = first.2;
        let mut parts = [Vec::new(), Vec::new()];
        for at in (0..bytes).step_by(CHUNK as usize) {
            let length = CHUNK.min(bytes - at) as usize;
            for (name, part) in [one, other].into_iter().zip(&mut parts) {
                part.resize(length, 0);
                reader.read_part(name, at, part)?;
            }
            if parts[0] != parts[1] {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn safetensors(self) -> &'a Reader {
        match self {
            Self::Safetensors(reader) => reader,
            Self::Gguf(_) => unreachable!("the rules of GGUF files ask for values alone"),
        }
    }

    /// Fills `out` with values of a tensor, from value `from` on: f32 as they lie in memory.
    pub(super) fn read_f32_to(
        self,
        name: &str,
        from: u64,
        out: &mut [u8],
    ) -> Result<(), WeightsError> {
        match self {
            Self::Safetensors(reader) => reader.read_f32_to(name, from, out),
            Self::Gguf(file) => file.read_f32_to(name, from, out),
        }
    }

    /// Reads `count` values of a tensor, from value `from` on.
    pub(super) fn read_f32_part(
        self,
        name: &str,
        from: u64,
        count: u64,
    ) -> Result<Vec<f32>, WeightsError> {
        match self {
            Self::Safetensors(reader) => reader.read_f32_part(name, from..from + count),
            Self::Gguf(file) => file.read_f32_part(name, from, count),
        }
    }

    /// Bytes of tensors read so far.
    pub(super) fn bytes_read(self) -> u64 {
        match self {
            Self::Safetensors(reader) => reader.bytes_read(),
            Self::Gguf(file) => file.bytes_read(),
        }
    }
}

/// The model of a GGUF file, with the divisors of its rotary frequencies, if the file has them.
pub(super) fn describe_gguf_file(file: &GgufFile) -> Result<Described, Error> {
    let mut described = describe_gguf(file).map_err(Misfits::of_config)?;
    if described.family.ignored.contains(&ROPE_FACTORS) && file.get(ROPE_FACTORS).is_some() {
        divide(file, &mut described)?;
    }
    Ok(described)
}

fn divide(file: &GgufFile, described: &mut Described) -> Result<(), Error> {
    let Described {
        spec, unsupported, ..
    } = described;
    let mut refuse = |expected: String, got: String| {
        unsupported.push(Unfit::new(quoted(ROPE_FACTORS), expected, got));
    };
    let ropes = spec.layers.iter_mut();
    let mut ropes: Vec<_> = ropes
        .filter_map(|layer| layer.attention_mut()?.rope.as_mut())
        .collect();
    let pairs = ropes.first().map_or(0, |rope| rope.rotated / 2);
    let Some(info) = file.get(ROPE_FACTORS) else {
        return Ok(());
    };
    if info.values() != pairs as u64 || !info.kind.is_decoded() {
        let got = format!("{} values of {}", info.values(), info.kind);
        refuse(format!("{pairs} values that can be read"), got);
        return Ok(());
    }
    let by = file.read_f32(ROPE_FACTORS)?;
    if let Some(bad) = by
        .iter()
        .find(|factor| !(factor.is_finite() && **factor > 0.0))
    {
        refuse("positive numbers".to_owned(), bad.to_string());
        return Ok(());
    }
    for rope in &mut ropes {
        if rope.scaling != RopeScaling::None {
            let got = format!("{:?}", rope.scaling);
            refuse("no other scaling of rotary positions".to_owned(), got);
            return Ok(());
        }
        rope.scaling = RopeScaling::Divided {
            by: by.clone(),
            attention: 1.0,
        };
    }
    Ok(())
}

/// The format of a tensor's values, if they have 16 bits.
fn of_16_bits(reader: &Reader, name: &str) -> Option<BlockFormat> {
    match reader.get(name)?.dtype {
        Dtype::F16 => Some(BlockFormat::F16),
        Dtype::BF16 => Some(BlockFormat::Bf16),
        _ => None,
    }
}
