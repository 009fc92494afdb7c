//! `validate`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use moebius_benches::options::positive;
use moebius_device::Device;

use crate::certificate::Section;

/// `validate`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_help = VALIDATE_EXAMPLES)]
pub(crate) struct ValidateArgs {
    /// What to do other than to make a certificate.
    #[command(subcommand)]
    pub(crate) what: Option<ValidateCommand>,
    #[command(flatten)]
    pub(crate) of: AnswerArgs,
    /// Parts of the certificate, a list with commas [default: cases, and model where one is named].
    #[arg(long, value_name = "P,P…", value_delimiter = ',')]
    pub(crate) parts: Vec<Section>,
    /// Folder with case files in place of the bundled cases.
    #[arg(long, value_name = "DIR")]
    pub(crate) cases: Option<PathBuf>,
    /// Folder with drivers of cards in software, which run beside the devices, or with the project's build of them (target/debug).
    #[arg(long, value_name = "DIR")]
    pub(crate) emulated: Option<PathBuf>,
    /// Folder for report.json, report.md and report.html; made where it is missing.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Certify this process's devices and write no files; `validate` starts itself so.
    #[arg(long, hide = true)]
    pub(crate) here: bool,
}

/// What `validate` does with certificates and devices beside making a certificate.
#[derive(Debug, Subcommand)]
pub(crate) enum ValidateCommand {
    /// Unite the certificates of several machines in one table
    ///
    /// They must be of the same program, and of the same model, text and cases where both have them.
    #[command(verbatim_doc_comment)]
    Merge(ValidateMergeArgs),
    /// Name the part of a model where devices part from the first, without a reference.
    Compare(ValidateCompareArgs),
    /// Write what the model inside this program should compute, with which the demo page compares.
    Reference(ValidateReferenceArgs),
}

/// Devices, and what they compute.
#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    /// Folder with config.json, safetensors and tokenizer.json, a GGUF file, or ORG/NAME[:FILE] in the cache (`moebius fetch`).
    #[arg(long, value_name = "DIR|FILE.gguf|ORG/NAME")]
    pub(crate) model: Option<PathBuf>,
    /// Take the small model inside this program.
    #[arg(long, conflicts_with = "model")]
    pub(crate) bundled: bool,
    /// Devices, the first of which others are compared with, such as flex,wgpu,cuda:1; `all` are those of this machine.
    #[arg(long, value_name = "D,D…|all", default_value = "all", value_parser = devices)]
    pub(crate) devices: Devices,
    /// Text that the model reads [default: a short text].
    #[arg(long, value_name = "TEXT")]
    pub(crate) tokens: Option<String>,
    /// Compute the model as `generate --exact` does, and take a device for one that differs where its bits aren't those of the first.
    #[arg(long)]
    pub(crate) exact: bool,
}

/// `validate merge`.
#[derive(Debug, Args)]
pub(crate) struct ValidateMergeArgs {
    /// Certificates: files report.json of `moebius validate`.
    #[arg(required = true, num_args = 2.., value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Folder for report.json, report.md and report.html; made where it is missing.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

/// `validate compare`.
#[derive(Debug, Args)]
pub(crate) struct ValidateCompareArgs {
    #[command(flatten)]
    pub(crate) of: AnswerArgs,
    /// Show every part of every layer.
    #[arg(long)]
    pub(crate) per_layer: bool,
    /// Show so many values of the first part in which a device parts from the first one, those that are the furthest apart.
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) trace: Option<usize>,
}

/// `validate reference`.
#[derive(Debug, Args)]
pub(crate) struct ValidateReferenceArgs {
    /// File in safetensors, which is replaced where it is there.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// Which devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Devices {
    /// All of this machine that can be opened.
    All,
    /// These.
    Named(Vec<Device>),
}

fn devices(text: &str) -> Result<Devices, String> {
    if text == "all" {
        return Ok(Devices::All);
    }
    let named = text.split(',').map(|name| name.trim().parse::<Device>());
    let named = named.collect::<Result<Vec<_>, _>>();
    named.map(Devices::Named).map_err(|error| error.to_string())
}

const VALIDATE_EXAMPLES: &str = "\
Examples:
  moebius validate                                   the bundled cases on every device here
  moebius validate --bundled --out certificate       and the model inside this program, part by part
  moebius validate --parts cases,demos,bench         and the demos, and benchmarks that are verified and timed
  moebius validate --bundled --parts model,training  and whether training equals inference
  moebius validate --model SmolLM2 --devices flex,wgpu --out here
  moebius validate --bundled --devices flex,cpu,wgpu --exact    the same bits, layer by layer
  moebius validate --emulated target/debug           and NVIDIA's and AMD's cards in software
  moebius validate merge here/report.json there/report.json --out both
  moebius validate compare --model OLMoE --devices cpu,cuda:0 --per-layer --trace 8

The reference is a plain decoder in f64 on one core of the processor: it takes its time with large models and long texts.
Exit codes: 0 the same answer everywhere, 1 a device differs, 2 a device failed, or nothing could be judged.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_named_or_all() {
        assert_eq!(devices("all"), Ok(Devices::All));
        let named = vec![Device::Flex, Device::Wgpu(Some(1))];
        assert_eq!(devices("flex, wgpu:1"), Ok(Devices::Named(named)));
        for text in ["", "flex,", "gpu7", "all,flex"] {
            assert!(devices(text).is_err(), "{text}");
        }
    }
}
