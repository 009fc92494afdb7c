use super::*;
use moebius_ops::Mismatch;

use cubecl::cmma::MatrixIdent;
use cubecl::prelude::polyfills::mma::{col_index, row_index};
use moebius_ops::scaling::{Fp8Scheme, Granularity};
use moebius_profiles as profiles;

fn codes(granularity: Granularity) -> Fp8Scheme {
    Fp8Scheme {
        format: Fp8Format::E4M3,
        granularity,
    }
}

fn problem(x: Granularity, w: Granularity) -> Result<Problem, Mismatch> {
    let product = moebius_ops::grouped_gemm::Problem {
        stored: moebius_ops::grouped_gemm::Stored::Fp8(codes(w)),
        ..moebius_ops::grouped_gemm::Problem::dense(100, 70, 500)?
    };
    Problem::new(product, codes(x))
}

#[test]
fn only_who_asks_gets_it_and_only_where_it_compiles() {
    let problem = problem(Granularity::Row, Granularity::Row).unwrap();
    for device in [profiles::h100(), profiles::l4()] {
        assert!(plan(problem, &device, true).is_ok(), "{}", device.name);
        let refused = plan(problem, &device, false).unwrap_err();
        assert!(refused.needs.contains("unproven"), "{refused}");
    }
    let mut vulkan = profiles::h100();
    vulkan.runtime = Runtime::Vulkan;
    let mut llvm = profiles::h100();
    llvm.mma.retain(|shape| shape.input != "e4m3");
    let others = [
        profiles::a100(),
        profiles::mi300x(),
        profiles::rdna4(),
        profiles::apple_m(),
        profiles::lavapipe(),
        profiles::webgpu_default(),
        profiles::cpu_2core_avx512(),
        vulkan,
        llvm,
    ];
    for device in others {
        let refused = plan(problem, &device, true).unwrap_err();
        assert!(refused.needs.contains("16 x 8 x 32"), "{refused}");
    }
}

#[test]
fn limits_are_refused() {
    let problem = problem(Granularity::Row, Granularity::Row).unwrap();
    let mut small = profiles::h100();
    small.limits.max_cube_count[1] = 1;
    assert!(
        plan(problem, &small, true)
            .unwrap_err()
            .needs
            .contains("2 x 2 cubes")
    );
    let mut small = profiles::h100();
    small.limits.max_binding_bytes = 128 * 500 - 1;
    assert!(
        plan(problem, &small, true).is_err(),
        "panels of 128 columns"
    );
}

/// The rows and columns of a fragment's codes and sums match the PTX ISA.
#[test]
fn fragments_are_those_of_the_ptx_manual() {
    for lane in 0..32u32 {
        let (group, thread) = (lane / 4, lane % 4);
        let place = |i, width, ident| {
            let row = row_index(lane, i, width, ident);
            (row, col_index(lane, i, width, ident))
        };
        for i in 0..16 {
            let row = group + if (4..8).contains(&i) || i >= 12 { 8 } else { 0 };
            let column = thread * 4 + i % 4 + if i >= 8 { 16 } else { 0 };
            assert_eq!(place(i, 4, MatrixIdent::A), (row, column), "a{i}");
        }
        for i in 0..8 {
            let row = thread * 4 + i % 4 + if i >= 4 { 16 } else { 0 };
            assert_eq!(place(i, 4, MatrixIdent::B), (row, group), "b{i}");
        }
        for i in 0..4 {
            let row = group + if i >= 2 { 8 } else { 0 };
            let column = thread * 2 + i % 2;
            assert_eq!(place(i, 1, MatrixIdent::Accumulator), (row, column), "c{i}");
        }
    }
}
