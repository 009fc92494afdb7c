//! Imports that nearly every file of kernels needs: buffers, the device that plans read, and helpers for launches.

pub(crate) use crate::element::DeviceElement;
pub(crate) use crate::error::{PlanError, Unsupported};
pub(crate) use crate::grid::{Grid, count, lanes};
pub(crate) use crate::launched;
pub(crate) use crate::named::{bind, buffers, empty_words, part};
pub(crate) use crate::{BROWSER, not_in_a_browser};
pub(crate) use cubecl::server::Handle;
pub(crate) use moebius_device::Capability;
pub(crate) use moebius_ops::Element;
