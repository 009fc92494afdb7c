//! `moebius bench`.

use moebius::moe::Keep;
use moebius_benches::attention::{self, AttentionBench};
use moebius_benches::decode::{self, DecodeBench};
use moebius_benches::linear::{self, LinearBench};
use moebius_benches::moe::{self, MoeBench, backward, fine};

use crate::args::{BenchArgs, BenchCommand, BenchMoeArgs, How};
use crate::chart;
use crate::error::CliError;
use crate::measure::{Asked, engine, show};
use crate::resolve::resolve;
use crate::screen::{Outcome, Screen};

/// Runs `moebius bench`.
pub(crate) fn run(args: &BenchArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    match &args.what {
        BenchCommand::Moe(args) => moe(&args.bench, &args.how, screen),
        BenchCommand::Linear(args) => {
            let device = resolve(args.bench.device, screen)?;
            let bench = LinearBench {
                device,
                ..args.bench
            };
            show(&Asked::new(&bench, device, &args.how), screen, linear::run)
        }
        BenchCommand::Attention(args) => {
            let device = resolve(args.bench.device, screen)?;
            let bench = args.bench.clone();
            let bench = AttentionBench { device, ..bench };
            show(
                &Asked::new(&bench, device, &args.how),
                screen,
                attention::run,
            )
        }
        BenchCommand::Decode(args) => {
            let device = resolve(args.bench.device, screen)?;
            let bench = args.bench.clone();
            let bench = DecodeBench { device, ..bench };
            show(&Asked::new(&bench, device, &args.how), screen, decode::run)
        }
        BenchCommand::Engine(args) => engine::run(args, screen),
        BenchCommand::Chart(args) => chart::run(args, screen),
    }
}

fn moe(args: &BenchMoeArgs, how: &How, screen: &mut Screen) -> Result<Outcome, CliError> {
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
    let asked = Asked::new(&bench, device, how);
    if args.compare_fine {
        return show(&asked, screen, fine::compare);
    }
    if args.backward {
        // The smaller first: what is left of a larger one would count as its memory.
        let both = [Keep::Inputs, Keep::FirstProduct];
        let keeps = args.keep.as_slice();
        let keeps = if keeps.is_empty() { &both[..] } else { keeps };
        return show(&asked, screen, |bench, say| {
            backward::run(bench, keeps, say)
        });
    }
    show(&asked, screen, moe::run)
}
