//! What the tests share: reproducible data, devices by name, tolerances.

pub mod data;
pub mod target;
pub mod tolerance;
