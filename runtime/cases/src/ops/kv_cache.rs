//! `kv_cache {steps, format, paged, causal, window, alibi, softcap, prefix, scale, compute}`: attention over a cache that grows step by
//! step. `q` \[B,Hq,S,D\], `k` \[B,Hkv,S,D\], `v` \[B,Hkv,S,Dv\] and perhaps `sinks` \[Hq\] → `o` \[B,Hq,S,Dv\], `lse` \[B,Hq,S\].
//!
//! `steps` has a list for each step with the number of new tokens of each sequence, such as `[[5, 2], [1, 1]]`: the first step appends the
//! tokens 0 to 4 of sequence 0 and 0 to 1 of sequence 1, the second the next token of both. Row i of o is the attention of token i in the
//! step that appended it, over the tokens that its sequence has then. Tokens that no step appends have o = 0 and lse = −∞, and their rows of
//! q, k and v are not read.
//!
//! `format` is how the cache keeps keys and values: `f32`, `f16`, `bf16` or `e4m3`, where the elements of a head share the smallest power of
//! two that brings the largest magnitude to at most 448. `paged` is false for a cache of one page per sequence. The other parameters are
//! those of `attention`.

use burn::tensor::Device;
use moebius::attention::{Attend, CacheFormat, KvCache, Pages};
use serde::Deserialize;

use super::attention::Rules;
use super::{Input, Inputs, Produced, Values, download, download_log_sums};
use crate::case_file::{CaseFile, quoted};
use crate::compute::{Compute, Place};
use crate::error::OpError;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    steps: Vec<Vec<usize>>,
    format: String,
    #[serde(default = "paged")]
    paged: bool,
    #[serde(default)]
    causal: bool,
    window: Option<usize>,
    #[serde(default)]
    alibi: bool,
    softcap: Option<f32>,
    prefix: Option<usize>,
    scale: Option<f32>,
    #[serde(default)]
    compute: Compute,
}

fn paged() -> bool {
    true
}

/// Extents of the sequences of a case.
#[derive(Clone, Copy)]
struct Extents {
    sequences: usize,
    heads: usize,
    kv_heads: usize,
    tokens: usize,
    dims: [usize; 2],
}

impl Extents {
    /// Checks the inputs against each other. No extent is 0, so that the number of tokens is bounded by the size of the file.
    fn of([q, k, v]: [&Input<'_>; 3]) -> Result<Self, OpError> {
        let [sequences, heads, tokens, dim] = q.dims("[B,Hq,S,D]")?;
        let [_, kv_heads, _, _] = k.dims("[B,Hkv,S,D]")?;
        let [_, _, _, value_dim] = v.dims("[B,Hkv,S,Dv]")?;
        q.expect_positive("[B,Hq,S,D]", 0)?;
        k.expect("[B,Hkv,S,D]", &[sequences, kv_heads, tokens, dim])?;
        k.expect_positive("[B,Hkv,S,D]", 0)?;
        v.expect("[B,Hkv,S,Dv]", &[sequences, kv_heads, tokens, value_dim])?;
        v.expect_positive("[B,Hkv,S,Dv]", 0)?;
        Ok(Self {
            sequences,
            heads,
            kv_heads,
            tokens,
            dims: [dim, value_dim],
        })
    }

    /// Checks that each step has a number for each sequence, and that no sequence gets more tokens than the inputs have.
    fn check(&self, steps: &[Vec<usize>]) -> Result<(), OpError> {
        let mut totals = vec![0_usize; self.sequences];
        for (at, step) in steps.iter().enumerate() {
            if step.len() != self.sequences {
                let (expected, got) = (self.sequences, step.len());
                let message =
                    format!("parameter steps: expected {expected} numbers in step {at}, got {got}");
                return Err(OpError::Misfit(message));
            }
            for (total, new) in totals.iter_mut().zip(step) {
                *total = total.saturating_add(*new);
            }
        }
        match totals.iter().find(|total| **total > self.tokens) {
            Some(got) => {
                let most = self.tokens;
                let message = format!(
                    "parameter steps: expected at most {most} tokens of a sequence, got {got}"
                );
                Err(OpError::Misfit(message))
            }
            None => Ok(()),
        }
    }
}

/// The new tokens of a step: the place of the first one of each sequence, and their numbers.
struct New<'a> {
    starts: &'a [usize],
    counts: &'a [usize],
    /// The largest number.
    most: usize,
}

/// Rows \[B,heads,S,width\] of all tokens.
struct Rows {
    values: Vec<f32>,
    heads: usize,
    tokens: usize,
    width: usize,
}

impl Rows {
    fn read(input: &Input<'_>, heads: usize, tokens: usize) -> Result<Self, OpError> {
        let [_, _, _, width] = input.dims("[B,heads,S,width]")?;
        Ok(Self {
            values: input.view.to_f32()?,
            heads,
            tokens,
            width,
        })
    }

    /// The place of a sequence's row among `values`.
    fn place(&self, [sequence, head, token]: [usize; 3]) -> std::ops::Range<usize> {
        let row = (sequence * self.heads + head) * self.tokens + token;
        row * self.width..(row + 1) * self.width
    }

