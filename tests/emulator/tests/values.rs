//! The results of kernels against plain Rust: for every value of a type where there are few enough.
#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]

mod card;

use card::{Buffer, Kernel, attribute, compile, launch};
use half::{bf16, f16};
use moebius_emulator::metal;

fn all_bits() -> Vec<u16> {
    (0..=u16::MAX).collect()
}

/// A kernel that runs `body` in one thread for each of 65,536 values.
fn on_all(body: &str, result: &str, argument: &str) -> String {
    format!(
        "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include <cuda_fp8.h>\n\
         extern \"C\" __global__ void k({argument} const* in, {result}* out) {{\n\
         unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n{body}\n}}"
    )
}

fn run<T: Copy, U: Copy + Default>(text: &str, given: &[T], count: usize) -> Vec<U> {
    let (given, out) = (Buffer::of(given), Buffer::new(count * size_of::<U>()));
    launch(text, (count / 256) as u32, 256, 0, &[&given, &out]);
    out.read()
}

#[test]
fn every_half_widens_and_narrows() {
    let text = on_all("out[i] = float(in[i]);", "float", "__half");
    let wide: Vec<f32> = run(&text, &all_bits(), 65536);
    for (bits, wide) in all_bits().into_iter().zip(&wide) {
        let expected = f16::from_bits(bits).to_f32();
        let same = wide.to_bits() == expected.to_bits();
        assert!(same || expected.is_nan() && wide.is_nan(), "{bits:#x}");
    }
    let text = on_all("out[i] = __half(in[i]);", "__half", "float");
    let narrow: Vec<u16> = run(&text, &wide, 65536);
    for (bits, narrow) in all_bits().into_iter().zip(narrow) {
        let is_nan = f16::from_bits(bits).is_nan();
        assert_eq!(narrow, if is_nan { 0x7fff } else { bits });
    }
}

/// Every value of a 16-bit type, and for each pair of neighbours the midpoint and the floats on both sides of it.
fn between<F: Fn(u16) -> f32>(widen: F) -> Vec<f32> {
    let values = all_bits().into_iter().flat_map(|bits| {
        let [low, high] = [bits, bits.wrapping_add(1)].map(|bits| f64::from(widen(bits)));
        let middle = ((low + high) / 2.0) as f32;
        [middle, middle.next_up(), middle.next_down(), low as f32]
    });
    values.collect()
}

/// Compares how the emulator and `expected` narrow every value of a type and those around the midpoints.
fn narrows(name: &str, widened: fn(u16) -> f32, expected: fn(f32) -> u16) {
    let given = between(widened);
    let text = on_all(&format!("out[i] = {name}(in[i]);"), name, "float");
    let narrow: Vec<u16> = run(&text, &given, given.len());
    for (value, narrow) in given.iter().zip(narrow) {
        let nearest = if value.is_nan() {
            0x7fff
        } else {
            expected(*value)
        };
        assert_eq!(narrow, nearest, "{name} of {value:e}");
    }
}

#[test]
fn narrowing_is_to_nearest_even() {
    let half = |bits| f16::from_bits(bits).to_f32();
    narrows("__half", half, |value| f16::from_f32(value).to_bits());
    let brain = |bits| bf16::from_bits(bits).to_f32();
    narrows("__nv_bfloat16", brain, |value| {
        bf16::from_f32(value).to_bits()
    });
}

#[test]
fn every_bfloat16_widens() {
    let text = on_all("out[i] = float(in[i]);", "float", "__nv_bfloat16");
    let wide: Vec<f32> = run(&text, &all_bits(), 65536);
    for (bits, wide) in all_bits().into_iter().zip(wide) {
        assert_eq!(wide.to_bits(), u32::from(bits) << 16);
    }
}

