//! FP8 weights: codes and their scales.

use std::ops::Range;

use moebius_ops::fp8::Fp8Format;
use moebius_ops::quantize::{Blocks, decoded_codes};
use moebius_ops::scaling::{Fp8Scheme, Granularity, HostScales, ScaleType, e8m0_value};
use safetensors::Dtype;

use crate::error::{Unfit, WeightsError, quoted, quoted_shape, tensor};
use crate::header::byte_size;
use crate::reader::Reader;
use crate::scales::{Hints, granularity};

/// An FP8 weight of a checkpoint with its scales; each value is code · scale.
#[derive(Clone, Debug, PartialEq)]
pub struct Fp8Weight {
    /// Name of the tensor of codes.
    pub name: String,
    /// Format of the codes and granularity of the scales.
    pub scheme: Fp8Scheme,
    /// Shape of the weight: \[n, k\], or \[experts, n, k\].
    pub shape: Vec<usize>,
    /// Codes, one per byte, row-major, without padding.
    pub codes: Vec<u8>,
    /// Scales \[experts, ⌈n/r⌉, ⌈k/c⌉\] for blocks of r × c; one per expert where the whole matrix shares one.
    pub scales: HostScales,
    /// Scale of the layer's input, if it was calibrated.
    pub input_scale: Option<f32>,
}

impl Fp8Weight {
    /// Decodes the values, code · scale in f32, in the shape of the weight.
    ///
    /// # Errors
    /// The errors of [`Self::check`].
    pub fn dequantize(&self) -> Result<Vec<f32>, WeightsError> {
        self.check()?;
        let mut values = Vec::with_capacity(self.codes.len());
        let matrix = Matrix::of(&self.shape);
        let scales = self.scales.to_f32();
        let [down, across] = self.scheme.grid(matrix.rows, matrix.columns);
        for expert in 0..matrix.experts {
            let codes = &self.codes[expert * matrix.elements()..][..matrix.elements()];
            let scales = &scales[expert * down * across..][..down * across];
            let take = |row: &[f32]| values.extend_from_slice(row);
            dequantize(self.scheme, &matrix, codes, scales, take);
        }
        Ok(values)
    }

    /// Number of matrices in the stack (1 for a single matrix), rows and columns; zeros for a shape of another rank.
    pub fn extents(&self) -> [usize; 3] {
        let Matrix {
            experts,
            rows,
            columns,
        } = Matrix::of(&self.shape);
        [experts, rows, columns]
    }

    /// Checks that the numbers of codes and scales and the scales' type match the shape and the granularity.
    ///
    /// # Errors
    /// [`WeightsError::Rank`] for a shape without two or three extents, [`WeightsError::Quantized`] for wrong numbers or types.
    pub fn check(&self) -> Result<(), WeightsError> {
        let elements = byte_size(Dtype::U8, &self.shape);
        let (2 | 3, Some(elements)) = (self.shape.len(), elements) else {
            return Err(rank(&self.name, &self.shape));
        };
        let matrix = Matrix::of(&self.shape);
        let [down, across] = self.scheme.grid(matrix.rows, matrix.columns);
        // There are no more scales than codes, except for the single one of an empty tensor.
        let scales = matrix.experts * down * across;
        let kind = self.scheme.granularity.scale_type();
        let codes = [elements, self.codes.len()];
        check_counts(&self.name, codes, scales, kind, &self.scales)
    }
}

/// Compares the numbers of codes and of scales, and the type of the scales, with what is expected.
pub(crate) fn check_counts(
    name: &str,
    codes: [usize; 2],
    scales: usize,
    kind: ScaleType,
    got: &HostScales,
) -> Result<(), WeightsError> {
    let what = match kind {
        ScaleType::F32 => "f32 scales",
        ScaleType::E8M0 => "E8M0 scales",
    };
    let of_kind = if got.scale_type() == kind {
        got.len()
    } else {
        0
    };
    let [codes, got_codes] = codes;
    let counts = [("codes", codes, got_codes), (what, scales, of_kind)];
    for (what, expected, got) in counts {
        if expected != got {
            let expected = format!("{expected} {what} of the quantiser");
            let fault = Unfit::new(tensor(name), expected, got);
            return Err(WeightsError::Quantized(fault));
        }
    }
    Ok(())
}

/// Extents of a stack of matrices \[experts, rows, columns\].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Matrix {
    pub(crate) experts: usize,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

