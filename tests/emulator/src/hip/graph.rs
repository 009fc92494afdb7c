//! Graphs. The numbers of HIP's kinds of nodes that occur here are CUDA's.

use std::ffi::{c_char, c_uint, c_void};

use crate::driver::Status;
use crate::driver::graph::{
    Graph, cuGraphDestroy, cuGraphExecDestroy, cuGraphGetNodes, cuGraphInstantiateWithFlags,
    cuGraphLaunch, cuGraphNodeGetType, cuGraphUpload, cuStreamBeginCapture_v2, cuStreamEndCapture,
};
use crate::driver::stream::Stream;

/// See `hipStreamBeginCapture`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipStreamBeginCapture(stream: *mut Stream, mode: c_uint) -> Status {
    // SAFETY: the caller's stream.
    unsafe { cuStreamBeginCapture_v2(stream, mode) }
}

/// See `hipStreamEndCapture`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipStreamEndCapture(stream: *mut Stream, to: *mut *mut Graph) -> Status {
    // SAFETY: the caller's stream and pointer.
    unsafe { cuStreamEndCapture(stream, to) }
}

/// See `hipGraphGetNodes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipGraphGetNodes(
    graph: *mut Graph,
    nodes: *mut *const c_void,
    count: *mut usize,
) -> Status {
    // SAFETY: the caller's graph and pointers.
    unsafe { cuGraphGetNodes(graph, nodes, count) }
}

/// See `hipGraphNodeGetType`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipGraphNodeGetType(node: *const c_void, to: *mut c_uint) -> Status {
    // SAFETY: the caller's node and pointer.
    unsafe { cuGraphNodeGetType(node, to) }
}

/// See `hipGraphInstantiate`. Nothing can go wrong in a node, so no node is told.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipGraphInstantiate(
    to: *mut *mut Graph,
    graph: *mut Graph,
    _node: *mut *const c_void,
    _log: *mut c_char,
    _room: usize,
) -> Status {
    // SAFETY: the caller's pointer and graph.
    unsafe { cuGraphInstantiateWithFlags(to, graph, 0) }
}

/// See `hipGraphUpload`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipGraphUpload(graph: *mut Graph, stream: *mut Stream) -> Status {
    // SAFETY: the caller's graph and stream.
    unsafe { cuGraphUpload(graph, stream) }
}

/// See `hipGraphLaunch`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipGraphLaunch(graph: *mut Graph, stream: *mut Stream) -> Status {
    // SAFETY: the caller's graph and stream.
    unsafe { cuGraphLaunch(graph, stream) }
}

/// See `hipGraphDestroy`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipGraphDestroy(graph: *mut Graph) -> Status {
    // SAFETY: the caller's graph.
    unsafe { cuGraphDestroy(graph) }
}

/// See `hipGraphExecDestroy`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipGraphExecDestroy(graph: *mut Graph) -> Status {
    // SAFETY: the caller's graph.
    unsafe { cuGraphExecDestroy(graph) }
}
