//! How many tokens each expert got, where it was asked for.

use anstyle::Style;
use moebius_model::load::ModelFiles;
use moebius_model::{ExpertLoad, LayerTokens};

use crate::error::CliError;
use crate::screen::Screen;
use crate::table::Table;

/// Experts in a row of the table.
const ACROSS: usize = 16;

/// What counts the tokens of experts, where that is asked for.
pub(crate) fn counted(asked: bool, files: &ModelFiles) -> Result<Option<ExpertLoad>, CliError> {
    if !asked {
        return Ok(None);
    }
    let load = ExpertLoad::of(files.spec());
    let load = load.ok_or_else(|| {
        let message = format!("--experts: this {} model has no experts", files.family());
        CliError::usage(message, None)
    })?;
    Ok(Some(load))
}

/// A row for each layer, or several where it has many experts.
pub(crate) fn show_experts(layers: &[LayerTokens], screen: &mut Screen) -> Result<(), CliError> {
    screen.line("")?;
    let headings = ["layer", "experts", "busiest", "tokens of each expert"];
    let mut table = Table::new(&headings).right(&[0, 2]);
    for LayerTokens { layer, tokens } in layers {
        let all: u64 = tokens.iter().sum();
        let most = tokens.iter().copied().max().unwrap_or(0);
        let width = most.to_string().len();
        for (row, tokens) in tokens.chunks(ACROSS).enumerate() {
            let first = row * ACROSS;
            let figures = tokens.iter().map(|count| format!("{count:width$}"));
            let busiest = 100.0 * most as f64 / all.max(1) as f64;
            let cells = [
                layer.to_string(),
                format!("{first}–{}", first + tokens.len() - 1),
                format!("{busiest:.1} %"),
                figures.collect::<Vec<_>>().join("  "),
            ];
            table.row(cells, Style::new());
        }
    }
    table.print(screen)
}
