//! The `moebius` command: devices, their diagnosis, demos, case verification, certificates, kernel emission, benchmarks, training,
//! upcycling, merging, conversion, downloads, packages, a search for faster options, generation, conversation, serving, perplexity, and the
//! command's own configuration, completions and manual.

mod answer;
mod answerer;
mod args;
mod bench;
mod bundled;
mod certificate;
mod chart;
mod chat;
mod child;
mod compare;
mod config;
mod convert;
mod demo;
mod devices;
mod doctor;
mod drivers;
mod emit;
mod error;
mod fetch;
mod generate;
mod hub;
mod main_job;
mod optimize;
mod package;
mod process;
mod published;
mod report;
mod resolve;
mod results;
mod screen;
mod serve;
mod shell;
mod signals;
mod speculation;
mod to_gguf;
mod trace;
mod train;
mod trust;
mod validate;
mod verify;

#[cfg(test)]
mod process_tests;

use std::ffi::OsStr;
use std::process::ExitCode;

use clap::ColorChoice;
use clap::error::ErrorKind;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use args::{Cli, Command};
use error::CliError;
use screen::{Outcome, Screen, report_error};
use trace::Trace;

fn main() -> ExitCode {
    drivers::expect_no_display();
    let cli = match config::parse(&std::env::args_os().collect::<Vec<_>>()) {
        Ok(cli) => cli,
        Err(e) => return refused(e),
    };
    let (color, json) = (cli.color, cli.json);
    process::listen();
    let mut screen = Screen::new(color, json);
    let outcome = run(&cli, &mut screen).and_then(|outcome| {
        process::lost().map_or(Ok(()), |text| Err(CliError::Launch(text)))?;
        screen.finish()?;
        Ok(outcome)
    });
    match outcome {
        Ok(outcome) => outcome.into(),
        Err(e) => report_error(&e, color, json),
    }
}

fn run(cli: &Cli, screen: &mut Screen) -> Result<Outcome, CliError> {
    process::hold(cli.simd())?;
    let Some(command) = &cli.command else {
        return main_job::run(cli.device, cli.verbose, screen);
    };
    if cli.verbose {
        let message = "--verbose before a command has no effect";
        return Err(CliError::usage(
            message,
            Some("commands show all they have"),
        ));
    }
    if let Some(device) = cli.device {
        let message = "--device before a command has no effect";
        let hint = format!(
            "commands that use a device take it themselves: moebius generate --device {device}"
        );
        return Err(CliError::usage(message, Some(&hint)));
    }
    // Before anything else, so that a file that can't be written is an error before the work.
    let trace = cli.trace().map(Trace::begin).transpose()?;
    listen(command, trace.as_ref())?;
    let outcome = run_command(cli, command, screen);
    match trace {
        Some(trace) => trace.end(outcome, screen),
        None => outcome,
    }
}

/// Has a trace and the log of a server listen from now on.
fn listen(command: &Command, trace: Option<&Trace>) -> Result<(), CliError> {
    let log = match command {
        Command::Serve(args) => Some(serve::log(args.log_json)),
        _ => None,
    };
    let listeners: Vec<_> = log.into_iter().chain(trace.map(Trace::listener)).collect();
    if listeners.is_empty() {
        return Ok(());
    }
    let begun = tracing_subscriber::registry().with(listeners).try_init();
    begun.map_err(|error| CliError::usage(format!("the log can't be written: {error}"), None))
}

fn run_command(cli: &Cli, command: &Command, screen: &mut Screen) -> Result<Outcome, CliError> {
    match command {
        Command::Devices => devices::run(screen),
        Command::Doctor(args) => doctor::run(args, screen),
        Command::Demo(args) => demo::run(args, screen),
        Command::Verify(args) => verify::run(args, screen),
        Command::Validate(args) => validate::run(args, screen),
        Command::Emit(args) => emit::run(args, screen),
        Command::Bench(args) => bench::run(args, screen),
        Command::Train(args) => train::run(args, screen),
        Command::Upcycle(args) => convert::upcycle(args, screen),
        Command::Merge(args) => convert::merge(args, screen),
        Command::Convert(args) => convert::convert(args, screen),
        Command::Fetch(args) => fetch::run(args, screen),
        Command::Package(args) => package::run(args, screen),
        Command::Optimize(args) => optimize::run(args, screen),
        Command::Generate(args) => generate::generate(args, screen),
        Command::Chat(args) => chat::run(args, screen),
        Command::Serve(args) => serve::run(args, screen),
        Command::Logits(args) => generate::logits(args, screen),
        Command::Perplexity(args) => generate::perplexity(args, screen),
        Command::Config(args) => config::run(cli, args, screen),
        Command::Completions(args) => shell::completions(args, screen),
        Command::Man(args) => shell::man(args, screen),
    }
}

/// Reports why a line gave no command: help and version go to standard output, all else is an `error:` and a `hint:`.
fn refused(error: CliError) -> ExitCode {
    let error = match error {
        CliError::Line(e)
            if matches!(e.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) =>
        {
            // A reader that closed the pipe has seen enough of the help.
            let _ = e.print();
            return ExitCode::SUCCESS;
        }
        CliError::Line(e) => {
            let (message, tips) = error::explain(&e);
            let usual = "`moebius --help` shows what can be written";
            CliError::usage(message, Some(tips.as_deref().unwrap_or(usual)))
        }
        other => other,
    };
    let json = std::env::args_os().any(|a| a == OsStr::new("--json"));
    report_error(&error, ColorChoice::Auto, json)
}
