//! Streams: captured operations run each time their graph is launched; rows are copied with their pitch.
#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
#![allow(unsafe_code, reason = "the emulator is a C interface")]

mod card;

use std::ptr::{null, null_mut};

use card::{Buffer, Kernel};
use moebius_emulator::driver::memory::{Copy2d, cuMemcpy2DAsync_v2, cuMemsetD8Async};
use moebius_emulator::driver::stream::*;
use moebius_emulator::driver::{INVALID_HANDLE, SUCCESS, cuTensorMapEncodeTiled, device};

const ADD: &str = "extern \"C\" __global__ void k(unsigned const* in, unsigned* out) {\n\
                   out[threadIdx.x] += in[threadIdx.x];\n}";

#[test]
fn a_graph_repeats_what_was_captured() {
    let (kernel, input, out) = (
        Kernel::new(ADD, "k"),
        Buffer::of(&[3u32; 64]),
        Buffer::of(&[1u32; 64]),
    );
    let (mut stream, mut graph, mut exec) = (null_mut(), null_mut(), null_mut());
    // SAFETY: all pointers outlive their calls, and each handle is destroyed once.
    unsafe {
        assert_eq!(cuStreamCreate(&mut stream, 1), SUCCESS);
        assert_eq!(cuStreamBeginCapture_v2(stream, 0), SUCCESS);
        assert_ne!(cuStreamSynchronize(stream), SUCCESS);
        assert_eq!(kernel.put(stream, 1, 64, &[&input, &out]), SUCCESS);
        assert_eq!(kernel.put(stream, 1, 64, &[&input, &out]), SUCCESS);
        assert_eq!(cuStreamEndCapture(stream, &mut graph), SUCCESS);
        assert_eq!(out.read::<u32>(), [1; 64]);

        let (mut count, mut nodes, mut kind) = (0, [null(); 2], 9);
        assert_eq!(cuGraphGetNodes(graph, null_mut(), &mut count), SUCCESS);
        assert_eq!(count, 2);
        assert_eq!(
            cuGraphGetNodes(graph, nodes.as_mut_ptr(), &mut count),
            SUCCESS
        );
        assert_eq!(cuGraphNodeGetType(nodes[1], &mut kind), SUCCESS);
        assert_eq!(kind, 0);

        assert_eq!(cuGraphInstantiateWithFlags(&mut exec, graph, 0), SUCCESS);
        assert_eq!(cuGraphDestroy(graph), SUCCESS);
        assert_eq!(cuGraphLaunch(exec, stream), SUCCESS);
        assert_eq!(cuGraphLaunch(exec, stream), SUCCESS);
        assert_eq!(cuGraphExecDestroy(exec), SUCCESS);
        assert_eq!(cuStreamDestroy_v2(stream), SUCCESS);
    }
    assert_eq!(out.read::<u32>(), [13; 64]);
}

#[test]
fn rows_are_copied_with_their_pitch() {
    let (from, to) = (Buffer::of(&[1u8, 2, 3, 4, 5, 6, 7, 8]), Buffer::new(16));
    let copy = Copy2d {
        source_x: 1,
        source_y: 0,
        source_kind: 2,
        source_host: null(),
        source_device: from.address,
        source_array: null_mut(),
        source_pitch: 4,
        target_x: 0,
        target_y: 0,
        target_kind: 2,
        target_host: null_mut(),
        target_device: to.address,
        target_array: null_mut(),
        target_pitch: 8,
        width: 3,
        height: 2,
    };
    // SAFETY: the buffers are as large as the copies.
    unsafe {
        assert_eq!(cuMemsetD8Async(to.address, 9, 16, null_mut()), SUCCESS);
        assert_eq!(cuMemcpy2DAsync_v2(&copy, null_mut()), SUCCESS);
    }
    assert_eq!(
        to.read::<u8>(),
        [2, 3, 4, 9, 9, 9, 9, 9, 6, 7, 8, 9, 9, 9, 9, 9]
    );
}

#[test]
fn events_measure() {
    let (mut start, mut end, mut passed) = (null_mut(), null_mut(), -1.0);
    // SAFETY: all pointers outlive their calls, and each handle is destroyed once.
    unsafe {
        assert_eq!(cuEventCreate(&mut start, 0), SUCCESS);
        assert_eq!(cuEventCreate(&mut end, 0), SUCCESS);
        assert_eq!(
            cuEventElapsedTime_v2(&mut passed, start, end),
            INVALID_HANDLE
        );
        assert_eq!(cuEventRecord(start, null_mut()), SUCCESS);
        assert_eq!(cuEventRecord(end, null_mut()), SUCCESS);
        assert_eq!(cuEventElapsedTime_v2(&mut passed, start, end), SUCCESS);
        assert_eq!(cuEventDestroy_v2(start), SUCCESS);
        assert_eq!(cuEventDestroy_v2(end), SUCCESS);
    }
    assert!(passed >= 0.0);
}

#[test]
fn what_is_missing_says_so() {
    // SAFETY: their arguments are not read.
    unsafe {
        assert_eq!(cuTensorMapEncodeTiled(), 801);
        assert_ne!(device::cuDeviceGet(&mut 0, 1), SUCCESS);
    }
}
