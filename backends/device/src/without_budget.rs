//! A GPU's memory where wgpu has no Vulkan, whose drivers alone tell of it.

use crate::MemoryFigures;

/// The memory of an adapter; `None`, since wgpu reaches it through another graphics API.
pub(crate) fn of(_: &wgpu::Adapter) -> Option<MemoryFigures> {
    None
}
