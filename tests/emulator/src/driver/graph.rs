//! Graphs: what a captured stream was given, to be done again.

use std::ffi::{c_int, c_uint, c_void};

use super::stream::{Operation, Stream};
use super::{
    CAPTURE_UNMATCHED, CAPTURE_UNSUPPORTED, INVALID_HANDLE, INVALID_VALUE, SUCCESS, Status, answer,
    context, status,
};

/// A `CUgraph`, and a `CUgraphExec`: there is nothing to prepare.
#[derive(Debug)]
pub struct Graph {
    operations: Vec<Operation>,
}

/// See `cuStreamBeginCapture_v2`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamBeginCapture_v2(stream: *mut Stream, _mode: c_uint) -> Status {
    status(|| {
        context()?;
        // SAFETY: the caller's stream. The default stream can't be captured.
        let stream = unsafe { stream.as_ref() }.ok_or(CAPTURE_UNSUPPORTED)?;
        let mut captured = stream.captured();
        if captured.is_some() {
            return Err(CAPTURE_UNSUPPORTED);
        }
        *captured = Some(Vec::new());
        Ok(())
    })
}

/// See `cuStreamEndCapture`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamEndCapture(stream: *mut Stream, to: *mut *mut Graph) -> Status {
    status(|| {
        // SAFETY: the caller's stream.
        let stream = unsafe { stream.as_ref() }.ok_or(INVALID_HANDLE)?;
        let operations = stream.captured().take().ok_or(CAPTURE_UNMATCHED)?;
        let graph = Box::new(Graph { operations });
        // SAFETY: the caller's pointer.
        unsafe { answer(to, Box::into_raw(graph)) }
    })
}

/// See `cuStreamIsCapturing`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamIsCapturing(stream: *mut Stream, to: *mut c_int) -> Status {
    // SAFETY: the caller's stream.
    let stream = unsafe { stream.as_ref() };
    let capturing = stream.is_some_and(|stream| stream.captured().is_some());
    // SAFETY: the caller's pointer.
    status(|| unsafe { answer(to, c_int::from(capturing)) })
}

/// See `cuGraphGetNodes`. The operations are the nodes: a graph must outlive what is asked of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphGetNodes(
    graph: *mut Graph,
    nodes: *mut *const c_void,
    count: *mut usize,
) -> Status {
    status(|| {
        // SAFETY: the caller's graph and pointers; `nodes` has room for `count`.
        unsafe {
            let graph = graph.as_ref().ok_or(INVALID_HANDLE)?;
            if nodes.is_null() {
                return answer(count, graph.operations.len());
            }
            let room = count.as_ref().copied().ok_or(INVALID_VALUE)?;
            for (index, operation) in graph.operations.iter().take(room).enumerate() {
                nodes.add(index).write(std::ptr::from_ref(operation).cast());
            }
            answer(count, graph.operations.len().min(room))
        }
    })
}

/// See `cuGraphNodeGetType`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphNodeGetType(node: *const c_void, to: *mut c_uint) -> Status {
    const KERNEL: c_uint = 0;
    const COPY: c_uint = 1;
    const FILL: c_uint = 2;
    status(|| {
        // SAFETY: a node of a live graph.
        let kind = match unsafe { node.cast::<Operation>().as_ref() }.ok_or(INVALID_HANDLE)? {
            Operation::Launch(_) => KERNEL,
            Operation::Copy { .. } => COPY,
            Operation::Fill { .. } => FILL,
        };
        // SAFETY: the caller's pointer.
        unsafe { answer(to, kind) }
    })
}

/// See `cuGraphInstantiateWithFlags`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphInstantiateWithFlags(
    to: *mut *mut Graph,
    graph: *mut Graph,
    _flags: u64,
) -> Status {
    status(|| {
        // SAFETY: the caller's graph.
        let operations = unsafe { graph.as_ref() }
            .ok_or(INVALID_HANDLE)?
            .operations
            .clone();
        // SAFETY: the caller's pointer.
        unsafe { answer(to, Box::into_raw(Box::new(Graph { operations }))) }
    })
}

/// See `cuGraphUpload`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphUpload(_graph: *mut Graph, _stream: *mut Stream) -> Status {
    status(context)
}

/// See `cuGraphLaunch`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphLaunch(graph: *mut Graph, _stream: *mut Stream) -> Status {
    status(|| {
        // SAFETY: the caller's graph, whose operations name live memory.
        unsafe {
            let graph = graph.as_ref().ok_or(INVALID_HANDLE)?;
            graph
                .operations
                .iter()
                .try_for_each(|operation| operation.run())
        }
    })
}

/// See `cuGraphDestroy`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphDestroy(graph: *mut Graph) -> Status {
    if graph.is_null() {
        return INVALID_HANDLE;
    }
    // SAFETY: from a capture or an instantiation, and the caller's last use.
    drop(unsafe { Box::from_raw(graph) });
    SUCCESS
}

/// See `cuGraphExecDestroy`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphExecDestroy(graph: *mut Graph) -> Status {
    // SAFETY: as there.
    unsafe { cuGraphDestroy(graph) }
}
