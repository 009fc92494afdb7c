//! Weights of two, four or eight bits in words of 32 bits, in the layouts of GPTQ, AWQ and compressed-tensors.
//!
//! A weight W \[n, k\] lies in several tensors, and W = scale · (code − zero), with a scale and a zero for each group of inner columns:
//!
//! | | codes | zeros | scales |
//! |---|---|---|---|
//! | GPTQ | `qweight` \[k / p, n\], p of a column in a word | `qzeros` \[groups, n / p\], less 1 but in version 2 | `scales` \[groups, n\] |
//! | AWQ | `qweight` \[k, n / p\], p of a row in a word, even ones first | `qzeros` \[groups, n / p\], alike | `scales` \[groups, n\] |
//! | compressed-tensors | `weight_packed` \[n, ⌈k / p⌉\] | `weight_zero_point` \[⌈n / p⌉, groups\] | `weight_scale` \[n, groups\] |
//! | the same, whole bytes | `weight` \[n, k\] of I8 | none | `weight_scale` \[n, groups\] |
//!
//! A group is k / groups neighbouring columns, or the columns to which `g_idx` gives the group's number.

use std::collections::BTreeMap;

use safetensors::Dtype;
use serde_json::Value;

use crate::source::TensorInfo;

/// Position in a word at which AWQ stores each of eight neighbouring codes.
const AWQ_ORDER: [usize; 8] = [0, 4, 1, 5, 2, 6, 3, 7];

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
pub(crate) struct IntegerWeight {
    layout: Layout,
    bits: u32,
    pub(crate) shape: [usize; 2],
    groups: usize,
    pub(crate) codes: TensorInfo,
    /// Name and location of the scales.
    pub(crate) scales: (String, TensorInfo),
    pub(crate) zeros: Option<TensorInfo>,
    /// Group number of each inner column.
    pub(crate) group_of: Option<TensorInfo>,
}

/// Contents of an integer weight's tensors.
pub(crate) struct Parts {
    pub(crate) codes: Vec<u8>,
    pub(crate) scales: Vec<f32>,
    pub(crate) zeros: Option<Vec<u8>>,
    pub(crate) group_of: Option<Vec<u8>>,
}

/// Finds the integer weights among `tensors`, under the names that float weights would have, and the names of all their parts.
pub(crate) fn find(
    tensors: &BTreeMap<String, TensorInfo>,
    config: Option<&Value>,
) -> (BTreeMap<String, IntegerWeight>, Vec<String>) {
    let (mut found, mut parts) = (BTreeMap::new(), Vec::new());
    let declared = Declared::of(config);
    for name in tensors.keys() {
        let Some((stem, codes)) = name.rsplit_once('.') else {
            continue;
        };
        let part = |ending: &str| {
            let name = format!("{stem}.{ending}");
            tensors.get(&name).map(|info| (name, info.clone()))
        };
        let weight = match codes {
            "qweight" => declared.words(&part, "qzeros", ["scales", "g_idx"]),
            "weight_packed" => declared.packed(&part),
            "weight" => whole_bytes(&part),
            _ => None,
        };
        let Some(weight) = weight else {
            continue;
        };
        for ending in [
            codes,
            "qzeros",
            "scales",
            "g_idx",
            "weight_scale",
            "weight_zero_point",
            "weight_shape",
            "weight_g_idx",
        ] {
            parts.extend(part(ending).map(|(name, _)| name));
        }
        found.insert(format!("{stem}.weight"), weight);
    }
    (found, parts)
}

/// What a configuration declares about all integer weights.
struct Declared {
    bits: Option<u32>,
    /// What GPTQ's stored zeros are smaller by.
    below: u32,
}

/// A look-up of a weight's tensors by the ending of their names.
type Part<'a> = &'a dyn Fn(&str) -> Option<(String, TensorInfo)>;

impl Declared {
    fn of(config: Option<&Value>) -> Self {
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
        Self {
            bits: bits.and_then(|bits| u32::try_from(bits).ok()),
            below: if second { 0 } else { 1 },
        }
    }

    /// Bits per code and codes per word; `None` for numbers of bits that don't fill a word evenly.
    fn bits(&self) -> Option<(u32, usize)> {
        let bits = self.bits.unwrap_or(4);
        [2, 4, 8]
            .contains(&bits)
            .then_some((bits, 32 / bits as usize))
    }

    /// Reads a weight in words, of GPTQ or AWQ, which its shapes tell apart.
    fn words(
        &self,
        part: Part<'_>,
        zeros: &str,
        [scales, group_of]: [&str; 2],
    ) -> Option<IntegerWeight> {
        let (bits, per_word) = self.bits()?;
        let (_, codes) = part("qweight")?;
        let scales = part(scales)?;
        let ([rows, columns], [groups, n]) = (matrix(&codes)?, matrix(&scales.1)?);
        let (layout, k) = if columns == n {
            (
                Layout::Gptq { below: self.below },
                rows.checked_mul(per_word)?,
            )
        } else if columns.checked_mul(per_word)? == n && bits == 4 {
            (Layout::Awq, rows)
        } else {
            return None;
        };
        let weight = IntegerWeight::new(layout, bits, ([n, k], groups), codes, scales)?;
        let of_zeros = [groups, n.div_ceil(per_word)];
        weight.with(of_zeros, part(zeros), part(group_of))
    }