/// The value of an FP8 code, given its mantissa bits, its bias, and the largest finite code.
fn code_value(code: u8, mantissa: u32, bias: i32, largest: u8) -> f64 {
    let size = code & 0x7f;
    if size > largest {
        let infinite = mantissa == 2 && size == 0x7c;
        return if infinite { f64::INFINITY } else { f64::NAN };
    }
    let exponent = i32::from(size >> mantissa);
    let part = f64::from(size & ((1 << mantissa) - 1)) / f64::from(1 << mantissa);
    let value = match exponent {
        0 => part * f64::from(1 - bias).exp2(),
        _ => (1.0 + part) * f64::from(exponent - bias).exp2(),
    };
    if code >= 0x80 { -value } else { value }
}

/// The nearest code; on ties the even one; beyond the largest, the largest.
fn nearest(value: f64, mantissa: u32, bias: i32, largest: u8) -> u8 {
    if value.is_nan() {
        return 0x7f;
    }
    let sign = if value.is_sign_negative() { 0x80 } else { 0 };
    let size = value.abs();
    if size >= code_value(largest, mantissa, bias, largest) {
        return sign | largest;
    }
    let distance = |code: u8| (code_value(code, mantissa, bias, largest) - size).abs();
    let nearer = |a: &u8, b: &u8| {
        let by_distance = distance(*a).total_cmp(&distance(*b));
        by_distance.then((a & 1).cmp(&(b & 1)))
    };
    sign | (0..=largest).min_by(nearer).unwrap_or(0)
}

const FORMATS: [(&str, u32, i32, u8); 2] = [("__NV_E4M3", 3, 7, 0x7e), ("__NV_E5M2", 2, 15, 0x7b)];

#[test]
fn every_fp8_code_decodes() {
    let codes: Vec<u8> = (0..=255).collect();
    for (name, mantissa, bias, largest) in FORMATS {
        let body = format!("out[i] = float(__half(__nv_cvt_fp8_to_halfraw(in[i], {name})));");
        let values: Vec<f32> = run(&on_all(&body, "float", "__nv_fp8_storage_t"), &codes, 256);
        for (code, value) in codes.iter().zip(values) {
            let mut expected = code_value(*code, mantissa, bias, largest) as f32;
            if expected.is_infinite() && *code >= 0x80 {
                expected = -expected;
            }
            assert!(
                value == expected || value.is_nan() && expected.is_nan(),
                "{name} {code:#x}: {value}"
            );
        }
    }
}

#[test]
fn every_half_and_bfloat16_encodes() {
    for (name, mantissa, bias, largest) in FORMATS {
        for (kind, prefix) in [("__half", "halfraw"), ("__nv_bfloat16", "bfloat16raw")] {
            let body = format!("out[i] = __nv_cvt_{prefix}_to_fp8(in[i], __NV_SATFINITE, {name});");
            let text = on_all(&body, "__nv_fp8_storage_t", kind);
            let codes: Vec<u8> = run(&text, &all_bits(), 65536);
            for (bits, code) in all_bits().into_iter().zip(codes) {
                let value = match kind {
                    "__half" => f16::from_bits(bits).to_f64(),
                    _ => bf16::from_bits(bits).to_f64(),
                };
                let expected = nearest(value, mantissa, bias, largest);
                assert_eq!(code, expected, "{name} of {kind} {value:e}");
            }
        }
    }
}

#[test]
fn a_fused_product_of_halves_is_rounded_once() {
    let given: Vec<u16> = (0..65536u32)
        .map(|i| (i.wrapping_mul(40503) >> 3) as u16 & 0xfbff)
        .collect();
    let body = "out[i] = __hfma(in[i], in[(i * 7 + 1) & 65535], in[(i * 5 + 3) & 65535]);";
    let sums: Vec<u16> = run(&on_all(body, "__half", "__half"), &given, 65536);
    let value = |i: usize| f16::from_bits(given[i & 65535]).to_f64();
    for (i, sum) in sums.into_iter().enumerate() {
        // In units of 2^-48, all values are integers of less than 128 bits.
        let whole = |x: f64, steps: i32| (x * f64::from(steps).exp2()) as i128;
        let exact = whole(value(i), 24) * whole(value(i * 7 + 1), 24) + whole(value(i * 5 + 3), 48);
        assert_eq!(sum, rounded(exact), "{i}");
    }
}

