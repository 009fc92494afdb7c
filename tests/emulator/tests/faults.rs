//! Planted faults are reported with their lines, and correct kernels are not. Each case runs in a process of its own, because
//! the environment chooses the checks, and a fault loses the context.
#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
#![allow(clippy::unwrap_used, reason = "a report without its parts is wrong")]

mod card;

use std::process::Command;
use std::{env, fs};

use card::{Buffer, Kernel};

/// A kernel, its launch, and the findings it should cause: their kinds and lines.
struct Case {
    name: &'static str,
    text: &'static str,
    shape: (u32, u32, u32),
    findings: &'static [(&'static str, &'static [u64])],
    settings: &'static [(&'static str, &'static str)],
}

const CHECK: &[(&str, &str)] = &[("MOEBIUS_EMULATOR_CHECK", "1")];
const ORDERS: &[(&str, &str)] = &[(
    "MOEBIUS_EMULATOR_ORDERS",
    "forward,backward,random:7,warps,ahead",
)];

const CASES: &[Case] = &[
    Case {
        name: "clean",
        text: "extern \"C\" __global__ void k(unsigned const* in, unsigned* out) {\n\
               extern __shared__ __align__(16) char s[];unsigned* t = reinterpret_cast<unsigned*>(s);\n\
               t[threadIdx.x] = in[threadIdx.x];\n\
               __syncthreads();\n\
               out[blockIdx.x * 64 + threadIdx.x] = t[63 - threadIdx.x];\n}",
        shape: (2, 64, 256),
        findings: &[],
        settings: CHECK,
    },
    Case {
        name: "missing_barrier",
        text: "extern \"C\" __global__ void k(unsigned const* in, unsigned* out) {\n\
               extern __shared__ __align__(16) char s[];unsigned* t = reinterpret_cast<unsigned*>(s);\n\
               t[threadIdx.x] = in[threadIdx.x];\n\
               __syncthreads();\n\
               unsigned v = t[63 - threadIdx.x];\n\
               t[threadIdx.x] = v;\n\
               __syncthreads();\n\
               out[threadIdx.x] = t[threadIdx.x];\n}",
        shape: (1, 64, 256),
        findings: &[("race", &[5, 6])],
        settings: CHECK,
    },
    Case {
        name: "global_race",
        text: "extern \"C\" __global__ void k(unsigned const* in, unsigned* out) {\n\
               unsigned v = in[threadIdx.x];\n\
               out[(blockIdx.x * 64 + threadIdx.x) % 96] = v;\n}",
        shape: (2, 64, 0),
        findings: &[("race", &[3, 3])],
        settings: CHECK,
    },
    Case {
        name: "out_of_bounds",
        text: "extern \"C\" __global__ void k(unsigned const* in, unsigned* out) {\n\
               unsigned v =\n\
               in[threadIdx.x + 1];\n\
               out[threadIdx.x] = v;\n}",
        shape: (1, 128, 0),
        findings: &[("address", &[3])],
        settings: CHECK,
    },
    Case {
        name: "out_of_a_tensor",
        text: "struct info_st { unsigned long long scalars[1]; unsigned static_meta[2]; };\n\
               extern \"C\" __global__ void k(unsigned const* in, unsigned* out, info_st const* info) {\n\
               unsigned v =\n\
               in[threadIdx.x];\n\
               out[threadIdx.x] = v;\n}",
        shape: (1, 101, 0),
        findings: &[("address", &[4])],
        settings: CHECK,
    },
    Case {
        name: "within_tensors",
        text: "struct info_st { unsigned long long scalars[1]; unsigned static_meta[2]; };\n\
               extern \"C\" __global__ void k(unsigned const* in, unsigned* out, info_st const* info) {\n\
               out[threadIdx.x + 28 * info->scalars[0]] = in[threadIdx.x];\n}",
        shape: (1, 100, 0),
        findings: &[],
        settings: CHECK,
    },
    Case {
        name: "out_of_shared_memory",
        text: "extern \"C\" __global__ void k(unsigned const* in, unsigned* out) {\n\
               extern __shared__ __align__(16) char s[];unsigned* t = reinterpret_cast<unsigned*>(s);\n\
               t[threadIdx.x] = in[threadIdx.x];\n\
               out[threadIdx.x] = t[threadIdx.x];\n}",
        shape: (1, 64, 252),
        findings: &[("address", &[3])],
        settings: CHECK,
    },
    Case {
        name: "unwritten",
        text: "extern \"C\" __global__ void k(unsigned const* in, unsigned* out) {\n\
               extern __shared__ __align__(16) char s[];unsigned* t = reinterpret_cast<unsigned*>(s);\n\
               if (threadIdx.x < 63) t[threadIdx.x] = in[threadIdx.x];\n\
               __syncthreads();\n\
               out[threadIdx.x] = t[threadIdx.x];\n}",
        shape: (1, 64, 256),
        findings: &[("unwritten", &[5])],
        settings: CHECK,
    },
    Case {
        name: "lanes_without_a_meeting",
        text: "extern \"C\" __global__ void k(unsigned const* in, unsigned* out) {\n\
               extern __shared__ __align__(16) char s[];unsigned* t = reinterpret_cast<unsigned*>(s);\n\
               t[threadIdx.x] = in[threadIdx.x];\n\
               __syncwarp();\n\
               unsigned v = t[threadIdx.x ^ 1];\n\
               __syncwarp();\n\
               t[threadIdx.x] = v;\n\
               out[threadIdx.x] = t[threadIdx.x ^ 1];\n}",
        shape: (1, 64, 256),
        findings: &[("race", &[7, 8])],
        settings: CHECK,
    },
    Case {
        name: "barrier_of_some",
        text: "extern \"C\" __global__ void k(unsigned const* in, unsigned* out) {\n\
               if (threadIdx.x < 32) {\n\
               __syncthreads();\n\
               } else {\n\
               __syncthreads();\n\
               }\n\
               out[threadIdx.x] = in[threadIdx.x];\n}",
        shape: (1, 64, 0),
        findings: &[("barrier", &[3, 5])],
        settings: &[],
    },
    Case {
        name: "far_out_of_bounds",
        text: "extern \"C\" __global__ void k(unsigned const* in, unsigned* out) {\n\
               out[threadIdx.x] = in[threadIdx.x + 1000];\n}",
        shape: (1, 64, 0),
        findings: &[("address", &[])],
        settings: &[],
    },
    Case {
        name: "no_end_of_calls",
        text: "__device__ unsigned deep(unsigned n) { unsigned volatile a[64]; a[n % 64] = n; return n == 0 ? a[0] : a[n % 64] + deep(n + 1); }\n\
               extern \"C\" __global__ void k(unsigned const* in, unsigned* out) {\n\
               out[threadIdx.x] = deep(in[threadIdx.x] + 1);\n}",
        shape: (1, 64, 0),
        findings: &[("stacks", &[])],
        settings: &[],
    },
    Case {
        name: "division_by_zero",
        text: "extern \"C\" __global__ void k(unsigned const* in, unsigned* out) {\n\
               out[threadIdx.x] = 7 / in[threadIdx.x];\n}",
        shape: (1, 64, 0),
        findings: &[("arithmetic", &[])],
        settings: &[],
    },
    Case {
        name: "atomics_are_no_race",
        text: "extern \"C\" __global__ void k(unsigned const* in, unsigned* out) {\n\
               atomicExch(out, 0u);\n\
               atomicAdd(out, in[threadIdx.x]);\n}",
        shape: (4, 64, 0),
        findings: &[],
        settings: CHECK,
    },
    Case {
        name: "order_of_blocks",
        text: "extern \"C\" __global__ void k(unsigned const* in, unsigned* out) {\n\
               if (threadIdx.x == 0) out[0] = in[blockIdx.x];\n}",
        shape: (4, 64, 0),
        findings: &[("order", &[])],
        settings: ORDERS,
    },
    Case {
        name: "no_order_matters",
        text: "extern \"C\" __global__ void k(unsigned const* in, unsigned* out) {\n\
               out[threadIdx.x] += in[threadIdx.x];\n}",
        shape: (1, 64, 0),
        findings: &[],
        settings: ORDERS,
    },
];