impl Matrix {
    /// The extents of a shape of rank 2 or 3, whose product the header has checked.
    pub(crate) fn of(shape: &[usize]) -> Self {
        let [experts, rows, columns] = match *shape {
            [experts, rows, columns] => [experts, rows, columns],
            [rows, columns] => [1, rows, columns],
            _ => [0; 3],
        };
        Self {
            experts,
            rows,
            columns,
        }
    }

    /// Number of values of one expert.
    pub(crate) fn elements(&self) -> usize {
        self.rows * self.columns
    }
}

/// Decodes one matrix, and calls `take` with each row of values.
pub(crate) fn dequantize(
    scheme: Fp8Scheme,
    matrix: &Matrix,
    codes: &[u8],
    scales: &[f32],
    mut take: impl FnMut(&[f32]),
) {
    let table = decoded_codes(scheme.format);
    let blocks = Blocks::of(scheme.granularity, [matrix.rows, matrix.columns]);
    let mut values = vec![0.0; matrix.columns];
    for (row, codes) in codes.chunks_exact(matrix.columns.max(1)).enumerate() {
        blocks.decode(codes, &scales[blocks.of_row(row)], &table, &mut values);
        take(&values);
    }
}

/// How to treat FP8 codes that have no scale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unscaled {
    /// Refuse them with an error, as their values are unknown.
    #[default]
    Refuse,
    /// Take the codes as the values, with a scale of 1.
    AssumeOne,
}

/// Description of an FP8 weight of a checkpoint, made from headers alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFp8 {
    /// Name of the tensor of codes.
    pub name: String,
    /// Format of the codes and granularity of the scales.
    pub scheme: Fp8Scheme,
    /// Shape of the weight: \[n, k\], or \[experts, n, k\].
    pub shape: Vec<usize>,
    /// Name of the tensor of scales; `None` where a scale of 1 is assumed.
    pub scale: Option<String>,
    /// Name of the tensor with the scale of the layer's input.
    pub input_scale: Option<String>,
}

impl StoredFp8 {
    pub(crate) fn matrix(&self) -> Matrix {
        Matrix::of(&self.shape)
    }
}

/// The FP8 format of a dtype; `None` for other dtypes.
pub(crate) fn format_of(dtype: Dtype) -> Option<Fp8Format> {
    match dtype {
        Dtype::F8_E4M3 => Some(Fp8Format::E4M3),
        Dtype::F8_E5M2 => Some(Fp8Format::E5M2),
        _ => None,
    }
}

/// The names that the tensor of scales of `weight` may have.
fn scale_names(weight: &str) -> Vec<String> {
    let mut names: Vec<String> = ["_scale_inv", "_scale", "_scales"]
        .map(|ending| format!("{weight}{ending}"))
        .into();
    if let Some(stem) = weight.strip_suffix(".weight") {
        names.extend([".scale", ".scales"].map(|ending| format!("{stem}{ending}")));
    }
    names
}

/// The names that the input scale of `weight` may have.
fn input_scale_names(weight: &str) -> [String; 2] {
    let names = ["input_scale", "activation_scale"];
    match weight.strip_suffix(".weight") {
        Some(stem) => names.map(|name| format!("{stem}.{name}")),
        None => names.map(|name| format!("{weight}_{name}")),
    }
}

impl Reader {
    /// Finds all FP8 weights: tensors of F8_E4M3 or F8_E5M2 with two or three extents, by name.
    ///
    /// # Errors
    /// The errors of [`Self::fp8_layout`].
    pub fn fp8_layouts(&self, unscaled: Unscaled) -> Result<Vec<StoredFp8>, WeightsError> {
        self.tensors()
            .filter(|(_, info)| format_of(info.dtype).is_some())
            .filter(|(_, info)| matches!(info.shape.len(), 2 | 3))
            .map(|(name, _)| self.fp8_layout(name, unscaled))
            .collect()
    }

