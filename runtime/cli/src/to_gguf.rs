//! `moebius convert --to gguf:TYPE`: a published model becomes a GGUF file.

use std::collections::BTreeMap;
use std::fs;

use moebius::fp8::{Fp8Format, Granularity, ScaleRule};
use moebius_model::load::ModelFiles;
use moebius_model::{GgufOptions, GgufReport, GgufTypes, save_gguf};
use moebius_text::{ChatTemplate, Files};
use moebius_weights::SHARD_BYTES;
use moebius_weights::folder::model_at;
use serde_json::json;

use crate::args::ConvertArgs;
use crate::devices::bytes;
use crate::error::CliError;
use crate::hub::located;
use crate::published::{of_another_type, shown};
use crate::screen::{DIM, GOOD, Outcome, Screen, Table};

/// Writes the model as a GGUF file with matrices of these types.
pub(crate) fn to_gguf(
    args: &ConvertArgs,
    types: GgufTypes,
    screen: &mut Screen,
) -> Result<Outcome, CliError> {
    refuse_others(args, types)?;
    let place = model_at(&located(&args.model)?)?;
    let files = ModelFiles::at(&place)?;
    let Some(reader) = files.reader() else {
        let message = "--model: expected a folder with config.json, got a GGUF file";
        let hint = "llama.cpp's llama-quantize changes the type of a GGUF file";
        return Err(CliError::usage(message, Some(hint)));
    };
    let before = reader.file_bytes();
    let beside = Files::in_folder(&place);
    let vocabulary = beside.gguf_vocabulary(files.spec().vocabulary)?;
    let template = ChatTemplate::text_in(&beside)?;
    let options = GgufOptions {
        types,
        vocabulary: Some(&vocabulary),
        chat_template: template.as_deref(),
    };
    let (model, out) = (args.model.display(), args.out.display());
    let name = types.name();
    screen.heading(&format!("Converting {model} to {out} · GGUF {name}"))?;
    let report = shown(screen, |progress| {
        save_gguf(&files, options, &args.out, progress)
    })?;
    let about = fs::metadata(&args.out).map_err(CliError::read(&out))?;
    told(args, (name, &report), [before, about.len()], screen)
}

/// Refuses what only conversions to FP8 take.
fn refuse_others(args: &ConvertArgs, types: GgufTypes) -> Result<(), CliError> {
    let block = Granularity::Block {
        rows: 128,
        columns: 128,
    };
    let given = [
        ("--format", args.format != Fp8Format::E4M3),
        ("--granularity", args.granularity != block),
        ("--scales", args.scales != ScaleRule::Largest),
        ("--skip", !args.skip.is_empty()),
        ("--no-default-skips", args.no_default_skips),
        ("--assume-scale-one", args.assume_scale_one),
        ("--shard-bytes", args.shard_bytes != SHARD_BYTES),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        Some((flag, _)) => {
            let message = format!("{flag}: expected --to fp8, got --to gguf:{}", types.name());
            let hint = "a GGUF file is one file, and its type says how values are stored";
            Err(CliError::usage(message, Some(hint)))
        }
        None => Ok(()),
    }
}

fn told(
    args: &ConvertArgs,
    (name, report): (&str, &GgufReport),
    [before, after]: [u64; 2],
    screen: &mut Screen,
) -> Result<Outcome, CliError> {
    types(report, screen)?;
    let ratio = after as f64 / before.max(1) as f64;
    let count = format!("{} tensors", report.tensors.len());
    screen.line(&format!(
        "\n  {} of the architecture {} · {} to {} ({ratio:.2} of it)",
        screen.paint(GOOD, &count),
        report.architecture,
        bytes(before),
        bytes(after),
    ))?;
    if let Some(said) = of_another_type(&report.other_type, name) {
        screen.line(&format!("  {said}"))?;
    }
    if let Some(note) = &report.note {
        screen.line(&screen.paint(DIM, &format!("  {note}")))?;
    }
    let tensors = report.tensors.iter().map(|of| {
        json!({
            "name": of.spec.name,
            "type": of.spec.kind.name(),
            "shape": of.spec.shape,
            "bytes": of.bytes,
            "relative_rms": of.relative_rms,
        })
    });
    screen.object(&json!({
        "model": args.model,
        "out": args.out,
        "to": format!("gguf:{name}"),
        "architecture": report.architecture,
        "tensors": tensors.collect::<Vec<_>>(),
        "other_type": report.other_type,
        "note": report.note,
        "bytes_before": before,
        "bytes_after": after,
    }))?;
    Ok(Outcome::Good)
}

/// Shows a row for each type: how many tensors have it, their bytes, and the largest error of one.
fn types(report: &GgufReport, screen: &mut Screen) -> Result<(), CliError> {
    screen.line("")?;
    let mut rows: BTreeMap<&str, (usize, u64, f64)> = BTreeMap::new();
    for of in &report.tensors {
        let row = rows.entry(of.spec.kind.name()).or_default();
        *row = (row.0 + 1, row.1 + of.bytes, row.2.max(of.relative_rms));
    }
    let mut table = Table::new("type | tensors | bytes | largest error, %").right(&[1, 2, 3]);
    for (name, (count, size, error)) in rows {
        let cells = [
            name.to_owned(),
            count.to_string(),
            bytes(size),
            format!("{:.2}", 100.0 * error),
        ];
        table.row(cells, GOOD);
    }
    table.print(screen)
}
