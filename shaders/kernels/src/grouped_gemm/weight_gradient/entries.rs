//! The variants of the weight gradient that are compiled for every target.

use super::{Choice, Problem, Product, Source, Variant, launch, plan};
use crate::emit::{KernelEntry, Machine, Planned, valid};
use crate::grouped_gemm::pipeline::{HOPPER, Instruction};
use moebius_ops::Element;

/// A variant, its element type, the columns of a and b, and their sources; `None` for a dense product.
type Case = (Variant, Element, [usize; 2], Option<[Source; 2]>);

const SORTED_BY_TOKEN: Option<[Source; 2]> = Some([Source::Sorted, Source::Tokens]);
const TOKEN_BY_SORTED: Option<[Source; 2]> = Some([Source::Tokens, Source::Sorted]);
const DENSE: Option<[Source; 2]> = None;
const WHOLE: [usize; 2] = [512, 256];
const RAGGED: [usize; 2] = [511, 255];

/// 16-bit types change the loads; columns that aren't a multiple of four change loads and stores.
const CASES: [Case; 24] = [
    (Variant::Unit, Element::F32, WHOLE, SORTED_BY_TOKEN),
    (Variant::Unit, Element::F32, RAGGED, TOKEN_BY_SORTED),
    (Variant::Unit, Element::F16, WHOLE, TOKEN_BY_SORTED),
    (Variant::Unit, Element::Bf16, WHOLE, TOKEN_BY_SORTED),
    (Variant::Naive, Element::F32, WHOLE, SORTED_BY_TOKEN),
    (Variant::Cpu, Element::F32, WHOLE, SORTED_BY_TOKEN),
    (Variant::Cpu, Element::F32, RAGGED, TOKEN_BY_SORTED),
    (Variant::Cpu, Element::F16, WHOLE, TOKEN_BY_SORTED),
    (Variant::Cpu, Element::Bf16, WHOLE, TOKEN_BY_SORTED),
    (Variant::Unit, Element::F32, WHOLE, DENSE),
    (Variant::Unit, Element::F32, RAGGED, DENSE),
    (Variant::Unit, Element::F16, WHOLE, DENSE),
    (Variant::Naive, Element::F32, WHOLE, DENSE),
    (Variant::Cpu, Element::F32, WHOLE, DENSE),
    (Variant::Cpu, Element::F32, RAGGED, DENSE),
    (Variant::Cpu, Element::Bf16, WHOLE, DENSE),
    (Variant::TensorCore, Element::F16, WHOLE, TOKEN_BY_SORTED),
    (Variant::TensorCore, Element::Bf16, WHOLE, TOKEN_BY_SORTED),
    (Variant::TensorCore, Element::F16, WHOLE, DENSE),
    (Variant::TensorCore, Element::Bf16, WHOLE, DENSE),
    (Variant::Pipelined, Element::F16, WHOLE, TOKEN_BY_SORTED),
    (Variant::Pipelined, Element::Bf16, WHOLE, TOKEN_BY_SORTED),
    (Variant::Pipelined, Element::F16, WHOLE, DENSE),
    (Variant::Pipelined, Element::Bf16, WHOLE, DENSE),
];

/// Every variant, in the cases that compile to different code.
pub fn entries() -> Vec<KernelEntry> {
    let entry = |(variant, element, [m, n], sources): Case| {
        let all = valid(match sources {
            None => Product::dense(2048, m, n),
            Some(_) => Product::new(2048, 8, 2, m, n),
        });
        let [a, b] = sources.unwrap_or([Source::Sorted; 2]);
        let product = Product { element, ..all };
        let problem = Problem { product, a, b };
        let launch = move |at: &Machine| gradient(at, variant, problem);
        let name = super::name(&problem, variant);
        let entry = KernelEntry::new("weight_gradient", variant.name(), name, launch);
        entry.of(element).proven(variant.proven())
    };
    let pipelined = CASES
        .into_iter()
        .filter(|case| case.0 == Variant::Pipelined);
    let (variant, suffix) = (Instruction::OF_HOPPER, Instruction::Group.suffix());
    let hopper = pipelined.map(|case| entry(case).since_sm(HOPPER).by(variant, suffix));
    CASES.into_iter().map(entry).chain(hopper).collect()
}

fn gradient(at: &Machine, variant: Variant, problem: Problem) -> Planned {
    let plan = plan(problem, &at.capability, Choice::of(variant));
    let given = [("offsets", !problem.product.dense)];
    at.launch(&given, plan, launch)
}