    /// Finds the scales of an FP8 weight W and their granularity.
    ///
    /// The scales are `W_scale_inv`, `W_scale` or `W_scales`, and for a W of `X.weight` also `X.scale` or `X.scales`: F32, F16, BF16 or
    /// F8_E8M0, or U8 for MX. Their shape determines the granularity: \[\], \[1\] or \[1, 1\] one scale per tensor, \[n\] or \[n, 1\] per
    /// row, \[n, ⌈k/32⌉\] bytes MX, and anything else a grid of blocks, with the size in `quantization_config.weight_block_size` of
    /// `config.json` or in the file's metadata, else 128 × 128, else the one size that fits. For a W of \[experts, n, k\] the scales have
    /// the experts as their first extent, or all experts share one scale. The scale of the input is `X.input_scale` or
    /// `X.activation_scale`, one value.
    ///
    /// # Errors
    /// [`WeightsError::UnknownTensor`] for an unknown name, [`WeightsError::WrongTensor`] for a tensor that isn't FP8 or scales that don't
    /// fit it, [`WeightsError::Rank`] for a shape without two or three extents, [`WeightsError::MissingScale`] and
    /// [`WeightsError::ManyScales`] for no or two tensors of scales, [`WeightsError::BlockSize`] for an invalid declared block size.
    pub fn fp8_layout(&self, name: &str, unscaled: Unscaled) -> Result<StoredFp8, WeightsError> {
        let info = self.info(name)?;
        let format = format_of(info.dtype)
            .ok_or_else(|| self.wrong(name, "F8_E4M3 or F8_E5M2", info.dtype))?;
        if !matches!(info.shape.len(), 2 | 3) {
            let (expected, got) = ("two or three extents", got_shape(&info.shape));
            return Err(WeightsError::Rank(Unfit::new(
                self.place_of(name),
                expected,
                got,
            )));
        }
        let names = scale_names(name);
        let mut found = names.iter().filter(|scale| self.get(scale).is_some());
        let (scale, second) = (found.next(), found.next());
        let granularity = match (scale, second, unscaled) {
            (Some(first), Some(second), _) => {
                let got = format!("{} and {}", quoted(first), quoted(second));
                let fault = Unfit::new(self.place_of(name), "one tensor of scales", got);
                return Err(WeightsError::ManyScales(fault));
            }
            (Some(scale), None, _) => self.granularity(name, &info.shape, scale)?,
            (None, _, Unscaled::AssumeOne) => Granularity::Tensor,
            (None, _, Unscaled::Refuse) => {
                let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
                let expected = format!("a scale of this FP8, {}", names.join(", "));
                let fault = Unfit::new(self.place_of(name), expected, "none");
                return Err(WeightsError::MissingScale(fault));
            }
        };
        Ok(StoredFp8 {
            name: name.to_owned(),
            scheme: Fp8Scheme {
                format,
                granularity,
            },
            shape: info.shape.clone(),
            scale: scale.cloned(),
            input_scale: self.input_scale(name)?,
        })
    }

    fn granularity(
        &self,
        name: &str,
        shape: &[usize],
        scale: &str,
    ) -> Result<Granularity, WeightsError> {
        let info = self.info(scale)?;
        let bytes = matches!(info.dtype, Dtype::U8 | Dtype::F8_E8M0);
        if !bytes && !is_float(info.dtype) {
            return Err(self.wrong(scale, "F32, F16, BF16, F8_E8M0 or U8", info.dtype));
        }
        let hints = Hints {
            declared: self.declared_block(name)?,
            inverse: scale.ends_with("_inv"),
            e8m0: bytes,
        };
        let found = granularity(shape, &info.shape, hints);
        // Bytes that aren't declared as E8M0 are scales only in MX.
        let found = found.filter(|&g| info.dtype != Dtype::U8 || g == Granularity::Mx);
        found.ok_or_else(|| {
            let declared = match hints.declared {
                Some([r, c]) => format!(" in blocks of {r} x {c}"),
                None => ", whose block size must be told by the shape".to_owned(),
            };
            let expected = format!("scales of a weight of {}{declared}", quoted_shape(shape));
            self.wrong(scale, expected, got_shape(&info.shape))
        })
    }

    fn input_scale(&self, weight: &str) -> Result<Option<String>, WeightsError> {
        let names = input_scale_names(weight);
        let Some((name, info)) = names.into_iter().find_map(|name| {
            let info = self.get(&name)?;
            Some((name, info))
        }) else {
            return Ok(None);
        };
        if !is_float(info.dtype) {
            return Err(self.wrong(&name, "F32, F16 or BF16", info.dtype));
        }
        if info.shape.iter().any(|&extent| extent != 1) {
            return Err(self.wrong(&name, "one value", got_shape(&info.shape)));
        }
        Ok(Some(name))
    }

    /// Reads an FP8 weight: the codes, the scales and the scale of the input.
    ///
    /// # Errors
    /// [`WeightsError::WrongTensor`] for a scale that is infinite or NaN (an E8M0 NaN in MX is kept), and the errors of [`Self::read`].
    pub fn fp8_weight(&self, layout: &StoredFp8) -> Result<Fp8Weight, WeightsError> {
        Ok(Fp8Weight {
            name: layout.name.clone(),
            scheme: layout.scheme,
            shape: layout.shape.clone(),
            codes: self.read(&layout.name)?,
            scales: self.fp8_scales(layout)?,
            input_scale: self.input_scale_of(layout)?,
        })
    }

