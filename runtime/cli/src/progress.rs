//! Progress on standard error, drawn only for a person who watches.

use indicatif::{ProgressBar, ProgressStyle};

use crate::screen::Screen;

/// A bar of known length, or a spinner.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar over `steps` steps; hidden where the output is no terminal or JSON is wanted.
    pub(crate) fn steps(screen: &Screen, title: &'static str, steps: usize) -> Self {
        if !screen.shows_progress() {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::new(steps as u64).with_prefix(title);
        // The template is a constant; if it were wrong the default style would do.
        if let Ok(style) = ProgressStyle::with_template("{prefix} [{bar:30}] {pos}/{len} {msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        Self(bar)
    }

    /// A spinner for work of unknown length.
    pub(crate) fn spinner(screen: &Screen) -> Self {
        if !screen.shows_progress() {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::new_spinner();
        bar.enable_steady_tick(std::time::Duration::from_millis(120));
        Self(bar)
    }

    /// Says what is being done.
    pub(crate) fn say(&self, what: &str) {
        self.0.set_message(what.to_owned());
    }

    /// Counts a step.
    pub(crate) fn step(&self) {
        self.0.inc(1);
    }

    /// Counts steps that an earlier run did.
    pub(crate) fn skip(&self, steps: usize) {
        self.0.inc(steps as u64);
    }

    /// Writes while the bar is out of the way.
    pub(crate) fn above<T>(&self, write: impl FnOnce() -> T) -> T {
        self.0.suspend(write)
    }

    /// Removes the bar, so that results start on a clean line.
    pub(crate) fn clear(self) {
        self.0.finish_and_clear();
    }
}
