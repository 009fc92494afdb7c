//! The process of a job: whether it has ended, and its use of processor time and memory. Dropping a process ends it, together
//! with all processes that it has started.

use std::io;
use std::process::{Child, Command, ExitStatus};

/// The resources used by a process, together with all of its children that were waited for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Usage {
    /// Processor time in seconds, in user mode and in the system.
    pub(crate) cpu: f64,
    /// The most memory in MB (10⁶ bytes) that one of these processes held at once. On Linux it is at least what the runner held
    /// when it started the process: the system counts the memory from before `exec`, too.
    pub(crate) peak: f64,
}

/// The end of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// The resources used; `None` on systems that aren't Unix.
    pub(crate) usage: Option<Usage>,
}

/// A process that the runner has started.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// The process's end, once known: the system reports it a single time.
    ended: Option<Ended>,
}

impl Process {
    /// Starts the process. On Unix it heads a process group of its own, so that the group can be ended as a whole. A process
    /// that may ask on the terminal stays in the runner's group, because the system doesn't let a background group ask.
    pub(crate) fn start(command: &mut Command, asks: bool) -> io::Result<Self> {
        #[cfg(unix)]
        if !asks {
            std::os::unix::process::CommandExt::process_group(command, 0);
        }
        let child = command.spawn()?;
        Ok(Self { child, ended: None })
    }

    /// The process's end, or `None` while it runs.
    pub(crate) fn try_wait(&mut self) -> io::Result<Option<Ended>> {
        if self.ended.is_none() {
            self.ended = wait(&mut self.child, false)?;
        }
        Ok(self.ended)
    }

    /// Ends the process and its group, unless the process has ended already. On systems other than Unix its children continue.
    pub(crate) fn kill(&mut self) -> io::Result<Option<Ended>> {
        if self.ended.is_none() {
            end_group(&mut self.child)?;
            self.ended = wait(&mut self.child, true)?;
        }
        Ok(self.ended)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Errors are ignored: a running process is dropped only after another error or a signal.
        let _ = self.kill();
    }
}

#[cfg(unix)]
#[allow(
    unsafe_code,
    reason = "the standard library ends a child, but not what the child has started"
)]
fn end_group(child: &mut Child) -> io::Result<()> {
    let group = libc::pid_t::try_from(child.id()).map_err(io::Error::other)?;
    // SAFETY: the call takes two numbers. A group of this number is the child's own, since the child hasn't been waited
    // for.
    match unsafe { libc::kill(-group, libc::SIGKILL) } {
        0 => Ok(()),
        _ => child.kill(), // the process heads no group
    }
}

#[cfg(not(unix))]
fn end_group(child: &mut Child) -> io::Result<()> {
    child.kill()
}

