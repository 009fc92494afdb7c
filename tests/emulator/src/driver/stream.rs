//! Streams, events and graphs. An operation submitted to a stream runs at once, or is recorded while the stream is captured; a
//! graph holds a capture's operations, to be run again.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::launch::Launch;
use super::memory::Address;
use super::{
    CAPTURE_UNMATCHED, CAPTURE_UNSUPPORTED, INVALID_HANDLE, INVALID_VALUE, Status, answer, context,
    destroy,
};

/// A `CUstream`.
#[derive(Debug, Default)]
pub struct Stream {
    captured: Mutex<Option<Vec<Operation>>>,
}

/// An operation of a stream.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Launch(Launch),
    Copy {
        to: Address,
        from: Address,
        width: usize,
        height: usize,
        to_pitch: usize,
        from_pitch: usize,
    },
    Fill {
        to: Address,
        value: u8,
        bytes: usize,
    },
}

impl Operation {
    /// A copy of contiguous bytes.
    pub(crate) fn copy(to: Address, from: Address, bytes: usize) -> Operation {
        Operation::Copy {
            to,
            from,
            width: bytes,
            height: 1,
            to_pitch: bytes,
            from_pitch: bytes,
        }
    }

    /// Runs the operation.
    ///
    /// # Safety
    ///
    /// The addresses are those of live memory.
    pub(crate) unsafe fn run(&self) -> Result<(), Status> {
        context()?;
        match self {
            Operation::Launch(launch) => launch.run(),
            Operation::Copy {
                to,
                from,
                width,
                height,
                to_pitch,
                from_pitch,
            } => {
                for row in 0..*height {
                    let to = *to as usize + row * to_pitch;
                    let from = *from as usize + row * from_pitch;
                    // SAFETY: as the caller promises.
                    unsafe { copy_row(to, from, *width) };
                }
                Ok(())
            }
            Operation::Fill { to, value, bytes } => {
                let at: *mut u8 = std::ptr::with_exposed_provenance_mut(*to as usize);
                // SAFETY: as the caller promises.
                unsafe { at.write_bytes(*value, *bytes) };
                crate::grid::check::copied(*to as usize, None, *bytes);
                Ok(())
            }
        }
    }
}

unsafe fn copy_row(to: usize, from: usize, bytes: usize) {
    let source: *const u8 = std::ptr::with_exposed_provenance(from);
    let target: *mut u8 = std::ptr::with_exposed_provenance_mut(to);
    // SAFETY: the caller's memory, which may overlap.
    unsafe { std::ptr::copy(source, target, bytes) };
    crate::grid::check::copied(to, Some(from), bytes);
}

