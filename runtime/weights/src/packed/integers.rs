//! Weights of two to eight bits in words of 32 bits, in the layouts of GPTQ, AWQ, compressed-tensors and MLX.
//!
//! A weight W \[n, k\] of b bits lies in several tensors, and W = scale · (code − zero), with a scale and a zero for each group of inner columns:
//!
//! | | codes | zeros | scales |
//! |---|---|---|---|
//! | GPTQ | `qweight` \[k·b / 32, n\], a column in a stream of bits | `qzeros` \[groups, n·b / 32\], less 1 but in version 2 | `scales` \[groups, n\] |
//! | AWQ | `qweight` \[k, n / 8\], 8 of a row in a word, even ones first | `qzeros` \[groups, n / 8\], alike | `scales` \[groups, n\] |
//! | compressed-tensors | `weight_packed` \[n, k·b / 32\] | `weight_zero_point` \[n·b / 32, groups\] | `weight_scale` \[n, groups\] |
//! | the same, whole bytes | `weight` \[n, k\] of I8 | none | `weight_scale` \[n, groups\] |
//!
//! A group is k / groups neighbouring columns, or the columns to which `g_idx` gives the group's number. In a stream of bits a code may begin
//! in one word and end in the next. In MLX W = scale · code + bias, with `weight` \[n, k·b / 32\], `scales` and `biases` \[n, groups\].

use safetensors::Dtype;
use serde_json::Value;

use super::part::{Part, Parts, ReadParts};
use crate::error::WeightsError;

/// Position in a word at which AWQ stores each of eight neighbouring codes.
const AWQ_ORDER: [usize; 8] = [0, 4, 1, 5, 2, 6, 3, 7];

/// Bits that a code of GPTQ may have.
const GPTQ_BITS: [usize; 4] = [2, 3, 4, 8];

/// Bits of a word.
const WORD: usize = 32;

/// Columns of a group in MLX where the configuration doesn't say.
const MLX_GROUP: usize = 64;

/// Layout of the codes in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
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
    layout: Layout,
    bits: usize,
    pub(super) shape: [usize; 2],
    groups: usize,
    pub(super) codes: Part,
    scales: Part,
    zeros: Option<Part>,
    /// Group number of each inner column.
    group_of: Option<Part>,
}

/// What a configuration declares about all integer weights.
pub(super) struct Declared<'a> {
    /// Bits of a code; 4 where nothing is declared.
    bits: usize,
    /// What GPTQ's stored zeros are smaller by.
    below: u32,
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
        let second = quantization.is_some_and(|config| config["checkpoint_format"] == "gptq_v2");
        let bits = bits.and_then(|bits| usize::try_from(bits).ok());
        Self {
            bits: bits.unwrap_or(4),
            below: if second { 0 } else { 1 },
            mlx: config.map(|config| &config["quantization"]),
        }
    }

    /// The mode of MLX's weights that aren't integers.
    pub(super) fn mode(&self) -> Option<&'a str> {
        self.mlx?["mode"].as_str()
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
        let weight = IntegerWeight::new(layout, bits, ([n, k], groups), codes, scales)?;
        let of_zeros = [groups, words_for(n, bits)?];
        weight.with(of_zeros, zeros, of.get("g_idx"))
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

    /// Reads a weight of compressed-tensors, whose words are filled evenly.
    pub(super) fn packed(&self, of: Parts<'_>) -> Option<IntegerWeight> {
        let bits = [2, 4, 8].into_iter().find(|&bits| bits == self.bits)?;
        let (codes, scales) = (of.get("weight_packed")?, of.get("weight_scale")?);
        let ([n, words], [rows, groups]) = (codes.matrix()?, scales.matrix()?);
        let k = words.checked_mul(WORD / bits)?;
        let size = ([n, k], groups);
        let weight = IntegerWeight::new(Layout::Packed, bits, size, codes, scales)?;
        let of_zeros = [words_for(n, bits)?, groups];
        let (zeros, group_of) = (of.get("weight_zero_point"), of.get("weight_g_idx"));
        weight.with(of_zeros, zeros, group_of).filter(|_| rows == n)
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

/// Reads a weight of compressed-tensors with a byte for each code.
pub(super) fn whole_bytes(of: Parts<'_>) -> Option<IntegerWeight> {
    let (codes, scales) = (of.get("weight")?, of.get("weight_scale")?);
    let ([n, k], [rows, groups]) = (codes.matrix()?, scales.matrix()?);
    let weight = IntegerWeight::new(Layout::Bytes, 8, ([n, k], groups), codes, scales);
    weight.filter(|_| rows == n && of.get("weight_zero_point").is_none())
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
        let optional = |part: &Option<Part>| {
            let bytes = part.as_ref().map(|part| read.bytes(part)).transpose();
            bytes.map(|bytes| bytes.as_deref().map(words_of))
        };
        let (codes, scales) = (read.bytes(&self.codes)?, read.floats(&self.scales)?);
        let (zeros, group_of) = (optional(&self.zeros)?, optional(&self.group_of)?);
        let width = k.div_ceil(self.groups);
        let group = |column: usize| match &group_of {
            Some(groups) => (groups[column] as usize).min(self.groups - 1),
            None => column / width,
        };
        let groups: Vec<usize> = (0..k).map(group).collect();
        let words = words_of(&codes);
        let middle = 1_i64 << (self.bits - 1);
        for row in 0..n {
            for (column, &group) in groups.iter().enumerate() {
                let code = if self.layout == Layout::Bytes {
                    i64::from(codes[row * k + column].cast_signed())
                } else {
                    let zero = zeros
                        .as_ref()
                        .map(|zeros| i64::from(self.zero(zeros, row, group)));
                    i64::from(self.code(&words, row, column)) - zero.unwrap_or(middle)
                };
                let scale = match self.layout {
                    Layout::Packed | Layout::Bytes => scales[row * self.groups + group],
                    Layout::Gptq { .. } | Layout::Awq => scales[group * n + row],
                };
                values.push(code as f32 * scale);
            }
        }
        Ok(())
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
                let from = row * (k * bits / WORD);
                of_stream(|at| words[from + at], column, bits)
            }
        }
    }

    /// The zero of a row in a group.
    fn zero(&self, words: &[u32], row: usize, group: usize) -> u32 {
        let (n, bits) = (self.shape[0], self.bits);
        let from = group * (n * bits).div_ceil(WORD);
        match self.layout {
            Layout::Gptq { below } => of_stream(|at| words[from + at], row, bits) + below,
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
