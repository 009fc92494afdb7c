//! One attention problem with all its inputs, run on a device and by the oracle.

use super::own_rule::Fading;
use crate::Outcome;
use crate::tensors::{dtype, tensor, typed};
use burn::tensor::{Bool, DType, Gradients, Int, Tensor, TensorData};
use moebius::Error;
use moebius::attention::{Attend, Attended, HostRule};
use moebius_ops::Element;
use moebius_ops::attention::{
    Dropout, Inputs, Pattern, Problem, Rule, Rules, Sizes, Tables, reference, reference_backward,
};
use moebius_tests::data::{Rng, rounded};
use moebius_tests::elements::exact;
use moebius_tests::target::Target;
use moebius_tests::tolerance::{assert_close, assert_gradient, rel_l2};

/// An attention problem, its inputs, and the gradients of its results.
#[derive(Clone)]
pub(super) struct Case {
    pub(super) problem: Problem,
    pub(super) q: Vec<f32>,
    pub(super) k: Vec<f32>,
    pub(super) v: Vec<f32>,
    pub(super) d_o: Vec<f32>,
    pub(super) d_lse: Vec<f32>,
    pub(super) query_documents: Vec<u32>,
    pub(super) key_documents: Vec<u32>,
    pub(super) blocks: Vec<u32>,
    pub(super) mask: Vec<u32>,
    pub(super) slopes: Vec<f32>,
    pub(super) bias: Vec<f32>,
    pub(super) relative: Vec<f32>,
    pub(super) sinks: Vec<f32>,
    /// The probability of dropping an attention weight, and the seed.
    pub(super) dropout: Option<(f64, u64)>,
    pub(super) rule: Option<Fading>,
}

/// Names the sizes of a list \[B, Hq, Hkv, Sq, Skv, D, Dv\].
pub(super) fn sizes(
    [batch, heads, kv_heads, queries, keys, head_dim, value_dim]: [usize; 7],
) -> Sizes {
    Sizes {
        batch,
        heads,
        kv_heads,
        queries,
        keys,
        head_dim,
        value_dim,
    }
}

/// Sizes of most cases: two sequences, four query heads that share two key heads, and more keys than queries.
pub(super) const USUAL: [usize; 7] = [2, 4, 2, 37, 70, 12, 10];

pub(super) fn problem(of: [usize; 7], rules: &[Rule]) -> Problem {
    let rules = Rules::new(rules.iter().copied()).unwrap();
    Problem::new(sizes(of)).unwrap().with_rules(rules).unwrap()
}

/// Moves the first query of a problem to position `first`.
pub(super) fn at(problem: Problem, first: i64) -> Problem {
    let rules = problem.rules().with_position(Some(first));
    problem.with_rules(rules).unwrap()
}

impl Case {
    /// Draws random inputs, rounded to the problem's element type.
    pub(super) fn new(problem: Problem) -> Self {
        let (s, rules) = (*problem.sizes(), *problem.rules());
        let mut rng = Rng::new((s.queries * 131 + s.keys * 7 + s.head_dim) as u64);
        let mut values = |len: usize, bound: f32| -> Vec<f32> {
            let values = rng.vec(len, bound).into_iter();
            values.map(|v| rounded(v, problem.element())).collect()
        };
        let pairs = |pattern: Option<Pattern>| {
            pattern.map_or(0, |pattern| pattern.shape(&s).iter().product())
        };
        let q = values(problem.query_rows() * s.head_dim, 2.0);
        let k = values(problem.key_rows() * s.head_dim, 2.0);
        let v = values(problem.key_rows() * s.value_dim, 1.0);
        let d_o = values(problem.query_rows() * s.value_dim, 1.0);
        let relative = rules.relative().map_or(0, |n| s.heads * (2 * n + 1));
        let has = |rule| if rules.has(rule) { s.heads } else { 0 };
        let tables = [
            (problem.query_rows(), 1.0),
            (has(Rule::Alibi), 0.1),
            (pairs(rules.bias()), 2.0),
            (relative, 2.0),
            (if problem.sinks() { s.heads } else { 0 }, 2.0),
        ];
        let [d_lse, slopes, bias, relative, sinks] = tables.map(|(len, bound)| values(len, bound));
        let mut words = |len: usize, below: usize| -> Vec<u32> {
            (0..len).map(|_| rng.below(below) as u32).collect()
        };
        let block = rules.blocks().unwrap_or(1);
        let cells = s.queries.div_ceil(block) * s.keys.div_ceil(block);
        Self {
            blocks: words(if rules.blocks().is_some() { cells } else { 0 }, 3),
            mask: words(pairs(rules.mask()), 4),
            query_documents: words(s.batch * s.queries, 4),
            // Some keys belong to a document that has no query, so no query sees them.
            key_documents: words(s.batch * s.keys, 5),
            problem,
            q,
            k,
            v,
            d_o,
            d_lse,
            slopes,
            bias,
            relative,
            sinks,
            dropout: problem.dropout().then_some((0.3, 7)),
            rule: None,
        }
    }