    /// Reads matrix `number` of an FP8 weight alone, with its scales: the weight \[n, k\] of one expert.
    ///
    /// # Errors
    /// As [`Self::fp8_weight`], and [`WeightsError::DataLength`] for a matrix that the weight doesn't have.
    pub fn fp8_matrix(&self, layout: &StoredFp8, number: usize) -> Result<Fp8Weight, WeightsError> {
        let matrix = layout.matrix();
        let part = |each: usize| (number * each) as u64..((number + 1) * each) as u64;
        Ok(Fp8Weight {
            name: layout.name.clone(),
            scheme: layout.scheme,
            shape: vec![matrix.rows, matrix.columns],
            codes: self.bytes_of(&layout.name, part(matrix.elements()))?,
            scales: self.scales_in(layout, 1, part)?,
            input_scale: self.input_scale_of(layout)?,
        })
    }

    fn input_scale_of(&self, layout: &StoredFp8) -> Result<Option<f32>, WeightsError> {
        match &layout.input_scale {
            Some(name) => Ok(self.finite_f32(name, 0..1)?.first().copied()),
            None => Ok(None),
        }
    }

    pub(crate) fn fp8_scales(&self, layout: &StoredFp8) -> Result<HostScales, WeightsError> {
        let experts = layout.matrix().experts;
        self.scales_in(layout, experts, |each| 0..(experts * each) as u64)
    }

    /// The scales of `matrices` matrices of an FP8 weight. `part` says where they lie in the tensor of scales, given the number of a matrix.
    fn scales_in(
        &self,
        layout: &StoredFp8,
        matrices: usize,
        part: impl Fn(usize) -> Range<u64>,
    ) -> Result<HostScales, WeightsError> {
        let Some(name) = &layout.scale else {
            return Ok(HostScales::F32(vec![1.0; matrices]));
        };
        let Matrix {
            experts,
            rows,
            columns,
        } = layout.matrix();
        let scheme = layout.scheme;
        if scheme.granularity == Granularity::Mx {
            let [down, across] = scheme.granularity.blocks(rows, columns);
            return Ok(HostScales::E8M0(self.bytes_of(name, part(down * across))?));
        }
        let count: usize = self.info(name)?.shape.iter().product();
        // One scale for all experts is repeated for each.
        if scheme.granularity == Granularity::Tensor && count == 1 && experts > 0 {
            let scale = self.finite_f32(name, 0..1)?;
            return Ok(HostScales::F32(vec![scale[0]; matrices]));
        }
        let [down, across] = scheme.grid(rows, columns);
        Ok(HostScales::F32(self.finite_f32(name, part(down * across))?))
    }

    /// Bytes of a tensor of bytes.
    fn bytes_of(&self, name: &str, range: Range<u64>) -> Result<Vec<u8>, WeightsError> {
        let mut bytes = self.room(name, range.end - range.start)?;
        bytes.resize((range.end - range.start) as usize, 0);
        self.read_part(name, range.start, &mut bytes)?;
        Ok(bytes)
    }

    /// Elements of a tensor of scales, which must be finite.
    fn finite_f32(&self, name: &str, range: Range<u64>) -> Result<Vec<f32>, WeightsError> {
        let first = range.start as usize;
        let values: Vec<f32> = match self.info(name)?.dtype {
            Dtype::F8_E8M0 => {
                let bytes = self.bytes_of(name, range)?;
                bytes.into_iter().map(e8m0_value).collect()
            }
            _ => self.read_f32_part(name, range)?,
        };
        match values.iter().position(|value: &f32| !value.is_finite()) {
            Some(index) => {
                let got = format!("{} at {}", values[index], first + index);
                Err(self.wrong(name, "finite scales", got))
            }
            None => Ok(values),
        }
    }
}

/// Whether a dtype converts to f32 without loss.
pub(crate) fn is_float(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16)
}

fn got_shape(shape: &[usize]) -> String {
    format!("shape {}", quoted_shape(shape))
}

fn rank(name: &str, shape: &[usize]) -> WeightsError {
    let (expected, got) = ("two or three extents", got_shape(shape));
    WeightsError::Rank(Unfit::new(tensor(name), expected, got))
}
