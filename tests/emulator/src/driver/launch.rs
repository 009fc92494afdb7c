//! Launches: the checks of a grid's shape, the memory that a kernel may touch, and the run itself.

use std::ffi::{c_uint, c_void};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use super::memory::{Buffer, buffers};
use super::module::Function;
use super::stream::{Operation, Stream, submit};
use super::{INVALID_HANDLE, INVALID_VALUE, Status, context, lose_context, unsupported};
use crate::grid::Order;
use crate::grid::block::Fault;
use crate::grid::check::Check;
use crate::grid::snapshot::Snapshot;
use crate::grid::state::{Dim3, KernelEntry};
use crate::grid::{self, Shape};
use crate::report;
use crate::settings::{self, Maker};

/// A kernel with copies of its arguments, since a graph launches it long after the call.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub(crate) function: &'static Function,
    pub(crate) shape: Shape,
    arguments: Vec<Vec<Aligned>>,
}

/// Storage for arguments, aligned for the most demanding parameter, a tensor map.
#[derive(Clone, Copy, Debug)]
#[repr(align(128))]
struct Aligned(#[allow(dead_code, reason = "read by the kernel")] [u8; 128]);

/// Lets one launch run at a time: orders and checks compare memory before and after it.
static RUNNING: Mutex<()> = Mutex::new(());

impl Launch {
    /// # Safety
    ///
    /// The parameters are what the function's signature says.
    unsafe fn new(
        function: *const Function,
        shape: Shape,
        parameters: *const *const c_void,
    ) -> Result<Launch, Status> {
        // SAFETY: functions are never freed.
        let function: &'static Function = unsafe { function.as_ref() }.ok_or(INVALID_HANDLE)?;
        let entry = function.entry();
        check_launch(function, &shape)?;
        let mut arguments = Vec::new();
        for index in 0..entry.parameters as usize {
            if parameters.is_null() {
                return Err(INVALID_VALUE);
            }
            // SAFETY: the entry has the sizes of its parameters, and the caller as many values.
            arguments.push(unsafe {
                let bytes = *entry.sizes.add(index) as usize;
                let mut copy = vec![Aligned([0; 128]); bytes.div_ceil(128).max(1)];
                let from: *const u8 = (*parameters.add(index)).cast();
                std::ptr::copy_nonoverlapping(from, copy.as_mut_ptr().cast(), bytes);
                copy
            });
        }
        Ok(Launch {
            function,
            shape,
            arguments,
        })
    }

    /// Runs the kernel. A fault is reported and loses the context, but the launch itself succeeds, as on a GPU.
    pub(crate) fn run(&self) -> Result<(), Status> {
        let _one = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let pointers: Vec<*mut c_void> = self
            .arguments
            .iter()
            .map(|argument| argument.as_ptr().cast_mut().cast())
            .collect();
        let lost = match settings::get().orders.as_slice() {
            [order] if !self.is_spoiled() => self.in_order(&pointers, *order),
            orders => self.in_orders(&pointers, orders),
        };
        if let Some(status) = lost {
            lose_context(status);
        }
        Ok(())
    }

    /// Whether the results are to be spoiled.
    fn is_spoiled(&self) -> bool {
        settings::get().spoils(&self.function.name)
    }

    /// Runs the kernel in each order from the same memory; all orders must leave the same bits, which are spoiled where that is asked for.
    fn in_orders(&self, arguments: &[*mut c_void], orders: &[Order]) -> Option<Status> {
        let snapshot = match Snapshot::new(&self.memory()) {
            Ok(snapshot) => snapshot,
            Err(error) => return Some(report::fault(self, &Fault::Stacks(error.to_string()))),
        };
        let mut lost = self.in_order(arguments, orders[0]);
        let first = snapshot.result();
        for &order in &orders[1..] {
            if lost.is_some() {
                break;
            }
            snapshot.restore();
            lost = self.in_order(arguments, order);
            if let Some(address) = snapshot.difference(&first) {
                lost = lost.or(report::order(self, orders[0], order, address));
                snapshot.restore();
                self.in_order(arguments, orders[0]);
            }
        }
        if self.is_spoiled() {
            snapshot.spoil();
        }
        lost
    }

    /// The pages of all buffers that an argument points into.
    fn memory(&self) -> Vec<(usize, usize)> {
        let buffers = buffers();
        let mut pages = Vec::new();
        for (index, argument) in self.arguments.iter().enumerate() {
            // SAFETY: the entry has the sizes of its parameters.
            let size = unsafe { *self.function.entry().sizes.add(index) };
            if size != 8 {
                continue;
            }
            // SAFETY: eight bytes, aligned as anything is.
            let address = unsafe { argument.as_ptr().cast::<u64>().read() };
            pages.extend(
                buffers
                    .around(address as usize)
                    .map(|(_, buffer)| buffer.pages()),
            );
        }
        pages.sort_unstable();
        pages.dedup();
        pages
    }

    /// Runs the kernel in one order; returns the status with which it lost the context, if it did.
    fn in_order(&self, arguments: &[*mut c_void], order: Order) -> Option<Status> {
        let (grid, block) = (self.shape.grid, self.shape.block);
        let mut check = settings::get().check.then(|| {
            let given: Vec<*const u8> = arguments.iter().map(|at| at.cast_const().cast()).collect();
            // SAFETY: the entry and its arguments belong together.
            let bounds = unsafe { bounds(self.function.entry(), &given) };
            Check::new(grid, block, bounds)
        });
        let checked = check
            .as_mut()
            .map_or(std::ptr::null_mut(), std::ptr::from_mut);
        let entry = self.function.entry;
        // SAFETY: the entry and its arguments belong together.
        let outcome = unsafe { grid::run(entry, arguments, &self.shape, order, checked) };
        let found = check.map_or(Vec::new(), |check| check.found);
        let lost = report::found(self, &found);
        lost.or(outcome.err().map(|fault| report::fault(self, &fault)))
    }
}

/// Checks a launch's shape as the driver does before anything runs.
fn check_launch(function: &Function, shape: &Shape) -> Result<(), Status> {
    let Shape {
        grid,
        block,
        shared_bytes,
    } = shape;
    let within = |size: &Dim3, most: [u32; 3]| {
        let size = [size.x, size.y, size.z];
        size.iter()
            .zip(most)
            .all(|(&size, most)| (1..=most).contains(&size))
    };
    let most_shared = function.most_shared.load(Ordering::Relaxed);
    let most_threads = u64::from(function.entry().most_threads.min(1024));
    let (most_grid, most_block) = match settings::get().card.maker {
        Maker::Nvidia(..) => (65535, 64),
        Maker::Amd(_) => (65536, 1024),
    };
    let ok = within(grid, [i32::MAX as u32, most_grid, most_grid])
        && within(block, [1024, 1024, most_block])
        && block.count() <= most_threads
        && u64::from(*shared_bytes) <= u64::from(most_shared.unsigned_abs());
    ok.then_some(()).ok_or(INVALID_VALUE)
}

/// The sorted, disjoint address ranges that a kernel may touch: the tensors that its arguments point to, or all buffers of the
/// card if the launch passes no lengths. CubeCL keeps many tensors in one buffer of the driver, and passes each one's length to
/// the kernel.
///
/// # Safety
///
/// The arguments point to what the kernel's parameters say.
unsafe fn bounds(entry: &KernelEntry, arguments: &[*const u8]) -> Vec<(usize, usize)> {
    let buffers = buffers();
    let whole = |(start, buffer): (usize, &Buffer)| (start, start + buffer.bytes);
    let Some((last, pointers)) = arguments.split_last().filter(|_| entry.length_bytes > 0) else {
        let all = buffers.by_address.iter();
        return all.map(|(&start, buffer)| whole((start, buffer))).collect();
    };
    let with_lengths = pointers.len() - entry.dynamic as usize;
    // SAFETY: as the caller promises; the entry has as many element sizes as arguments, and the last argument, or what it
    // points to, has a length for each buffer.
    let given = unsafe {
        let elements = |index: usize| *entry.elements.add(index) as usize;
        let address = |argument: *const u8| argument.cast::<usize>().read();
        let info = match elements(pointers.len()) {
            0 => *last,
            _ => std::ptr::with_exposed_provenance(address(*last)),
        };
        let length = |index: usize| {
            let at = info.add(entry.lengths as usize + index * entry.length_bytes as usize);
            match entry.length_bytes {
                4 => at.cast::<u32>().read() as usize,
                _ => at.cast::<u64>().read() as usize,
            }
        };
        let tensor = |(index, argument): (usize, &*const u8)| {
            let start = address(*argument);
            (start, start + length(index) * elements(index))
        };
        let tensors = pointers[..with_lengths].iter().enumerate().map(tensor);
        // Shapes and the lengths themselves lie in buffers of their own.
        let others = arguments[with_lengths..].iter().enumerate();
        let others = others.filter(|(index, _)| elements(with_lengths + index) > 0);
        let others = others.filter_map(|(_, argument)| buffers.around(address(*argument)));
        tensors.chain(others.map(whole)).collect()
    };
    apart(given)
}

/// Sorts ranges and merges those that overlap: an operand may be read and written through two arguments.
fn apart(mut ranges: Vec<(usize, usize)>) -> Vec<(usize, usize)> {
    ranges.sort_unstable();
    let mut apart: Vec<(usize, usize)> = Vec::new();
    for (start, end) in ranges.into_iter().filter(|(start, end)| start < end) {
        match apart.last_mut() {
            Some((_, last)) if start < *last => *last = end.max(*last),
            _ => apart.push((start, end)),
        }
    }
    apart
}

/// Submits a launch to a stream.
///
/// # Safety
///
/// The function and the stream are null or live; the parameters are what the function's signature says.
pub(crate) unsafe fn put(
    function: *const Function,
    shape: Shape,
    stream: *mut Stream,
    parameters: *const *const c_void,
    extra: *const *const c_void,
) -> Result<(), Status> {
    context()?;
    if !extra.is_null() {
        return Err(unsupported("arguments in one buffer"));
    }
    // SAFETY: as the caller promises.
    unsafe {
        let launch = Launch::new(function, shape, parameters)?;
        submit(stream, Operation::Launch(launch))
    }
}

/// `CUlaunchConfig`.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs, reason = "the fields are those of the CUDA driver API")]
pub struct Config {
    pub grid: [c_uint; 3],
    pub block: [c_uint; 3],
    pub shared_bytes: c_uint,
    pub stream: *mut Stream,
    pub attributes: *const c_void,
    pub attribute_count: c_uint,
}

functions! {
    fn cuLaunchKernel(
        function: *const Function,
        grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
        block_x: c_uint, block_y: c_uint, block_z: c_uint,
        shared_bytes: c_uint, stream: *mut Stream, parameters: *const *const c_void, extra: *const *const c_void,
    ) {
        let (grid, block) = ([grid_x, grid_y, grid_z].into(), [block_x, block_y, block_z].into());
        // SAFETY: the caller's function, parameters and stream.
        unsafe { put(function, Shape { grid, block, shared_bytes }, stream, parameters, extra) }
    }

    /// Attributes are refused: clusters and the like are not emulated.
    fn cuLaunchKernelEx(
        config: *const Config, function: *const Function, parameters: *const *const c_void, extra: *const *const c_void,
    ) {
        // SAFETY: the caller's description.
        let config = unsafe { config.as_ref() }.ok_or(INVALID_VALUE)?;
        if config.attribute_count > 0 {
            return Err(unsupported("attributes of a launch"));
        }
        let (grid, block) = (config.grid.into(), config.block.into());
        let shape = Shape { grid, block, shared_bytes: config.shared_bytes };
        // SAFETY: the caller's function, parameters and stream.
        unsafe { put(function, shape, config.stream, parameters, extra) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::state::Thread;

    #[test]
    fn tensors_are_as_long_as_the_kernel_is_told() {
        unsafe extern "C" fn thread(_: *const *mut c_void) {}
        unsafe extern "C" fn threads(_: *const *mut c_void, _: *mut Thread) {}
        // Arguments: words, vectors of four floats, shapes, and last a scalar with two lengths.
        let (sizes, elements) = ([8, 8, 8, 12], [4, 16, 4, 0]);
        let entry = KernelEntry {
            name: std::ptr::null(),
            thread,
            threads,
            sizes: sizes.as_ptr(),
            elements: elements.as_ptr(),
            parameters: 4,
            most_threads: 1,
            waits: 0,
            lengths: 4,
            length_bytes: 4,
            dynamic: 1,
        };
        let (pointers, info) = ([4096_usize, 64, 1 << 40], [7_u32, 5, 3]);
        let pointers = pointers.iter().map(|at| std::ptr::from_ref(at).cast());
        let arguments: Vec<*const u8> = pointers.chain([info.as_ptr().cast()]).collect();
        // SAFETY: the arguments are as the entry says.
        let found = unsafe { bounds(&entry, &arguments) };
        assert_eq!(found, [(64, 64 + 3 * 16), (4096, 4096 + 5 * 4)]);
    }

    #[test]
    fn ranges_that_overlap_are_one() {
        let given = vec![(8, 12), (0, 4), (4, 6), (5, 7), (20, 20), (9, 10)];
        assert_eq!(apart(given), [(0, 4), (4, 7), (8, 12)]);
    }
}
