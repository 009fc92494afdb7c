//! Options that make a model smaller are tried one after the other, and kept where they save enough and its text stays as likely.

use std::error::Error;
use std::fs;

use burn::tensor::Device;
use moebius::attention::CacheFormat;
use moebius_engine::{Engine, EngineOptions};
use moebius_model::load::{LoadOptions, ModelFiles};
use moebius_model::{Perplexity, Text, Windows};
use moebius_text::Tokenizer;

/// Smallest saving for which a change is kept, as a share of the bytes before.
const LEAST: f64 = 0.05;

/// Largest growth of the perplexity, as a share of the first plan's.
const BUDGET: f64 = 0.01;

/// Tokens whose perplexity is measured, and for which the cache has room.
const TOKENS: usize = 512;

/// How a model is loaded, and what its keys and values are kept in.
#[derive(Clone, Copy)]
struct Plan {
    load: LoadOptions,
    cache: CacheFormat,
}

/// Bytes of weights and cache, and the perplexity of a text.
#[derive(Clone, Copy)]
struct Figures {
    bytes: u64,
    perplexity: f64,
}

/// Computes the figures, the fact that they show, and whether it holds.
pub(crate) fn run(device: &Device) -> Result<(String, String, bool), Box<dyn Error>> {
    // The model that the command brings along, in a folder as published models have.
    let folder = tempfile::tempdir()?;
    for (name, bytes) in moebius_shipped::FILES {
        fs::write(folder.path().join(name), bytes)?;
    }
    let files = ModelFiles::open(folder.path())?;
    let text = String::from_utf8_lossy(Text::bundled().bytes()).into_owned();
    let mut ids = Tokenizer::from_folder(folder.path())?.encode(&text, true)?;
    ids.truncate(TOKENS);

    let mut plan = Plan {
        load: LoadOptions {
            keep_fp8: false,
            ..LoadOptions::default()
        },
        cache: CacheFormat::F32,
    };
    let first = measured(&files, plan, &ids, device)?;
    let mut best = first;
    let mut table = format!("all in f32: {} KiB\n", first.bytes >> 10);
    table += "change                 KiB  perplexity";
    let mut kept = 0;
    for (name, change) in CHANGES {
        let changed = change(plan);
        let found = measured(&files, changed, &ids, device)?;
        let growth = found.perplexity / first.perplexity - 1.0;
        let saves = found.bytes as f64 <= (1.0 - LEAST) * best.bytes as f64;
        let verdict = match (growth <= BUDGET, saves) {
            (true, true) => "kept",
            (true, false) => "saves less than 5 %",
            (false, _) => "beyond the budget",
        };
        let (kib, percent) = (found.bytes >> 10, 100.0 * growth);
        table += &format!("\n{name:18} {kib:7}  {percent:+8.3} %  {verdict}");
        if verdict == "kept" {
            (plan, best, kept) = (changed, found, kept + 1);
        }
    }

    // The plan that is left, loaded anew.
    let last = measured(&files, plan, &ids, device)?;
    let share = last.bytes as f64 / first.bytes as f64;
    let growth = last.perplexity / first.perplexity - 1.0;
    let holds = kept > 0 && share <= (1.0 - LEAST).powi(kept) && growth <= BUDGET;
    let fact = format!(
        "{kept} changes leave {:.0} % of the bytes, and {:+.2} % of perplexity; the budget is {:.0} %",
        100.0 * share,
        100.0 * growth,
        100.0 * BUDGET
    );
    Ok((table, fact, holds))
}

/// A plan with a change.
type Change = fn(Plan) -> Plan;

/// The changes in the order in which they are tried, each on top of those that were kept.
const CHANGES: [(&str, Change); 4] = [
    ("weights in FP8", |plan| Plan {
        load: LoadOptions {
            keep_fp8: true,
            ..plan.load
        },
        ..plan
    }),
    ("embedding in bf16", |plan| Plan {
        load: LoadOptions {
            narrow_embedding: true,
            ..plan.load
        },
        ..plan
    }),
    ("cache in bf16", |plan| Plan {
        cache: CacheFormat::Bf16,
        ..plan
    }),
    ("cache in FP8", |plan| Plan {
        cache: CacheFormat::E4m3,
        ..plan
    }),
];

/// Loads the model by a plan, and measures it.
fn measured(
    files: &ModelFiles,
    plan: Plan,
    ids: &[u32],
    device: &Device,
) -> Result<Figures, Box<dyn Error>> {
    let model = files.load(device, plan.load, &mut |_| ())?;
    let windows = Windows::new(TOKENS / 2, TOKENS / 4)?;
    let perplexity = Perplexity::served(&model, ids, windows, plan.cache, device)?.perplexity();
    let options = EngineOptions {
        format: plan.cache,
        ..EngineOptions::for_one(TOKENS).reserved()
    };
    let cache = Engine::new(model, options, device)?.cache_bytes() as u64;
    let bytes = files.weight_bytes(device, plan.load) + cache;
    Ok(Figures { bytes, perplexity })
}

fn main() -> Result<(), Box<dyn Error>> {
    let (figures, fact, holds) = run(&moebius::open(&moebius::Device::Auto)?)?;
    println!("{figures}\n{fact}");
    assert!(holds, "this doesn't hold");
    Ok(())
}
