//! Standard output and error: colour, JSON, tables, one-line errors, readers that close the pipe, and progress, which is drawn only on a
//! terminal.

use std::io::{self, BufWriter, IsTerminal, Stderr, Stdout, Write};
use std::process::ExitCode;
use std::time::Duration;

use anstream::AutoStream;
use anstream::stream::RawStream;
use anstyle::{AnsiColor, Style};
use clap::ColorChoice as Color;
use comfy_table::{CellAlignment, ContentArrangement, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::json;

use crate::error::CliError;

/// How a command ended that gave a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// All results are good: exit 0.
    Good,
    /// A result was computed and is negative: exit 1.
    Negative,
    /// Part of the work could not be done: exit 2.
    Incomplete,
}

impl Outcome {
    /// [`Outcome::Good`] if `holds`, else [`Outcome::Negative`].
    pub(crate) fn of(holds: bool) -> Self {
        if holds { Self::Good } else { Self::Negative }
    }
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        Self::from(match outcome {
            Outcome::Good => 0,
            Outcome::Negative => 1,
            Outcome::Incomplete => 2,
        })
    }
}

/// Style of good results: green.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// Style of bad results: bold red.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
/// Style of secondary text: grey.
pub(crate) const DIM: Style = AnsiColor::BrightBlack.on_default();
/// Style of headings: bold.
pub(crate) const HEADING: Style = Style::new().bold();

/// Destination of a command's results, as text or JSON.
pub(crate) struct Screen {
    out: BufWriter<Stdout>,
    choice: Color,
    color: bool,
    json: bool,
}

impl Screen {
    /// A screen on standard output.
    pub(crate) fn new(choice: Color, json: bool) -> Self {
        let color = on_stream(choice, &io::stdout()) != anstream::ColorChoice::Never;
        Self {
            out: BufWriter::new(io::stdout()),
            choice,
            color: color && !json,
            json,
        }
    }

    /// Repeats part of the result on standard error, unless both streams are the same terminal.
    pub(crate) fn echo_error(&self, message: &str) {
        if self.json || !io::stdout().is_terminal() {
            write_error(&one_line(message), None, self.choice);
        }
    }

    /// Writes a message that isn't part of the result to standard error.
    pub(crate) fn note(&self, message: &str) {
        write_marked("note:", &one_line(message), self.choice);
    }

    /// Whether progress may be drawn on standard error.
    fn shows_progress(&self) -> bool {
        !self.json && io::stderr().is_terminal()
    }

