//! `moebius bench`.

use moebius::moe::Keep;
use moebius_benches::attention::{self, AttentionBench};
use moebius_benches::decode::{self, DecodeBench};
use moebius_benches::linear::{self, LinearBench};
use moebius_benches::moe::{self, MoeBench, backward, fine};

use crate::args::{
    BenchArgs, BenchAttentionArgs, BenchCommand, BenchDecodeArgs, BenchLinearArgs, BenchMoeArgs,
    BenchPeer,
};
use crate::error::CliError;
use crate::measure::show;
use crate::resolve::resolve;
use crate::screen::{Outcome, Screen};

/// Runs `moebius bench`.
pub(crate) fn run(args: &BenchArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    match &args.what {
        BenchCommand::Moe(args) => moe(args, screen),
        BenchCommand::Linear(args) => linear(args, screen),
        BenchCommand::Attention(args) => attention(args, screen),
        BenchCommand::Decode(args) => decode(args, screen),
    }
}

fn attention(args: &BenchAttentionArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    let bench = AttentionBench {
        batch: args.batch,
        heads: args.heads,
        kv_heads: args.kv_heads.unwrap_or(args.heads),
        queries: args.queries.unwrap_or(args.tokens),
        keys: args.keys.unwrap_or(args.tokens),
        head_dim: args.head_dim,
        causal: args.causal,
        window: args.window,
        backward: args.backward,
        dtype: args.dtype,
        device: resolve(args.device, screen)?,
        peers: args.peer.clone(),
    };
    show(&bench, screen, attention::run)
}

fn decode(args: &BenchDecodeArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    let bench = DecodeBench {
        batch: args.batch,
        heads: args.heads,
        kv_heads: args.kv_heads,
        tokens: args.tokens,
        head_dim: args.head_dim,
        paged: args.paged,
        formats: args.format.clone(),
        device: resolve(args.device, screen)?,
    };
    show(&bench, screen, decode::run)
}

fn linear(args: &BenchLinearArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    let bench = LinearBench {
        m: args.m,
        n: args.n,
        k: args.k,
        format: args.format,
        granularity: args.granularity,
        dtype: args.dtype,
        activations: args.activations,
        device: resolve(args.device, screen)?,
        peer_torch: args.peer == Some(BenchPeer::Torch),
    };
    show(&bench, screen, linear::run)
}

fn moe(args: &BenchMoeArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    let device = resolve(args.device, screen)?;
    if args.top_k > args.experts {
        let (most, got) = (args.experts, args.top_k);
        let message = format!("--top-k: expected at most {most} (--experts), got {got}");
        return Err(CliError::usage(message, None));
    }
    let inter = args.inter.or_else(|| args.hidden.checked_mul(4));
    let too_large = || format!("--hidden: {} is too large", args.hidden);
    let bench = MoeBench {
        hidden: args.hidden,
        inter: inter.ok_or_else(|| CliError::usage(too_large(), None))?,
        experts: args.experts,
        top_k: args.top_k,
        batch: args.batch,
        seq: args.seq,
        dtype: args.dtype,
        gated: args.gated,
        device,
        peer_torch: args.peer == Some(BenchPeer::Torch),
    };
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
