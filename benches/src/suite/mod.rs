//! What `cargo bench` runs: the benchmarks of this crate on every device, each verified before it is timed, and one report
//! of all.
//!
//! [`Options`] says what is wanted, [`Places`] where, [`collect()`] goes through it with [`measure()`], whatever becomes of
//! single ones, and [`Report`] says what was found and with which exit status the program ends.

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
