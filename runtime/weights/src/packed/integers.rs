//! Weights of two to eight bits in words of 32 bits, in the layouts of GPTQ, AWQ, compressed-tensors and MLX.
//!
//! A weight W \[n, k\] of b bits lies in several tensors, and W = scale · (code − zero), with a scale and a zero for each group of inner columns:
//!
//! | | codes | zeros | scales |
//! |---|---|---|---|
//! | GPTQ | `qweight` \[k·b / 32, n\], a column in a stream of bits | `qzeros` \[groups, n·b / 32\], less 1 but in version 2 | `scales` \[groups, n\] |
//! | AWQ | `qweight` \[k, n / 8\], 8 of a row in a word, even ones first | `qzeros` \[groups, n / 8\], alike | `scales` \[groups, n\] |
//! | compressed-tensors | `weight_packed` \[n, k·b / 32\] | `weight_zero_point` \[n·b / 32, groups\] | `weight_scale` \[n, groups\] |
//! | the same, whole bytes | `weight` \[n, k\] of I8 | `weight_zero_point` \[n, groups\] of I8 | `weight_scale` \[n, groups\], or one of all |
//!
//! A group is as many neighboring columns as the configuration declares, of which the last group may have fewer, or else k / groups of them, or
//! the columns to which `g_idx` gives the group's number. In a stream of bits a code may begin in one word and end in the next. `weight_shape`
//! of compressed-tensors holds n and k. In MLX W = scale · code + bias, with `weight` \[n, k·b / 32\], `scales` and `biases` \[n, groups\].

use std::ops::RangeInclusive;

use safetensors::Dtype;
use serde_json::Value;

use super::part::{Part, Parts, ReadParts};
use crate::error::WeightsError;

/// Position in a word at which AWQ stores each of eight neighbouring codes.
pub(super) const AWQ_ORDER: [usize; 8] = [0, 4, 1, 5, 2, 6, 3, 7];

/// Bits that a code of GPTQ may have.
const GPTQ_BITS: [usize; 4] = [2, 3, 4, 8];

/// Bits that a code of compressed-tensors may have in words.
const PACKED_BITS: RangeInclusive<usize> = 1..=8;

/// Bits of a word.
const WORD: usize = 32;

/// Columns of a group in MLX where the configuration doesn't say.
const MLX_GROUP: usize = 64;

/// Layout of the codes in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// GPTQ, whose stored zeros are smaller by `below`.
    Gptq {
        below: u32,
    },
    Awq,
    Packed,
    Bytes,
}

/// An integer weight \[n, k\] that is stored in several tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IntegerWeight {
    pub(super) layout: Layout,
    pub(super) bits: usize,
    pub(super) shape: [usize; 2],
    pub(super) groups: usize,
    /// Columns of a group where these are neighbors.
    pub(super) width: usize,
    pub(super) codes: Part,
    pub(super) scales: Part,
    pub(super) zeros: Option<Part>,
    /// Group number of each inner column.
    pub(super) group_of: Option<Part>,
}

/// The zeros of a weight as they are stored.
pub(super) enum Zeros {
    None,
    Words(Vec<u32>),
    Bytes(Vec<u8>),
}

/// What a configuration declares about all integer weights.
pub(super) struct Declared<'a> {
    /// Bits of a code; 4 where nothing is declared.
    bits: usize,
    /// What GPTQ's stored zeros are smaller by.
    below: u32,
    /// Whether the third bits of GPTQ's codes lie in words of their own.
    planar: bool,
    /// Whether the groups of GPTQ are told to be neighboring columns.
    pub(super) in_order: bool,
    /// Whether all zeros are told to be the middle of the codes.
    pub(super) symmetric: bool,
    /// All sizes of groups that the configuration names for some layer.
    sizes: Vec<usize>,
    /// The object with MLX's sizes.
    mlx: Option<&'a Value>,
}

impl<'a> Declared<'a> {
    pub(super) fn of(config: Option<&'a Value>) -> Self {
        let quantization = config.map(|config| &config["quantization_config"]);
        let of_group = |config: &Value| {
            let groups = config["config_groups"].as_object()?.values();
            groups
                .filter_map(|group| group["weights"]["num_bits"].as_u64())
                .next()
        };
        let bits = quantization.and_then(|config| {
            let named = config["bits"].as_u64().or(config["w_bit"].as_u64());
            named.or_else(|| of_group(config))
        });
        let format = quantization.and_then(gptq_format);
        let as_they_are = ["gptq_v2", "gptq_p", "auto_round", "auto_round:gptqmodel"];
        let second = format.is_some_and(|format| as_they_are.contains(&format));
        let bits = bits.and_then(|bits| usize::try_from(bits).ok());
        let mut sizes = Vec::new();
        if let Some(config) = quantization {
            gather_sizes(config, &mut sizes);
        }
        Self {
            bits: bits.unwrap_or(4),
            below: if second { 0 } else { 1 },
            planar: format == Some("gptq_p"),
            in_order: quantization.is_some_and(|config| config["desc_act"] == false),
            symmetric: quantization.is_some_and(|config| config["sym"] == true),
            sizes,
            mlx: config.map(|config| &config["quantization"]),
        }
    }

