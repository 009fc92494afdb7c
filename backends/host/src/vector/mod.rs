//! Work that is compiled for each kind of vectors, of which the process runs the widest that it may ([`crate::simd()`]).

mod dispatch;
mod functions;

pub(crate) use dispatch::{Kernel, Transpose, dispatch, vectorized};
pub(crate) use functions::{exp, tanh};