/// Runs an operation, or records it in the graph that the stream is captured into.
///
/// # Safety
///
/// As `Operation::run`; the stream is null or live.
pub(crate) unsafe fn submit(stream: *mut Stream, operation: Operation) -> Result<(), Status> {
    // SAFETY: the caller's stream.
    if let Some(stream) = unsafe { stream.as_ref() }
        && let Some(captured) = &mut *lock(&stream.captured)
    {
        captured.push(operation);
        return Ok(());
    }
    // SAFETY: as the caller promises.
    unsafe { operation.run() }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A `CUevent`.
#[derive(Debug, Default)]
pub struct Event {
    at: Mutex<Option<Instant>>,
}

/// A `CUgraph` and a `CUgraphExec` alike: instantiating needs no preparation.
#[derive(Debug)]
pub struct Graph {
    operations: Vec<Operation>,
}

functions! {
    fn cuStreamCreate(to: *mut *mut Stream, _flags: c_uint) {
        context()?;
        // SAFETY: the caller's pointer.
        unsafe { answer(to, Box::into_raw(Box::default())) }
    }

    fn cuStreamDestroy_v2(stream: *mut Stream) {
        // SAFETY: from `cuStreamCreate`, and the caller's last use.
        unsafe { destroy(stream) }
    }

    fn cuStreamSynchronize(stream: *mut Stream) {
        // SAFETY: the caller's stream.
        let stream = unsafe { stream.as_ref() };
        if stream.is_some_and(|stream| lock(&stream.captured).is_some()) {
            return Err(CAPTURE_UNSUPPORTED);
        }
        context()
    }

    fn cuStreamWaitEvent(_stream: *mut Stream, _event: *mut Event, _flags: c_uint) { context() }

    fn cuEventCreate(to: *mut *mut Event, _flags: c_uint) {
        context()?;
        // SAFETY: the caller's pointer.
        unsafe { answer(to, Box::into_raw(Box::default())) }
    }

    fn cuEventDestroy_v2(event: *mut Event) {
        // SAFETY: from `cuEventCreate`, and the caller's last use.
        unsafe { destroy(event) }
    }

    fn cuEventRecord(event: *mut Event, _stream: *mut Stream) {
        context()?;
        // SAFETY: the caller's event.
        let event = unsafe { event.as_ref() }.ok_or(INVALID_HANDLE)?;
        *lock(&event.at) = Some(Instant::now());
        Ok(())
    }

    fn cuEventSynchronize(_event: *mut Event) { context() }

    fn cuEventQuery(_event: *mut Event) { context() }

    fn cuEventElapsedTime(to: *mut f32, start: *mut Event, end: *mut Event) {
        context()?;
        // SAFETY: the caller's events.
        let (start, end) = unsafe { (start.as_ref(), end.as_ref()) };
        let at = |event: Option<&Event>| event.and_then(|event| *lock(&event.at)).ok_or(INVALID_HANDLE);
        let passed = at(end)?.saturating_duration_since(at(start)?);
        // SAFETY: the caller's pointer.
        unsafe { answer(to, passed.as_secs_f32() * 1000.0) }
    }

    fn cuStreamBeginCapture_v2(stream: *mut Stream, _mode: c_uint) {
        context()?;
        // SAFETY: the caller's stream. The default stream can't be captured.
        let stream = unsafe { stream.as_ref() }.ok_or(CAPTURE_UNSUPPORTED)?;
        let mut captured = lock(&stream.captured);
        if captured.is_some() {
            return Err(CAPTURE_UNSUPPORTED);
        }
        *captured = Some(Vec::new());
        Ok(())
    }

    fn cuStreamEndCapture(stream: *mut Stream, to: *mut *mut Graph) {
        // SAFETY: the caller's stream.
        let stream = unsafe { stream.as_ref() }.ok_or(INVALID_HANDLE)?;
        let operations = lock(&stream.captured).take().ok_or(CAPTURE_UNMATCHED)?;
        // SAFETY: the caller's pointer.
        unsafe { answer(to, Box::into_raw(Box::new(Graph { operations }))) }
    }

    fn cuStreamIsCapturing(stream: *mut Stream, to: *mut c_int) {
        // SAFETY: the caller's stream.
        let stream = unsafe { stream.as_ref() };
        let capturing = stream.is_some_and(|stream| lock(&stream.captured).is_some());
        // SAFETY: the caller's pointer.
        unsafe { answer(to, c_int::from(capturing)) }
    }

    /// The nodes are pointers to the graph's operations: they are valid as long as the graph is.
    fn cuGraphGetNodes(graph: *mut Graph, nodes: *mut *const c_void, count: *mut usize) {
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
    }

    /// `CUgraphNodeType` and `hipGraphNodeType` share the numbers of kernels, copies and fills.
    fn cuGraphNodeGetType(node: *const c_void, to: *mut c_uint) {
        // SAFETY: a node of a live graph.
        let kind: c_uint = match unsafe { node.cast::<Operation>().as_ref() }.ok_or(INVALID_HANDLE)? {
            Operation::Launch(_) => 0,
            Operation::Copy { .. } => 1,
            Operation::Fill { .. } => 2,
        };
        // SAFETY: the caller's pointer.
        unsafe { answer(to, kind) }
    }

    fn cuGraphInstantiateWithFlags(to: *mut *mut Graph, graph: *mut Graph, _flags: u64) {
        // SAFETY: the caller's graph.
        let graph = unsafe { graph.as_ref() }.ok_or(INVALID_HANDLE)?;
        let operations = graph.operations.clone();
        // SAFETY: the caller's pointer.
        unsafe { answer(to, Box::into_raw(Box::new(Graph { operations }))) }
    }

    fn cuGraphUpload(_graph: *mut Graph, _stream: *mut Stream) { context() }

    fn cuGraphLaunch(graph: *mut Graph, _stream: *mut Stream) {
        // SAFETY: the caller's graph, whose operations name live memory.
        unsafe {
            let graph = graph.as_ref().ok_or(INVALID_HANDLE)?;
            graph.operations.iter().try_for_each(|operation| operation.run())
        }
    }

    fn cuGraphDestroy(graph: *mut Graph) {
        // SAFETY: from a capture or an instantiation, and the caller's last use.
        unsafe { destroy(graph) }
    }
}

renamed! {
    fn cuStreamCreateWithPriority(to: *mut *mut Stream, flags: c_uint, _priority: c_int) = cuStreamCreate(to, flags);
    fn cuEventElapsedTime_v2(to: *mut f32, start: *mut Event, end: *mut Event) = cuEventElapsedTime(to, start, end);
    fn cuGraphExecDestroy(graph: *mut Graph) = cuGraphDestroy(graph);
}
