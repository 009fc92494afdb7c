//! `moebius devices`.

use anstyle::Style;
use moebius::discover;
use moebius_device::{Capability, Choice, Device, Found, OpenError, Runtime, choose};
use serde::Serialize;

use crate::error::CliError;
use crate::screen::{DIM, GOOD, HEADING, Outcome, Screen, Table};
use crate::trust::{Known, Trust, Verdict};

/// Devices that were found and the choice of `auto`; the JSON object of `devices --json`.
#[derive(Debug, Serialize)]
pub(crate) struct Survey {
    /// Every device, usable or not.
    pub(crate) devices: Vec<Entry>,
    /// The choice of `auto`; `None` if no device can be used.
    pub(crate) auto: Option<Device>,
    /// Reason for the choice, or why there is none.
    pub(crate) reason: String,
}

/// A device of the survey.
#[derive(Debug, Serialize)]
pub(crate) struct Entry {
    /// Name of the device on the command line.
    pub(crate) device: Device,
    /// Whether the device can be opened.
    pub(crate) available: bool,
    /// Whether `auto` chooses the device.
    pub(crate) auto: bool,
    /// Result of the bundled cases on a GPU: `passed`, `unchecked`, or what fails. `None` for devices that need no check.
    pub(crate) verdict: Option<String>,
    /// Capability of the device, if it can be opened.
    pub(crate) capability: Option<Capability>,
    /// Why the device cannot be opened.
    pub(crate) error: Option<String>,
}

impl Survey {
    /// Asks every driver of this build for its devices.
    pub(crate) fn take() -> Self {
        let (trust, found) = (Trust::of_user(), discover());
        let mut marked = found.clone();
        trust.mark(&mut marked);
        Self::new(found, choose(&marked), &trust)
    }

    fn new(found: Vec<Found>, choice: Result<Choice, OpenError>, trust: &Trust) -> Self {
        let (chosen, reason) = match choice {
            Ok(Choice { device, reason, .. }) => (Some(device), reason),
            Err(e) => (None, e.to_string()),
        };
        let entry = |Found { device, status }: Found| {
            let known = status.as_ref().ok();
            let known = known.map(|capability| trust.known(device, capability));
            let error = status.as_ref().err().map(ToString::to_string);
            Entry {
                device,
                available: status.is_ok(),
                auto: Some(device) == chosen,
                verdict: match known {
                    None | Some(Known::Trusted) => None,
                    Some(Known::Unchecked) => Some("unchecked".to_owned()),
                    Some(Known::Checked(Verdict::Passed)) => Some("passed".to_owned()),
                    Some(Known::Checked(Verdict::Failed(reason))) => Some(reason),
                },
                capability: status.ok(),
                error,
            }
        };
        Self {
            devices: found.into_iter().map(entry).collect(),
            auto: chosen,
            reason,
        }
    }

    /// Writes the table of all devices, and the choice of `auto`.
    pub(crate) fn print(&self, screen: &mut Screen) -> Result<(), CliError> {
        let mut table = Table::new(" | device | name | memory | features").right(&[3]);
        for entry in &self.devices {
            let (mark, device, style) = entry.heading();
            match &entry.capability {
                Some(c) => {
                    let verdict = entry.verdict.as_ref();
                    let verdict = verdict.map(|verdict| format!("; cases: {verdict}"));
                    let features = features(c) + &verdict.unwrap_or_default();
                    table.row([mark, device, c.name.clone(), memory(c), features], style);
                }
                None => {
                    let error = entry.error.clone().unwrap_or_default();
                    table.row([mark, device, "-".to_owned(), String::new(), error], DIM);
                }
            }
        }
        table.print(screen)?;
        screen.line(&format!("\nauto: {}", self.reason))
    }