/// Rounds a multiple of 2^-48 to the nearest f16.
fn rounded(exact: i128) -> u16 {
    let (sign, size) = (if exact < 0 { 0x8000 } else { 0 }, exact.unsigned_abs());
    let value = |bits: u16| (f16::from_bits(bits).to_f64() * 48f64.exp2()) as u128;
    if size >= 65520 << 48 {
        return sign | 0x7c00;
    }
    let (mut low, mut high) = (0u16, 0x7c00u16);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if value(middle) <= size {
            low = middle
        } else {
            high = middle
        }
    }
    let above = match high {
        0x7c00 => 65536u128 << 48,
        high => value(high),
    };
    let (up, down) = (above - size, size - value(low));
    let rounds_up = up < down || up == down && low & 1 == 1;
    sign | if rounds_up { high } else { low }
}

#[test]
fn shuffles_and_votes() {
    let text = "extern \"C\" __global__ void k(unsigned const* in, unsigned* out) {\n\
        unsigned lane = threadIdx.x & 31, v = in[threadIdx.x];\n\
        unsigned* o = out + threadIdx.x * 8;\n\
        o[0] = __shfl_sync(0xffffffff, v, (lane * 5) & 31);\n\
        o[1] = __shfl_up_sync(0xffffffff, v, 3);\n\
        o[2] = __shfl_down_sync(0xffffffff, v, 3);\n\
        o[3] = __shfl_xor_sync(0xffffffff, v, 6);\n\
        o[4] = __ballot_sync(0xffffffff, v & 1);\n\
        o[5] = lane < 12 ? __shfl_sync(__activemask(), v, 11) : __shfl_sync(__activemask(), v, 12);\n\
        o[6] = __any_sync(0xffffffff, lane == 7) * 2 + __all_sync(0xffffffff, lane < 31);\n\
        o[7] = __activemask();\n}";
    let given: Vec<u32> = (0..64)
        .map(|i: u32| i.wrapping_mul(2_654_435_761))
        .collect();
    let (input, out) = (Buffer::of(&given), Buffer::new(64 * 8 * 4));
    launch(text, 1, 64, 0, &[&input, &out]);
    let out: Vec<u32> = out.read();
    for thread in 0..64usize {
        let (warp, lane) = (thread & !31, thread & 31);
        let at = |lane: usize| given[warp + lane];
        let votes = (0..32).fold(0, |votes, lane| votes | (at(lane) & 1) << lane);
        let expected = [
            at((lane * 5) & 31),
            at(if lane < 3 { lane } else { lane - 3 }),
            at(if lane > 28 { lane } else { lane + 3 }),
            at(lane ^ 6),
            votes,
            at(if lane < 12 { 11 } else { 12 }),
            2,
            u32::MAX,
        ];
        assert_eq!(out[thread * 8..][..8], expected, "{thread}");
    }
}

