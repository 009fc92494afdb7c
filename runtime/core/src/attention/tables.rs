//! The tables of an attention's rules, checked and turned into the operation's operands.

use crate::Error;
use crate::check::{check_device, check_equal, check_same, element};
use crate::ops::DeviceValue;
use burn::tensor::{Bool, DType, Device, Distribution, Int, Tensor};
use moebius_ops::attention::{Dropout, Pattern, Rule, Sizes, alibi_slopes};
use moebius_ops::{Fault, Mismatch};
use std::ops::Range;

/// A rule, and the table that it reads.
#[derive(Clone, Debug)]
pub(super) enum Given {
    Plain(Rule),
    /// The documents of the queries, and of the keys.
    Documents(Box<[Tensor<2, Int>; 2]>),
    Blocks(usize, Tensor<2, Bool>),
    Mask(Tensor<4, Bool>),
    Alibi(Option<Tensor<1>>),
    Bias(Tensor<4>),
    Relative(Tensor<2>),
}

/// Some queries and some keys of an attention.
pub(super) struct Part {
    pub(super) queries: Range<usize>,
    pub(super) keys: Range<usize>,
    /// The position of the attention's first query, counted from its first key.
    pub(super) first: i64,
}

impl Given {
    /// Returns the rule among the part's queries and keys, whose positions are those of the whole; `None` for a rule that needs other
    /// places. Ranges begin with a block.
    pub(super) fn within(&self, part: &Part) -> Option<Self> {
        let (queries, keys) = (&part.queries, &part.keys);
        Some(match self {
            Self::Plain(rule) => Self::Plain(rule_within(*rule, part)?),
            Self::Documents(documents) => {
                let of = |ids: &Tensor<2, Int>, range: &Range<usize>| {
                    ids.clone().narrow(1, range.start, range.len())
                };
                let [of_queries, of_keys] = documents.as_ref();
                Self::Documents(Box::new([of(of_queries, queries), of(of_keys, keys)]))
            }
            Self::Blocks(size, seen) => {
                let [rows, columns] = [queries, keys].map(|range| {
                    let first = range.start / size;
                    first..range.end.div_ceil(*size)
                });
                let seen = seen.clone().narrow(0, rows.start, rows.len());
                Self::Blocks(*size, seen.narrow(1, columns.start, columns.len()))
            }
            Self::Mask(hidden) => {
                let hidden = hidden.clone().narrow(2, queries.start, queries.len());
                Self::Mask(hidden.narrow(3, keys.start, keys.len()))
            }
            Self::Bias(bias) => {
                let bias = bias.clone().narrow(2, queries.start, queries.len());
                Self::Bias(bias.narrow(3, keys.start, keys.len()))
            }
            Self::Alibi(_) | Self::Relative(_) => self.clone(),
        })
    }
}

/// See [`Given::within`].
fn rule_within(rule: Rule, part: &Part) -> Option<Rule> {
    let before = part.keys.start;
    match rule {
        Rule::Prefix(keys) => {
            let before = u32::try_from(before).unwrap_or(u32::MAX);
            Some(Rule::Prefix(keys.saturating_sub(before)))
        }
        // Where the first query is beside the first key, both causal rules are the same.
        Rule::CausalTopLeft if part.first == 0 => Some(Rule::Causal),
        Rule::CausalTopLeft => (part.queries.start == before).then_some(rule),
        Rule::Global { .. } => (before == 0).then_some(rule),
        other => Some(other),
    }
}

/// The names of the tables in the order of the operation's description.
const ORDER: [&str; 9] = [
    "dropout",
    "query_documents",
    "key_documents",
    "blocks",
    "mask",
    "slopes",
    "bias",
    "relative",
    "sinks",
];

/// The tables of one attention, collected rule by rule.
pub(super) struct Tables<'a> {
    sizes: &'a Sizes,
    /// The device of the queries.
    device: Device,
    found: Vec<(&'static str, DeviceValue)>,
}

impl<'a> Tables<'a> {
    pub(super) fn new(sizes: &'a Sizes, device: Device) -> Self {
        Self {
            sizes,
            device,
            found: Vec::new(),
        }
    }

    /// Returns the operation's rule for `given`, and keeps its table.
    pub(super) fn rule(&mut self, given: &Given) -> Result<Rule, Error> {
        match given {
            Given::Plain(rule) => Ok(*rule),
            Given::Documents(documents) => {
                let [queries, keys] = documents.as_ref();
                self.documents(queries, keys)
            }
            Given::Blocks(size, seen) => self.blocks(*size, seen),
            Given::Mask(hidden) => {
                let pattern = self.pattern("mask [B or 1, Hq or 1, Sq, Skv]", hidden.dims())?;
                self.words("device of the mask", hidden.device())?;
                let seen = hidden.clone().bool_not();
                self.found.push(("mask", seen.into()));
                Ok(Rule::Mask(pattern))
            }
            Given::Alibi(slopes) => {
                let slopes = match slopes {
                    Some(slopes) => slopes.clone().detach(),
                    None => self.standard_slopes(),
                };
                check_same("slopes [Hq]", slopes.dims(), [self.sizes.heads])?;
                self.floats("slopes", "device of the slopes", slopes)?;
                Ok(Rule::Alibi)
            }
            Given::Bias(bias) => {
                let pattern = self.pattern("bias [B or 1, Hq or 1, Sq, Skv]", bias.dims())?;
                self.floats("bias", "device of the bias", bias.clone())?;
                Ok(Rule::Bias(pattern))
            }
            Given::Relative(table) => self.relative(table),
        }
    }

