//! Programs in StableHLO, as text.
//!
//! A [`Builder`] holds one function. Its methods append operations and return typed [`Value`]s; result types are
//! inferred by the rules of the StableHLO specification (<https://openxla.org/stablehlo/spec>). Operations are those of
//! StableHLO 1.13, which the oldest known plugin reads. Other mistakes in a program are refused by the plugin's
//! verifier, with a line and a column.
//!
//! | file | operations |
//! |---|---|
//! | `builder.rs` | values, arguments, regions, loops, the finished [`Program`] |
//! | `elementwise.rs` | one or more operands of one shape |
//! | `shape.rs` | constants and iota, reshape, transpose, broadcast, slices, pad, concatenate |
//! | `reduce.rs` | reductions, cumulative sums, arg-max |
//! | `contract.rs` | matrix products and convolutions |
//! | `index.rs` | gather, scatter, sort |
//! | `mesh.rs` | programs over several devices |

mod builder;
mod contract;
mod elementwise;
mod index;
mod mesh;
mod reduce;
mod shape;

pub use builder::{Builder, Program, Value};
pub use contract::{Convolution, DotDims};
pub use elementwise::{Along, Binary, Compare, Operand, Repeated, Unary};
pub use index::{Gather, Scatter};
pub use mesh::{Axis, Mesh};
pub use reduce::{Reduction, Window};