/// Checks shared memory, a barrier, and matrices of eight by eight in Metal's language.
#[test]
fn a_kernel_of_metal() {
    let text = "#include <metal_stdlib>\nusing namespace metal;\nstruct info_st { uint scalars[2]; };\n\
        [[max_total_threads_per_threadgroup(32)]] [[kernel]] void k(device float const* const a [[buffer(0)]], device float * const b \
        [[buffer(1)]], constant info_st const* const c, uint const i [[thread_index_in_threadgroup]]) {\n\
        alignas(16) threadgroup char s[512];\n\
        threadgroup half* const h = reinterpret_cast<threadgroup half*>(s);\n\
        threadgroup float* const f = reinterpret_cast<threadgroup float*>(s + 128);\n\
        h[i] = half(a[i]); h[i + 32] = half(a[i + 32]);\n\
        threadgroup_barrier(mem_flags::mem_threadgroup);\n\
        simdgroup_half8x8 x, y; simdgroup_float8x8 z = make_filled_simdgroup_matrix<float, 8, 8>(1.0f);\n\
        simdgroup_load(x, h, 8, 0, false); simdgroup_load(y, h, 8, 0, true);\n\
        simdgroup_multiply_accumulate(z, x, y, z); simdgroup_store(z, f, 8);\n\
        simdgroup_barrier(mem_flags::mem_threadgroup);\n\
        b[i] = f[i]; b[i + 32] = f[i + 32];\n}".replace("uint ", "unsigned int ");
    let given: Vec<f32> = (0..64).map(|i| (i % 7) as f32 - 3.0).collect();
    let bytes =
        |values: &[f32]| -> Vec<u8> { values.iter().flat_map(|v| v.to_ne_bytes()).collect() };
    let buffers = [0; 3].map(|_| metal::Buffer::new(256).unwrap());
    buffers[0].write(0, &bytes(&given)).unwrap();
    let kernel = metal::Kernel::new(&text, "k").unwrap();
    let addresses = buffers.each_ref().map(metal::Buffer::address);
    // SAFETY: the kernel takes these three.
    #[allow(unsafe_code, reason = "a kernel is launched")]
    unsafe { kernel.launch([1; 3], [32, 1, 1], &addresses) }.unwrap();
    let dot = |i: usize, j: usize| {
        (0..8)
            .map(|k| given[i * 8 + k] * given[j * 8 + k])
            .sum::<f32>()
    };
    let wanted: Vec<f32> = (0..64).map(|at| 1.0 + dot(at / 8, at % 8)).collect();
    assert_eq!(buffers[1].read(0, 256).unwrap(), bytes(&wanted));
    assert!(
        buffers[1]
            .read(8, 256)
            .unwrap_err()
            .contains("a buffer of 256")
    );
    assert!(metal::Kernel::new("nonsense", "k").is_err());
}

#[test]
fn a_wmma_product() {
    let text = "#include <mma.h>\n#include <cuda_fp16.h>\n\
        extern \"C\" __global__ void k(__half const* a, __half const* b, float* d) {\n\
        nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, __half, nvcuda::wmma::row_major> fa;\n\
        nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, __half, nvcuda::wmma::col_major> fb;\n\
        nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> fc;\n\
        nvcuda::wmma::fill_fragment(fc, 0.5f);\n\
        nvcuda::wmma::load_matrix_sync(fa, a, 16);\n\
        nvcuda::wmma::load_matrix_sync(fb, b, 16);\n\
        nvcuda::wmma::mma_sync(fc, fa, fb, fc);\n\
        nvcuda::wmma::store_matrix_sync(d, fc, 16, nvcuda::wmma::mem_row_major);\n}";
    let value = |i: usize| f16::from_f32(((i * 37 % 101) as f32 - 50.0) / 8.0);
    let a: Vec<f16> = (0..256).map(value).collect();
    let b: Vec<f16> = (0..256).map(|i| value(i + 11)).collect();
    let (first, second, out) = (Buffer::of(&a), Buffer::of(&b), Buffer::new(1024));
    launch(text, 1, 32, 0, &[&first, &second, &out]);
    for (i, value) in out.read::<f32>().into_iter().enumerate() {
        let (m, n) = (i / 16, i % 16);
        let terms = (0..16).map(|k| a[m * 16 + k].to_f64() * b[n * 16 + k].to_f64());
        assert_eq!(value, (0.5 + terms.sum::<f64>()) as f32, "{m} {n}");
    }
}