    /// Keeps the sinks.
    pub(super) fn sinks(&mut self, sinks: &Tensor<1>) -> Result<(), Error> {
        check_same("sinks [Hq]", sinks.dims(), [self.sizes.heads])?;
        self.floats("sinks", "device of the sinks", sinks.clone())
    }

    /// Keeps the probability and the seed of a dropout as a table of words.
    pub(super) fn dropout(&mut self, p: f64, seed: Option<u64>) -> Result<(), Mismatch> {
        let words = Dropout::new(p, seed.unwrap_or(0))?
            .words()
            .map(|word| word as i32);
        let of = |words: &[i32]| Tensor::<1, Int>::from_data(words, (&self.device, DType::I32));
        let table = match seed {
            Some(_) => of(&words),
            None => {
                let any = Distribution::Uniform(0.0, f64::from(i32::MAX));
                let seed = Tensor::<1, Int>::random([2], any, (&self.device, DType::I32));
                Tensor::cat(vec![seed, of(&words[2..])], 0)
            }
        };
        self.found.push(("dropout", table.into()));
        Ok(())
    }

    /// Returns the tables in the order of [`ORDER`].
    pub(super) fn into_values(mut self) -> Vec<DeviceValue> {
        let place = |name: &str| ORDER.iter().position(|other| *other == name);
        self.found.sort_by_key(|(name, _)| place(name));
        self.found.into_iter().map(|(_, table)| table).collect()
    }

    fn documents(
        &mut self,
        queries: &Tensor<2, Int>,
        keys: &Tensor<2, Int>,
    ) -> Result<Rule, Error> {
        let Sizes {
            batch,
            queries: rows,
            keys: columns,
            ..
        } = *self.sizes;
        check_same(
            "documents of the queries [B, Sq]",
            queries.dims(),
            [batch, rows],
        )?;
        check_same(
            "documents of the keys [B, Skv]",
            keys.dims(),
            [batch, columns],
        )?;
        for (name, ids) in [("query_documents", queries), ("key_documents", keys)] {
            self.words("device of the documents", ids.device())?;
            self.found.push((name, ids.clone().into()));
        }
        Ok(Rule::Documents)
    }

    fn blocks(&mut self, size: usize, seen: &Tensor<2, Bool>) -> Result<Rule, Error> {
        let Ok(words) = u32::try_from(size) else {
            return Err(Fault::Config.error("blocks", "1 to 2^30 - 1", size).into());
        };
        // The rule itself is refused later if the size is 0.
        let blocks = |n: usize| n.div_ceil(size.max(1));
        let expected = [blocks(self.sizes.queries), blocks(self.sizes.keys)];
        check_same("blocks [⌈Sq / n⌉, ⌈Skv / n⌉]", seen.dims(), expected)?;
        self.words("device of the blocks", seen.device())?;
        self.found.push(("blocks", seen.clone().into()));
        Ok(Rule::Blocks(words))
    }

    fn relative(&mut self, table: &Tensor<2>) -> Result<Rule, Error> {
        let [heads, width] = table.dims();
        if heads != self.sizes.heads || width % 2 == 0 {
            let expected = format!("[{}, an odd number]", self.sizes.heads);
            let got = format!("{:?}", table.dims());
            return Err(Mismatch::new("relative [Hq, 2n + 1]", expected, got).into());
        }
        let reach = u32::try_from(width / 2).unwrap_or(u32::MAX);
        self.floats("relative", "device of the relative biases", table.clone())?;
        Ok(Rule::Relative(reach))
    }

    /// Returns which of batch and heads a dense table has as dimensions of its own, after a check of its shape.
    fn pattern(&self, what: &'static str, shape: [usize; 4]) -> Result<Pattern, Mismatch> {
        let s = self.sizes;
        let pattern = Pattern {
            batch: shape[0] != 1,
            heads: shape[1] != 1,
        };
        check_same(what, shape, pattern.shape(s))?;
        Ok(pattern)
    }

    /// Checks a table of floats and keeps it as f32.
    fn floats<const D: usize>(
        &mut self,
        name: &'static str,
        device: &'static str,
        table: Tensor<D>,
    ) -> Result<(), Error> {
        element(table.dtype())?;
        check_device(device, table.device(), &self.device)?;
        self.found.push((name, table.cast(DType::F32).into()));
        Ok(())
    }

    /// Checks the device of a table of words, which records no gradients.
    fn words(&self, what: &'static str, device: Device) -> Result<(), Mismatch> {
        check_equal(
            Fault::Device,
            what,
            device.inner(),
            self.device.clone().inner(),
        )
    }

    fn standard_slopes(&self) -> Tensor<1> {
        let slopes = alibi_slopes(self.sizes.heads);
        Tensor::from_data(slopes.as_slice(), (&self.device, DType::F32))
    }
}