    fn packed(&self, part: Part<'_>) -> Option<IntegerWeight> {
        let (bits, per_word) = self.bits()?;
        let (_, codes) = part("weight_packed")?;
        let scales = part("weight_scale")?;
        let ([n, words], [rows, groups]) = (matrix(&codes)?, matrix(&scales.1)?);
        let k = words.checked_mul(per_word)?;
        let size = ([n, k], groups);
        let weight = IntegerWeight::new(Layout::Packed, bits, size, codes, scales)?;
        let of_zeros = [n.div_ceil(per_word), groups];
        let weight = weight.with(of_zeros, part("weight_zero_point"), part("weight_g_idx"));
        weight.filter(|_| rows == n)
    }
}

fn whole_bytes(part: Part<'_>) -> Option<IntegerWeight> {
    let (_, codes) = part("weight")?;
    let scales = part("weight_scale")?;
    let ([n, k], [rows, groups]) = (matrix(&codes)?, matrix(&scales.1)?);
    let weight = IntegerWeight::new(Layout::Bytes, 8, ([n, k], groups), codes, scales);
    weight.filter(|_| rows == n && part("weight_zero_point").is_none())
}

fn matrix(info: &TensorInfo) -> Option<[usize; 2]> {
    info.shape[..].try_into().ok()
}

impl IntegerWeight {
    /// A weight of this shape and this number of groups, without zeros; `None` where the codes have another dtype than the layout says, or
    /// there are no groups.
    fn new(
        layout: Layout,
        bits: u32,
        (shape, groups): ([usize; 2], usize),
        codes: TensorInfo,
        scales: (String, TensorInfo),
    ) -> Option<Self> {
        let dtype = match layout {
            Layout::Bytes => Dtype::I8,
            _ => Dtype::I32,
        };
        (codes.dtype == dtype && groups > 0).then_some(Self {
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

    /// This weight with zeros of the shape `of_zeros` and a group number for each inner column, where it has them; `None` where they don't fit.
    fn with(
        self,
        of_zeros: [usize; 2],
        zeros: Option<(String, TensorInfo)>,
        group_of: Option<(String, TensorInfo)>,
    ) -> Option<Self> {
        let of_columns = [self.shape[1]];
        let fits = |part: &Option<(String, TensorInfo)>, shape: &[usize]| {
            let fits =
                |(_, info): &(String, TensorInfo)| info.dtype == Dtype::I32 && info.shape == shape;
            part.as_ref().is_none_or(fits)
        };
        let fit = fits(&zeros, &of_zeros) && fits(&group_of, &of_columns);
        fit.then(|| Self {
            zeros: zeros.map(|(_, info)| info),
            group_of: group_of.map(|(_, info)| info),
            ..self
        })
    }

    /// Appends the decoded values of the weight \[n, k\], row-major, to `values`.
    pub(crate) fn decode(&self, parts: &Parts, values: &mut Vec<f32>) {
        let [n, k] = self.shape;
        let zeros = parts.zeros.as_deref().map(words_of);
        let group_of = parts.group_of.as_deref().map(words_of);
        let width = k.div_ceil(self.groups);
        let group = |column: usize| match &group_of {
            Some(groups) => (groups[column] as usize).min(self.groups - 1),
            None => column / width,
        };
        let groups: Vec<usize> = (0..k).map(group).collect();
        let words = words_of(&parts.codes);
        let middle = 1_i64 << (self.bits - 1);
        for row in 0..n {
            for (column, &group) in groups.iter().enumerate() {
                let code = if self.layout == Layout::Bytes {
                    i64::from(parts.codes[row * k + column].cast_signed())
                } else {
                    let zero = zeros
                        .as_ref()
                        .map(|zeros| i64::from(self.zero(zeros, row, group)));
                    i64::from(self.code(&words, row, column)) - zero.unwrap_or(middle)
                };
                let scale = match self.layout {
                    Layout::Packed | Layout::Bytes => parts.scales[row * self.groups + group],
                    Layout::Gptq { .. } | Layout::Awq => parts.scales[group * n + row],
                };
                values.push(code as f32 * scale);
            }
        }
    }

    /// The code at a row and an inner column.
    fn code(&self, words: &[u32], row: usize, column: usize) -> u32 {
        let ([n, k], per_word) = (self.shape, 32 / self.bits as usize);
        match self.layout {
            Layout::Gptq { .. } => {
                self.of_word(words[column / per_word * n + row], column % per_word)
            }
            Layout::Awq => {
                let word = words[column * (n / per_word) + row / per_word];
                self.of_word(word, AWQ_ORDER[row % per_word])
            }
            _ => self.of_word(
                words[row * (k / per_word) + column / per_word],
                column % per_word,
            ),
        }
    }

    /// The zero of a row in a group.
    fn zero(&self, words: &[u32], row: usize, group: usize) -> u32 {
        let (n, per_word) = (self.shape[0], 32 / self.bits as usize);
        let along = group * n.div_ceil(per_word) + row / per_word;
        match self.layout {
            Layout::Gptq { below } => self.of_word(words[along], row % per_word) + below,
            Layout::Awq => self.of_word(words[along], AWQ_ORDER[row % per_word]),
            _ => self.of_word(words[row / per_word * self.groups + group], row % per_word),
        }
    }

    fn of_word(&self, word: u32, place: usize) -> u32 {
        word >> (place as u32 * self.bits) & (u32::MAX >> (32 - self.bits))
    }
}

fn words_of(bytes: &[u8]) -> Vec<u32> {
    let words = bytes.as_chunks::<4>().0.iter();
    words.map(|&word| u32::from_le_bytes(word)).collect()
}
