//! `moebius fetch`: downloads a published model into the cache that Hugging Face's programs share.

use clap::ColorChoice;
use indicatif::ProgressBar;
use serde_json::{Value, json};

use crate::args::FetchArgs;
use crate::devices::bytes;
use crate::error::CliError;
use crate::hub::{self, Fetched, Held, Order, Settings, Told};
use crate::screen::{DIM, GOOD, Outcome, Screen, Table, one_line, write_error};

/// Exit status of a program that Ctrl-C ended, as in shells.
const ENDED: i32 = 130;

/// Runs `moebius fetch`.
pub(crate) fn run(args: &FetchArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    let settings = Settings::of_user()?;
    take_interrupts()?;
    let bar = screen.bytes("files");
    let shown: &Screen = screen;
    let tell = |told: Told<'_>| show(&bar, shown, told);
    let order = Order {
        name: &args.model,
        revision: &args.revision,
        verify: args.verify,
    };
    let fetched = hub::fetch(&settings, &order, &tell);
    bar.finish_and_clear();
    result(args, &fetched?, screen)
}

/// Shows how the download goes on.
fn show(bar: &ProgressBar, screen: &Screen, told: Told<'_>) {
    match told {
        Told::Size(size) => bar.set_length(size),
        Told::At(at) => bar.set_position(at),
        Told::File(name) => bar.set_message(one_line(name)),
        Told::Note(text) => bar.suspend(|| screen.note(&text)),
    }
}

fn result(args: &FetchArgs, fetched: &Fetched, screen: &mut Screen) -> Result<Outcome, CliError> {
    table(fetched).print(screen)?;
    let files = fetched.files.iter();
    let new = files.clone().filter(|file| file.held == Held::Downloaded);
    let new: u64 = new.map(|file| file.size).sum();
    let all: u64 = files.clone().map(|file| file.size).sum();
    let folder = fetched.folder.display().to_string();
    screen.line(&format!(
        "\n{} files, {}, of which {} downloaded · {folder}",
        files.len(),
        bytes(all),
        bytes(new),
    ))?;
    if args.revision == "main" {
        let use_it = format!("--model {} takes the model from there", args.model);
        screen.line(&screen.paint(DIM, &use_it))?;
    }
    let files = files.map(|file| {
        json!({
            "file": file.name,
            "bytes": file.size,
            "sha256": file.sha256,
            "state": file.held,
        })
    });
    screen.object(&json!({
        "model": args.model.repository,
        "revision": args.revision,
        "commit": fetched.commit,
        "folder": folder,
        "bytes": all,
        "downloaded_bytes": new,
        "files": files.collect::<Vec<Value>>(),
    }))?;
    Ok(Outcome::Good)
}

/// A table with a row for each file.
fn table(fetched: &Fetched) -> Table {
    let mut table = Table::new("file | bytes | SHA-256 | state").right(&[1]);
    for file in &fetched.files {
        let short = file.sha256.as_deref().and_then(|hash| hash.get(..12));
        let (state, style) = match file.held {
            Held::Cached => ("was there", DIM),
            Held::Verified => ("was there, with this hash", GOOD),
            Held::Downloaded => ("downloaded", GOOD),
        };
        let cells = [
            file.name.clone(),
            bytes(file.size),
            short.map_or_else(String::new, |short| format!("{short}…")),
            state.to_owned(),
        ];
        table.row(cells, style);
    }
    table
}

/// Says, when Ctrl-C ends the program, that nothing is lost.
fn take_interrupts() -> Result<(), CliError> {
    let taken = ctrlc::set_handler(|| {
        let hint = "run the command again, it goes on where it stopped";
        write_error("interrupted", Some(hint), ColorChoice::Auto);
        std::process::exit(ENDED);
    });
    taken.map_err(|error| CliError::usage(format!("Ctrl-C can't be taken: {error}"), None))
}
