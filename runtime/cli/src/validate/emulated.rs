//! Cards in software: drivers that run the kernels of NVIDIA's and AMD's cards on the processor (`tests/emulator/`), each in a process of its
//! own, since a process has one card and finds its drivers when it starts.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use moebius_device::Device;
use tempfile::TempDir;

use super::machine;
use crate::args::ValidateArgs;
use crate::certificate::{Absent, Certificate, Section, Tested, Verdict};
use crate::child;
use crate::error::CliError;
use crate::screen::Screen;

/// The most time for one card, whose kernels are compiled one by one.
const LONGEST: Duration = Duration::from_secs(2 * 60 * 60);

/// The library that the project builds, which is all of the drivers.
const BUILT: &str = "libmoebius_emulator.so";

/// The names by which programs look for the drivers.
const NAMES: [&str; 5] = [
    "libcuda.so",
    "libcuda.so.1",
    "libnvrtc.so",
    "libamdhip64.so",
    "libhiprtc.so",
];

/// How the drivers end the names of their adapters.
const MARK: &str = "(emulated)";

const HINT: &str = "`cargo build -p moebius-emulator` in the project's tree makes them (Linux; kernels are compiled with g++ or clang), and \
    `--emulated target/debug` takes them from there";

/// A card in software.
struct Card {
    device: Device,
    /// The emulator's name of the card.
    name: &'static str,
    /// The driver by which it is found.
    library: &'static str,
    /// Whether this build has its runtime.
    built: bool,
}

const CARDS: [Card; 2] = [
    Card {
        device: Device::Cuda(Some(0)),
        name: "l4",
        library: NAMES[1],
        built: cfg!(feature = "cuda"),
    },
    Card {
        device: Device::Rocm(Some(0)),
        name: "mi300x",
        library: NAMES[3],
        built: cfg!(feature = "rocm"),
    },
];

/// A folder with drivers.
pub(super) struct Drivers {
    folder: PathBuf,
    /// Removes the folder at its end, where it was made for this process.
    _made: Option<TempDir>,
}

impl Drivers {
    /// Finds the drivers in a folder, or the library of the project's build, which gets a folder with the drivers' names.
    ///
    /// # Errors
    /// [`CliError::Usage`] for a folder without them and for a build without the cards' runtimes, and [`CliError::WriteFile`] where no folder
    /// can be made.
    pub(super) fn find(folder: &Path) -> Result<Self, CliError> {
        if !CARDS.iter().any(|card| card.built) {
            let message = "cards in software need the runtimes of real ones, which are not part of this build";
            let hint = "build with the cargo features `cuda` and `rocm`";
            return Err(CliError::usage(message, Some(hint)));
        }
        let shown = folder.display();
        let missing = || {
            let message = format!("expected drivers of cards in software in {shown}, got none");
            CliError::usage(message, Some(HINT))
        };
        // A link in another folder must lead there from anywhere.
        let folder = fs::canonicalize(folder).map_err(|_| missing())?;
        if CARDS.iter().any(|card| folder.join(card.library).exists()) {
            return Ok(Self {
                folder,
                _made: None,
            });
        }
        let built = [folder.join(BUILT), folder.join("deps").join(BUILT)];
        let built = built.into_iter().find(|library| library.is_file());
        let made = linked(&built.ok_or_else(missing)?);
        let made = made.map_err(CliError::write("a folder with the drivers' names"))?;
        Ok(Self {
            folder: made.path().to_owned(),
            _made: Some(made),
        })
    }

