//! The benchmark of a decode step: one query of each head attends to the tokens in a cache, in several cache formats.

use crate::ceiling::{MemoryRead, finish};
use crate::options::{Named, named, positive};
use crate::oracle::{distance, floats, spread, tolerance, wide};
use crate::place::Place;
use crate::timing::{Spread, Timing, seconds_of, timings_of};
use crate::{BenchError, Checked, Progress, Ran};
use burn::tensor::{DType, Distribution, Tensor};
use clap::Args;
use moebius::attention::{Attend, CacheFormat, KvCache, Pages, Step};
use moebius::{Device, Error};
use moebius_ops::attention::{Problem, Sizes};
use moebius_ops::{Attention, AttentionPass, HostTensor, Operation};
use serde::Serialize;

/// Cache formats by name.
const FORMATS: [Named<CacheFormat>; 4] = [
    ("f32", "32-bit float", CacheFormat::F32),
    ("f16", "IEEE half", CacheFormat::F16),
    ("bf16", "bfloat16", CacheFormat::Bf16),
    (
        "e4m3",
        "FP8, a scale for each token and head",
        CacheFormat::E4m3,
    ),
];

/// Number of query heads that are checked, spread evenly.
const SAMPLES: usize = 3;

/// What is measured, as the options of a command.
#[derive(Clone, Debug, Args)]
pub struct DecodeBench {
    /// Sequences.
    #[arg(long, value_name = "N", default_value = "1", value_parser = positive)]
    pub batch: usize,
    /// Query heads.
    #[arg(long, value_name = "N", default_value = "32", value_parser = positive)]
    pub heads: usize,
    /// Key and value heads, a divisor of the query heads.
    #[arg(long, value_name = "N", default_value = "8", value_parser = positive)]
    pub kv_heads: usize,
    /// Tokens of a sequence, the new one among them.
    #[arg(long, value_name = "N", default_value = "32768", value_parser = positive)]
    pub tokens: usize,
    /// Values of a head, a multiple of 8 and at most 256.
    #[arg(long, value_name = "N", default_value = "64", value_parser = positive)]
    pub head_dim: usize,
    /// Keep tokens in pages of 16.
    #[arg(long)]
    pub paged: bool,
    /// How tokens are kept; a list with commas.
    #[arg(
        long = "format", value_name = "F", value_delimiter = ',', default_value = "f32,e4m3",
        value_parser = named(FORMATS)
    )]
    pub formats: Vec<CacheFormat>,
    /// Device to measure: auto, wgpu[:n], vulkan[:n], cuda[:n], rocm[:n], cpu, flex or xla:{cpu,tpu,cuda}[:n].
    #[arg(long, value_name = "D", default_value = "auto")]
    pub device: Device,
}

/// Results of the benchmark.
#[derive(Clone, Debug, Serialize)]
pub struct DecodeReport {
    /// Device that was measured.
    #[serde(flatten)]
    pub ran: Ran,
    /// Whether sampled heads agree with the f64 oracle over the kept tokens, in every format.
    #[serde(flatten)]
    pub checked: Checked,
    /// Speed at which the processor's threads read memory in the same run; `None` where tokens aren't in the
    /// processor's memory.
    pub memory: Option<MemoryRead>,
    /// A row for each format.
    pub formats: Vec<DecodeRow>,
}

/// Result of one cache format.
#[derive(Clone, Debug, Serialize)]
pub struct DecodeRow {
    /// Name of the format.
    pub format: &'static str,
    /// Bytes of the kept tokens, each read once.
    pub bytes: u64,
    /// Median milliseconds of one attention over the kept tokens.
    pub median_ms: f64,
    /// Spread of the repetitions around the median.
    pub spread: Spread,
    /// GB/s at which the kept bytes are read.
    pub gb_per_s: f64,
    /// `gb_per_s` as a share of the measured memory speed; `None` where that isn't measured.
    pub read_share: Option<f64>,
}

/// A filled cache in one format, with its error and the query that is timed.
struct Kept {
    cache: KvCache,
    /// Step of the last token.
    step: Step,
    q: Tensor<4>,
    bytes: u64,
    error: f64,
}

