//! One process to run, and what must be true before it may start.

use std::path::PathBuf;

/// What a job's output counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Counts {
    /// Tests: at least one must run, and none may be left out.
    Tests,
    /// Unit tests, of which a crate may have none.
    Units,
    /// Nothing but its exit status.
    #[default]
    Nothing,
}

/// What a job holds that compiles with XLA: programs are counted by the files that appear in the folder of kept ones, and
/// two at once would count each other's.
pub(crate) const XLA: &str = "xla";

/// A process of the run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Job {
    /// What the report calls it; others name it in `after`.
    pub(crate) name: String,
    /// The program and its arguments.
    pub(crate) command: Vec<String>,
    /// Variables beside those of the runner.
    pub(crate) variables: Vec<(String, String)>,
    /// Where it runs.
    pub(crate) folder: PathBuf,
    pub(crate) counts: Counts,
    /// Whether nothing may run beside it.
    pub(crate) alone: bool,
    /// Whether it may ask on the terminal, as `sudo` does for a password.
    pub(crate) asks: bool,
    /// What two jobs at once would fight for: cargo's target folder, the list of XLA's programs.
    pub(crate) holds: Option<&'static str>,
    /// Names of jobs that must have passed; those that aren't part of this run don't count.
    pub(crate) after: Vec<String>,
    /// The entry in the ledger of deep jobs, for those.
    pub(crate) deep: bool,
    /// Programs and folders that decide, with the tree's data and the machine, what comes of the job: while they are the
    /// same, a job that passed need not run again. Empty for a job that always runs.
    pub(crate) depends_on: Vec<PathBuf>,
    /// Of the folders of data that few jobs read ([`READ_BY`](crate::unchanged::READ_BY)), those that this one does.
    pub(crate) reads: Vec<&'static str>,
}

impl Job {
    /// A job that counts nothing and may run beside any other.
    pub(crate) fn new(name: impl Into<String>, command: &[&str]) -> Self {
        Self {
            name: name.into(),
            folder: PathBuf::from("."),
            ..Self::default()
        }
        .arguments(command)
    }

    /// [`Job::new`] of a command whose words have no spaces.
    pub(crate) fn words(name: impl Into<String>, command: &str) -> Self {
        Self::new(name, &command.split_whitespace().collect::<Vec<_>>())
    }

    /// Adds words to the end of the command.
    pub(crate) fn arguments(mut self, words: &[&str]) -> Self {
        let words = words.iter().map(|word| (*word).to_owned());
        self.command.extend(words);
        self
    }

    /// Has another command run this one: its words come first.
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

    /// Lets the job pass without a run while these programs and folders are the same.
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

    /// The value of a variable of its own.
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
