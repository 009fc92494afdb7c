//! Findings: each is printed on stderr, and appended as a line of JSON to the file that `MOEBIUS_EMULATOR_REPORTS` names.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use crate::driver::launch::Launch;
use crate::driver::memory::buffers;
use crate::driver::{ILLEGAL_ADDRESS, LAUNCH_FAILED, Status};
use crate::grid::Order;
use crate::grid::block::Fault;
use crate::grid::check::{self, Found, What};
use crate::grid::state::{Dim3, Trap};
use crate::settings;

/// A finding about a launch.
pub(crate) struct Finding {
    pub(crate) kernel: String,
    /// The kind of finding: `address`, `race`, `barrier`, `unwritten`, `order`, `arithmetic` or `stacks`.
    pub(crate) what: &'static str,
    pub(crate) text: String,
    /// Lines of the kernel's text with their numbers, from 1.
    pub(crate) lines: Vec<(u32, String)>,
    pub(crate) places: Vec<(Dim3, Dim3)>,
    pub(crate) address: Option<String>,
}

impl Finding {
    /// A finding without lines and places.
    fn new(launch: &Launch, what: &'static str, text: String) -> Finding {
        Finding {
            kernel: launch.function.name.clone(),
            what,
            text,
            lines: Vec::new(),
            places: Vec::new(),
            address: None,
        }
    }

    /// Reports the finding, unless the process has reported one of this kind for the same lines.
    pub(crate) fn tell(&self) {
        static TOLD: Mutex<BTreeSet<(String, &str, Vec<u32>)>> = Mutex::new(BTreeSet::new());
        let lines = self.lines.iter().map(|(line, _)| *line).collect();
        let about = (self.kernel.clone(), self.what, lines);
        let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
        if !told.insert(about) {
            return;
        }
        eprintln!("moebius-emulator: {}: {}", self.kernel, self.text);
        for (line, text) in &self.lines {
            eprintln!("    {line}: {text}");
        }
        let Some(path) = &settings::get().reports else {
            return;
        };
        let added = OpenOptions::new().create(true).append(true).open(path);
        let text = format!("{}\n", self.json());
        if let Err(error) = added.and_then(|mut file| file.write_all(text.as_bytes())) {
            eprintln!("moebius-emulator: {}: {error}", path.display());
        }
    }

    fn json(&self) -> Value {
        let dim = |dim: &Dim3| json!([dim.x, dim.y, dim.z]);
        let lines = self.lines.iter();
        let lines = lines.map(|(line, text)| json!({ "line": line, "text": text }));
        let places = self.places.iter();
        let places =
            places.map(|(block, thread)| json!({ "block": dim(block), "thread": dim(thread) }));
        json!({
            "kernel": self.kernel,
            "what": self.what,
            "message": self.text,
            "lines": lines.collect::<Vec<_>>(),
            "places": places.collect::<Vec<_>>(),
            "address": self.address,
        })
    }
}

/// A line of a kernel's text with its number.
pub(crate) fn line_of(text: &str, line: u32) -> (u32, String) {
    let index = (line as usize).saturating_sub(1);
    let text = text.lines().nth(index).unwrap_or_default();
    (line, text.trim().to_owned())
}

/// Describes an address as a buffer of the card and an offset in it.
pub(crate) fn place_of(address: usize) -> String {
    let buffers = buffers();
    if let Some((start, buffer)) = buffers.around(address) {
        let bytes = buffer.bytes;
        return format!("byte {} of a buffer of {bytes}", address - start);
    }
    let before = buffers.by_address.range(..=address).next_back();
    let near = before.filter(|(start, buffer)| address - **start < buffer.bytes + (1 << 20));
    match near {
        Some((start, buffer)) => format!(
            "{} bytes behind the end of a buffer of {}",
            address - start - buffer.bytes,
            buffer.bytes
        ),
        None => format!("address {address:#x}, in no buffer"),
    }
}

