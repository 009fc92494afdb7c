//! AMD's cards: their properties in HIP, and what is wider or named differently than on NVIDIA's.
#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
#![allow(unsafe_code, reason = "the emulator is a C interface")]

mod card;

use std::env;
use std::process::Command;

use card::{Buffer, launch};
use half::bf16;
use moebius_emulator::driver::device::{cuDeviceGetCount, cuInit};
use moebius_emulator::driver::{NO_DEVICE, SUCCESS};
use moebius_emulator::hip::device::hipGetDeviceCount;

/// Runs this test once for each card, because a process has only one.
#[test]
fn amds_cards() {
    for (card, lanes) in [("mi300x", "64"), ("rx7900", "32")] {
        let mut own = Command::new(env::current_exe().unwrap());
        own.args(["--exact", "on_this_card"]);
        own.env("MOEBIUS_EMULATOR_CARD", card)
            .env("MOEBIUS_EMULATOR_LANES", lanes);
        let run = own.output().unwrap();
        let told = [run.stdout, run.stderr].concat();
        let told = String::from_utf8_lossy(&told);
        assert!(run.status.success(), "{card}: {told}");
        assert!(told.contains("1 passed"), "{card}: {told}");
    }
}

#[test]
fn on_this_card() {
    let Ok(lanes) = env::var("MOEBIUS_EMULATOR_LANES") else {
        return;
    };
    let lanes: u32 = lanes.parse().unwrap();
    it_is_hips_and_not_cudas();
    shuffles_and_votes(lanes);
    a_product_of_matrices(lanes);
}

fn it_is_hips_and_not_cudas() {
    let (mut hip, mut cuda) = (0, 1);
    // SAFETY: the counts outlive their calls.
    unsafe {
        assert_eq!(hipGetDeviceCount(&mut hip), SUCCESS);
        assert_eq!(cuInit(0), NO_DEVICE);
        cuDeviceGetCount(&mut cuda);
    }
    assert_eq!((hip, cuda), (1, 0));
}

fn shuffles_and_votes(lanes: u32) {
    let text = "extern \"C\" __global__ void k(unsigned const* in, unsigned long long* out) {\n\
                unsigned v = in[threadIdx.x], lane = threadIdx.x & (warpSize - 1);\n\
                unsigned long long set = __ballot(lane % 3 == 0);\n\
                unsigned sum = v;\n\
                for (unsigned d = 1; d < warpSize; d *= 2) sum += __shfl_xor(sum, d);\n\
                unsigned after = __shfl_down(v, 5), first = __shfl(v, 0);\n\
                out[threadIdx.x] = set + sum + after + first + __all(v < 1000) + __any(v == 127);\n}";
    let given: Vec<u32> = (0..128).collect();
    let (input, out) = (Buffer::of(&given), Buffer::new(128 * 8));
    launch(text, 1, 128, 0, &[&input, &out]);
    let wavefront = |thread: u32| thread / lanes * lanes..(thread / lanes + 1) * lanes;
    let set: u64 = (0..lanes)
        .filter(|lane| lane % 3 == 0)
        .map(|lane| 1 << lane)
        .sum();
    for (thread, result) in (0..).zip(out.read::<u64>()) {
        let of = wavefront(thread);
        let after = if of.contains(&(thread + 5)) {
            thread + 5
        } else {
            thread
        };
        let sum: u32 = of.clone().sum();
        let votes = 1 + u32::from(of.contains(&127));
        let expected = set + u64::from(sum + after + of.start + votes);
        assert_eq!(result, expected, "thread {thread}");
    }
}

fn a_product_of_matrices(lanes: u32) {
    let text = "#include <rocwmma/rocwmma.hpp>\n#include <hip/hip_bf16.h>\n\
                extern \"C\" __global__ void k(__hip_bfloat16 const* in, float* out) {\n\
                rocwmma::fragment<rocwmma::matrix_a, 16, 16, 16, __hip_bfloat16, rocwmma::row_major> a;\n\
                rocwmma::fragment<rocwmma::matrix_b, 16, 16, 16, __hip_bfloat16, rocwmma::col_major> b;\n\
                rocwmma::fragment<rocwmma::accumulator, 16, 16, 16, float> c;\n\
                rocwmma::fill_fragment(c, 1.0f);\n\
                rocwmma::load_matrix_sync(a, in, 16);\n\
                rocwmma::load_matrix_sync(b, in + 256, 16);\n\
                rocwmma::mma_sync(c, a, b, c);\n\
                rocwmma::store_matrix_sync(out, c, 16, rocwmma::mem_row_major);\n}";
    let value = |i: usize| ((i * 7 + i / 16) % 11) as f32 - 5.0;
    let given: Vec<bf16> = (0..512).map(|i| bf16::from_f32(value(i))).collect();
    let (input, out) = (Buffer::of(&given), Buffer::new(256 * 4));
    launch(text, 1, lanes, 0, &[&input, &out]);
    for (i, result) in out.read::<f32>().into_iter().enumerate() {
        let terms = (0..16).map(|k| value(i / 16 * 16 + k) * value(256 + i % 16 * 16 + k));
        assert_eq!(result, 1.0 + terms.sum::<f32>(), "element {i}");
    }
}
