//! The forward attention variants for GPUs and software adapters, each forced on the device under test.

use super::case::{Case, at, problem};
use super::{EVERY, emitted};
use crate::Outcome;
use cubecl::client::Client;
use moebius_ops::Element;
use moebius_ops::attention::Rule;
use moebius_shaders::attention::{ForwardBuffers, Plan, TableBuffers, Variant, launch, plan};
use moebius_tests::elements::{download, upload};
use moebius_tests::target::{Target, download_f32, nans, upload_f32, upload_u32};
use moebius_tests::tolerance::{assert_close, rel_l2};

/// Sizes whose head dimensions are multiples of eight, as tiles need.
const WHOLE_EIGHTS: [usize; 7] = [2, 4, 2, 37, 70, 16, 24];

/// Checks each rule alone and none, at the usual position and before the keys, the emitted combinations of rules, and sizes
/// around the edges of tiles and query blocks.
pub(crate) fn tiles(target: &Target) -> Outcome {
    let alone = EVERY.map(|rule| problem(WHOLE_EIGHTS, &[rule]));
    let sizes = [
        [1, 2, 1, 63, 15, 64, 64],
        [1, 2, 1, 64, 16, 64, 64],
        [1, 2, 1, 65, 17, 64, 64],
        [1, 2, 2, 129, 31, 8, 8],
        [1, 1, 1, 257, 130, 8, 16],
        [1, 1, 1, 16, 1, 8, 16],
        [1, 1, 1, 16, 0, 8, 16],
        [1, 1, 1, 17, 9, 256, 256],
    ];
    let sizes = sizes.map(|of| problem(of, &[Rule::Causal]));
    let before = alone.map(|problem| at(problem, -12));
    let alone = alone.into_iter().chain(before);
    let problems = alone.chain(emitted(WHOLE_EIGHTS)).chain(sizes);
    let none = problem(WHOLE_EIGHTS, &[]);
    Outcome::of([
        Outcome::of(
            problems
                .chain([none, none.with_dropout(true)])
                .map(|problem| both(target, &Case::new(problem))),
        ),
        unseen(target),
    ])
}

pub(crate) fn half_tiles(target: &Target, element: Element) -> Outcome {
    let problem = problem(WHOLE_EIGHTS, &[]).with_element(element);
    both(target, &Case::new(problem))
}

/// Checks every form in which the matrix-instruction kernel is emitted, and rules that exclude tiles.
pub(crate) fn matrices(target: &Target, element: Element) -> Outcome {
    let of = [2, 4, 2, 137, 170, 32, 48];
    let none = problem(of, &[]);
    let others = [
        none,
        none.with_dropout(true),
        problem(of, &[Rule::Causal]),
        problem(of, &[Rule::Causal, Rule::Documents]),
    ];
    let all = emitted(of).into_iter().chain(others);
    Outcome::of(all.map(|problem| {
        let case = Case::new(problem.with_element(element));
        if let Err(refused) = plan(case.problem, Some(Variant::TensorCore), target.capability()) {
            return Outcome::Unsupported(refused.to_string());
        }
        let (want, _) = case.want();
        compare(target, Variant::TensorCore, &case, &want)
    }))
}

/// Checks that NaN in a key that no query sees, between visible keys, changes nothing.
fn unseen(target: &Target) -> Outcome {
    let mut case = Case::new(problem([1, 2, 1, 50, 140, 8, 8], &[Rule::Documents]));
    let key = 40;
    case.key_documents[key] = 99;
    let clean = case.clone();
    case.k[key * 8..][..8].fill(f32::NAN);
    case.v[key * 8..][..8].fill(f32::NAN);
    let (want, _) = clean.want();
    Outcome::of(
        [Variant::Tile, Variant::Rows].map(|variant| compare(target, variant, &case, &want)),
    )
}

