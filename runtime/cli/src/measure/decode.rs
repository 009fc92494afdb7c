//! `bench decode`.

use moebius_benches::decode::{DecodeBench, DecodeReport};
use serde_json::{Value, json};

use super::{Measured, memory, title};
use crate::devices::bytes;
use crate::error::CliError;
use crate::screen::Screen;

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
