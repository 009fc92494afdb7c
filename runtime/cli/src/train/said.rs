//! What a training says, of either kind.

use anstyle::Style;
use moebius_model::{Fp8Report, LayerLoad, Report};

use crate::error::CliError;
use crate::screen::{BAD, Screen};
use crate::table::Table;

/// One report, in lines or as an object; `unit` is what one token is called.
pub(super) fn say(report: &Report, unit: &str, screen: &mut Screen) -> Result<(), CliError> {
    let used: Vec<String> = report
        .layers
        .iter()
        .map(|layer| format!("{}/{}", layer.used(), layer.counts.len()))
        .collect();
    // Of a model without experts there is nothing to say.
    let used = if used.is_empty() {
        String::new()
    } else {
        format!("  experts used {}", used.join(" "))
    };
    screen.line(&format!(
        "  step {:>5}  loss {:.3}  rate {:.1e}  {:>7.0} {unit}s/s{used}",
        report.step, report.loss, report.learning_rate, report.tokens_per_s,
    ))?;
    if let Some(fp8) = &report.fp8 {
        say_fp8(fp8, screen)?;
    }
    screen.object(report)
}

fn say_fp8(fp8: &Fp8Report, screen: &mut Screen) -> Result<(), CliError> {
    let loss = &fp8.loss_scale;
    let scales = match fp8.scales {
        0 => String::new(),
        all => format!(
            "  never saturated {}/{all} scales, {} steps in all",
            fp8.never_saturated, fp8.saturated
        ),
    };
    screen.line(&format!(
        "              loss scale {}  skipped steps {}{scales}",
        loss.scale, loss.skipped_steps
    ))
}

/// How the last report's tokens were shared out.
pub(super) fn loads(layers: &[LayerLoad], screen: &mut Screen) -> Result<(), CliError> {
    screen.line("")?;
    let headings = ["layer", "variation", "dropped", "slots of each expert, %"];
    let mut table = Table::new(&headings).right(&[1, 2]);
    for (index, layer) in layers.iter().enumerate() {
        let shares: Vec<String> = layer
            .utilization
            .iter()
            .map(|share| format!("{:.1}", 100.0 * share))
            .collect();
        let unused = layer.used() < layer.counts.len();
        let cells = [
            index.to_string(),
            layer
                .coefficient_of_variation
                .map_or_else(|| "–".to_owned(), |variation| format!("{variation:.2}")),
            layer.dropped.to_string(),
            shares.join(" "),
        ];
        table.row(cells, if unused { BAD } else { Style::new() });
    }
    table.print(screen)
}
