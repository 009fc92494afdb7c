use super::*;
use crate::fp8::Fp8Format;

fn codes(granularity: Granularity) -> Fp8Scheme {
    Fp8Scheme {
        format: Fp8Format::E4M3,
        granularity,
    }
}

const fn block(rows: usize, columns: usize) -> Granularity {
    Granularity::Block { rows, columns }
}

fn problem(x: Granularity, w: Granularity) -> Result<Problem, Mismatch> {
    let product = grouped_gemm::Problem {
        stored: grouped_gemm::Stored::Fp8(codes(w)),
        ..grouped_gemm::Problem::dense(100, 70, 500)?
    };
    Problem::new(product, codes(x))
}

#[test]
fn sums_end_where_scales_do() {
    let segment = |x, w| problem(x, w).map(|p| (p.segment(), p.scales_along_k()));
    assert_eq!(
        segment(Granularity::Row, Granularity::Tensor),
        Ok((128, false))
    );
    assert_eq!(segment(block(1, 128), block(128, 128)), Ok((128, true)));
    assert_eq!(segment(block(1, 128), Granularity::Row), Ok((128, true)));
    assert_eq!(segment(block(1, 128), block(64, 96)), Ok((32, true)));
    assert_eq!(segment(Granularity::Row, block(1, 256)), Ok((128, true)));
    assert_eq!(segment(block(1, 512), block(1, 501)), Ok((128, false)));
}

#[test]
fn what_the_instructions_cannot_do_is_refused() {
    for bad in [Granularity::Mx, block(1, 48), block(0, 32), block(1, 0)] {
        assert!(problem(bad, Granularity::Row).is_err(), "x {bad:?}");
        assert!(problem(Granularity::Row, bad).is_err(), "w {bad:?}");
    }
    let plain = problem(Granularity::Row, Granularity::Row).unwrap().product;
    let others = [
        grouped_gemm::Problem {
            stored: grouped_gemm::Stored::Values,
            ..plain
        },
        grouped_gemm::Problem {
            gated: true,
            ..plain
        },
        grouped_gemm::Problem {
            element: Element::F16,
            ..plain
        },
        grouped_gemm::Problem {
            layout: WeightLayout::InOut,
            ..plain
        },
    ];
    for product in others {
        assert!(Problem::new(product, codes(Granularity::Row)).is_err());
    }
}
