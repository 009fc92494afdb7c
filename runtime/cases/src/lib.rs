//! Runs case files on a device and compares the outputs: a case is an operation with its inputs and expected outputs.
//!
//! A case file is a safetensors file that another implementation wrote. Metadata: `op` (name), `params` (JSON object), `tol` (JSON: output
//! → `{"rel_l2": x}` or `{"exact": true}`). Tensors: `in.<name>` and `out.<name>`. Results are read back asynchronously, because a browser
//! can't block; elsewhere any blocking executor will do.
//!
//! ```
//! use std::path::Path;
//!
//! use moebius_cases::{CaseFile, Verdict};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let path = Path::new("../../tests/cases/route_sigmoid.safetensors");
//! let device = moebius::open(&moebius::Device::Flex)?;
//! let case = CaseFile::read(path)?;
//! for output in pollster::block_on(moebius_cases::judge(&case, &device))? {
//!     assert_eq!(output.verdict, Verdict::Pass, "{}: {}", case.op(), output.name);
//! }
//! # Ok(())
//! # }
//! ```

mod case_file;
mod compute;
mod error;
mod ops;
mod verdict;

pub use case_file::{CaseFile, Tolerance};
pub use error::{CaseError, CompareError, Error, OpError};
pub use ops::{Produced, Values, run};
pub use verdict::{OutputReport, Shapes, Verdict, judge};