/// Verifies all formats, then measures them in turns; `progress` is called with each step.
///
/// # Errors
/// [`BenchError`] when the sizes don't fit, or the device refuses or fails.
pub fn run(bench: &DecodeBench, progress: Progress) -> Result<DecodeReport, BenchError> {
    let place = Place::open(&bench.device)?;
    let mut all = Vec::new();
    for format in &bench.formats {
        progress(&format!("keeping tokens as {}", format.name()));
        all.push(Kept::new(bench, *format, &place.device)?);
    }
    progress("measuring");
    let times = timings_of(&mut all, |kept| seconds_of(|| kept.run(&place.device)))?;
    let host = place.opened.capability.is_cpu();
    let memory = host.then(MemoryRead::measure).transpose()?;
    let read = memory.as_ref().map(|memory| memory.gb_per_s * 1e9);
    let rows = bench.formats.iter().zip(&all).zip(times);
    let row = |((format, kept), time): ((&CacheFormat, &Kept), Timing)| {
        let rate = kept.bytes as f64 / time.seconds;
        DecodeRow {
            format: format.name(),
            bytes: kept.bytes,
            median_ms: time.ms(),
            spread: time.spread(),
            gb_per_s: rate / 1e9,
            read_share: read.map(|read| rate / read),
        }
    };
    let error = all.iter().map(|kept| kept.error).fold(0.0, f64::max);
    Ok(DecodeReport {
        ran: place.ran(None),
        checked: Checked::within(tolerance(DType::F32), error),
        formats: rows.map(row).collect(),
        memory,
    })
}

impl Kept {
    fn new(
        bench: &DecodeBench,
        format: CacheFormat,
        device: &burn::tensor::Device,
    ) -> Result<Self, BenchError> {
        let (batch, tokens) = (bench.batch, bench.tokens);
        let mut pages = if bench.paged {
            Pages::paged(batch, batch * tokens.div_ceil(16), tokens)?
        } else {
            Pages::contiguous(batch, tokens)?
        };
        let dims = [bench.head_dim; 2];
        let mut cache = KvCache::new(&pages, bench.kv_heads, dims, format, device)?;
        let random = |heads, tokens| {
            let shape = [batch, heads, tokens, bench.head_dim];
            Tensor::<4>::random(shape, Distribution::Normal(0.0, 1.0), device)
        };
        let [k, v] = [(); 2].map(|()| random(bench.kv_heads, tokens));
        let mut keep = |from, count| -> Result<Step, Error> {
            let step = pages.extend(&vec![count; batch], device)?;
            let [k, v] = [&k, &v].map(|x| x.clone().narrow(2, from, count));
            cache.append(k, v, &step)?;
            Ok(step)
        };
        // Keep all tokens but the last in one step, then the last in a step of its own.
        if tokens > 1 {
            keep(0, tokens - 1)?;
        }
        let step = keep(tokens - 1, 1)?;
        let q = random(bench.heads, 1);
        let out = cache.attend(q.clone(), &step, &Attend::new())?;
        let error = error(bench, format, [&q, &k, &v], &out.o)?;
        let bytes = cache.bytes() as u64;
        Ok(Self {
            cache,
            step,
            q,
            bytes,
            error,
        })
    }

    fn run(&self, device: &burn::tensor::Device) -> Result<(), BenchError> {
        let _out = self
            .cache
            .attend(self.q.clone(), &self.step, &Attend::new())?;
        finish(device)
    }
}

/// Largest relative L2 error of the sampled heads of the first sequence.
fn error(
    bench: &DecodeBench,
    format: CacheFormat,
    [q, k, v]: [&Tensor<4>; 3],
    o: &Tensor<4>,
) -> Result<f64, BenchError> {
    let problem = Problem::new(Sizes {
        batch: 1,
        heads: 1,
        kv_heads: 1,
        queries: 1,
        keys: bench.tokens,
        head_dim: bench.head_dim,
        value_dim: bench.head_dim,
    });
    let operation = Operation::from(Attention {
        problem: problem.map_err(Error::from)?,
        pass: AttentionPass::Forward,
    });
    let head = |x: &Tensor<4>, head| floats(x.clone().narrow(0, 0, 1).narrow(1, head, 1));
    let kept = |rows: Vec<f32>| -> HostTensor {
        let rows = rows.chunks(bench.head_dim).flat_map(|row| format.kept(row));
        wide(rows).into()
    };
    let mut error = 0.0f64;
    for of in spread(SAMPLES, bench.heads) {
        let own = of / (bench.heads / bench.kv_heads);
        let q = HostTensor::of_f32(&head(q, of));
        let want = operation.reference(&[q, kept(head(k, own)), kept(head(v, own))]);
        let want = want.map_err(Error::from)?;
        error = error.max(distance(&head(o, of), want[0].floats()));
    }
    Ok(error)
}