    pub(super) fn of(of: [usize; 7], rules: &[Rule]) -> Self {
        Self::new(problem(of, rules))
    }

    /// The case's tables of words: documents, blocks and mask.
    pub(super) fn words(&self) -> Tables<'_> {
        Tables {
            query_documents: &self.query_documents,
            key_documents: &self.key_documents,
            blocks: &self.blocks,
            mask: &self.mask,
            ..Tables::default()
        }
    }

    /// Computes results and gradients with the oracle.
    pub(super) fn want(
        &self,
    ) -> (
        moebius_ops::attention::Attended,
        moebius_ops::attention::Gradients,
    ) {
        let [q, k, v, d_o, d_lse, slopes, bias, relative, sinks] = [
            &self.q,
            &self.k,
            &self.v,
            &self.d_o,
            &self.d_lse,
            &self.slopes,
            &self.bias,
            &self.relative,
            &self.sinks,
        ]
        .map(|values| exact(values));
        let dropout = self.dropout_words();
        let tables = Tables {
            dropout: &dropout,
            slopes: &slopes,
            bias: &bias,
            relative: &relative,
            sinks: &sinks,
            rule: self.rule.as_ref().map(|rule| rule as &dyn HostRule),
            ..self.words()
        };
        let inputs = Inputs {
            q: &q,
            k: &k,
            v: &v,
            tables,
        };
        let forward = reference(&self.problem, &inputs);
        let gradients = reference_backward(&self.problem, &inputs, &d_o, &d_lse);
        (forward, gradients)
    }

    pub(super) fn dropout_words(&self) -> Vec<u32> {
        let words = self
            .dropout
            .map(|(p, seed)| Dropout::new(p, seed).unwrap().words());
        words.map_or_else(Vec::new, Vec::from)
    }

    pub(super) fn check(&self, target: &Target) -> Outcome {
        self.compare(target).into()
    }

    /// Compares the results of a forward with the oracle's, within the error of sums over tens of thousands of keys in one order.
    pub(super) fn check_forward(&self, target: &Target) -> Outcome {
        let what = format!("{:?} on {}", self.problem, target.name);
        let compared = Run::new(target, self).map(|run| {
            let (want, _) = self.want();
            assert_close(&what, &floats(&run.out.o), &want.o, 1e-4);
            assert_close(&what, &floats(&run.out.lse), &want.lse, 1e-4);
        });
        compared.into()
    }

    /// Compares results and gradients with the oracle's.
    fn compare(&self, target: &Target) -> Result<(), Error> {
        let p = &self.problem;
        let what = format!("{p:?} on {}", target.name);
        let run = Run::new(target, self)?;
        let (want, gradients) = self.want();
        let element = p.element();
        assert_close(&what, &floats(&run.out.o), &want.o, rel_l2(element));
        let lse = floats(&run.out.lse);
        let nothing = f64::from(f32::MIN);
        let seen = |lse: f64| if lse == nothing { 0.0 } else { lse };
        for (got, want) in lse.iter().zip(&want.lse) {
            let unseen = [f64::from(*got), *want].map(|lse| lse == nothing);
            assert_eq!(unseen[0], unseen[1], "{what}: {got}");
        }
        let got: Vec<f32> = lse.iter().map(|lse| seen(f64::from(*lse)) as f32).collect();
        let want: Vec<f64> = want.lse.iter().map(|lse| seen(*lse)).collect();
        // The log-sum-exp has f32's tolerance also for f16 and bf16, because scores are summed in f32.
        assert_close(&what, &got, &want, rel_l2(Element::F32));
        let s = p.sizes();
        if s.batch * s.queries * s.keys == 0 {
            return Ok(());
        }
        let found = run.backward(self);
        let check = |name: &str, got: &[f32], want: &[f64]| {
            assert_gradient(&format!("d{name} of {what}"), got, want, element);
        };
        let of = |tensor: &Tensor<4>| floats(&tensor.grad(&found).unwrap());
        check("q", &of(&run.q), &gradients.dq);
        check("k", &of(&run.k), &gradients.dk);
        check("v", &of(&run.v), &gradients.dv);
        if let Some(bias) = &run.bias {
            check("bias", &of(bias), &gradients.dbias);
        }
        if let Some(relative) = &run.relative {
            let got = floats(&relative.grad(&found).unwrap());
            check("relative", &got, &gradients.drelative);
        }
        if let Some(sinks) = &run.sinks {
            let got = floats(&sinks.grad(&found).unwrap());
            check("sinks", &got, &gradients.dsinks);
        }
        Ok(())
    }
}

pub(super) fn floats<const D: usize>(tensor: &Tensor<D>) -> Vec<f32> {
    let tensor = tensor.clone().cast(DType::F32);
    tensor.into_data().iter().collect()
}

