//! A score rule that a program defines itself, and the check that finds mistakes in it.

use super::PER_HEAD;
use super::case::{Case, USUAL, problem};
use crate::Outcome;
use cubecl::prelude::*;
use moebius::attention::{HostRule, LaunchRule, Pair, Pairs, RuleArgs, ScoreRule, check_rule};
use moebius::{Error, ErrorKind};
use moebius_ops::attention::Rule;
use moebius_tests::refusal::assert_refused;
use moebius_tests::target::Target;

/// A rule that turns a score s into s / (1 + |s| / cap) − rate · (p − j)², and hides key j from head h if `stride` divides
/// h + j.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fading {
    cap: f32,
    rate: f32,
    stride: i32,
    /// An error that is added to the host's slope, to test that the check finds it.
    mistake: f64,
}

#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(super) struct Numbers {
    cap: f32,
    rate: f32,
    stride: i32,
}

#[cube]
impl ScoreRule for Fading {
    type Args = Numbers;

    fn score<N: Size>(args: &Numbers, s: Vector<f32, N>, at: &Pairs<N>) -> Vector<f32, N> {
        let one = Vector::<f32, N>::new(1.0f32);
        let back = Vector::<f32, N>::cast_from(Vector::new(at.position) - at.keys);
        let capped = s / (one + s.abs() / Vector::new(args.cap));
        capped - Vector::new(args.rate) * back * back
    }

    fn slope<N: Size>(args: &Numbers, s: Vector<f32, N>, _at: &Pairs<N>) -> Vector<f32, N> {
        let one = Vector::<f32, N>::new(1.0f32);
        let by = one + s.abs() / Vector::new(args.cap);
        one / (by * by)
    }

    fn seen<N: Size>(args: &Numbers, at: &Pairs<N>) -> Vector<bool, N> {
        let place = at.keys + Vector::new(at.head as i32);
        (place % Vector::new(args.stride)).not_equal(&Vector::new(0i32))
    }
}

impl HostRule for Fading {
    fn score(&self, s: f64, at: &Pair) -> f64 {
        let back = (at.position - at.key as i64) as f64;
        s / (1.0 + s.abs() / f64::from(self.cap)) - f64::from(self.rate) * back * back
    }

    fn slope(&self, s: f64, _: &Pair) -> f64 {
        (1.0 + s.abs() / f64::from(self.cap)).powi(-2) + self.mistake
    }

    fn seen(&self, at: &Pair) -> bool {
        !(at.key + at.head).is_multiple_of(self.stride as usize)
    }
}

impl LaunchRule for Fading {
    fn args(&self) -> RuleArgs<Self> {
        NumbersLaunch::new(self.cap, self.rate, self.stride)
    }
}

const FADING: Fading = Fading {
    cap: 2.0,
    rate: 0.002,
    stride: 3,
    mistake: 0.0,
};

/// Checks the rule alone in every variant, with other parameters, after rules of every kind, over tiles that others skip, and
/// with dropout.
pub(crate) fn own_rule(target: &Target) -> Outcome {
    let other = Fading {
        stride: 2,
        cap: 1.0,
        ..FADING
    };
    let (eights, few) = ([1, 2, 1, 130, 129, 16, 8], [1, 4, 2, 2, 100, 8, 8]);
    let (bias, cap, near) = (Rule::Bias(PER_HEAD), Rule::Softcap(2.0), Rule::Relative(6));
    let all: [([usize; 7], &[Rule], Fading); 6] = [
        (USUAL, &[], FADING),
        (eights, &[], other),
        (few, &[], FADING),
        (eights, &[bias, cap, near, Rule::Causal], FADING),
        (USUAL, &[cap, Rule::Alibi, Rule::Documents, bias], other),
        (eights, &[Rule::Window(20)], FADING),
    ];
    Outcome::of(all.map(|(of, rules, rule)| {
        let problem = problem(of, rules).with_dropout(rules.is_empty());
        let case = Case {
            rule: Some(rule),
            ..Case::new(problem.with_sinks(of == USUAL))
        };
        case.check(target)
    }))
}

/// Checks that the rule's device and host parts agree, and that a wrong slope is found.
pub(crate) fn own_rule_agrees(target: &Target) -> Result<(), Error> {
    let sizes = [2, 2, 5, 9];
    check_rule(&FADING, &target.burn(), sizes, 4.0)?;
    let wrong = Fading {
        mistake: 0.1,
        ..FADING
    };
    let checked = check_rule(&wrong, &target.burn(), sizes, 4.0);
    let error = assert_refused(ErrorKind::Config, checked);
    assert!(error.starts_with("slope on the host"), "{error}");
    Ok(())
}