    /// `certificate` with the cards, each of which does what it is of, but for benchmarks: how long a processor takes for a card's work is no
    /// figure of the card.
    ///
    /// # Errors
    /// [`CliError::ReadFile`] when this program can't be started once more, and [`CliError::Certificate`] when it computed something else.
    pub(super) fn certify(
        &self,
        args: &ValidateArgs,
        mut certificate: Certificate,
        screen: &Screen,
    ) -> Result<Certificate, CliError> {
        let mut parts = certificate.subject.sections();
        parts.retain(|part| *part != Section::Bench);
        let line = line(args, &parts);
        let spinner = screen.spinner();
        for card in &CARDS {
            spinner.set_message(format!("{} in software", card.device));
            match self.lacks(card) {
                Some(reason) => certificate.absent.push(Absent {
                    device: format!("{} in software", card.device),
                    machine: machine(),
                    reason,
                }),
                None => {
                    let of = self.ask(card, &line, &certificate)?;
                    let of_card = format!("the process of {} in software", card.device);
                    certificate = certificate.with(of, &of_card)?;
                }
            }
        }
        spinner.finish_and_clear();
        Ok(certificate)
    }

    /// Why a card can't be had; `None` if it can.
    fn lacks(&self, card: &Card) -> Option<String> {
        if !card.built {
            let feature = card.device.feature();
            return Some(format!("not part of this build: cargo feature `{feature}`"));
        }
        let (folder, library) = (&self.folder, card.library);
        let there = folder.join(library).exists();
        (!there).then(|| format!("no {library} in {}", folder.display()))
    }

    /// Has a child process certify a card. A process that gives no certificate is a device that failed.
    fn ask(
        &self,
        card: &Card,
        line: &[OsString],
        all: &Certificate,
    ) -> Result<Certificate, CliError> {
        let program = env::current_exe().map_err(CliError::read("this program's path"))?;
        let mut command = Command::new(&program);
        let device = card.device.to_string();
        command.args(line).args(["--devices", &device]);
        command
            .env("MOEBIUS_EMULATOR_CARD", card.name)
            .env("LD_LIBRARY_PATH", self.before("LD_LIBRARY_PATH"))
            .env("PATH", self.before("PATH"));
        // CubeCL asks for the place of a toolkit.
        for toolkit in ["CUDA_PATH", "ROCM_PATH"] {
            command.env(toolkit, &self.folder);
        }
        let answer = child::run(command, LONGEST).map_err(CliError::read(program.display()))?;
        // Drivers write to standard output, too.
        let mut lines = answer.output.lines().rev();
        let read = lines.find_map(|line| Certificate::parse(&device, line.as_bytes()).ok());
        let Some(read) = read else {
            let why = answer
                .failure
                .unwrap_or_else(|| "it said nothing".to_owned());
            let (subject, limits) = (all.subject.clone(), all.limits);
            let failed = vec![failed(&device, why)];
            return Ok(Certificate::new(subject, limits, Vec::new(), failed));
        };
        let devices = read.devices.into_iter().map(marked);
        Ok(Certificate {
            devices: devices.collect(),
            ..read
        })
    }

    /// The folders of a variable, after that of the drivers.
    fn before(&self, variable: &str) -> OsString {
        let mut folders = self.folder.clone().into_os_string();
        let others = env::var_os(variable).filter(|others| !others.is_empty());
        if let Some(others) = others {
            folders.push(":");
            folders.push(others);
        }
        folders
    }
}

/// The command line of a child process, but for the device.
fn line(args: &ValidateArgs, parts: &[Section]) -> Vec<OsString> {
    let parts = parts.iter().map(|part| part.name());
    let parts = parts.collect::<Vec<_>>().join(",");
    // What settings say was taken from them here.
    let words = "validate --here --json --config /dev/null --parts";
    let mut line: Vec<OsString> = words.split(' ').map(OsString::from).collect();
    line.push(parts.into());
    let mut add = |flag: &str, value: Option<&OsStr>| {
        if let Some(value) = value {
            // In one word, since a value may begin with a dash.
            let mut word = OsString::from(flag);
            word.push("=");
            word.push(value);
            line.push(word);
        }
    };
    add("--model", args.of.model.as_deref().map(Path::as_os_str));
    add("--tokens", args.of.tokens.as_deref().map(OsStr::new));
    add("--cases", args.cases.as_deref().map(Path::as_os_str));
    let of = &args.of;
    let flags = [(of.bundled, "--bundled"), (of.exact, "--exact")];
    let set = flags.into_iter().filter(|(set, _)| *set);
    line.extend(set.map(|(_, flag)| OsString::from(flag)));
    line
}