    /// The mode of a layer's weights in MLX that aren't integers.
    pub(super) fn mode(&self, layer: &str) -> Option<&'a str> {
        let all = self.mlx?;
        all[layer]["mode"].as_str().or(all["mode"].as_str())
    }

    /// The weight with the columns of a group: of the declared sizes the one that makes as many groups, else k / groups. `None` where neither
    /// is a whole number and no tensor says which columns belong together.
    fn grouped(&self, weight: IntegerWeight) -> Option<IntegerWeight> {
        let (k, groups) = (weight.shape[1], weight.groups);
        let even = k.is_multiple_of(groups).then(|| k / groups);
        let fits = |size: &usize| k.div_ceil(*size) == groups;
        let is_declared = |size: &usize| self.sizes.contains(size);
        let declared = || self.sizes.iter().copied().find(fits);
        let width = even.filter(is_declared).or_else(declared).or(even);
        let told = weight.group_of.is_some().then(|| k.div_ceil(groups));
        let width = width.or(told)?;
        Some(IntegerWeight { width, ..weight })
    }

    /// Reads a weight in words, of GPTQ or AWQ, which its shapes tell apart. The zeros of GPTQ tell the bits of a layer that has others than
    /// those declared.
    pub(super) fn words(&self, of: Parts<'_>) -> Option<IntegerWeight> {
        let (codes, scales, zeros) = (of.get("qweight")?, of.get("scales")?, of.get("qzeros"));
        let ([rows, columns], [groups, n]) = (codes.matrix()?, scales.matrix()?);
        let (layout, bits, k) = if columns == n {
            let bits = self.bits_of(zeros.as_ref(), n)?;
            let all = rows.checked_mul(WORD)?;
            let k = all.is_multiple_of(bits).then(|| all / bits)?;
            (Layout::Gptq { below: self.below }, bits, k)
        } else if columns.checked_mul(8)? == n {
            (Layout::Awq, 4, rows)
        } else {
            return None;
        };
        if self.planar && bits == 3 {
            return None;
        }
        let weight = IntegerWeight::new(layout, bits, ([n, k], groups), codes, scales)?;
        let of_zeros = [groups, words_for(n, bits)?];
        self.grouped(weight.with(of_zeros, zeros, of.get("g_idx"))?)
    }

    /// Bits of a code of GPTQ: those declared, where the zeros of n rows have room for them, else those that the zeros have room for.
    fn bits_of(&self, zeros: Option<&Part>, n: usize) -> Option<usize> {
        let fits = |bits: &usize| {
            let wide = zeros.map(|zeros| zeros.matrix().map(|[_, wide]| wide));
            wide.is_none_or(|wide| wide.is_some() && wide == words_for(n, *bits))
        };
        let is_declared = |bits: &usize| *bits == self.bits && fits(bits);
        let declared = GPTQ_BITS.into_iter().find(is_declared);
        declared.or_else(|| zeros.and(GPTQ_BITS.into_iter().find(fits)))
    }

    /// Reads a weight of compressed-tensors in words; `stored` is its shape, where a tensor holds that.
    pub(super) fn packed(
        &self,
        of: Parts<'_>,
        stored: Option<[usize; 2]>,
    ) -> Option<IntegerWeight> {
        let (codes, scales) = (of.get("weight_packed")?, of.get("weight_scale")?);
        let ([n, words], [rows, groups]) = (codes.matrix()?, scales.matrix()?);
        let (bits, k) = match stored {
            Some([_, k]) => {
                let fits = |bits: &usize| words_for(k, *bits) == Some(words);
                let declared = Some(self.bits).filter(|bits| PACKED_BITS.contains(bits));
                let mut fitting = PACKED_BITS.filter(fits);
                let first = declared.filter(fits).or_else(|| {
                    let first = fitting.next();
                    first.filter(|_| fitting.next().is_none())
                });
                (first?, k)
            }
            None => {
                let bits = Some(self.bits).filter(|bits| PACKED_BITS.contains(bits))?;
                let all = words.checked_mul(WORD)?;
                (bits, all.is_multiple_of(bits).then(|| all / bits)?)
            }
        };
        let rows_fit = rows == n && stored.is_none_or(|[stored, _]| stored == n);
        let weight = IntegerWeight::new(Layout::Packed, bits, ([n, k], groups), codes, scales)?;
        let of_zeros = [words_for(n, bits)?, groups];
        let (zeros, group_of) = (of.get("weight_zero_point"), of.get("weight_g_idx"));
        let weight = weight.with(of_zeros, zeros, group_of);
        self.grouped(weight.filter(|_| rows_fit)?)
    }

    /// Reads a weight of compressed-tensors with a byte for each code.
    pub(super) fn whole_bytes(&self, of: Parts<'_>) -> Option<IntegerWeight> {
        let (codes, scales) = (of.get("weight")?, of.get("weight_scale")?);
        let [n, k] = codes.matrix()?;
        let of_all = scales.info.shape.iter().all(|&extent| extent == 1);
        let [rows, groups] = if of_all { [n, 1] } else { scales.matrix()? };
        let zeros = of.get("weight_zero_point");
        let fits = zeros
            .as_ref()
            .is_none_or(|zeros| zeros.is(Dtype::I8, &scales.info.shape));
        let weight = IntegerWeight::new(Layout::Bytes, 8, ([n, k], groups), codes, scales);
        let weight = weight.filter(|_| rows == n && fits)?;
        self.grouped(IntegerWeight { zeros, ..weight })
    }

    /// Reads a weight of MLX, and its shape.
    pub(super) fn affine(&self, of: Parts<'_>) -> Option<(Affine, Vec<usize>)> {
        let [codes, scales, biases] = ["weight", "scales", "biases"].map(|name| of.get(name));
        let (codes, scales, biases) = (codes?, scales?, biases?);
        let declared = self.mlx;
        let size = |config: &Value| config["group_size"].as_u64();
        let own = declared.and_then(|all| size(&all[of.layer]));
        let group = own.or_else(|| declared.and_then(size));
        let group = group.map_or(Some(MLX_GROUP), |group| usize::try_from(group).ok())?;
        let (words, outer) = codes.info.shape.split_last()?;
        let (groups, above) = scales.info.shape.split_last()?;
        let k = groups.checked_mul(group)?;
        let room = words.checked_mul(WORD)?;
        let bits = [2, 3, 4, 5, 6, 8]
            .into_iter()
            .find(|&bits| k > 0 && Some(room) == k.checked_mul(bits))?;
        let fits = !outer.is_empty() && above == outer && biases.info.shape == scales.info.shape;
        let shape = [outer, &[k]].concat();
        fits.then_some((
            Affine {
                bits,
                columns: k,
                group,
                codes,
                scales,
                biases,
            },
            shape,
        ))
    }
}

