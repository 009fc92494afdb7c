//! What is compiled for every target that has the instructions.

use super::{Problem, kernel, plan};
use crate::emit::{KernelEntry, Machine, Planned};
use crate::fp8::Fp8Format;
use crate::grouped_gemm::{self, Fp8Weights, Source};
use crate::scaling::Granularity;

/// The oldest architecture with the instructions.
const SM: u32 = 89;

/// What is appended to the name, codes of x and of W, and the rows of a product of several experts.
type Case = (&'static str, Fp8Weights, Fp8Weights, Option<Source>);

const fn row(format: Fp8Format) -> Fp8Weights {
    Fp8Weights {
        format,
        granularity: Granularity::Row,
    }
}

const fn block(rows: usize) -> Fp8Weights {
    Fp8Weights {
        format: Fp8Format::E4M3,
        granularity: Granularity::Block { rows, columns: 128 },
    }
}

/// Both formats as either operand, scales along k and not, every source of rows.
const CASES: [Case; 4] = [
    (
        "e4m3_row_dense",
        row(Fp8Format::E4M3),
        row(Fp8Format::E4M3),
        None,
    ),
    ("e4m3_block128_dense", block(1), block(128), None),
    (
        "e4m3_block128_gather",
        block(1),
        block(128),
        Some(Source::Tokens),
    ),
    (
        "e5m2_e4m3_row_sorted",
        row(Fp8Format::E5M2),
        row(Fp8Format::E4M3),
        Some(Source::Sorted),
    ),
];

pub(crate) fn entries() -> Vec<KernelEntry> {
    let entry = |case: Case| {
        let name = format!("fp8_gemm_mma_{}", case.0);
        let build = move |at: &Machine| build(at, case);
        KernelEntry::new(("fp8_gemm", "mma"), name, build).since_sm(SM)
    };
    CASES.map(entry).into()
}

fn build(at: &Machine, (_, x, w, rows): Case) -> Planned {
    let product = match rows {
        None => grouped_gemm::Problem::dense(1024, 512, 512)?,
        Some(rows) => grouped_gemm::Problem {
            rows,
            ..grouped_gemm::Problem::new(2048, 8, 2, 512, 512)?
        },
    };
    let product = grouped_gemm::Problem {
        fp8: Some(w),
        ..product
    };
    let plan = plan(Problem::new(product, x)?, &at.capability, true)?;
    Ok(kernel::kernel(at, &plan))
}
