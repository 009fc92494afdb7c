//! Ordinary tensors on the CPU plugin.
