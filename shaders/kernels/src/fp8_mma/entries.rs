//! The compiled variants of products of codes, for every target with the instructions.

use super::{Problem, launch, plan};
use crate::emit::{KernelEntry, Machine, valid};
use moebius_ops::Mismatch;
use moebius_ops::fp8::Fp8Format;
use moebius_ops::grouped_gemm::{self, Source};
use moebius_ops::scaling::{Fp8Scheme, Granularity};

/// The oldest CUDA architecture with the instructions.
const SM: u32 = 89;

/// The schemes of x and of W, and the source of rows; `None` for a dense product.
type Case = (Fp8Scheme, Fp8Scheme, Option<Source>);

const fn row(format: Fp8Format) -> Fp8Scheme {
    Fp8Scheme {
        format,
        granularity: Granularity::Row,
    }
}

const fn block(rows: usize) -> Fp8Scheme {
    Fp8Scheme {
        format: Fp8Format::E4M3,
        granularity: Granularity::Block { rows, columns: 128 },
    }
}

/// Both formats as either operand, with and without scales along k, every source of rows, with and without a bias.
const CASES: [Case; 4] = [
    (row(Fp8Format::E4M3), row(Fp8Format::E4M3), None),
    (block(1), block(128), None),
    (block(1), block(128), Some(Source::Tokens)),
    (
        row(Fp8Format::E5M2),
        row(Fp8Format::E4M3),
        Some(Source::Sorted),
    ),
];

/// Every case, as an entry to compile.
pub fn entries() -> Vec<KernelEntry> {
    let entry = |(x, w, rows): Case| {
        let problem = valid(problem(x, w, rows));
        let name = super::name(&problem);
        let build = move |at: &Machine| {
            let plan = plan(problem, &at.capability, true);
            let given = [
                ("offsets", !problem.product.dense),
                ("b", problem.product.bias),
            ];
            at.launch(&given, plan, launch)
        };
        KernelEntry::new("fp8_gemm", "mma", name, build)
            .since_sm(SM)
            .proven(false)
    };
    CASES.map(entry).into()
}

fn problem(x: Fp8Scheme, w: Fp8Scheme, rows: Option<Source>) -> Result<Problem, Mismatch> {
    let product = match rows {
        None => grouped_gemm::Problem::dense(1024, 512, 512)?,
        Some(rows) => grouped_gemm::Problem {
            rows,
            bias: rows == Source::Sorted,
            ..grouped_gemm::Problem::new(2048, 8, 2, 512, 512)?
        },
    };
    let product = grouped_gemm::Problem {
        stored: grouped_gemm::Stored::Fp8(w),
        ..product
    };
    Problem::new(product, x)
}
