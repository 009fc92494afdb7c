//! Attention weights against the f64 oracle, with the gradients through them.

use super::case::{Case, Run, floats, problem};
use super::dropout::dropping;
use super::emitted;
use crate::Outcome;
use burn::tensor::Tensor;
use moebius::Error;
use moebius::attention::Attended;
use moebius_ops::Element;
use moebius_ops::attention::{Problem, Rule};
use moebius_shaders::DeviceElement;
use moebius_tests::target::Target;
use moebius_tests::tolerance::{assert_close, assert_gradient, rel_l2};

/// Sizes with as many values as keys, so that the oracle's values can be an identity matrix.
const SQUARE: [usize; 7] = [2, 4, 2, 19, 34, 12, 34];

/// Checks the rules that kernels are emitted with, sinks among them, a dropout, and so many keys that they take two attentions.
pub(crate) fn weights(target: &Target) -> Outcome {
    let [scores, tables] = emitted(SQUARE);
    let all = [scores, tables, dropping(SQUARE, &[Rule::Causal])];
    let all = all.map(|problem| Outcome::from(compare(target, problem)));
    Outcome::of(all.into_iter().chain([many_keys(target).into()]))
}

pub(crate) fn weights_f16(target: &Target) -> Outcome {
    if let Err(refused) = Element::F16.supported("attention", target.capability()) {
        return Outcome::Unsupported(refused.to_string());
    }
    let problem = problem(SQUARE, &[Rule::Causal]).with_sinks(true);
    compare(target, problem.with_element(Element::F16)).into()
}

/// Compares weights, and the gradients of queries, keys and sinks, with those of an attention to an identity matrix, whose outputs are
/// its weights.
fn compare(target: &Target, problem: Problem) -> Result<(), Error> {
    let (s, element) = (*problem.sizes(), problem.element());
    let mut case = Case::new(problem);
    for (at, value) in case.v.iter_mut().enumerate() {
        let (key, column) = (at / s.keys % s.keys, at % s.keys);
        *value = if key == column { 1.0 } else { 0.0 };
    }
    case.d_lse.fill(0.0);
    let run = Run::new(target, &case)?;
    let o = run.attend.weights(run.q.clone(), run.k.clone())?;
    let lse = run.out.lse.clone();
    let run = Run {
        out: Attended { o, lse },
        ..run
    };
    let (want, gradients) = case.want();
    let what = format!("weights of {problem:?} on {}", target.name);
    assert_close(&what, &floats(&run.out.o), &want.o, rel_l2(element));
    let found = run.backward(&case);
    let check = |name: &str, got: &[f32], want: &[f64]| {
        assert_gradient(&format!("d{name} of {what}"), got, want, element);
    };
    let of = |tensor: &Tensor<4>| floats(&tensor.grad(&found).unwrap());
    check("q", &of(&run.q), &gradients.dq);
    check("k", &of(&run.k), &gradients.dk);
    if let Some(sinks) = &run.sinks {
        let got = floats(&sinks.grad(&found).unwrap());
        check("sinks", &got, &gradients.dsinks);
    }
    Ok(())
}

/// Compares the product of weights and values with the oracle's outputs.
fn many_keys(target: &Target) -> Result<(), Error> {
    let case = Case::of([1, 2, 2, 3, 300, 8, 10], &[Rule::Causal]);
    let run = Run::new(target, &case)?;
    let got = run.attend.weights(run.q.clone(), run.k.clone())?;
    assert_eq!(got.dims(), [1, 2, 3, 300]);
    let p = floats(&got);
    let product = (0..2 * 3 * 10).map(|at| {
        let (row, column) = (at / 10, at % 10);
        let value = |key| case.v[(row / 3 * 300 + key) * 10 + column];
        let parts = (0..300).map(|key| p[row * 300 + key] * value(key));
        parts.sum::<f32>()
    });
    let product: Vec<f32> = product.collect();
    let (want, _) = case.want();
    assert_close(
        "weights times values",
        &product,
        &want.o,
        rel_l2(Element::F32),
    );
    Ok(())
}