/// Reports the findings of a launch's checks; returns the status that loses the context, if any. Reading bytes that were never
/// written is no fault on a GPU.
pub(crate) fn found(launch: &Launch, all: &[Found]) -> Option<Status> {
    let text = &launch.function.source.text;
    let mut lost = None;
    for found in all {
        let place = if found.shared {
            format!("byte {} of shared memory", found.address)
        } else {
            place_of(found.address)
        };
        let bytes = found.bytes;
        let (what, message) = match found.what {
            What::Outside if buffers().around(found.address).is_some() => (
                "address",
                format!("{bytes} bytes at {place}, outside of what the launch was given"),
            ),
            What::Outside => ("address", format!("{bytes} bytes at {place}")),
            What::Race => ("race", format!("two threads are not ordered at {place}")),
            What::Unwritten => (
                "unwritten",
                format!("reads {bytes} bytes that were never written, at {place}"),
            ),
        };
        let (block, thread) = found.at;
        let sides = [Some((found.site, block, thread)), found.other];
        let mut finding = Finding::new(launch, what, message);
        finding.address = Some(place);
        for (site, block, thread) in sides.into_iter().flatten() {
            let line = check::line(site).map(|line| line_of(text, line));
            finding.lines.extend(line);
            finding.places.push((block, thread));
        }
        finding.tell();
        lost = match found.what {
            What::Outside => Some(ILLEGAL_ADDRESS),
            What::Race => lost.or(Some(LAUNCH_FAILED)),
            What::Unwritten => lost,
        };
    }
    lost.filter(|_| !settings::get().keep_going)
}

/// Reports that two orders left different bits.
pub(crate) fn order(launch: &Launch, first: Order, other: Order, address: usize) -> Option<Status> {
    let place = place_of(address);
    let text = format!("{other:?} leaves other bits than {first:?}, first at {place}");
    let mut finding = Finding::new(launch, "order", text);
    finding.address = Some(place);
    finding.tell();
    (!settings::get().keep_going).then_some(LAUNCH_FAILED)
}

/// Reports a fault; returns the status that loses the context.
pub(crate) fn fault(launch: &Launch, fault: &Fault) -> Status {
    let text = &launch.function.source.text;
    let mut finding = Finding::new(launch, "stacks", String::new());
    match fault {
        Fault::Trap {
            trap,
            block,
            thread,
        } => {
            finding.places.push((*block, *thread));
            let line = check::line(trap.code);
            finding.lines.extend(line.map(|line| line_of(text, line)));
            trapped(&mut finding, trap);
        }
        Fault::Stuck {
            block,
            thread,
            line,
            other,
        } => {
            finding.what = "barrier";
            finding.text = "a barrier is not met by all threads of the block".to_owned();
            finding.places.push((*block, *thread));
            finding.lines.push(line_of(text, *line));
            if let Some((thread, line)) = other {
                finding.places.push((*block, *thread));
                finding.lines.push(line_of(text, *line));
            }
        }
        Fault::Stacks(reason) => finding.text.clone_from(reason),
        // The check has reported this one.
        Fault::Refused => return ILLEGAL_ADDRESS,
    }
    finding.tell();
    match fault {
        Fault::Trap { trap, .. } if trap.signal != libc::SIGFPE => ILLEGAL_ADDRESS,
        _ => LAUNCH_FAILED,
    }
}

fn trapped(finding: &mut Finding, trap: &Trap) {
    if trap.signal == libc::SIGFPE {
        finding.what = "arithmetic";
        finding.text = "an integer is divided by zero".to_owned();
        return;
    }
    let place = place_of(trap.address);
    finding.what = "address";
    finding.text = format!("touches {place}");
    if finding.lines.is_empty() {
        finding
            .text
            .push_str("; with MOEBIUS_EMULATOR_CHECK=1 the report has the line");
    }
    finding.address = Some(place);
}