/// The tensors of a case on a device that records gradients.
pub(super) struct Run {
    pub(super) q: Tensor<4>,
    pub(super) k: Tensor<4>,
    pub(super) v: Tensor<4>,
    pub(super) bias: Option<Tensor<4>>,
    pub(super) relative: Option<Tensor<2>>,
    pub(super) sinks: Option<Tensor<1>>,
    pub(super) attend: Attend,
    pub(super) out: Attended,
}

impl Run {
    pub(super) fn new(target: &Target, case: &Case) -> Result<Self, Error> {
        let (p, s) = (&case.problem, *case.problem.sizes());
        let device = target.burn().autodiff();
        let put = |values: &[f32], shape: [usize; 4]| {
            typed(values, shape, dtype(p.element()), &device).require_grad()
        };
        let q = put(&case.q, [s.batch, s.heads, s.queries, s.head_dim]);
        let k = put(&case.k, [s.batch, s.kv_heads, s.keys, s.head_dim]);
        let v = put(&case.v, [s.batch, s.kv_heads, s.keys, s.value_dim]);
        let mut run = Self {
            q,
            k,
            v,
            bias: None,
            relative: None,
            sinks: None,
            attend: Attend::new(),
            out: Attended {
                o: Tensor::empty([0; 4], &device),
                lse: Tensor::empty([0; 3], &device),
            },
        };
        let mut attend = Attend::new().scale(p.scale());
        if let Some(first) = p.rules().position() {
            attend = attend.position(first);
        }
        for rule in p.rules().iter() {
            attend = run.rule(case, attend, rule, &device);
        }
        if p.sinks() {
            let sinks = Tensor::<1>::from_floats(&case.sinks[..], &device).require_grad();
            run.sinks = Some(sinks.clone());
            attend = attend.sinks(sinks);
        }
        if let Some((p, seed)) = case.dropout {
            attend = attend.dropout(p, seed);
        }
        if let Some(rule) = case.rule {
            attend = attend.rule(rule);
        }
        run.out = attend.forward(run.q.clone(), run.k.clone(), run.v.clone())?;
        run.attend = attend;
        Ok(run)
    }

    fn rule(
        &mut self,
        case: &Case,
        attend: Attend,
        rule: Rule,
        device: &burn::tensor::Device,
    ) -> Attend {
        let s = *case.problem.sizes();
        let ids = |ids: &[u32], tokens: usize| {
            let ids: Vec<i32> = ids.iter().map(|id| *id as i32).collect();
            Tensor::<2, Int>::from_data(TensorData::new(ids, [s.batch, tokens]), device)
        };
        let bools = |words: &[u32], hidden: bool| -> Vec<bool> {
            words.iter().map(|word| (*word == 0) == hidden).collect()
        };
        let n = |n: u32| n as usize;
        match rule {
            Rule::Causal => attend.causal(),
            Rule::CausalTopLeft => attend.causal_top_left(),
            Rule::Window(w) => attend.window(n(w)),
            Rule::SymmetricWindow(w) => attend.symmetric_window(n(w)),
            Rule::Prefix(keys) => attend.prefix(n(keys)),
            Rule::Global { tokens, window } => attend.global(n(tokens), n(window)),
            Rule::Dilated(d) => attend.dilated(n(d)),
            Rule::Documents => attend.documents(
                ids(&case.query_documents, s.queries),
                ids(&case.key_documents, s.keys),
            ),
            Rule::Blocks(size) => {
                let shape = [s.queries.div_ceil(n(size)), s.keys.div_ceil(n(size))];
                let seen = TensorData::new(bools(&case.blocks, false), shape);
                attend.blocks(n(size), Tensor::<2, Bool>::from_data(seen, device))
            }
            Rule::Mask(pattern) => {
                let hidden = TensorData::new(bools(&case.mask, true), pattern.shape(&s));
                attend.mask(Tensor::<4, Bool>::from_data(hidden, device))
            }
            Rule::Alibi => attend.alibi_slopes(Tensor::from_floats(&case.slopes[..], device)),
            Rule::Softcap(cap) => attend.softcap(cap),
            Rule::Bias(pattern) => {
                let bias = tensor(&case.bias, pattern.shape(&s), device).require_grad();
                self.bias = Some(bias.clone());
                attend.bias(bias)
            }
            Rule::Relative(reach) => {
                let shape = [s.heads, 2 * n(reach) + 1];
                let table = tensor(&case.relative, shape, device).require_grad();
                self.relative = Some(table.clone());
                attend.relative(table)
            }
        }
    }

    /// Runs backward from Σ o ∘ do + Σ lse ∘ dlse; returns the gradients.
    pub(super) fn backward(&self, case: &Case) -> Gradients {
        let (o, lse) = (&self.out.o, &self.out.lse);
        let d_o = typed(&case.d_o, o.dims(), o.dtype(), &o.device());
        let d_lse = tensor(&case.d_lse, lse.dims(), &lse.device());
        let through_o = (o.clone() * d_o).cast(DType::F32).sum();
        (through_o + (lse.clone() * d_lse).sum()).backward()
    }
}
