//! A process to run, and the conditions for its start.

use std::path::PathBuf;

/// What is counted in a job's output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Counts {
    /// Tests: at least one must run, and none may be ignored.
    Tests,
    /// Unit tests, of which a crate may have none; none may be ignored.
    Units,
    /// Nothing: only the exit status matters.
    #[default]
    Nothing,
}

/// The lock of jobs that compile with XLA: compiled programs are counted by the new files in the cache folder, and two jobs at
/// once would count each other's.
pub(crate) const XLA: &str = "xla";

/// A process of the run, with its conditions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Job {
    /// The job's name in the report and in other jobs' `after`.
    pub(crate) name: String,
    /// The program and its arguments.
    pub(crate) command: Vec<String>,
    /// Environment variables in addition to the runner's.
    pub(crate) variables: Vec<(String, String)>,
    /// The working directory.
    pub(crate) folder: PathBuf,
    pub(crate) counts: Counts,
    /// Whether no other job may run at the same time.
    pub(crate) alone: bool,
    /// Whether the job may ask on the terminal, as `sudo` asks for a password.
    pub(crate) asks: bool,
    /// A lock that only one running job may hold, such as for cargo's target folder or the list of XLA's programs.
    pub(crate) holds: Option<&'static str>,
    /// Names of jobs that must have passed first; names that aren't part of this run are ignored.
    pub(crate) after: Vec<String>,
    /// Whether the job has an entry in the ledger of deep jobs.
    pub(crate) deep: bool,
    /// The programs and folders that, together with the tree's data and the machine, decide the job's outcome: while they are
    /// unchanged, a job that passed need not run again. Empty for a job that always runs.
    pub(crate) depends_on: Vec<PathBuf>,
    /// The folders of [`READ_BY`](crate::unchanged::READ_BY), data that few jobs read, that this job reads.
    pub(crate) reads: Vec<&'static str>,
}

impl Job {
    /// A job whose output isn't counted and that may run beside any other.
    pub(crate) fn new(name: impl Into<String>, command: &[&str]) -> Self {
        Self {
            name: name.into(),
            folder: PathBuf::from("."),
            ..Self::default()
        }
        .arguments(command)
    }

    /// As [`Job::new`], with the command as one string whose words have no spaces.
    pub(crate) fn words(name: impl Into<String>, command: &str) -> Self {
        Self::new(name, &command.split_whitespace().collect::<Vec<_>>())
    }

    /// Appends words to the command.
    pub(crate) fn arguments(mut self, words: &[&str]) -> Self {
        let words = words.iter().map(|word| (*word).to_owned());
        self.command.extend(words);
        self
    }

    /// Puts another command's words first, so that it runs this one.
    pub(crate) fn under(mut self, words: &[&str]) -> Self {
        let words = words.iter().map(|word| (*word).to_owned());
        self.command.splice(0..0, words);
        self
    }

    pub(crate) fn tests(mut self) -> Self {
        self.counts = Counts::Tests;
        self
    }

    pub(crate) fn holding(mut self, what: &'static str) -> Self {
        self.holds = Some(what);
        self
    }

    /// Lets the job pass without a run while these programs and folders are unchanged.
    pub(crate) fn depending_on(
        mut self,
        paths: impl IntoIterator<Item = impl Into<PathBuf>>,
    ) -> Self {
        self.depends_on.extend(paths.into_iter().map(Into::into));
        self
    }

    pub(crate) fn after(mut self, name: &str) -> Self {
        self.after.push(name.to_owned());
        self
    }

    /// The value of one of the job's own environment variables.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        let found = self.variables.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.variables.push((name.to_owned(), value.into()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self
    }
}
