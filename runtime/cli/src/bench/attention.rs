//! `bench attention` and `bench decode`.

use moebius_benches::FLOPS_OF_FORWARD;
use moebius_benches::attention::{AttentionBench, AttentionReport};
use moebius_benches::decode::{DecodeBench, DecodeReport};
use serde_json::{Value, json};

use super::{Measured, limits, memory, peer, title};
use crate::devices::bytes;
use crate::error::CliError;
use crate::screen::Screen;

impl Measured for AttentionReport {
    type Bench = AttentionBench;

    fn workload(bench: &AttentionBench) -> Value {
        let (queries, keys) = (bench.queries(), bench.keys());
        json!({
            "name": "attention",
            "tokens": queries,
            "keys": (keys != queries).then_some(keys),
            "batch": bench.batch,
            "heads": bench.heads,
            "kv_heads": bench.kv_heads(),
            "head_dim": bench.head_dim,
            "causal": bench.causal,
            "window": bench.window,
            "backward": bench.backward,
            "dtype": bench.dtype.name(),
        })
    }

    fn verified(&self) -> bool {
        self.ours.checked.verified
    }

    fn print(&self, bench: &AttentionBench, screen: &mut Screen) -> Result<(), CliError> {
        let ours = &self.ours;
        if !title(&subject(bench), &ours.ran, &ours.checked, screen)? {
            return Ok(());
        }
        screen.line(&format!(
            "  {:.3} ms · {:.1} GFLOP/s, {:.0} % of the {:.1} measured here ({}) · verified to {:.1e}",
            ours.speed.median_ms,
            ours.speed.gflops,
            100.0 * ours.reached.peak_share,
            ours.ceilings.peak_gflops,
            ours.ceilings.peak_of,
            ours.checked.max_rel_l2,
        ))?;
        let again = if bench.backward {
            format!(", both passes as {FLOPS_OF_FORWARD} × the forward")
        } else {
            String::new()
        };
        screen.line(&format!(
            "  GFLOP/s count {:.1} million pairs of a query and a key that it sees{again}",
            self.pairs as f64 / 1e6,
        ))?;
        let resident = self
            .process_peak_bytes
            .map(|most| (most, "resident at most"));
        limits(ours, resident, "", screen)?;
        self.peers.iter().try_for_each(|of| peer(of, screen))
    }
}

fn subject(bench: &AttentionBench) -> String {
    let (batch, heads, head_dim) = (bench.batch, bench.heads, bench.head_dim);
    let (kv_heads, queries, keys) = (bench.kv_heads(), bench.queries(), bench.keys());
    let sees = match (bench.window, bench.causal) {
        (Some(keys), _) => format!(", the last {keys}"),
        (None, true) => ", causal".to_owned(),
        (None, false) => String::new(),
    };
    let heads = if heads == kv_heads {
        format!("{heads} heads")
    } else {
        format!("{heads} heads, {kv_heads} of keys")
    };
    let passes = if bench.backward {
        " · forward and backward"
    } else {
        ""
    };
    let dtype = bench.dtype.name();
    format!(
        "Attention · {batch} × {heads} of {head_dim} · {queries} queries, {keys} keys{sees} · {dtype}{passes}"
    )
}

impl Measured for DecodeReport {
    type Bench = DecodeBench;

    fn workload(bench: &DecodeBench) -> Value {
        json!({
            "name": "decode",
            "tokens": bench.tokens,
            "batch": bench.batch,
            "heads": bench.heads,
            "kv_heads": bench.kv_heads,
            "head_dim": bench.head_dim,
            "paged": bench.paged,
        })
    }

    fn verified(&self) -> bool {
        self.checked.verified
    }

    fn print(&self, bench: &DecodeBench, screen: &mut Screen) -> Result<(), CliError> {
        let pages = if bench.paged {
            "pages of 16"
        } else {
            "contiguous"
        };
        let subject = format!(
            "Decode · {} × {} heads of {}, {} of keys · {} tokens, {pages}",
            bench.batch, bench.heads, bench.head_dim, bench.kv_heads, bench.tokens,
        );
        if !title(&subject, &self.ran, &self.checked, screen)? {
            return Ok(());
        }
        for row in &self.formats {
            let share = row
                .read_share
                .map(|share| format!(", {:.0} % of what it reads", 100.0 * share));
            screen.line(&format!(
                "  {:<5} {:.3} ms · {} at {:.1} GB/s{}",
                row.format,
                row.median_ms,
                bytes(row.bytes),
                row.gb_per_s,
                share.unwrap_or_default(),
            ))?;
        }
        memory(self.memory.as_ref(), screen)
    }
}
