//! `moebius upcycle`.

use moebius_model::load::ModelFiles;
use moebius_model::{Upcycling, upcycle};
use serde_json::json;

use crate::args::UpcycleArgs;
use crate::error::CliError;
use crate::screen::{Outcome, Screen};

/// Runs `moebius upcycle`.
pub(crate) fn run(args: &UpcycleArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    let files = ModelFiles::open(&args.model)?;
    let experts = args.experts;
    let how = if args.split {
        Upcycling::Split { experts }
    } else {
        Upcycling::Copies {
            experts,
            top_k: args.top_k.unwrap_or(2),
            seed: args.seed,
        }
    };
    let made = upcycle(&files, how, &args.out)?;
    let [before, after] = [files.spec(), &made.spec].map(|spec| spec.parameters());
    let active = made.spec.active_parameters();
    screen.line(&format!(
        "{} with {:.1} million weights became a mixture of {experts} experts in each layer: {:.1} million, of which a token is multiplied with {:.1} · {}",
        files.family(),
        before / 1e6,
        after / 1e6,
        active / 1e6,
        made.folder.display(),
    ))?;
    screen.object(&json!({
        "model": args.model.display().to_string(),
        "out": made.folder.display().to_string(),
        "family": files.family(),
        "experts": experts,
        "parameters_before": before,
        "parameters": after,
        "active_parameters": active,
    }))?;
    Ok(Outcome::Good)
}
