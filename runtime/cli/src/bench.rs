//! `moebius bench`.

use moebius::moe::Keep;
use moebius_benches::attention::{self, AttentionBench};
use moebius_benches::decode::{self, DecodeBench};
use moebius_benches::linear::{self, LinearBench};
use moebius_benches::moe::{self, MoeBench, backward, fine};

use crate::args::{BenchArgs, BenchCommand, BenchMoeArgs};
use crate::error::CliError;
use crate::measure::show;
use crate::resolve::resolve;
use crate::screen::{Outcome, Screen};

/// Runs `moebius bench`.
pub(crate) fn run(args: &BenchArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    match &args.what {
        BenchCommand::Moe(args) => moe(args, screen),
        BenchCommand::Linear(bench) => {
            let device = resolve(bench.device, screen)?;
            show(&LinearBench { device, ..*bench }, screen, linear::run)
        }
        BenchCommand::Attention(bench) => {
            let device = resolve(bench.device, screen)?;
            let bench = bench.clone();
            show(&AttentionBench { device, ..bench }, screen, attention::run)
        }
        BenchCommand::Decode(bench) => {
            let device = resolve(bench.device, screen)?;
            let bench = bench.clone();
            show(&DecodeBench { device, ..bench }, screen, decode::run)
        }
    }
}

fn moe(args: &BenchMoeArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    let device = resolve(args.bench.device, screen)?;
    let bench = MoeBench {
        device,
        ..args.bench
    };
    if bench.top_k > bench.experts {
        let (most, got) = (bench.experts, bench.top_k);
        let message = format!("--top-k: expected at most {most} (--experts), got {got}");
        return Err(CliError::usage(message, None));
    }
    if args.compare_fine {
        return show(&bench, screen, fine::compare);
    }
    if args.backward {
        // The smaller first: what is left of a larger one would count as its memory.
        let both = [Keep::Inputs, Keep::FirstProduct];
        let keeps = args.keep.as_slice();
        let keeps = if keeps.is_empty() { &both[..] } else { keeps };
        return show(&bench, screen, |bench, say| {
            backward::run(bench, keeps, say)
        });
    }
    show(&bench, screen, moe::run)
}