/// Runs the case that the environment names; does nothing without one.
#[test]
fn one() {
    let Ok(name) = env::var("MOEBIUS_EMULATOR_CASE") else {
        return;
    };
    let case = CASES.iter().find(|case| case.name == name).unwrap();
    let given: Vec<u32> = (0..128).map(|i| i * 3).collect();
    let (input, out) = (Buffer::of(&given), Buffer::of(&[0u32; 128]));
    let (grid, block, shared) = case.shape;
    // The launch data that CubeCL passes, for kernels that read it: a scalar, and the elements of both tensors.
    let info = Buffer::of(&[1u32, 0, 100, 128]);
    let buffers = [&input, &out, &info];
    let status = Kernel::new(case.text, "k").launch(grid, block, shared, &buffers);
    let harmless = case.findings.iter().all(|(what, _)| *what == "unwritten");
    assert_eq!(status == 0, harmless, "status {status}");
}

/// Loses the card between two launches, with the file that the environment names; does nothing without one.
#[test]
fn lose() {
    let Some(file) = env::var_os("MOEBIUS_EMULATOR_LOST") else {
        return;
    };
    let text = "extern \"C\" __global__ void k(unsigned* out) { out[threadIdx.x] = 1; }";
    let (kernel, out) = (Kernel::new(text, "k"), Buffer::of(&[0u32; 64]));
    let launch = || kernel.launch(1, 64, 0, &[&out]);
    assert_eq!(launch(), 0);
    fs::write(&file, "").unwrap();
    assert_ne!(launch(), 0, "the card is there");
    fs::remove_file(&file).unwrap();
    assert_ne!(launch(), 0, "the card came back");
}