    /// The rows \[B,heads,most,width\] of a step's new tokens; NaN where a sequence has fewer, because these rows aren't read.
    fn of(&self, new: &New<'_>) -> Vec<f32> {
        let mut rows = Vec::new();
        for (sequence, (start, count)) in new.starts.iter().zip(new.counts).enumerate() {
            for head in 0..self.heads {
                for at in 0..new.most {
                    if at < *count {
                        let place = self.place([sequence, head, start + at]);
                        rows.extend_from_slice(&self.values[place]);
                    } else {
                        rows.extend(std::iter::repeat_n(f32::NAN, self.width));
                    }
                }
            }
        }
        rows
    }

    /// Puts the rows of a step's new tokens in their places.
    fn set(&mut self, new: &New<'_>, rows: &Produced) {
        let Values::Float(values) = &rows.values else {
            return;
        };
        for (sequence, (start, count)) in new.starts.iter().zip(new.counts).enumerate() {
            for head in 0..self.heads {
                for at in 0..*count {
                    let from = ((sequence * self.heads + head) * new.most + at) * self.width;
                    let place = self.place([sequence, head, start + at]);
                    self.values[place].copy_from_slice(&values[from..][..self.width]);
                }
            }
        }
    }
}

/// Computes the attention of every token, in the step that appends it.
pub(super) async fn steps(case: &CaseFile, device: &Device) -> Result<Vec<Produced>, OpError> {
    let params: Params = case.params()?;
    let mut inputs = Inputs::new(case);
    let (q, k, v) = (
        inputs.required("q")?,
        inputs.required("k")?,
        inputs.required("v")?,
    );
    let sinks = inputs.optional("sinks");
    inputs.finish()?;
    let extents = Extents::of([&q, &k, &v])?;
    extents.check(&params.steps)?;
    if let Some(sinks) = &sinks {
        sinks.expect("[Hq]", &[extents.heads])?;
    }
    let place = Place::new(params.compute, device)?;
    let attend = params.rules().attend(extents.heads, device);
    let attend = match sinks {
        Some(sinks) => attend.sinks(sinks.on(device)?),
        None => attend,
    };
    let tokens = extents.tokens;
    let cached = Cached {
        q: Rows::read(&q, extents.heads, tokens)?,
        k: Rows::read(&k, extents.kv_heads, tokens)?,
        v: Rows::read(&v, extents.kv_heads, tokens)?,
        format: params.format()?,
        params,
        extents,
        attend,
    };
    cached.run(&place).await
}

/// A case, checked.
struct Cached {
    params: Params,
    extents: Extents,
    format: CacheFormat,
    q: Rows,
    k: Rows,
    v: Rows,
    attend: Attend,
}

impl Cached {
    /// Appends the tokens step by step, and attends over the cache.
    async fn run(&self, place: &Place) -> Result<Vec<Produced>, OpError> {
        let Extents {
            sequences,
            heads,
            kv_heads,
            tokens,
            dims,
        } = self.extents;
        let device = place.device();
        let mut pages = if self.params.paged {
            Pages::paged(sequences, sequences * tokens.div_ceil(16), tokens)?
        } else {
            Pages::contiguous(sequences, tokens)?
        };
        let mut cache = KvCache::new(&pages, kv_heads, dims, self.format, device)?;
        let result = |width: usize, value: f32| Rows {
            values: vec![value; sequences * heads * tokens * width],
            heads,
            tokens,
            width,
        };
        let (mut o, mut lse) = (result(dims[1], 0.0), result(1, f32::NEG_INFINITY));
        for counts in &self.params.steps {
            let starts = pages.lengths().to_vec();
            let step = pages.extend(counts, device)?;
            let most = step.tokens();
            if most == 0 {
                continue;
            }
            let new = New {
                starts: &starts,
                counts,
                most,
            };
            let put = |of: &Rows| place.put(of.of(&new), [sequences, of.heads, most, of.width]);
            cache.append(put(&self.k), put(&self.v), &step)?;
            let out = cache.attend(put(&self.q), &step, &self.attend)?;
            o.set(&new, &download("o", out.o).await?);
            lse.set(&new, &download_log_sums("lse", out.lse).await?);
        }
        let [o, lse] = [o.values, lse.values].map(Values::Float);
        Ok(vec![
            Produced::new("o", &[sequences, heads, tokens, dims[1]], o),
            Produced::new("lse", &[sequences, heads, tokens], lse),
        ])
    }
}

impl Params {
    fn format(&self) -> Result<CacheFormat, OpError> {
        let named = |format: &CacheFormat| format.name() == self.format;
        CacheFormat::ALL.into_iter().find(named).ok_or_else(|| {
            let names = CacheFormat::ALL.map(CacheFormat::name).join(", ");
            let got = quoted(&self.format);
            OpError::Misfit(format!(
                "parameter format: expected one of {names}, got {got}"
            ))
        })
    }

    fn rules(&self) -> Rules {
        Rules {
            causal: self.causal,
            window: self.window,
            alibi: self.alibi,
            softcap: self.softcap,
            prefix: self.prefix,
            scale: self.scale,
        }
    }
}
