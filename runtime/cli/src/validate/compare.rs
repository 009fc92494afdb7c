//! `validate compare`: where devices part from the first, without a reference.

use anstyle::Style;
use moebius_device::Device;
use moebius_model::computation::{Distance, Limits, parting};
use serde_json::json;

use super::model::Work;
use super::values::Pair;
use super::{MODELS, named, pages};
use crate::args::ValidateCompareArgs;
use crate::error::CliError;
use crate::screen::{BAD, GOOD, Outcome, Screen, Table};

/// Runs `moebius validate compare`.
pub(super) fn run(args: &ValidateCompareArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    if args.of.model.is_none() && !args.of.bundled {
        return Err(CliError::usage("no model to compare", Some(MODELS)));
    }
    let (devices, _) = named(&args.of.devices, screen)?;
    let [first, others @ ..] = &devices[..] else {
        return Err(CliError::usage("no device to compare", None));
    };
    if others.is_empty() {
        let message = format!("expected two devices or more, got {first} alone");
        return Err(CliError::usage(message, Some("--devices flex,wgpu")));
    }
    let (work, limits) = (Work::read(&args.of)?, Limits::default());
    let want = work.compute(&moebius::open(first)?, screen)?;
    let (mut outcome, mut found) = (Outcome::Good, Vec::new());
    for device in others {
        let got = work.compute(&moebius::open(device)?, screen)?;
        let distances = Distance::between(&want, &got, limits)?;
        let pair = Pair {
            want: &want,
            got: &got,
            distances: &distances,
            limits,
            is_exact: work.exact,
        };
        if args.per_layer {
            screen.heading(&format!("{device}, compared with {first}"))?;
            table(&distances, limits).print(screen)?;
        }
        let traced = args.trace.and_then(|count| pair.trace(count));
        if let Some(traced) = &traced {
            traced.show((first, device), screen)?;
        }
        let bits = pair.first_bits().map(|at| distances[at].place());
        let (said, of) = verdict(&pair, bits.as_deref(), first);
        let style = if of == Outcome::Good { GOOD } else { BAD };
        let bits_said = match &bits {
            None => "all bits are equal".to_owned(),
            Some(place) => format!("bits differ from {place} on"),
        };
        let said = screen.paint(style, &said);
        screen.line(&format!("{device} {said}; {bits_said}"))?;
        outcome = outcome.max(of);
        found.push(json!({
            "device": device,
            "parting": parting(&distances, limits).map(Distance::place),
            "bits_differ_from": bits,
            "trace": traced,
            "parts": distances,
        }));
    }
    screen.object(&json!({ "first": first, "limits": limits, "others": found }))?;
    Ok(outcome)
}

/// What is said of a device after its name, and how the command ends for it, where bits differ from the part `bits` on.
fn verdict(pair: &Pair<'_>, bits: Option<&str>, first: &Device) -> (String, Outcome) {
    let part = parting(pair.distances, pair.limits);
    let judged = pair.distances.last().map_or(0, |head| head.judged);
    match (part, judged) {
        (Some(part), _) => (
            format!("parts from {first} at {}", part.place()),
            Outcome::Negative,
        ),
        (None, _) if pair.is_exact && bits.is_some() => {
            (format!("has other bits than {first}"), Outcome::Negative)
        }
        (None, 0) => (
            format!("can't be compared with {first}: ties of routers"),
            Outcome::Incomplete,
        ),
        (None, _) => (format!("gives the answer of {first}"), Outcome::Good),
    }
}

/// A table of all parts.
fn table(distances: &[Distance], limits: Limits) -> Table {
    let mut table = Table::new(pages::PARTS).right(&[1, 2, 3]);
    for distance in distances {
        let style = if distance.is_near(limits) {
            Style::new()
        } else {
            BAD
        };
        table.row(pages::part(distance), style);
    }
    table
}
