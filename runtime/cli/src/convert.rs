//! `moebius convert`, `moebius upcycle` and `moebius merge`: make a checkpoint from another.

use moebius::fp8::Quantizer;
use moebius_model::load::ModelFiles;
use moebius_model::{Adapter, Beside, Upcycling, check_target, save};
use moebius_ops::scaling::Fp8Scheme;
use moebius_weights::{
    ConvertOptions, ConvertReport, ConvertedLayer, Reader, Unscaled, host_quantizer,
};
use serde_json::{Value, json};

use crate::args::{ConvertArgs, ConvertTo, MergeArgs, UpcycleArgs};
use crate::devices::bytes;
use crate::error::CliError;
use crate::hub::located;
use crate::screen::{BAD, DIM, GOOD, Outcome, Screen, Table, one_line};
use crate::to_gguf::to_gguf;

/// Runs `moebius convert`.
pub(crate) fn convert(args: &ConvertArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    if let ConvertTo::Gguf(types) = args.to {
        return to_gguf(args, types, screen);
    }
    let options = options(args);
    let quantizer = Quantizer::from(options.scheme).with_scales(args.scales);
    quantizer.validate().map_err(moebius::Error::from)?;
    let source = Reader::open(&located(&args.model)?)?;
    let title = format!(
        "Converting {} to {} · {}",
        args.model.display(),
        args.out.display(),
        options.scheme
    );
    screen.heading(&title)?;
    let bar = screen.steps("tensors", source.tensors().count());
    let mut quantize = host_quantizer(quantizer);
    let mut say = |name: &str, number: usize, _of: usize| {
        bar.set_message(one_line(name));
        bar.inc(u64::from(number > 0));
    };
    let report = moebius_weights::convert(&source, &args.out, &options, &mut quantize, &mut say);
    bar.finish_and_clear();
    result(args, &options, &report?, screen)
}

fn options(args: &ConvertArgs) -> ConvertOptions {
    let mut options = ConvertOptions::new(Fp8Scheme {
        format: args.format,
        granularity: args.granularity,
    });
    if args.no_default_skips {
        options.skip.clear();
    }
    options.skip.extend(args.skip.iter().cloned());
    if args.assume_scale_one {
        options.unscaled = Unscaled::AssumeOne;
    }
    options.shard_bytes = Some(args.shard_bytes);
    options
}

fn result(
    args: &ConvertArgs,
    options: &ConvertOptions,
    report: &ConvertReport,
    screen: &mut Screen,
) -> Result<Outcome, CliError> {
    let sound = |layer: &ConvertedLayer| layer.non_finite == 0;
    let good = !report.layers.is_empty() && report.layers.iter().all(sound);
    if !report.layers.is_empty() {
        layers(&report.layers, screen)?;
    }
    let ratio = report.bytes_after as f64 / report.bytes_before.max(1) as f64;
    let (style, count) = match report.layers.len() {
        0 => (BAD, "no weight in FP8".to_owned()),
        1 => (GOOD, "1 weight in FP8".to_owned()),
        n => (GOOD, format!("{n} weights in FP8")),
    };
    screen.line(&format!(
        "\n  {}, {} tensors copied · {} to {} ({ratio:.2} of it)",
        screen.paint(style, &count),
        report.copied_tensors,
        bytes(report.bytes_before),
        bytes(report.bytes_after),
    ))?;
    if let Some(worst) = worst(&report.layers) {
        let percent = 100.0 * worst.relative_rms;
        screen.line(&format!("  largest error {percent:.2} % in {}", worst.name))?;
    }
    if !report.left_out.is_empty() {
        let names = report.left_out.join(", ");
        screen.line(&screen.paint(DIM, &format!("  left out: {names}")))?;
    }
    let mut object = json!({
        "model": args.model,
        "out": args.out,
        "format": options.scheme.format,
        "granularity": options.scheme.granularity,
        "scales": args.scales,
        "skip": options.skip,
    });
    if let (Value::Object(object), Value::Object(more)) = (&mut object, json!(report)) {
        object.extend(more);
    }
    screen.object(&object)?;
    Ok(Outcome::of(good))
}

/// The converted layer with the largest relative error.
fn worst(layers: &[ConvertedLayer]) -> Option<&ConvertedLayer> {
    let error = |layer: &ConvertedLayer| layer.relative_rms;
    layers.iter().max_by(|a, b| error(a).total_cmp(&error(b)))
}

fn layers(layers: &[ConvertedLayer], screen: &mut Screen) -> Result<(), CliError> {
    screen.line("")?;
    let headings = "weight | shape | from | before | after | error, % | largest | values";
    let mut table = Table::new(headings).right(&[3, 4, 5, 6]);
    for layer in layers {
        let shape: Vec<String> = layer.shape.iter().map(usize::to_string).collect();
        let (style, values) = match layer.non_finite {
            0 => (GOOD, "finite".to_owned()),
            n => (BAD, format!("{n} are NaN or infinite")),
        };
        let cells = [
            layer.name.clone(),
            shape.join(" x "),
            layer.from.clone(),
            bytes(layer.bytes_before),
            bytes(layer.bytes_after),
            format!("{:.2}", 100.0 * layer.relative_rms),
            format!("{:.1e}", layer.max_abs),
            values,
        ];
        table.row(cells, style);
    }
    table.print(screen)
}

/// Runs `moebius upcycle`.
pub(crate) fn upcycle(args: &UpcycleArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    let files = ModelFiles::open(&located(&args.model)?)?;
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
    let made = moebius_model::upcycle(&files, how, &args.out)?;
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

/// Runs `moebius merge`.
pub(crate) fn merge(args: &MergeArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    check_target(&args.out)?;
    let adapter = Adapter::read(&args.adapter)?;
    let files = ModelFiles::open(&located(&args.model)?)?.with_adapter(&adapter)?;
    let config = files.config().ok_or_else(|| {
        let message = format!("{}: expected a config.json", args.model.display());
        CliError::usage(message, None)
    })?;
    let beside = Beside {
        folder: files.reader().and_then(Reader::folder),
        files: &[],
    };
    let folder = save(&mut files.values(), &config, beside, &args.out)?;
    let modules = adapter.modules.len();
    screen.line(&format!(
        "{} with {modules} changed matrices: {}",
        files.family(),
        folder.display(),
    ))?;
    screen.object(&json!({
        "model": args.model.display().to_string(),
        "adapter": args.adapter.display().to_string(),
        "out": folder.display().to_string(),
        "family": files.family(),
        "modules": modules,
    }))?;
    Ok(Outcome::Good)
}
