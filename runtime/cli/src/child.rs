//! A child process with a limit of time: what crashes or hangs in it ends it alone.

use std::io::{self, Read};
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// What a child wrote, and how it ended.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Its standard output.
    pub(crate) output: String,
    /// How it ended and the last that it said, if it ended by a signal, with another status than 0, or because its time was over.
    pub(crate) failure: Option<String>,
}

/// Runs a command for at most `longest`, with nothing on its standard input.
///
/// # Errors
/// The system's error for a command that can't be started or waited for.
pub(crate) fn run(mut command: Command, longest: Duration) -> io::Result<Answer> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    // A full pipe would block the child, so both are read while it runs.
    let output = reader(child.stdout.take());
    let errors = reader(child.stderr.take());
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if begun.elapsed() > longest {
            child.kill()?;
            child.wait()?;
            break None;
        }
        thread::sleep(Duration::from_millis(5));
    };
    let [output, errors] = [output, errors].map(|text| text.join().unwrap_or_default());
    let ended = match status {
        Some(status) if status.success() => None,
        Some(status) => Some(status.to_string()),
        None => Some(format!("no answer within {} s", longest.as_secs())),
    };
    let mut lines = errors.lines().map(str::trim);
    let last = lines.rfind(|line| !line.is_empty() && !line.starts_with("hint: "));
    let failure = ended.map(|ended| match last {
        Some(last) => format!("{ended}: {last}"),
        None => ended,
    });
    Ok(Answer { output, failure })
}

/// Reads a stream to its end on a thread of its own. What came before an error counts.
fn reader(stream: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            let _ = stream.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    fn shell(script: &str, longest: Duration) -> Answer {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run(command, longest).unwrap()
    }

    #[test]
    fn the_end_of_a_child_is_told_with_its_last_words() {
        let long = Duration::from_secs(60);
        let good = shell("echo here; echo noise >&2", long);
        assert_eq!((good.output.as_str(), good.failure), ("here\n", None));
        let wrong = shell("echo 'error: why' >&2; echo 'hint: how' >&2; exit 3", long);
        assert_eq!(wrong.failure.as_deref(), Some("exit status: 3: error: why"));
        let crashed = shell("echo before; kill -SEGV $$", long);
        assert_eq!(crashed.output, "before\n");
        assert!(
            crashed.failure.is_some_and(|how| how.contains("signal")),
            "a crash is a failure"
        );
    }

    #[test]
    fn a_child_that_hangs_is_ended() {
        let hung = shell("exec sleep 60", Duration::from_millis(50));
        assert_eq!(hung.failure.as_deref(), Some("no answer within 0 s"));
    }
}
