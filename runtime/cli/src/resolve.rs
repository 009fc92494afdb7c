//! Chooses the device that a command works on, and opens it.

use moebius::discover;
use moebius_device::{Device, Work, probe};

use crate::args::DeviceArgs;
use crate::bundled;
use crate::error::CliError;
use crate::report::Report;
use crate::screen::Screen;
use crate::trace;
use crate::trust::{Trust, Verdict};

/// Calls [`resolve_for`] for unspecified work.
pub(crate) fn resolve(requested: Device, screen: &Screen) -> Result<Device, CliError> {
    resolve_for(Work::default(), requested, screen)
}

/// Replaces `auto` by a device; returns any other device unchanged. A GPU that hasn't run these kernels yet is checked first;
/// messages about it go to standard error.
fn resolve_for(work: Work, requested: Device, screen: &Screen) -> Result<Device, CliError> {
    let mut trust = Trust::of_user();
    let mut check = |device: Device| check(device, screen);
    let resolved = match requested {
        Device::Auto => {
            let choice = trust.choose(work, &mut discover(), &mut check);
            choice.map(|choice| choice.device)
        }
        // A device that can't be probed is returned as well; opening it gives the error.
        named => match probe(&named) {
            Ok(capability) => trust
                .verdict(named, &capability, &mut check)
                .map(|verdict| {
                    if let Verdict::Failed(reason) = verdict {
                        screen.note(&format!("{named} computes wrong results: {reason}"));
                    }
                    named
                }),
            Err(_) => Ok(named),
        },
    };
    for line in trust.said() {
        screen.note(&line);
    }
    if let Ok(device) = resolved {
        trace::keep_device(device);
    }
    resolved
}

/// Opens the device that [`resolve_for`] gives, or the devices of a placement from the requested one on, as one device.
pub(crate) fn open_for(
    work: Work,
    DeviceArgs { device, placement }: DeviceArgs,
    screen: &Screen,
) -> Result<(Device, burn::tensor::Device), CliError> {
    if let Some(placement) = placement.filter(|placement| placement.devices() > 1) {
        return Ok((device, moebius::open_placed(&device, placement)?));
    }
    let name = resolve_for(work, device, screen)?;
    Ok((name, moebius::open(&name)?))
}

/// Runs the bundled cases in the dtypes of `device` and returns the verdict.
fn check(device: Device, screen: &Screen) -> Result<Verdict, CliError> {
    let opened = moebius::open(&device)?;
    let cases = bundled::cases_on(&opened);
    let bar = screen.steps("first use of this device", cases.len());
    let report = Report::run((device, &opened), cases.into_iter(), &bar);
    Ok(match report.first_problem() {
        None => Verdict::Passed,
        Some(problem) => Verdict::Failed(problem),
    })
}
