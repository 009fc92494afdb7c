//! Flags that a plugin reads from the environment and does not survive.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::error::Error;
use super::locate::{Environment, Platform};

/// Refuses flags that would end the process: XLA aborts at a name that it does not know.
///
/// A flag's name is a text in the plugin's file, so that a name that is not there is not a flag. The file is read only
/// where flags are set.
pub(super) fn check(
    platform: Platform,
    plugin: &Path,
    environment: &Environment,
) -> Result<(), Error> {
    let mut flags = Vec::new();
    if let Some(text) = &environment.xla_flags {
        flags.extend(parse("XLA_FLAGS", text, "--xla_")?);
    }
    if let (Platform::Tpu, Some(text)) = (platform, &environment.libtpu_flags) {
        flags.extend(parse("LIBTPU_INIT_ARGS", text, "--")?);
    }
    let unknown = missing(plugin, flags)?;
    match unknown.into_iter().next() {
        None => Ok(()),
        Some(flag) => Err(Error::Flag {
            variable: flag.variable,
            flag: flag.written,
            reason: "the plugin's file does not have this name, and it would end the process",
        }),
    }
}

/// A flag as it is written, and the name that the plugin must know.
#[derive(Debug, PartialEq, Eq)]
struct Flag {
    variable: &'static str,
    written: String,
    name: String,
}

/// The flags in `text`, as XLA splits it: at white space outside of quotes, or the content of the file that it names.
fn parse(variable: &'static str, text: &str, start: &str) -> Result<Vec<Flag>, Error> {
    let refuse = |flag: &str, reason| Error::Flag {
        variable,
        flag: flag.to_owned(),
        reason,
    };
    let text = text.trim();
    let content;
    let text = if text.is_empty() || text.starts_with('-') {
        text
    } else {
        let unreadable = |_| refuse(text, "is neither flags nor a file of flags");
        content = std::fs::read_to_string(text).map_err(unreadable)?;
        &content
    };
    let words = split(text).ok_or_else(|| refuse(text, "a quote is not closed"))?;
    let flag = |written: String| {
        let Some(rest) = written.strip_prefix("--") else {
            return Err(refuse(
                &written,
                "is not of the form --name or --name=value",
            ));
        };
        let name = rest.split('=').next().unwrap_or_default().to_owned();
        let letters = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        if name.is_empty() || !name.chars().all(letters) || !written.starts_with(start) {
            return Err(refuse(&written, "is not the name of a flag"));
        }
        Ok(Flag {
            variable,
            written,
            name,
        })
    };
    words.into_iter().map(flag).collect()
}

/// The words of `text`; none where a quote is left open.
fn split(text: &str) -> Option<Vec<String>> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for letter in text.chars() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None, '"' | '\'') => quote = Some(letter),
            (None, _) if letter.is_whitespace() => words.push(String::new()),
            _ => words.last_mut()?.push(letter),
        }
    }
    words.retain(|word| !word.is_empty());
    quote.is_none().then_some(words)
}

/// Those of `flags` whose names do not stand in the file, each ended by a zero byte as C writes texts.
fn missing(file: &Path, mut flags: Vec<Flag>) -> Result<Vec<Flag>, Error> {
    if flags.is_empty() {
        return Ok(flags);
    }
    let failed = |error: std::io::Error| Error::Load {
        path: file.to_owned(),
        reason: error.to_string(),
    };
    let mut file = File::open(file).map_err(failed)?;
    let longest = flags.iter().map(|flag| flag.name.len() + 1).max();
    let overlap = longest.unwrap_or_default();
    let mut window = vec![0; (1 << 20) + overlap];
    // The last bytes of one part are the first of the next, so that no name is cut in two.
    let mut kept = 0;
    while !flags.is_empty() {
        let read = file.read(&mut window[kept..]).map_err(failed)?;
        if read == 0 {
            break;
        }
        let end = kept + read;
        flags.retain(|flag| !contains(&window[..end], flag.name.as_bytes()));
        let start = end.saturating_sub(overlap);
        window.copy_within(start..end, 0);
        kept = end - start;
    }
    Ok(flags)
}

/// Whether `name` and a zero byte stand in `bytes`. Horspool's search: 0.1 s for the 259 MB of the CPU plugin.
fn contains(bytes: &[u8], name: &[u8]) -> bool {
    let length = name.len();
    let mut skip = [length; 256];
    for (i, &byte) in name.iter().enumerate().take(length.saturating_sub(1)) {
        skip[usize::from(byte)] = length - 1 - i;
    }
    let mut at = 0;
    // One more byte than the name: the zero.
    while at + length < bytes.len() {
        let found = &bytes[at..at + length];
        if found == name && bytes[at + length] == 0 {
            return true;
        }
        at += skip[usize::from(found[length - 1])];
    }
    false
}

#[cfg(test)]
#[path = "flags_tests.rs"]
mod tests;
