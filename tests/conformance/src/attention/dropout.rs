//! Dropout of attention weights: on every device the mask is the reference's, forward and backward.

use super::case::{Case, Run, USUAL, floats, problem};
use super::{EVERY, PER_HEAD};
use crate::Outcome;
use crate::tensors::tensor;
use burn::tensor::Tensor;
use moebius::Error;
use moebius::attention::Attend;
use moebius_ops::Element;
use moebius_ops::attention::{Dropout, Problem, Rule, Site};
use moebius_shaders::DeviceElement;
use moebius_tests::target::Target;

/// Compares results and gradients under dropout: head sizes that are multiples of eight, shared key heads, few queries, several
/// blocks, more queries than keys, and rules of every kind.
pub(crate) fn dropout(target: &Target) -> Outcome {
    let eights = [2, 4, 2, 37, 70, 16, 8];
    let few = [1, 8, 2, 1, 300, 40, 24];
    let (long, cross) = ([1, 2, 1, 450, 450, 8, 8], [1, 2, 1, 70, 20, 8, 8]);
    let (bias, near) = (Rule::Bias(PER_HEAD), Rule::Relative(6));
    let all: [([usize; 7], &[Rule]); 7] = [
        (eights, &[]),
        (eights, &[bias, Rule::Softcap(2.0), near, Rule::Documents]),
        (
            USUAL,
            &[near, Rule::Softcap(2.0), bias, Rule::Mask(PER_HEAD)],
        ),
        (few, &[Rule::Causal, Rule::Alibi]),
        (long, &[Rule::Window(70)]),
        (cross, &[Rule::Causal]),
        (USUAL, &EVERY[..8]),
    ];
    Outcome::of(all.map(|(of, rules)| {
        let sinks = !rules.is_empty();
        Case::new(dropping(of, rules).with_sinks(sinks)).check(target)
    }))
}

pub(crate) fn dropout_f16(target: &Target) -> Outcome {
    if let Err(refused) = Element::F16.supported("attention", target.capability()) {
        return Outcome::Unsupported(refused.to_string());
    }
    let problem = dropping(USUAL, &[Rule::Causal]).with_element(Element::F16);
    Case::new(problem).check(target)
}

pub(super) fn dropping(of: [usize; 7], rules: &[Rule]) -> Problem {
    problem(of, rules).with_dropout(true)
}

/// The factor that dropout applies to each attention weight, \[B, Hq, Sq, Skv\]: all keys weigh the same, and the values are
/// unit vectors, so that o shows the weights.
fn factors(target: &Target, of: [usize; 4], (p, seed): (f64, u64)) -> Result<Vec<f32>, Error> {
    let ([batch, heads, queries, keys], device) = (of, target.burn());
    let zeros = |rows| Tensor::<4>::zeros([batch, heads, rows, 8], &device);
    let unit: Vec<f32> = (0..keys * keys)
        .map(|i| if i % (keys + 1) == 0 { 1.0 } else { 0.0 })
        .collect();
    let v = tensor(&unit, [1, 1, keys, keys], &device);
    let v = v.expand([batch, heads, keys, keys]);
    let attend = Attend::new().dropout(p, seed);
    let out = attend.forward(zeros(queries), zeros(keys), v)?;
    let lse = floats(&out.lse);
    let alike = |lse: &f32| (lse - (keys as f32).ln()).abs() < 1e-5;
    assert!(lse.iter().all(alike), "dropout changes no log-sum-exp");
    Ok(floats(&(out.o * keys as f32)))
}

/// Checks that the mask equals the reference's for each weight, and that about a share p of the weights is dropped.
pub(crate) fn masks(target: &Target) -> Result<(), Error> {
    let of = [2, 3, 200, 250];
    let [_, heads, queries, keys] = of;
    let all = [
        (0.3, 7),
        (0.9, 7),
        (0.5, u64::MAX),
        (1e-9, 1),
        (1.0 - 1e-9, 1),
    ];
    for (p, seed) in all {
        let found = factors(target, of, (p, seed))?;
        let dropout = Dropout::new(p, seed).unwrap();
        for (at, found) in found.iter().enumerate() {
            let site = Site {
                batch: at / keys / queries / heads,
                head: at / keys / queries % heads,
                query: at / keys % queries,
                key: at % keys,
            };
            let want = dropout.factor(site);
            let close = (found - want).abs() <= 1e-5 * want;
            let name = target.name;
            assert!(close, "{found} for {want} at {site:?}, p {p}, on {name}");
        }
        let dropped = found.iter().filter(|factor| **factor == 0.0).count();
        let (share, count) = (dropped as f64 / found.len() as f64, found.len() as f64);
        // Five standard deviations of a binomially distributed share.
        let bound = 5.0 * (p * (1.0 - p) / count).sqrt() + 1.0 / count;
        assert!((share - p).abs() < bound, "{share} of the weights for {p}");
    }
    Ok(())
}

/// Checks that the same seed gives the same bits, another seed another mask, and p = 0 the bits without dropout.
pub(crate) fn dropout_repeats(target: &Target) -> Result<(), Error> {
    let bits = |problem: Problem, dropout: Option<(f64, u64)>| -> Result<Vec<u32>, Error> {
        let case = Case {
            dropout,
            ..Case::new(problem)
        };
        let run = Run::new(target, &case)?;
        let found = run.backward(&case);
        let of = |tensor: &Tensor<4>| floats(&tensor.grad(&found).unwrap());
        let all = [floats(&run.out.o), of(&run.q), of(&run.k), of(&run.v)];
        Ok(all.concat().into_iter().map(f32::to_bits).collect())
    };
    let plain = problem([2, 4, 2, 37, 70, 16, 8], &[Rule::Causal]);
    let [first, again, other, none, zero] = [
        Some((0.3, 5)),
        Some((0.3, 5)),
        Some((0.3, 5 + (1 << 40))),
        None,
        Some((0.0, 5)),
    ]
    .map(|dropout| bits(plain, dropout));
    let (first, none) = (first?, none?);
    assert_eq!(first, again?);
    assert_ne!(first, other?);
    assert_ne!(first, none);
    assert_eq!(none, zero?);
    Ok(())
}