/// Asks the system whether `child` has ended, or waits for its end if `block`. The system reports an end once; afterwards
/// neither this function nor a method of `child` may be called.
#[cfg(unix)]
#[allow(
    unsafe_code,
    reason = "the standard library waits for a child, but doesn't say what the child took"
)]
fn wait(child: &mut Child, block: bool) -> io::Result<Option<Ended>> {
    use std::os::unix::process::ExitStatusExt;

    let number = libc::pid_t::try_from(child.id()).map_err(io::Error::other)?;
    let options = if block { 0 } else { libc::WNOHANG };
    loop {
        let mut status = 0;
        // SAFETY: a `rusage` is made of integers only, for which zeros are values.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are to variables above, which the call may write while it lasts; whatever the number of
        // the process is, the call returns a number or an error.
        let ended = unsafe { libc::wait4(number, &raw mut status, options, &raw mut usage) };
        if ended == 0 {
            return Ok(None);
        }
        if ended == number {
            return Ok(Some(Ended {
                status: ExitStatus::from_raw(status),
                usage: Some(Usage::of(&usage)),
            }));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(not(unix))]
fn wait(child: &mut Child, block: bool) -> io::Result<Option<Ended>> {
    let usage = None;
    let status = if block {
        Some(child.wait()?)
    } else {
        child.try_wait()?
    };
    Ok(status.map(|status| Ended { status, usage }))
}

impl Usage {
    /// Converts the system's figures to seconds and MB.
    #[cfg(unix)]
    fn of(usage: &libc::rusage) -> Self {
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        // Apple's systems count bytes, the others KiB.
        let apple = cfg!(target_vendor = "apple");
        let unit = if apple { 1.0 } else { 1024.0 };
        Self {
            cpu: seconds(usage.ru_utime) + seconds(usage.ru_stime),
            peak: usage.ru_maxrss as f64 * unit / 1e6,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;
    use std::time::Duration;

    fn run(command: &mut Command) -> Ended {
        let mut process = Process::start(command, false).unwrap();
        loop {
            if let Some(ended) = process.try_wait().unwrap() {
                return ended;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sums the times that a shell's `times` prints: a line for the shell and one for its children, such as `0m0.25s 0m0.01s`.
    fn said(times: &str) -> f64 {
        let time = |text: &str| {
            let (minutes, seconds) = text.trim_end_matches('s').split_once('m').unwrap();
            60.0 * minutes.parse::<f64>().unwrap() + seconds.parse::<f64>().unwrap()
        };
        times.split_whitespace().map(time).sum()
    }

    #[test]
    fn a_child_and_its_child_are_counted_as_the_shell_counts_them() {
        let times = std::env::temp_dir().join(format!("moebius-times-{}", std::process::id()));
        let mut turns = 100_000;
        let (usage, said) = loop {
            // The loop runs in a child of the shell; another process runs at the same time, whose time must not count.
            let turn = format!("while [ $i -lt {turns} ]; do i=$((i+1)); done");
            let script = format!("(i=0; {turn}); times >\"$0\"");
            let mut beside = Process::start(Command::new("sleep").arg("0.1"), false).unwrap();
            let ended = run(Command::new("sh").args(["-c", &script]).arg(&times));
            assert!(ended.status.success());
            let idle = beside.kill().unwrap().unwrap().usage.unwrap();
            assert!(idle.cpu < 0.1, "{idle:?}");
            let said = said(&std::fs::read_to_string(&times).unwrap());
            if said >= 0.2 {
                break (ended.usage.unwrap(), said);
            }
            turns *= 2;
        };
        std::fs::remove_file(&times).unwrap();
        assert!((usage.cpu - said).abs() < 0.05, "{usage:?}, {said} s");
        assert!(usage.peak > 0.1 && usage.peak < 1e4, "{usage:?}");
    }

    #[test]
    fn how_a_process_ended_is_told_again_and_a_process_can_be_ended() {
        let mut process = Process::start(Command::new("sh").args(["-c", "exit 3"]), false).unwrap();
        while process.try_wait().unwrap().is_none() {}
        let again = process.try_wait().unwrap().unwrap();
        assert_eq!(again.status.code(), Some(3));
        let killed = process.kill().unwrap().unwrap();
        assert_eq!(killed.status.code(), Some(3));
        for asks in [false, true] {
            let mut sleeps = Process::start(Command::new("sleep").arg("60"), asks).unwrap();
            assert!(sleeps.try_wait().unwrap().is_none());
            assert_eq!(sleeps.kill().unwrap().unwrap().status.code(), None);
        }
    }

    #[test]
    fn a_process_that_is_let_go_of_ends_with_its_children() {
        // The pipe closes when the last process that could write to it has ended.
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 60 & sleep 60"]);
        shell.stdout(Stdio::piped());
        let mut process = Process::start(&mut shell, false).unwrap();
        let mut pipe = process.child.stdout.take().unwrap();
        let begun = std::time::Instant::now();
        drop(process);
        io::Read::read_to_end(&mut pipe, &mut Vec::new()).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
}
