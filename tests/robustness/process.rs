//! Runs this program as its own child.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The environment variable with a child's role.
const ROLE: &str = "MOEBIUS_TEST_ROLE";

/// The time after which a child counts as hanging: the slowest takes a minute on two busy cores.
const HANGS: Duration = Duration::from_secs(600);

/// The role and arguments of this process, if it is a child.
pub(crate) fn role() -> Option<(String, Vec<String>)> {
    let role = std::env::var(ROLE).ok()?;
    Some((role, std::env::args().skip(1).collect()))
}

/// Prepares a child with a role and arguments.
pub(crate) fn command(role: &str, arguments: &[&str]) -> Command {
    command_under(&[], role, arguments)
}

/// Prepares a child that another program starts, such as `taskset -c 0`.
pub(crate) fn command_under(wrapper: &[&str], role: &str, arguments: &[&str]) -> Command {
    let program = std::env::current_exe().unwrap();
    let mut words = wrapper.iter().map(OsStr::new).chain([program.as_os_str()]);
    let mut command = Command::new(words.next().unwrap());
    command.args(words).args(arguments);
    command.env(ROLE, role).stdin(Stdio::null());
    command
}

/// Starts a child whose output is written to a file.
pub(crate) fn start(mut command: Command, output: &Path) -> Child {
    let file = File::create(output).unwrap();
    command.stdout(file.try_clone().unwrap()).stderr(file);
    let child = command.spawn();
    child.unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Waits for a child's end.
///
/// # Panics
/// When the child hangs; the child is killed first.
pub(crate) fn wait(child: &mut Child) -> ExitStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if begun.elapsed() > HANGS {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("a child hangs");
        }
        sleep(Duration::from_millis(5));
    }
}

/// Runs a child that must succeed, and returns its output.
pub(crate) fn output(command: Command) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("output");
    let what = format!("{command:?}");
    let status = wait(&mut start(command, &path));
    let text = fs::read_to_string(&path).unwrap();
    assert!(status.success(), "{what}: {status}\n{text}");
    text
}