/// Checks that each variant visits the tiles that its plan predicts, and fewer than all where a rule excludes some.
pub(crate) fn visits(target: &Target) -> Outcome {
    let sizes = [1, 2, 1, 230, 260, 32, 32];
    let global = Rule::Global {
        tokens: 9,
        window: 20,
    };
    let (far, near) = (Rule::Window(20), Rule::SymmetricWindow(20));
    let (documents, blocks) = (Rule::Documents, Rule::Blocks(8));
    let cases: [&[Rule]; 11] = [
        &[],
        &[Rule::Causal],
        &[Rule::CausalTopLeft],
        &[far],
        &[near],
        &[Rule::Prefix(40)],
        &[global],
        &[documents],
        &[blocks],
        &[Rule::Causal, documents, Rule::Alibi],
        &[Rule::Window(100), blocks, documents],
    ];
    Outcome::of(cases.map(|rules| {
        let mut case = Case::of(sizes, rules);
        for (place, document) in case.query_documents.iter_mut().enumerate() {
            *document = place as u32 / 70;
        }
        for (place, document) in case.key_documents.iter_mut().enumerate() {
            *document = place as u32 / 50;
        }
        for (place, word) in case.blocks.iter_mut().enumerate() {
            *word = u32::from(place % 33 / 11 == 1);
        }
        let skips = [far, near, documents, blocks];
        let skips = rules.iter().any(|rule| skips.contains(rule));
        let variants = match target.capability().cpu_cores {
            Some(_) => vec![Variant::Unit, Variant::Cpu],
            None => vec![Variant::Unit, Variant::Tile, Variant::Rows],
        };
        Outcome::of(variants.into_iter().map(|variant| {
            let plan_of = |problem| plan(problem, Some(variant), target.capability());
            let plan = match plan_of(case.problem) {
                Ok(plan) => plan.counting(),
                Err(refused) => return Outcome::Unsupported(refused.to_string()),
            };
            let (_, counted) = launched(target, &plan, &case);
            let counted: Vec<usize> = counted.into_iter().map(|count| count as usize).collect();
            let what = format!("{variant:?} of {rules:?}");
            assert_eq!(counted, plan.visited(&case.words()), "{what}");
            if skips && variant != Variant::Unit {
                let free = plan_of(problem(sizes, &[])).unwrap();
                let all: usize = free.visited(&case.words()).into_iter().sum();
                let some: usize = counted.into_iter().sum();
                assert!(some < all, "{what} visits {some} tiles of {all}");
            }
            Outcome::Ran
        }))
    }))
}

fn both(target: &Target, case: &Case) -> Outcome {
    let (want, _) = case.want();
    Outcome::of([Variant::Tile, Variant::Rows].map(|variant| compare(target, variant, case, &want)))
}

fn compare(
    target: &Target,
    variant: Variant,
    case: &Case,
    want: &moebius_ops::attention::Attended,
) -> Outcome {
    let (o, lse) = match run(target, variant, case) {
        Ok(found) => found,
        Err(refused) => return Outcome::Unsupported(refused),
    };
    let what = format!("{variant:?} of {:?}", case.problem);
    assert_close(&what, &o, &want.o, rel_l2(case.problem.element()));
    let nothing = f64::from(f32::MIN);
    for (got, want) in lse.iter().zip(&want.lse) {
        let (got, want) = (f64::from(*got), *want);
        let close = (got - want).abs() <= 1e-5 * (1.0 + want.abs());
        assert!(
            got == want || (close && want != nothing),
            "{what}: lse {got} for {want}"
        );
    }
    Outcome::Ran
}

/// Runs the case by `variant`; returns o and the log-sum-exp, or why the plan refuses.
fn run(target: &Target, variant: Variant, case: &Case) -> Result<(Vec<f32>, Vec<f32>), String> {
    let plan = plan(case.problem, Some(variant), target.capability());
    let plan = plan.map_err(|error| error.to_string())?;
    Ok(launched(target, &plan, case))
}

/// Runs a plan; returns o and the log-sum-exp.
fn launched(target: &Target, plan: &Plan, case: &Case) -> (Vec<f32>, Vec<f32>) {
    let (p, element) = (case.problem, case.problem.element());
    let client = target.client().unwrap();
    // A buffer can't be empty.
    let filled = |values: &[f32]| match values {
        [] => nans(&client, 1),
        values => upload(&client, values, element),
    };
    let outputs = p.query_rows() * p.sizes().value_dim;
    let buffers = ForwardBuffers {
        q: filled(&case.q).into(),
        k: filled(&case.k).into(),
        v: filled(&case.v).into(),
        tables: tables(&client, case),
        o: nans(&client, outputs),
        lse: nans(&client, p.query_rows()),
    };
    let (o, lse) = (buffers.o.clone(), buffers.lse.clone());
    launch(&client, plan, buffers);
    (
        download(&client, o, outputs, element),
        download_f32(&client, lse, p.query_rows()),
    )
}

fn tables(client: &Client, case: &Case) -> TableBuffers {
    let words = |table: &[u32]| (!table.is_empty()).then(|| upload_u32(client, table));
    let floats = |table: &[f32]| (!table.is_empty()).then(|| upload_f32(client, table));
    TableBuffers {
        dropout: words(&case.dropout_words()),
        query_documents: words(&case.query_documents),
        key_documents: words(&case.key_documents),
        blocks: words(&case.blocks),
        mask: words(&case.mask),
        slopes: floats(&case.slopes),
        bias: floats(&case.bias),
        relative: floats(&case.relative),
        sinks: floats(&case.sinks),
    }
}
