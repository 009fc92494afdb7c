//! Progress on standard error, drawn only for a person who watches: where the output is no terminal or JSON is
//! wanted, the bars are hidden.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::screen::Screen;

/// A bar over `steps` steps.
pub(crate) fn steps(screen: &Screen, title: &'static str, steps: usize) -> ProgressBar {
    if !screen.shows_progress() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(steps as u64).with_prefix(title);
    // The template is a constant; if it were wrong the default style would do.
    if let Ok(style) = ProgressStyle::with_template("{prefix} [{bar:30}] {pos}/{len} {msg}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

/// A spinner for work of unknown length.
pub(crate) fn spinner(screen: &Screen) -> ProgressBar {
    if !screen.shows_progress() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner();
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}