    /// Writes a line for each device that can be opened, with the choice marked, and the names of the others.
    pub(crate) fn print_available(&self, screen: &mut Screen) -> Result<(), CliError> {
        let title = screen.paint(HEADING, "Devices");
        screen.line(&format!("{title}\n"))?;
        let mut table = Table::new(" | device | name | features");
        let mut missing = Vec::new();
        for entry in &self.devices {
            let Some(capability) = &entry.capability else {
                missing.push(entry.device.to_string());
                continue;
            };
            let (mark, device, style) = entry.heading();
            let cells = [mark, device, capability.name.clone(), features(capability)];
            table.row(cells, style);
        }
        table.print(screen)?;
        if missing.is_empty() {
            return Ok(());
        }
        let missing = missing.join(", ");
        let text = format!("\nnot here: {missing} (`moebius devices` says why)");
        let text = screen.paint(DIM, &text);
        screen.line(&text)
    }
}

impl Entry {
    /// The choice's mark, the device's name, and the style of its row.
    fn heading(&self) -> (String, String, Style) {
        let (mark, style) = if self.auto {
            ("*", GOOD)
        } else {
            ("", Style::new())
        };
        (mark.to_owned(), self.device.to_string(), style)
    }
}

/// Runs `moebius devices`.
pub(crate) fn run(screen: &mut Screen) -> Result<Outcome, CliError> {
    let survey = Survey::take();
    survey.print(screen)?;
    screen.object(&survey)?;
    Ok(Outcome::Good)
}

/// The device's memory, free and in all; `-` if its driver doesn't tell.
pub(crate) fn memory(capability: &Capability) -> String {
    let Some(figures) = capability.memory else {
        return "-".to_owned();
    };
    match figures.free {
        Some(free) => format!("{} of {} free", bytes(free), bytes(figures.total)),
        None if matches!(capability.runtime, Runtime::Wgpu | Runtime::Vulkan) => {
            let total = bytes(figures.total);
            format!("{total}, free unknown without VK_EXT_memory_budget")
        }
        None => bytes(figures.total),
    }
}

/// Names of the device's features that kernels are planned with.
pub(crate) fn features(capability: &Capability) -> String {
    let mut features = Vec::new();
    features.extend(capability.architecture.clone());
    features.extend(capability.cpu_cores.map(|n| format!("{n} cores")));
    features.extend(capability.subgroup.map(|(min, max)| {
        if min == max {
            format!("subgroups {min}")
        } else {
            format!("subgroups {min}-{max}")
        }
    }));
    let flags = [
        (capability.f16, "f16"),
        (capability.bf16, "bf16"),
        (!capability.mma.is_empty(), "mma"),
        (capability.fp8_conversion, "fp8"),
        (capability.fp8_mma, "fp8 mma"),
    ];
    let flags = flags.into_iter().filter(|(has, _)| *has);
    features.extend(flags.map(|(_, name)| name.to_owned()));
    let limit = capability.loop_rounds;
    features.extend(limit.map(|rounds| format!("loops end after {rounds} rounds")));
    if features.is_empty() {
        "baseline".to_owned()
    } else {
        features.join(", ")
    }
}

/// The operating system and the architecture that the program is built for.
pub(crate) fn system() -> String {
    format!("{} {}", std::env::consts::OS, std::env::consts::ARCH)
}

/// A number of bytes, in the unit that leaves one to four digits.
pub(crate) fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = n as f64;
    let mut unit = "B";
    for next in UNITS {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    if unit == "B" {
        format!("{n} B")
    } else {
        format!("{value:.1} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use moebius_device::{Capability, MemoryFigures};

    use super::{bytes, memory};

    #[test]
    fn a_driver_that_does_not_tell_what_is_free_is_named_by_what_it_lacks() {
        let told = |free| {
            let figures = MemoryFigures {
                total: 8 << 30,
                free,
            };
            memory(&Capability {
                memory: Some(figures),
                ..Capability::webgpu_default()
            })
        };
        assert_eq!(told(Some(1 << 30)), "1.0 GiB of 8.0 GiB free");
        let unknown = "8.0 GiB, free unknown without VK_EXT_memory_budget";
        assert_eq!(told(None), unknown);
        assert_eq!(memory(&Capability::webgpu_default()), "-");
    }

    #[test]
    fn bytes_are_shown_in_the_largest_unit_below_them() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(80 << 30), "80.0 GiB");
    }
}