/// Words that hold `count` codes of a stream; `None` where the number of bits overflows.
fn words_for(count: usize, bits: usize) -> Option<usize> {
    Some(count.checked_mul(bits)?.div_ceil(WORD))
}

/// The name of a layout of GPTQ's words, by the keys of GPTQModel, transformers and AutoRound.
fn gptq_format(quantization: &Value) -> Option<&str> {
    let keys = ["packing_format", "checkpoint_format", "format"];
    keys.into_iter().find_map(|key| quantization[key].as_str())
}

/// Adds the sizes of groups that a configuration names anywhere.
fn gather_sizes(config: &Value, sizes: &mut Vec<usize>) {
    match config {
        Value::Object(entries) => {
            for (key, value) in entries {
                let size = value.as_u64().and_then(|size| usize::try_from(size).ok());
                match size {
                    Some(size) if size > 0 && key.ends_with("group_size") => sizes.push(size),
                    _ => gather_sizes(value, sizes),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| gather_sizes(value, sizes)),
        _ => {}
    }
}

/// The shape of a weight of compressed-tensors, where the tensor `weight_shape` holds it.
///
/// # Errors
/// [`WeightsError::WrongTensor`] for a tensor that isn't two extents.
pub(super) fn stored_shape(
    of: Parts<'_>,
    read: &dyn ReadParts,
) -> Result<Option<[usize; 2]>, WeightsError> {
    let Some(part) = of.get("weight_shape") else {
        return Ok(None);
    };
    let expected = "the two extents of a weight, of I64 or I32";
    if !(part.is(Dtype::I64, &[2]) || part.is(Dtype::I32, &[2])) {
        return Err(read.unfit(&part, expected, &part.shown()));
    }
    let bytes = read.bytes(&part)?;
    let extents: Vec<i64> = match part.info.dtype {
        Dtype::I64 => {
            let eights = bytes.as_chunks::<8>().0.iter();
            eights.map(|&eight| i64::from_le_bytes(eight)).collect()
        }
        _ => {
            let fours = bytes.as_chunks::<4>().0.iter();
            fours
                .map(|&four| i64::from(i32::from_le_bytes(four)))
                .collect()
        }
    };
    let sizes: Option<Vec<usize>> = extents
        .iter()
        .map(|&extent| usize::try_from(extent).ok())
        .collect();
    let shape = sizes.and_then(|sizes| <[usize; 2]>::try_from(sizes).ok());
    let wrong = || read.unfit(&part, expected, &format!("{extents:?}"));
    shape.map(Some).ok_or_else(wrong)
}

impl IntegerWeight {
    /// A weight of this shape and this number of groups, without zeros; `None` where the codes have another dtype than the layout says, or
    /// there are no groups.
    fn new(
        layout: Layout,
        bits: usize,
        (shape, groups): ([usize; 2], usize),
        codes: Part,
        scales: Part,
    ) -> Option<Self> {
        let dtype = match layout {
            Layout::Bytes => Dtype::I8,
            _ => Dtype::I32,
        };
        (codes.info.dtype == dtype && groups > 0).then_some(Self {
            layout,
            bits,
            shape,
            groups,
            width: shape[1].div_ceil(groups.max(1)),
            codes,
            scales,
            zeros: None,
            group_of: None,
        })
    }

    /// This weight with zeros of the shape `of_zeros` and a group number for each inner column, where it has them; `None` where they don't
    /// fit.
    fn with(
        self,
        of_zeros: [usize; 2],
        zeros: Option<Part>,
        group_of: Option<Part>,
    ) -> Option<Self> {
        let of_columns = [self.shape[1]];
        let fits = |part: &Option<Part>, shape: &[usize]| {
            part.as_ref().is_none_or(|part| part.is(Dtype::I32, shape))
        };
        let fit = fits(&zeros, &of_zeros) && fits(&group_of, &of_columns);
        fit.then_some(Self {
            zeros,
            group_of,
            ..self
        })
    }

    /// Appends the decoded values of the weight \[n, k\], row-major, to `values`.
    pub(super) fn decode(
        &self,
        read: &dyn ReadParts,
        values: &mut Vec<f32>,
    ) -> Result<(), WeightsError> {
        let [n, k] = self.shape;
        if n == 0 || k == 0 {
            return Ok(());
        }
        let (codes, scales) = (read.bytes(&self.codes)?, read.floats(&self.scales)?);
        let zeros = self.stored_zeros(read)?;
        let groups = self.groups_of_columns(read)?;
        let words = words_of(&codes);
        for row in 0..n {
            for (column, &group) in groups.iter().enumerate() {
                let code = match self.layout {
                    Layout::Bytes => i64::from(codes[row * k + column].cast_signed()),
                    _ => i64::from(self.code(&words, row, column)),
                };
                let zero = self.zero_of(&zeros, row, group);
                let scale = scales[self.place(scales.len(), row, group)];
                values.push((code - zero) as f32 * scale);
            }
        }
        Ok(())
    }

    /// The zero of a row in a group; the middle of the codes where none are stored.
    pub(super) fn zero_of(&self, zeros: &Zeros, row: usize, group: usize) -> i64 {
        match (zeros, self.layout) {
            (Zeros::None, Layout::Bytes) => 0,
            (Zeros::None, _) => 1 << (self.bits - 1),
            (Zeros::Bytes(zeros), _) => {
                i64::from(zeros[self.place(zeros.len(), row, group)].cast_signed())
            }
            (Zeros::Words(zeros), _) => i64::from(self.zero(zeros, row, group)),
        }
    }

    /// Index of the scale, or of the zero in a byte, of a row in a group, of `count` in all.
    pub(super) fn place(&self, count: usize, row: usize, group: usize) -> usize {
        match self.layout {
            // One of all rows.
            _ if count == 1 => 0,
            Layout::Packed | Layout::Bytes => row * self.groups + group,
            Layout::Gptq { .. } | Layout::Awq => group * self.shape[0] + row,
        }
    }

    /// Reads the zeros.
    ///
    /// GPTQ's first version took 1 from each zero of 2, 4 or 8 bits by one subtraction from each word, which borrows from the next zero where a
    /// zero is 0; one addition to each word undoes that.
    pub(super) fn stored_zeros(&self, read: &dyn ReadParts) -> Result<Zeros, WeightsError> {
        let Some(part) = &self.zeros else {
            return Ok(Zeros::None);
        };
        let bytes = read.bytes(part)?;
        if self.layout == Layout::Bytes {
            return Ok(Zeros::Bytes(bytes));
        }
        let mut words = words_of(&bytes);
        if let Layout::Gptq { below } = self.layout
            && WORD.is_multiple_of(self.bits)
        {
            let ones = (0..WORD).step_by(self.bits);
            let all = ones.fold(0_u32, |all, at| all | below << at);
            for word in &mut words {
                *word = word.wrapping_add(all);
            }
        }
        Ok(Zeros::Words(words))
    }

    /// The group number of each inner column.
    pub(super) fn groups_of_columns(
        &self,
        read: &dyn ReadParts,
    ) -> Result<Vec<usize>, WeightsError> {
        let k = self.shape[1];
        let even = || -> Vec<usize> { (0..k).map(|column| column / self.width).collect() };
        let Some(part) = &self.group_of else {
            return Ok(even());
        };
        let numbers = words_of(&read.bytes(part)?);
        // compressed-tensors leaves −1 where columns have not been reordered.
        if self.layout == Layout::Packed && numbers.contains(&u32::MAX) {
            return Ok(even());
        }
        let most = self.groups - 1;
        let groups = numbers.iter().map(|&number| number as usize);
        let groups: Vec<usize> = groups.collect();
        match groups.iter().find(|&&group| group > most) {
            Some(&bad) => {
                let expected = format!("numbers of groups from 0 to {most}");
                let got = (bad as u32).cast_signed().to_string();
                Err(read.unfit(part, &expected, &got))
            }
            None => Ok(groups),
        }
    }

    /// The code at a row and an inner column.
    fn code(&self, words: &[u32], row: usize, column: usize) -> u32 {
        let ([n, k], bits) = (self.shape, self.bits);
        match self.layout {
            Layout::Gptq { .. } => of_stream(|at| words[at * n + row], column, bits),
            Layout::Awq => {
                let word = words[column * (n / 8) + row / 8];
                of_stream(|_| word, AWQ_ORDER[row % 8], bits)
            }
            _ => {
                let from = row * (k * bits).div_ceil(WORD);
                of_stream(|at| words[from + at], column, bits)
            }
        }
    }

    /// The zero of a row in a group.
    fn zero(&self, words: &[u32], row: usize, group: usize) -> u32 {
        let (n, bits) = (self.shape[0], self.bits);
        let from = group * (n * bits).div_ceil(WORD);
        match self.layout {
            Layout::Gptq { below } => {
                let zero = of_stream(|at| words[from + at], row, bits);
                // Words of other zeros have been changed as a whole.
                let rest = if WORD.is_multiple_of(bits) { 0 } else { below };
                (zero + rest) & (u32::MAX >> (WORD - bits))
            }
            Layout::Awq => of_stream(|_| words[from + row / 8], AWQ_ORDER[row % 8], bits),
            _ => of_stream(|at| words[at * self.groups + group], row, bits),
        }
    }
}

/// Code number `place` of a stream of codes of `bits` bits, whose words `word` returns.
fn of_stream(word: impl Fn(usize) -> u32, place: usize, bits: usize) -> u32 {
    let (at, shift) = (place * bits / WORD, place * bits % WORD);
    let rest = if shift + bits > WORD { word(at + 1) } else { 0 };
    let both = u64::from(word(at)) | u64::from(rest) << WORD;
    (both >> shift) as u32 & (u32::MAX >> (WORD - bits))
}

fn words_of(bytes: &[u8]) -> Vec<u32> {
    let words = bytes.as_chunks::<4>().0.iter();
    words.map(|&word| u32::from_le_bytes(word)).collect()
}

/// A weight of MLX: scale · code + bias, with both for each group of neighbours of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Affine {
    bits: usize,
    /// Values of a row.
    columns: usize,
    group: usize,
    codes: Part,
    scales: Part,
    biases: Part,
}

impl Affine {
    /// Appends the values, row-major; product and sum are rounded to f32.
    pub(super) fn decode(
        &self,
        read: &dyn ReadParts,
        values: &mut Vec<f32>,
    ) -> Result<(), WeightsError> {
        let words = words_of(&read.bytes(&self.codes)?);
        let (scales, biases) = (read.floats(&self.scales)?, read.floats(&self.biases)?);
        let (wide, groups) = (self.columns * self.bits / WORD, self.columns / self.group);
        for (row, words) in words.chunks_exact(wide).enumerate() {
            for column in 0..self.columns {
                let group = row * groups + column / self.group;
                let code = of_stream(|at| words[at], column, self.bits);
                values.push(code as f32 * scales[group] + biases[group]);
            }
        }
        Ok(())
    }
}
