//! The forward variants for GPUs and software adapters, each on the device at hand.

use super::case::{Case, at, problem};
use super::{EVERY, emitted};
use crate::Outcome;
use cubecl::client::Client;
use moebius_ops::Element;
use moebius_ops::attention::Rule;
use moebius_shaders::attention::{ForwardBuffers, TableBuffers, Variant, launch, plan};
use moebius_tests::target::{Target, download, download_f32, nans, upload, upload_f32, upload_u32};
use moebius_tests::tolerance::{assert_close, rel_l2};

/// With heads that suit tiles.
const WHOLE_EIGHTS: [usize; 7] = [2, 4, 2, 37, 70, 16, 24];

/// Each rule alone and none, at the usual position and before the keys, those that kernels are emitted with, and sizes around the edges of tiles and blocks of queries.
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

pub(crate) fn tiles_f16(target: &Target) -> Outcome {
    let problem = problem(WHOLE_EIGHTS, &[]).with_element(Element::F16);
    both(target, &Case::new(problem))
}

/// NaN in a key that no query sees, among keys that they do.
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

/// o and lse by `variant`.
fn run(target: &Target, variant: Variant, case: &Case) -> Result<(Vec<f32>, Vec<f32>), String> {
    let (p, element) = (case.problem, case.problem.element());
    let client = target.client().ok_or("no kernels")?;
    let plan = plan(p, Some(variant), target.capability()).map_err(|error| error.to_string())?;
    // A buffer is never empty.
    let filled = |values: &[f32]| match values {
        [] => nans(&client, 1),
        values => upload(&client, values, element),
    };
    let outputs = p.query_rows() * p.sizes().value_dim;
    let buffers = ForwardBuffers {
        q: filled(&case.q),
        k: filled(&case.k),
        v: filled(&case.v),
        tables: tables(&client, case),
        o: nans(&client, outputs),
        lse: nans(&client, p.query_rows()),
    };
    let (o, lse) = (buffers.o.clone(), buffers.lse.clone());
    launch(&client, &plan, buffers);
    Ok((
        download(&client, o, outputs, element),
        download_f32(&client, lse, p.query_rows()),
    ))
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