    /// A progress bar over `steps` steps.
    pub(crate) fn steps(&self, title: &'static str, steps: usize) -> ProgressBar {
        if !self.shows_progress() {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new(steps as u64).with_prefix(title);
        // The template is a constant; if it were wrong the default style would do.
        if let Ok(style) = ProgressStyle::with_template("{prefix} [{bar:30}] {pos}/{len} {msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar
    }

    /// A progress bar over bytes, whose number is set when it is known.
    pub(crate) fn bytes(&self, title: &'static str) -> ProgressBar {
        if !self.shows_progress() {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new(0).with_prefix(title);
        let template = "{prefix} [{bar:30}] {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta} {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar
    }

    /// A spinner for work of unknown length.
    pub(crate) fn spinner(&self) -> ProgressBar {
        if !self.shows_progress() {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new_spinner();
        bar.enable_steady_tick(Duration::from_millis(120));
        bar
    }

    /// Writes a line of text; does nothing if JSON is wanted.
    pub(crate) fn line(&mut self, text: &str) -> Result<(), CliError> {
        if !self.json {
            writeln!(self.out, "{text}")?;
            // On a terminal, output appears line by line; a pipe gets full buffers.
            if io::stdout().is_terminal() {
                self.out.flush()?;
            }
        }
        Ok(())
    }

    /// Writes a piece of text that a person may follow; does nothing if JSON is wanted.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), CliError> {
        if !self.json {
            write!(self.out, "{text}")?;
            self.out.flush()?;
        }
        Ok(())
    }

    /// Flushes the output, before the program waits.
    pub(crate) fn flush(&mut self) -> Result<(), CliError> {
        Ok(self.out.flush()?)
    }

    /// Writes a heading after an empty line.
    pub(crate) fn heading(&mut self, text: &str) -> Result<(), CliError> {
        let text = self.paint(HEADING, text);
        self.line(&format!("\n{text}"))
    }

    /// Writes a JSON object on a line of its own; does nothing if text is wanted.
    pub(crate) fn object(&mut self, value: &impl Serialize) -> Result<(), CliError> {
        if self.json {
            serde_json::to_writer(&mut self.out, value).map_err(|e| match e.io_error_kind() {
                Some(kind) => CliError::Output(kind.into()),
                None => CliError::Json(e),
            })?;
            writeln!(self.out)?;
            // Programs may follow a command that reports as it goes.
            self.out.flush()?;
        }
        Ok(())
    }

    /// `text` in `style` if this screen has colour.
    pub(crate) fn paint(&self, style: Style, text: &str) -> String {
        if self.color {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }

    /// Flushes the remaining output.
    pub(crate) fn finish(mut self) -> Result<(), CliError> {
        Ok(self.out.flush()?)
    }
}

/// A table under construction: each row is one line, with its last cell coloured.
pub(crate) struct Table {
    inner: comfy_table::Table,
    styles: Vec<Style>,
}

impl Table {
    /// A table with the headings in `headings`, separated by ` | `.
    pub(crate) fn new(headings: &str) -> Self {
        let mut inner = comfy_table::Table::new();
        // `Disabled` keeps each row on one line at any width, so that styles find their row and grep works.
        inner
            .load_preset(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Disabled);
        inner.set_header(headings.split(" | "));
        Self {
            inner,
            styles: Vec::new(),
        }
    }

    /// Aligns columns of figures right.
    pub(crate) fn right(mut self, columns: &[usize]) -> Self {
        for &column in columns {
            if let Some(column) = self.inner.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        self
    }

    /// Adds a row whose last cell is written in `style`.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N], style: Style) {
        self.inner.add_row(cells.map(|c| one_line(&c)));
        self.styles.push(style);
    }

    /// Writes the table.
    pub(crate) fn print(&self, screen: &mut Screen) -> Result<(), CliError> {
        let columns = self.inner.column_max_content_widths();
        let last = columns.last().map_or(0, |&w| usize::from(w));
        // The last column is flush left and padded by one space on each side.
        let last_begins = columns
            .iter()
            .map(|&w| usize::from(w) + 2)
            .sum::<usize>()
            .saturating_sub(last + 1);
        for (index, line) in self.inner.lines().enumerate() {
            let text = line.trim_end();
            let painted = match index.checked_sub(1).and_then(|row| self.styles.get(row)) {
                None => screen.paint(HEADING, text),
                Some(&style) => match text.char_indices().nth(last_begins) {
                    Some((at, _)) => format!("{}{}", &text[..at], screen.paint(style, &text[at..])),
                    None => text.to_owned(),
                },
            };
            screen.line(&painted)?;
        }
        Ok(())
    }
}

/// Reports an error on standard error, and also as JSON on standard output if that is wanted.
///
/// A reader that closed the pipe, as `head` does, has seen enough: that is exit 0 without a message.
pub(crate) fn report_error(error: &CliError, color: Color, json: bool) -> ExitCode {
    if let CliError::Output(e) = error
        && e.kind() == io::ErrorKind::BrokenPipe
    {
        return ExitCode::SUCCESS;
    }
    let (message, hint) = (
        one_line(&error.to_string()),
        error.hint().map(|h| one_line(&h)),
    );
    if json {
        // If this fails as well, the line on standard error still says it.
        let _ = writeln!(
            io::stdout(),
            "{}",
            json!({ "error": message, "hint": hint })
        );
    }
    write_error(&message, hint.as_deref(), color);
    ExitCode::from(error.status())
}

/// Writes the `error:` line, and the `hint:` line if there is a hint, to standard error.
pub(crate) fn write_error(message: &str, hint: Option<&str>, color: Color) {
    let _ = writeln!(stderr(color), "{BAD}error:{BAD:#} {message}");
    if let Some(hint) = hint {
        write_marked("hint:", hint, color);
    }
}

fn write_marked(mark: &str, message: &str, color: Color) {
    let _ = writeln!(stderr(color), "{HEADING}{mark}{HEADING:#} {message}");
}

fn stderr(color: Color) -> AutoStream<Stderr> {
    AutoStream::new(io::stderr(), on_stream(color, &io::stderr()))
}

/// The colour choice for a stream: `auto` colours a terminal that supports it, and honours NO_COLOR and CLICOLOR.
fn on_stream(color: Color, stream: &impl RawStream) -> anstream::ColorChoice {
    match color {
        Color::Auto => AutoStream::choice(stream),
        Color::Always => anstream::ColorChoice::AlwaysAnsi,
        Color::Never => anstream::ColorChoice::Never,
    }
}

/// Text from files and drivers, made fit for one line: without control characters, at most 400 characters.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::new();
    for c in text.trim().chars().take(400) {
        match c {
            '\n' | '\t' => line.push(' '),
            c if c.is_control() => line.extend(c.escape_default()),
            c => line.push(c),
        }
    }
    if text.trim().chars().nth(400).is_some() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[test]
    fn an_error_is_one_line_without_escape_sequences() {
        assert_eq!(one_line("a\nb\u{1b}[31mc\n"), "a b\\u{1b}[31mc");
        assert_eq!(one_line(&"x".repeat(1000)).chars().count(), 401);
    }
}