/// A card whose process gave no certificate.
fn failed(device: &str, why: String) -> Tested {
    Tested {
        device: device.to_owned(),
        adapter: None,
        driver: None,
        machine: machine(),
        emulated: true,
        verdict: Verdict::Failed,
        error: Some(format!("its process gave no certificate: {why}")),
        parts: Vec::new(),
    }
}

/// A device of a child process as a card in software; a real card, which its process must not find, has failed.
fn marked(tested: Tested) -> Tested {
    let adapter = tested.adapter.as_deref();
    let real = adapter.filter(|adapter| !adapter.ends_with(MARK));
    let real = real.map(|adapter| format!("expected a card in software, got {adapter}"));
    let parts = match &real {
        Some(_) => Vec::new(),
        None => tested.parts,
    };
    let tested = Tested {
        emulated: true,
        error: real.or(tested.error),
        parts,
        ..tested
    };
    tested.judged()
}

/// A folder in which the library has the drivers' names, and in which `hipconfig` names the folder as the place of the headers.
#[cfg(unix)]
fn linked(library: &Path) -> io::Result<TempDir> {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let made = tempfile::tempdir()?;
    for name in NAMES {
        symlink(library, made.path().join(name))?;
    }
    let hipconfig = made.path().join("hipconfig");
    let script = format!("#!/bin/sh\necho '{}'\n", made.path().display());
    fs::write(&hipconfig, script)?;
    fs::set_permissions(&hipconfig, fs::Permissions::from_mode(0o755))?;
    Ok(made)
}

#[cfg(not(unix))]
fn linked(_: &Path) -> io::Result<TempDir> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

#[cfg(test)]
mod tests {
    use std::iter;

    use clap::Parser;

    use super::*;
    use crate::args::{self, Cli};
    use crate::certificate::tests::tested;

    fn parsed(line: impl Iterator<Item = OsString>) -> Option<ValidateArgs> {
        match Cli::try_parse_from(line).ok()?.command? {
            args::Command::Validate(args) => Some(args),
            _ => None,
        }
    }

    #[test]
    fn the_process_of_a_card_is_asked_for_the_same() {
        let words = "moebius validate --bundled --exact --tokens=-w3";
        let args = parsed(words.split(' ').map(OsString::from)).unwrap();
        let line = line(&args, &[Section::Model]).into_iter();
        let child = parsed(iter::once(OsString::from("moebius")).chain(line)).unwrap();
        assert!(child.here && child.of.bundled && child.of.exact);
        assert_eq!(child.of.tokens, args.of.tokens);
        assert_eq!(child.parts, [Section::Model]);
    }

    #[test]
    fn a_real_card_is_never_taken_for_one_in_software() {
        let named = |adapter: &str| Tested {
            adapter: Some(adapter.to_owned()),
            ..tested("cuda:0", false)
        };
        let emulated = marked(named("NVIDIA L4 (emulated)"));
        assert!(emulated.emulated);
        assert_eq!((emulated.verdict, emulated.error), (Verdict::Same, None));
        let real = marked(named("NVIDIA L4"));
        assert_eq!((real.verdict, real.parts.len()), (Verdict::Failed, 0));
        let said = real.error.unwrap_or_default();
        assert_eq!(said, "expected a card in software, got NVIDIA L4");
    }

    #[test]
    #[cfg(unix)]
    fn a_library_gets_the_names_of_the_drivers() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join(BUILT);
        fs::write(&library, "").unwrap();
        let made = linked(&library).unwrap();
        for name in NAMES {
            let link = made.path().join(name);
            assert_eq!(fs::read_link(link).unwrap(), library);
        }
    }
}