/// Checks the layout of the PTX manual, "Matrix Fragments for mma.m16n8k32", lane by lane and register by register.
#[test]
fn an_fp8_matrix_instruction() {
    let text = "extern \"C\" __global__ void k(unsigned const* a, unsigned const* b, float* d) {\n\
        unsigned t = threadIdx.x; float r0, r1, r2, r3;\n\
        asm volatile(\"mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};\" : \"=f\"(r0), \"=f\"(r1), \"=f\"(r2), \"=f\"(r3) : \"r\"(a[t * 4]), \"r\"(a[t * 4 + 1]), \"r\"(a[t * 4 + 2]), \"r\"(a[t * 4 + 3]), \"r\"(b[t * 2]), \"r\"(b[t * 2 + 1]), \"f\"(1.0f), \"f\"(2.0f), \"f\"(3.0f), \"f\"(4.0f) );\n\
        d[t * 4] = r0; d[t * 4 + 1] = r1; d[t * 4 + 2] = r2; d[t * 4 + 3] = r3;\n}";
    let code = |i: usize| (i * 29 % 0x77) as u8 | ((i * 7 % 2) as u8) << 7;
    let (a, b): (Vec<u8>, Vec<u8>) = (
        (0..512).map(code).collect(),
        (0..256).map(|i| code(i + 5)).collect(),
    );
    let (mut a_registers, mut b_registers) = (vec![0u8; 512], vec![0u8; 256]);
    for lane in 0..32 {
        let (group, member) = (lane / 4, lane % 4);
        for i in 0..16 {
            let row = if (i / 4) % 2 == 0 { group } else { group + 8 };
            let column = member * 4 + (i & 3) + if i < 8 { 0 } else { 16 };
            a_registers[lane * 16 + i] = a[row * 32 + column];
        }
        for i in 0..8 {
            let row = member * 4 + (i & 3) + if i < 4 { 0 } else { 16 };
            b_registers[lane * 8 + i] = b[row * 8 + group];
        }
    }
    let (first, second, out) = (
        Buffer::of(&a_registers),
        Buffer::of(&b_registers),
        Buffer::new(512),
    );
    launch(text, 1, 32, 0, &[&first, &second, &out]);
    let out: Vec<f32> = out.read();
    let value = |code: u8| code_value(code, 3, 7, 0x7e);
    for lane in 0..32 {
        for i in 0..4 {
            let (row, column) = (lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2);
            let terms = (0..32).map(|k| value(a[row * 32 + k]) * value(b[k * 8 + column]));
            assert_eq!(
                out[lane * 4 + i],
                (terms.sum::<f64>() + (i + 1) as f64) as f32,
                "{lane} {i}"
            );
        }
    }
}

#[test]
fn barriers_and_atomics_over_many_blocks() {
    let text = "extern \"C\" __global__ void k(unsigned const* in, unsigned* out) {\n\
        extern __shared__ __align__(16) char s[];unsigned* sums = reinterpret_cast<unsigned*>(s);\n\
        sums[threadIdx.x] = in[blockIdx.x * 128 + threadIdx.x];\n\
        for (unsigned step = 64; step > 0; step /= 2) {\n\
        __syncthreads();\n\
        if (threadIdx.x < step) sums[threadIdx.x] += sums[threadIdx.x + step];\n\
        }\n\
        if (threadIdx.x == 0) atomicAdd(out, sums[0]);\n}";
    let given: Vec<u32> = (0..128 * 64).collect();
    let (input, out) = (Buffer::of(&given), Buffer::of(&[0u32]));
    launch(text, 64, 128, 512, &[&input, &out]);
    assert_eq!(out.read::<u32>(), [given.iter().sum::<u32>()]);
}

#[test]
fn what_the_card_cannot_do_is_refused() {
    let text = "extern \"C\" __global__ void __launch_bounds__(64) k(unsigned const* in, unsigned* out) {}";
    let (kernel, buffer) = (Kernel::new(text, "k"), Buffer::of(&[0u32]));
    let refused = [(1, 65, 0), (0, 64, 0), (1, 64, 48 * 1024 + 1)];
    for (grid, block, shared) in refused {
        let status = kernel.launch(grid, block, shared, &[&buffer, &buffer]);
        assert_eq!(status, moebius_emulator::driver::INVALID_VALUE);
    }
    assert_eq!(attribute(10), 32);
}

#[test]
fn a_text_that_cannot_be_compiled_says_where() {
    let log = compile("extern \"C\" __global__ void k() {\nnonsense here;\n}").unwrap_err();
    assert!(log.contains("kernel.cu:2"), "{log}");
    let log = compile("#include <cuda/barrier>\n").unwrap_err();
    assert!(log.contains("no <cuda/barrier>"), "{log}");
}
