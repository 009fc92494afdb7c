//! What is compiled for every target that has the instructions.

use super::{Problem, launch, plan};
use crate::emit::{KernelEntry, Machine, valid};
use moebius_ops::Mismatch;
use moebius_ops::fp8::Fp8Format;
use moebius_ops::grouped_gemm::{self, Source};
use moebius_ops::scaling::{Fp8Scheme, Granularity};

/// The oldest architecture with the instructions.
const SM: u32 = 89;

/// Codes of x and of W, and the rows of a product of several experts.
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

/// Both formats as either operand, scales along k and not, every source of rows, with a bias and without.
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

/// Products of every element type, plain and of sorted rows.
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
        fp8: Some(w),
        ..product
    };
    Problem::new(product, x)
}
