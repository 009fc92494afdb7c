//! `moebius verify`.

use moebius_cases::CaseFile;
use moebius_device::Device;

use crate::args::VerifyArgs;
use crate::error::CliError;
use crate::report::Report;
use crate::resolve::resolve;
use crate::screen::{Outcome, Screen};

/// Runs `moebius verify`.
pub(crate) fn run(args: &VerifyArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    // A named device isn't checked beforehand, since the command itself verifies it.
    let device = match args.device {
        Device::Auto => resolve(Device::Auto, screen)?,
        named => named,
    };
    let opened = moebius::open(&device)?;
    let bar = screen.steps("verify", args.files.len());
    let cases = args
        .files
        .iter()
        .map(|path| (path.display().to_string(), CaseFile::read(path)));
    let report = Report::run((device, &opened), cases, &bar);
    report.print(screen)?;
    screen.object(&report)?;
    for file in &report.files {
        if let Some(error) = &file.error {
            screen.echo_error(&format!("{}: {error}", file.file));
        }
    }
    Ok(report.outcome())
}