/// Launches a kernel that is to be spoiled, as the environment says, and one that isn't; does nothing without that.
#[test]
fn spoiled() {
    if env::var_os("MOEBIUS_EMULATOR_SPOIL").is_none() {
        return;
    }
    let text = |name: &str| {
        format!(
            "extern \"C\" __global__ void {name}(float const* in, float* out) {{ out[threadIdx.x] += in[threadIdx.x]; }}"
        )
    };
    // The fourth result is what was there before, so that it stays.
    let input = Buffer::of(&[1.0f32, -2.0, f32::INFINITY, 0.0]);
    let added = |name: &str| {
        let out = Buffer::of(&[0.5f32, 0.25, 0.0, 3.0]);
        let status = Kernel::new(&text(name), name).launch(1, 4, 0, &[&input, &out]);
        assert_eq!(status, 0);
        out.read::<f32>()
    };
    let right = [1.5, -1.75, f32::INFINITY, 3.0];
    assert_eq!(added("sum_f32"), right);
    assert_eq!(added("add_f32"), [-1.5, 1.75, f32::NEG_INFINITY, 3.0]);
    assert_eq!(added("add_f32"), [-1.5, 1.75, f32::NEG_INFINITY, 3.0]);
}

#[test]
fn the_results_of_a_kernel_are_spoiled_on_the_card_that_is_named() {
    let orders = "forward,backward";
    for (spoil, orders, passes) in [
        ("l4:add", "forward", true),
        ("l4:add", orders, true),
        // Each of these spoils nothing, so that the kernel is right.
        ("h100:add", "forward", false),
        ("add", "forward", false),
        ("l4:", "forward", false),
        ("l5:add", "forward", false),
    ] {
        let mut own = Command::new(env::current_exe().unwrap());
        own.args(["--exact", "spoiled"]);
        own.env("MOEBIUS_EMULATOR_SPOIL", spoil);
        own.env("MOEBIUS_EMULATOR_ORDERS", orders);
        let run = own.env("MOEBIUS_EMULATOR_CARD", "l4").output().unwrap();
        let told = [run.stdout, run.stderr].concat();
        let told = String::from_utf8_lossy(&told);
        assert_eq!(run.status.success(), passes, "{spoil}: {told}");
        let named = told.contains("expected CARD:KERNEL to spoil");
        let known = ["l4:add", "h100:add"].contains(&spoil);
        assert_eq!(named, !known, "{spoil}: {told}");
    }
}

#[test]
fn a_card_is_lost_once_the_file_is_there() {
    let file = format!("moebius-emulator-lost-{}", std::process::id());
    let mut own = Command::new(env::current_exe().unwrap());
    own.args(["--exact", "lose"]);
    own.env("MOEBIUS_EMULATOR_LOST", env::temp_dir().join(file));
    let run = own.output().unwrap();
    let told = [run.stdout, run.stderr].concat();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&told));
}

#[test]
fn planted_faults_are_reported() {
    for case in CASES {
        let name = case.name;
        let reports = format!("moebius-emulator-{name}-{}", std::process::id());
        let reports = env::temp_dir().join(reports);
        let mut own = Command::new(env::current_exe().unwrap());
        own.args(["--exact", "one"]);
        own.env("MOEBIUS_EMULATOR_CASE", name);
        own.env("MOEBIUS_EMULATOR_REPORTS", &reports);
        let run = own.envs(case.settings.iter().copied()).output().unwrap();
        let told = [run.stdout, run.stderr].concat();
        let told = String::from_utf8_lossy(&told);
        assert!(run.status.success(), "{name}: {told}");
        let text = fs::read_to_string(&reports).unwrap_or_default();
        let _ = fs::remove_file(&reports);
        let found: Vec<_> = text.lines().map(finding).collect();
        let expected = case.findings.iter();
        let expected = expected.map(|(what, lines)| ((*what).to_owned(), lines.to_vec()));
        assert_eq!(found, expected.collect::<Vec<_>>(), "{name}: {told}");
    }
}

/// The kind of finding in a line of a report, and the numbers of the lines it names, in order.
fn finding(report: &str) -> (String, Vec<u64>) {
    let finding: serde_json::Value = serde_json::from_str(report).unwrap();
    let lines = finding["lines"].as_array().unwrap().iter();
    let mut lines: Vec<u64> = lines.map(|line| line["line"].as_u64().unwrap()).collect();
    lines.sort_unstable();
    (finding["what"].as_str().unwrap().to_owned(), lines)
}
