//! What a launch may touch: CubeCL keeps many tensors in one buffer of the driver, and tells a kernel how long each is.

use super::memory::{Buffer, buffers};
use crate::grid::state::KernelEntry;

/// Begin and end of everything that a kernel may touch, in order and apart: the tensors that its arguments point to, or all
/// buffers of the card where no lengths are told.
///
/// # Safety
///
/// The arguments point to what the kernel's parameters say.
pub(crate) unsafe fn of(entry: &KernelEntry, arguments: &[*const u8]) -> Vec<(usize, usize)> {
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
        // Shapes, and what the lengths are in, lie in buffers of their own.
        let others = arguments[with_lengths..].iter().enumerate();
        let others = others.filter(|(index, _)| elements(with_lengths + index) > 0);
        let others = others.filter_map(|(_, argument)| buffers.around(address(*argument)));
        tensors.chain(others.map(whole)).collect()
    };
    apart(given)
}

/// The same in order, as one where they overlap: an operand may be read and written through two arguments.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::state::Thread;
    use std::ffi::c_void;

    #[test]
    fn tensors_are_as_long_as_the_kernel_is_told() {
        unsafe extern "C" fn thread(_: *const *mut c_void) {}
        unsafe extern "C" fn threads(_: *const *mut c_void, _: *mut Thread) {}
        // Words, vectors of four floats, shapes, and at last a scalar and two lengths.
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
        let found = unsafe { of(&entry, &arguments) };
        assert_eq!(found, [(64, 64 + 3 * 16), (4096, 4096 + 5 * 4)]);
    }

    #[test]
    fn ranges_that_overlap_are_one() {
        let given = vec![(8, 12), (0, 4), (4, 6), (5, 7), (20, 20), (9, 10)];
        assert_eq!(apart(given), [(0, 4), (4, 7), (8, 12)]);
    }
}
