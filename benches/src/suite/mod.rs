//! The benchmarks that `cargo bench` runs: those of this crate on every device, each verified before it is timed, with one
//! report of all results.
//!
//! [`Options`] says what to measure and [`Places`] on which devices; [`collect()`] runs all tasks with [`measure()`] and
//! goes on after failures; [`Report`] has the results and the program's exit status.

mod collect;
mod measure;
mod options;
mod places;
mod report;

pub use collect::{Event, How, Measure, Task, collect};
pub use measure::measure;
pub use options::{Benchmark, Options, UnknownBenchmark};
pub use places::{NoPlace, Place, Places};
pub use report::{Entry, Figures, Outcome, Rate, Report, Row, Verdict};
