//! Options of the engine that answers: where it runs, what its cache keeps, who proposes tokens, and what an answer must be.

use std::path::PathBuf;

use clap::Args;
use moebius::attention::CacheFormat;
use moebius_benches::options::{Named, named, positive};
use moebius_engine::{EngineOptions, Ngrams};

use super::generate::{WEIGHTS, Weights};
use super::{ModelPrecision, PlaceArgs};

/// Default for the largest number of tokens that a draft model proposes.
const DRAFT_TOKENS: usize = 4;

/// What a cache keeps keys and values in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CachePrecision {
    Auto,
    Given(CacheFormat),
}

impl CachePrecision {
    /// The value of `--kv-cache-dtype` that stands for it.
    pub(crate) fn option(self) -> &'static str {
        let named = CACHE_PRECISIONS.iter().find(|(_, _, of)| *of == self);
        named.map_or("", |(name, ..)| *name)
    }

    /// The format for a model that computes in `precision`.
    pub(crate) fn format(self, precision: ModelPrecision) -> CacheFormat {
        match (self, precision) {
            (Self::Given(format), _) => format,
            (Self::Auto, ModelPrecision::F16) => CacheFormat::F16,
            (Self::Auto, ModelPrecision::Bf16) => CacheFormat::Bf16,
            (Self::Auto, ModelPrecision::F32 | ModelPrecision::Fp8) => CacheFormat::F32,
        }
    }
}

const CACHE_PRECISIONS: [Named<CachePrecision>; 5] = [
    (
        "auto",
        "f16 and bf16 where the model computes in them, else f32: keys and values as they are",
        CachePrecision::Auto,
    ),
    (
        "f32",
        "32-bit float",
        CachePrecision::Given(CacheFormat::F32),
    ),
    ("f16", "IEEE half", CachePrecision::Given(CacheFormat::F16)),
    ("bf16", "bfloat16", CachePrecision::Given(CacheFormat::Bf16)),
    (
        "fp8",
        "E4M3 with a scale for each token and head, or the scales that the checkpoint brings",
        CachePrecision::Given(CacheFormat::E4m3),
    ),
];

/// Where a model answers, what its cache keeps, and who proposes tokens to it.
#[derive(Debug, Args)]
pub(crate) struct EngineArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// What the cache keeps keys and values in.
    #[arg(long, value_name = "T", default_value = "auto", value_parser = named(CACHE_PRECISIONS))]
    pub(crate) kv_cache_dtype: CachePrecision,
    #[command(flatten)]
    pub(crate) speculation: SpeculationArgs,
}

impl EngineArgs {
    /// The defaults at this place: keys and values as the model computes them, and no proposals.
    pub(crate) fn at(place: PlaceArgs) -> Self {
        Self {
            place,
            kv_cache_dtype: CachePrecision::Auto,
            speculation: SpeculationArgs::default(),
        }
    }

    /// These options of an engine, with the asked format of its cache and margin of memory.
    pub(crate) fn room(&self, options: EngineOptions) -> EngineOptions {
        EngineOptions {
            format: self.kv_cache_dtype.format(self.place.dtype),
            margin: self.place.memory_margin,
            ..options
        }
    }
}

/// Who proposes tokens that the model verifies together; nobody by default.
#[derive(Debug, Default, Args)]
pub(crate) struct SpeculationArgs {
    /// Verify several tokens at once: up to K [default: 4] that followed the last N tokens [default: 4], or fewer, where they were
    /// before. Changes no token.
    #[arg(
        long,
        value_name = "ngram[:N,K]",
        value_parser = ngrams,
        conflicts_with = "draft_model"
    )]
    pub(crate) speculate: Option<Ngrams>,
    /// Verify several tokens at once that this smaller model with the same vocabulary proposes. Changes no token.
    #[arg(long, value_name = "DIR|FILE.gguf|ORG/NAME")]
    pub(crate) draft_model: Option<PathBuf>,
    /// Tokens that the draft model proposes at most [default: 4].
    #[arg(long, value_name = "K", requires = "draft_model", value_parser = positive)]
    draft_tokens: Option<usize>,
    /// What the draft model's weights are on the device, as --weights takes it, or `dtype` for values [default: what --weights says].
    #[arg(long, value_name = "W", requires = "draft_model", value_parser = named(draft_weights()))]
    pub(crate) draft_weights: Option<Weights>,
}

impl SpeculationArgs {
    /// Largest number of tokens that the draft model proposes.
    pub(crate) fn draft_tokens(&self) -> usize {
        self.draft_tokens.unwrap_or(DRAFT_TOKENS)
    }
}

/// What a draft model's weights may be on the device: what a model's may be, and values even where that one's are in blocks.
fn draft_weights() -> [Named<Weights>; 1 + WEIGHTS.len()] {
    let values = (
        "dtype",
        "values of --dtype, whatever --weights says",
        Weights::default(),
    );
    let mut all = [values; 1 + WEIGHTS.len()];
    all[1..].copy_from_slice(&WEIGHTS);
    all
}

/// What an answer must be.
#[derive(Debug, Args)]
pub(crate) struct FormArgs {
    /// Answer with JSON that a schema describes: the schema itself, which begins with {, or a file with it.
    #[arg(long, value_name = "TEXT|FILE")]
    pub(crate) json_schema: Option<String>,
}

/// The proposer that a text names: `ngram`, or `ngram:N,K` with its two numbers.
fn ngrams(text: &str) -> Result<Ngrams, String> {
    if text == "ngram" {
        return Ok(Ngrams::default());
    }
    let expected = || "expected ngram, or ngram:N,K with two numbers".to_owned();
    let numbers = text.strip_prefix("ngram:").ok_or_else(expected)?;
    let (longest, tokens) = numbers.split_once(',').ok_or_else(expected)?;
    let [longest, tokens] = [longest, tokens].map(|number| number.parse().map_err(|_| expected()));
    Ngrams::new(longest?, tokens?).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proposers_are_read() {
        assert_eq!(ngrams("ngram"), Ok(Ngrams::default()));
        let read = ngrams("ngram:3,8").map(|read| (read.longest(), read.tokens()));
        assert_eq!(read, Ok((3, 8)));
        for text in [
            "",
            "n",
            "ngram:",
            "ngram:3",
            "ngram:3,",
            "ngram:3,8,1",
            "ngram:-1,2",
            "ngram3,8",
        ] {
            let said = ngrams(text).map_err(|said| said.starts_with("expected ngram"));
            assert_eq!(said, Err(true), "{text}");
        }
        let said = ngrams("ngram:0,8").map_err(|said| said.ends_with("got 0"));
        assert_eq!(said, Err(true));
    }

    #[test]
    fn a_cache_keeps_what_is_computed_unless_told() {
        for (precision, kept) in [
            (ModelPrecision::F32, CacheFormat::F32),
            (ModelPrecision::F16, CacheFormat::F16),
            (ModelPrecision::Bf16, CacheFormat::Bf16),
            (ModelPrecision::Fp8, CacheFormat::F32),
        ] {
            assert_eq!(CachePrecision::Auto.format(precision), kept);
            let given = CachePrecision::Given(CacheFormat::E4m3);
            assert_eq!(given.format(precision), CacheFormat::E4m3);
        }
    }
}
