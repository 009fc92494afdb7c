//! `bench moe --compare-fine`.

use moebius_benches::moe::fine::{self, FineReport, TARGET_OVERHEAD, TARGET_RATIO};
use moebius_benches::moe::{MoeBench, MoeReport};
use serde_json::{Value, json};

use super::{Measured, batch, bound, judged, memory, moe_workload, place};
use crate::error::CliError;
use crate::screen::Screen;
use crate::table::Table;

impl Measured for FineReport {
    type Bench = MoeBench;

    fn workload(bench: &MoeBench) -> Value {
        let mut workload = moe_workload("moe, few and many experts", bench);
        // The two layers have their own.
        for own in ["inter", "experts", "top_k"] {
            workload[own] = Value::Null;
        }
        workload
    }

    fn verified(&self) -> bool {
        self.coarse.verified() && self.fine.verified()
    }

    fn figures(&self) -> Result<Value, CliError> {
        Ok(json!({
            "coarse": self.coarse.figures()?,
            "fine": self.fine.figures()?,
            "tokens_ratio": self.verified().then_some(self.tokens_ratio),
        }))
    }

    fn print(&self, bench: &MoeBench, screen: &mut Screen) -> Result<(), CliError> {
        screen.heading(&format!(
            "MoE {} · few large experts and many small ones, equal FLOPs · {} · {}",
            bench.hidden,
            batch(bench),
            place(&self.fine.forward.ran),
        ))?;
        let headings = [
            "experts",
            "time",
            "GFLOP/s",
            "floor",
            "tokens/s",
            "router, sort, combine",
            "",
        ];
        let mut table = Table::new(&headings).right(&[1, 2, 3, 4, 5]);
        let layers = fine::layers(bench)?;
        for (layer, report) in layers.iter().zip([&self.coarse, &self.fine]) {
            let experts = format!(
                "top-{} of {} × {}",
                layer.top_k,
                layer.experts,
                layer.inter()
            );
            judged(&mut table, experts, &report.forward.checked, |experts| {
                row(experts, report)
            });
        }
        table.print(screen)?;
        if !self.verified() {
            return Ok(());
        }
        memory(self.fine.forward.ceilings.memory.as_ref(), screen)?;
        screen.line(&format!(
            "  many small experts run at {:.2} × the speed of few large ones (target {TARGET_RATIO}); \
             router, sort and combine: target {:.0} % at hidden 1024",
            self.tokens_ratio,
            100.0 * TARGET_OVERHEAD,
        ))
    }
}

fn row(experts: String, report: &MoeReport) -> [String; 7] {
    let forward = &report.forward;
    [
        experts,
        format!("{:.2} ms", forward.speed.median_ms),
        format!("{:.1}", forward.speed.gflops),
        bound(forward.reached.floor.as_ref()),
        format!("{:.0}", report.tokens_per_s),
        format!("{:.1} %", 100.0 * report.overhead_share),
        format!("verified to {:.1e}", forward.checked.max_rel_l2),
    ]
}
