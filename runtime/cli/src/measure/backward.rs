//! `bench moe --backward`.

use moebius::moe::Keep;
use moebius_benches::FLOPS_OF_FORWARD;
use moebius_benches::moe::MoeBench;
use moebius_benches::moe::backward::{BackwardReport, TrainingRun};
use serde_json::Value;

use super::{
    Measured, bound, judged, layer, memory, moe_workload, peer, place, without_unverified,
};
use crate::devices::bytes;
use crate::error::CliError;
use crate::screen::Screen;
use crate::table::Table;

impl Measured for BackwardReport {
    type Bench = MoeBench;

    fn workload(bench: &MoeBench) -> Value {
        moe_workload("moe, both ways", bench)
    }

    fn verified(&self) -> bool {
        self.runs.iter().all(|run| run.checked.verified)
    }

    fn figures(&self) -> Result<Value, CliError> {
        let mut value = serde_json::to_value(self)?;
        for run in value["runs"].as_array_mut().into_iter().flatten() {
            *run = without_unverified(run.take(), &["keep", "verified", "max_rel_l2"]);
        }
        Ok(value)
    }

    fn print(&self, bench: &MoeBench, screen: &mut Screen) -> Result<(), CliError> {
        let place = place(&self.ran);
        let layer = layer(bench);
        screen.heading(&format!("{layer} · forward and backward · {place}"))?;
        let headings = [
            "keeps", "kept", "forward", "both", "GFLOP/s", "of peak", "floor", "tokens/s",
            "memory", "",
        ];
        let mut table = Table::new(&headings).right(&[1, 2, 3, 4, 5, 6, 7, 8]);
        for run in &self.runs {
            judged(
                &mut table,
                name(run.keep).to_owned(),
                &run.checked,
                |name| row(name, run),
            );
        }
        table.print(screen)?;
        screen.line(&format!(
            "  GFLOP/s count {FLOPS_OF_FORWARD} × the forward's products, not what is computed again · peak {:.1}, {}",
            self.ceilings.peak_gflops, self.ceilings.peak_of,
        ))?;
        memory(self.ceilings.memory.as_ref(), screen)?;
        let verified = self.runs.iter().filter(|run| run.checked.verified);
        for (run, figures) in verified.filter_map(|run| Some((run, run.peer.as_ref()?))) {
            screen.line(&format!("  {}:", name(run.keep)))?;
            peer(figures, screen)?;
        }
        Ok(())
    }
}

fn row(name: String, run: &TrainingRun) -> [String; 10] {
    [
        name,
        run.kept_bytes.map_or("–".to_owned(), bytes),
        format!("{:.2} ms", run.forward_ms),
        format!("{:.2} ms", run.speed.median_ms),
        format!("{:.1}", run.speed.gflops),
        format!("{:.0} %", 100.0 * run.reached.peak_share),
        bound(run.reached.floor.as_ref()),
        format!("{:.0}", run.tokens_per_s),
        run.device_bytes.map_or("–".to_owned(), bytes),
        format!("verified to {:.1e}", run.checked.max_rel_l2),
    ]
}

fn name(keep: Keep) -> &'static str {
    match keep {
        Keep::FirstProduct => "first product",
        Keep::Inputs => "inputs",
    }
}
