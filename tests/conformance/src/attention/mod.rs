//! Attention under score rules, forward and backward, against the f64 oracle.

mod case;
mod dropout;
mod own_rule;
mod variants;
mod views;
mod weights;

use crate::Outcome;
use burn::tensor::{Bool, Tensor, TensorData};
use case::{Case, Run, USUAL, at, floats, problem};
pub(crate) use dropout::{dropout, dropout_f16, dropout_repeats, masks};
use moebius::attention::{Attend, Attended, merge};
use moebius::{Error, ErrorKind};
use moebius_ops::Element;
use moebius_ops::attention::{Pattern, Problem, Rule};
use moebius_shaders::DeviceElement;
use moebius_tests::refusal::assert_refused;
use moebius_tests::target::Target;
use moebius_tests::tolerance::{assert_close, assert_gradient, rel_l2};
pub(crate) use own_rule::{own_rule, own_rule_agrees};
pub(crate) use variants::{half_tiles, matrices, tiles, visits};
pub(crate) use views::views;
pub(crate) use weights::{weights, weights_f16};

const EVERY: [Rule; 14] = [
    Rule::Causal,
    Rule::CausalTopLeft,
    Rule::Window(9),
    Rule::SymmetricWindow(7),
    Rule::Prefix(40),
    Rule::Global {
        tokens: 36,
        window: 3,
    },
    Rule::Dilated(3),
    Rule::Documents,
    Rule::Blocks(8),
    Rule::Mask(PER_HEAD),
    Rule::Alibi,
    Rule::Softcap(1.5),
    Rule::Bias(PER_HEAD),
    Rule::Relative(4),
];

const PER_HEAD: Pattern = Pattern {
    batch: true,
    heads: true,
};

/// Checks each score rule alone, and attention without rules.
pub(crate) fn rules(target: &Target) -> Outcome {
    let alone = EVERY.map(|rule| vec![rule]);
    let all = alone.into_iter().chain([Vec::new()]);
    Outcome::of(all.map(|rules| Case::of(USUAL, &rules).check(target)))
}

/// Checks the combinations of rules that the kernel snapshots are emitted with.
pub(crate) fn as_emitted(target: &Target) -> Outcome {
    Outcome::of(emitted(USUAL).map(|problem| Case::new(problem).check(target)))
}

fn emitted(of: [usize; 7]) -> [Problem; 2] {
    let pattern = Pattern {
        batch: false,
        heads: true,
    };
    let tables = [
        Rule::Bias(pattern),
        Rule::Relative(4),
        Rule::Documents,
        Rule::Blocks(16),
        Rule::Mask(pattern),
    ];
    let scores = [Rule::Alibi, Rule::Softcap(2.0), Rule::Window(9)];
    [problem(of, &scores), problem(of, &tables).with_sinks(true)]
}

/// Checks the soft cap before and after other rules, and combinations of rules that hide keys.
pub(crate) fn orders(target: &Target) -> Outcome {
    let (cap, bias, near) = (Rule::Softcap(1.5), Rule::Bias(PER_HEAD), Rule::Relative(6));
    let rules: [&[Rule]; 8] = [
        &[cap, bias],
        &[bias, cap],
        &[Rule::Alibi, cap, Rule::Causal],
        &[cap, Rule::Alibi, Rule::Window(20)],
        &[near, cap],
        &[cap, near],
        &[Rule::Causal, Rule::Documents, Rule::Dilated(2)],
        &[
            near,
            Rule::Mask(PER_HEAD),
            bias,
            cap,
            Rule::Alibi,
            Rule::Prefix(9),
            Rule::SymmetricWindow(60),
            Rule::Blocks(16),
        ],
    ];
    Outcome::of(rules.map(|rules| Case::of(USUAL, rules).check(target)))
}

/// Checks masks and biases that all sequences or all heads share.
pub(crate) fn shared_tables(target: &Target) -> Outcome {
    let patterns = [(false, false), (false, true), (true, false)];
    Outcome::of(patterns.map(|(batch, heads)| {
        let pattern = Pattern { batch, heads };
        let rules = [Rule::Bias(pattern), Rule::Softcap(3.0), Rule::Mask(pattern)];
        Case::of([3, 4, 2, 20, 33, 8, 8], &rules).check(target)
    }))
}

/// Checks query heads with a key head each, in groups, and all with one key head; values are wider than keys.
pub(crate) fn heads(target: &Target) -> Outcome {
    let heads = [[1, 1], [3, 3], [6, 3], [6, 2], [8, 1]];
    Outcome::of(heads.map(|[heads, kv_heads]| {
        let of = [2, heads, kv_heads, 19, 23, 8, 24];
        Case::of(of, &[Rule::Causal, Rule::Alibi]).check(target)
    }))
}

pub(crate) fn head_sizes(target: &Target) -> Outcome {
    let dims = [
        [1, 1],
        [8, 8],
        [40, 40],
        [64, 64],
        [80, 33],
        [128, 96],
        [256, 256],
        [96, 256],
    ];
    Outcome::of(dims.map(|[dim, values]| {
        Case::of([1, 2, 1, 35, 67, dim, values], &[Rule::Causal]).check(target)
    }))
}

/// Checks sequence lengths around the edges of blocks, and lengths of 0.
pub(crate) fn lengths(target: &Target) -> Outcome {
    let lengths = [
        [1, 1],
        [63, 63],
        [64, 64],
        [65, 65],
        [1, 65],
        [48, 128],
        [49, 129],
        [127, 257],
        [0, 5],
        [5, 0],
    ];
    Outcome::of(lengths.map(|[queries, keys]| {
        Case::of([1, 2, 1, queries, keys, 16, 16], &[Rule::Causal]).check(target)
    }))
}

/// Checks attentions without sequences, queries or keys, whose log-sum-exp is that of the sinks, and heads of no width.
pub(crate) fn empty(target: &Target) -> Result<(), Error> {
    let device = target.burn();
    let zeros = |shape: [usize; 4]| Tensor::<4>::zeros(shape, &device);
    let of_sinks = [[0.5_f32; 3], [-1.0; 3]].concat();
    for [batch, queries, keys] in [[0, 3, 5], [2, 0, 5], [2, 3, 0], [0, 0, 0]] {
        let sinks = Tensor::<1>::from_floats([0.5, -1.0], &device);
        let attend = Attend::new().causal().sinks(sinks);
        let q = zeros([batch, 2, queries, 8]);
        let (k, v) = (zeros([batch, 1, keys, 8]), zeros([batch, 1, keys, 4]));
        let out = attend.forward(q, k, v)?;
        assert_eq!(out.o.dims(), [batch, 2, queries, 4]);
        assert!(floats(&out.o).iter().all(|value| *value == 0.0));
        assert_eq!(floats(&out.lse), of_sinks.repeat(batch * queries / 3));
    }
    for [dim, values] in [[0, 4], [4, 0]] {
        let (q, v) = (zeros([1, 1, 2, dim]), zeros([1, 1, 2, values]));
        let refused = Attend::new().forward(q.clone(), q, v);
        assert_refused(ErrorKind::Shape, refused);
    }
    Ok(())
}

/// Checks more queries than keys, where causal rules hide all keys from the first queries, and the opposite.
pub(crate) fn cross_lengths(target: &Target) -> Outcome {
    let rules = [
        Rule::Causal,
        Rule::CausalTopLeft,
        Rule::Window(5),
        Rule::SymmetricWindow(5),
        Rule::Prefix(3),
        Rule::Relative(80),
        Rule::Alibi,
    ];
    let lengths = [[70, 20], [20, 150], [130, 129]];
    let all = rules
        .into_iter()
        .flat_map(|rule| lengths.map(|lengths| (rule, lengths)));
    Outcome::of(all.map(|(rule, [queries, keys])| {
        Case::of([1, 2, 1, queries, keys, 8, 8], &[rule]).check(target)
    }))
}

/// Checks sequences of several blocks, and sparse blocks that hide whole blocks of keys.
pub(crate) fn long(target: &Target) -> Outcome {
    let sparse = |case: &mut Case| {
        let cells = case.blocks.iter_mut().enumerate();
        cells.for_each(|(at, cell)| *cell = u32::from(at % 6 == 0));
    };
    let windows = [
        vec![Rule::Window(70)],
        vec![Rule::Global {
            tokens: 2,
            window: 20,
        }],
        vec![Rule::Blocks(96)],
    ];
    Outcome::of(windows.map(|rules| {
        let mut case = Case::of([1, 2, 1, 450, 450, 8, 8], &rules);
        sparse(&mut case);
        case.check(target)
    }))
}

/// Checks queries before, among and after the keys: close enough to see some, and so far away that all keys, or none, are on
/// one side.
pub(crate) fn positions(target: &Target) -> Outcome {
    let by_position: [&[Rule]; 9] = [
        &[Rule::Causal],
        &[Rule::CausalTopLeft],
        &[Rule::Window(9)],
        &[Rule::SymmetricWindow(7), Rule::Softcap(2.0)],
        &[Rule::Prefix(40)],
        &[Rule::Global {
            tokens: 12,
            window: 3,
        }],
        &[Rule::Dilated(3)],
        &[Rule::Alibi],
        &[Rule::Relative(4), Rule::Documents],
    ];
    let near = by_position
        .into_iter()
        .flat_map(|rules| [-12, 55].map(|first| (USUAL, rules, first)));
    let far: [&[Rule]; 3] = [&[Rule::Causal], &[Rule::Window(9)], &[Rule::Relative(4)]];
    let far = far
        .into_iter()
        .flat_map(|rules| [-(1 << 30), 1 << 30].map(|first| (USUAL, rules, first)));
    let long = [1, 2, 1, 450, 450, 8, 8];
    let long = [-300, 300].map(|first| (long, &[Rule::SymmetricWindow(70)][..], first));
    Outcome::of(near.chain(far).chain(long).map(|(of, rules, first)| {
        Case::new(at(problem(of, rules).with_sinks(first > 0), first)).check(target)
    }))
}

/// Checks one to three queries at a time, as in generation.
pub(crate) fn few_queries(target: &Target) -> Outcome {
    let rules: [&[Rule]; 3] = [
        &[Rule::Causal],
        &[Rule::Alibi, Rule::Softcap(2.0), Rule::Window(100)],
        &[Rule::Documents],
    ];
    let sizes = [
        [2, 8, 2, 1, 300, 40, 24],
        [1, 4, 4, 3, 130, 8, 8],
        [1, 4, 1, 2, 5, 7, 9],
    ];
    let all = rules
        .into_iter()
        .flat_map(|rules| sizes.map(|of| (rules, of)));
    Outcome::of(all.map(|(rules, of)| {
        let problem = problem(of, rules);
        Outcome::of([false, true].map(|sinks| Case::new(problem.with_sinks(sinks)).check(target)))
    }))
}

/// Checks attentions around the 65,535 rounds after which Mesa's software adapter ends the loops of an invocation: heads of 256 elements
/// take 196 rounds for a key forward, and as many backward, and small heads one.
pub(crate) fn long_loops(target: &Target) -> Outcome {
    let wide = [332, 333];
    let wide =
        wide.map(|keys| Case::of([1, 2, 1, 4, keys, 256, 256], &[Rule::Causal]).check(target));
    let many = [65_532, 65_533, 70_001];
    let many = many.map(|keys| Case::of([1, 1, 1, 1, keys, 4, 4], &[]).check_forward(target));
    Outcome::of(wide.into_iter().chain(many))
}

pub(crate) fn sinks(target: &Target) -> Outcome {
    let rules: [&[Rule]; 3] = [&[], &[Rule::Causal], &[Rule::Softcap(2.0), Rule::Window(4)]];
    let all = rules
        .into_iter()
        .flat_map(|rules| [USUAL, [1, 2, 1, 40, 10, 8, 8]].map(|of| (rules, of)));
    Outcome::of(all.map(|(rules, of)| Case::new(problem(of, rules).with_sinks(true)).check(target)))
}

/// Checks gradients through the log-sum-exp alone, with a scale other than the default.
pub(crate) fn through_lse(target: &Target) -> Outcome {
    let scaled = |problem: Problem| problem.with_scale(-0.4).unwrap();
    let problem = scaled(problem(USUAL, &[Rule::Bias(PER_HEAD), Rule::Softcap(2.0)]));
    let mut case = Case::new(problem.with_sinks(true));
    case.d_o.fill(0.0);
    case.check(target)
}

/// Checks scores whose exponentials overflow or underflow in f32 unless the row's maximum is subtracted first.
pub(crate) fn large_scores(target: &Target) -> Outcome {
    let problem = problem([1, 2, 2, 40, 150, 4, 8], &[]).with_scale(1.0);
    let mut case = Case::new(problem.unwrap());
    // With whole numbers the scores themselves are exact, so that only the softmax is measured.
    let large = |values: &mut Vec<f32>| values.iter_mut().for_each(|v| *v = (*v * 16.0).round());
    large(&mut case.q);
    large(&mut case.k);
    case.check(target)
}

/// Checks that NaN and infinities in keys that no query sees, and in a query that sees no key, change nothing.
pub(crate) fn unseen_values(target: &Target) -> Outcome {
    let runs = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY]
        .into_iter()
        .flat_map(|hostile| {
            [
                vec![Rule::Documents],
                vec![Rule::Relative(3), Rule::Softcap(2.0), Rule::Documents],
            ]
            .map(|rules| (hostile, rules))
        });
    Outcome::of(runs.map(|(hostile, rules)| {
        let mut clean = Case::of([1, 2, 1, 50, 140, 8, 8], &rules);
        let (key, query) = (40, 11);
        clean.key_documents[key] = 99;
        clean.query_documents[query] = 98;
        let mut case = clean.clone();
        case.k[key * 8..][..8].fill(hostile);
        case.v[key * 8..][..8].fill(hostile);
        for head in 0..2 {
            let row = (head * 50 + query) * 8;
            case.q[row..][..8].fill(hostile);
            case.d_o[row..][..8].fill(hostile);
            // The result of a query that sees no key is a constant.
            clean.q[row..][..8].fill(0.0);
        }
        let run = match Run::new(target, &case) {
            Ok(run) => run,
            Err(error) => return Outcome::from(Err(error)),
        };
        let (want, gradients) = clean.want();
        assert_close("o", &floats(&run.out.o), &want.o, rel_l2(Element::F32));
        let found = run.backward(&case);
        let of = |tensor: &Tensor<4>| floats(&tensor.grad(&found).unwrap());
        assert_gradient("dq", &of(&run.q), &gradients.dq, Element::F32);
        assert_gradient("dk", &of(&run.k), &gradients.dk, Element::F32);
        assert_gradient("dv", &of(&run.v), &gradients.dv, Element::F32);
        if let Some(relative) = &run.relative {
            let got = floats(&relative.grad(&found).unwrap());
            assert_gradient("drelative", &got, &gradients.drelative, Element::F32);
        }
        Outcome::Ran
    }))
}

/// Checks that NaN and infinities in a key reach the queries that see it, and no others.
pub(crate) fn seen_values(target: &Target) -> Outcome {
    let runs = [f32::NAN, f32::INFINITY]
        .into_iter()
        .flat_map(|hostile| [(hostile, true), (hostile, false)]);
    Outcome::of(runs.map(|(hostile, in_keys)| {
        let clean = Case::of([1, 2, 1, 90, 90, 8, 8], &[Rule::Causal]);
        let mut case = clean.clone();
        let values = if in_keys { &mut case.k } else { &mut case.v };
        values[60 * 8] = hostile;
        let out = match Run::new(target, &case) {
            Ok(run) => run.out,
            Err(error) => return Outcome::from(Err(error)),
        };
        let (want, _) = clean.want();
        for (row, (got, want)) in floats(&out.o).chunks(8).zip(want.o.chunks(8)).enumerate() {
            let query = row % 90;
            let what = format!("query {query} doesn't see {hostile}: {got:?}");
            if query < 60 {
                assert_close("o before", got, want, rel_l2(Element::F32));
            } else if hostile.is_nan() {
                assert!(got[0].is_nan(), "{what}");
            } else if !in_keys {
                assert!(!got[0].is_finite(), "{what}");
                assert_close("other values", &got[1..], &want[1..], 1e-4);
            }
        }
        Outcome::Ran
    }))
}

/// Checks that a window over all keys gives the same as the causal rule.
pub(crate) fn wide_windows(target: &Target) -> Result<(), Error> {
    let want = rows_of(target, &[Rule::Causal])?;
    for window in [140, 141, 100_000] {
        let got = rows_of(target, &[Rule::Window(window)])?;
        target.assert_same_rows("a wide window", &got, &want);
    }
    Ok(())
}

/// o and the log-sum-exp of a sequence of 140 tokens under these rules.
fn rows_of(target: &Target, rules: &[Rule]) -> Result<Vec<f32>, Error> {
    let run = Run::new(target, &Case::of([1, 2, 2, 140, 140, 16, 16], rules))?;
    Ok([floats(&run.out.o), floats(&run.out.lse)].concat())
}

/// Checks that a sequence's result has the same bits alone and in a batch.
pub(crate) fn independent_of_the_batch(target: &Target) -> Result<(), Error> {
    let rules = [Rule::Softcap(5.0), Rule::Alibi, Rule::Window(50)];
    for of in [[4, 4, 2, 100, 150, 40, 24], [5, 8, 2, 1, 150, 64, 64]] {
        let all = Case::of(of, &rules);
        let [batch, ..] = of;
        let alone = Case {
            problem: problem([1, of[1], of[2], of[3], of[4], of[5], of[6]], &rules),
            ..all.clone()
        };
        let whole = Run::new(target, &all)?;
        let gradients = whole.backward(&all);
        for b in [0, batch - 1] {
            let piece = |values: &[f32]| {
                let each = values.len() / batch;
                values[b * each..][..each].to_vec()
            };
            let mut one = alone.clone();
            for values in [
                &mut one.q,
                &mut one.k,
                &mut one.v,
                &mut one.d_o,
                &mut one.d_lse,
            ] {
                *values = piece(values);
            }
            let single = Run::new(target, &one)?;
            let found = single.backward(&one);
            let same = |what: &str, whole: &Tensor<4>, single: &Tensor<4>| {
                target.assert_same_rows(what, &floats(single), &piece(&floats(whole)));
            };
            same("o", &whole.out.o, &single.out.o);
            for (what, whole, single) in [
                ("dq", &whole.q, &single.q),
                ("dk", &whole.k, &single.k),
                ("dv", &whole.v, &single.v),
            ] {
                let [whole, single] = [whole.grad(&gradients), single.grad(&found)];
                same(what, &whole.unwrap(), &single.unwrap());
            }
        }
    }
    Ok(())
}

pub(crate) fn repeats_bit_for_bit(target: &Target) -> Result<(), Error> {
    let rules = [
        Rule::Relative(9),
        Rule::Bias(Pattern {
            batch: false,
            heads: false,
        }),
        Rule::Causal,
    ];
    let case = Case::new(problem([2, 6, 2, 130, 200, 16, 16], &rules).with_sinks(true));
    let bits = || -> Result<Vec<u32>, Error> {
        let run = Run::new(target, &case)?;
        let found = run.backward(&case);
        let of = |tensor: &Tensor<4>| floats(&tensor.grad(&found).unwrap());
        let (bias, relative) = (run.bias.as_ref().unwrap(), run.relative.as_ref().unwrap());
        let all = [
            floats(&run.out.o),
            floats(&run.out.lse),
            of(&run.q),
            of(&run.k),
            of(&run.v),
            of(bias),
            floats(&relative.grad(&found).unwrap()),
            floats(&run.sinks.as_ref().unwrap().grad(&found).unwrap()),
        ];
        Ok(all.concat().into_iter().map(f32::to_bits).collect())
    };
    assert_eq!(bits()?, bits()?);
    Ok(())
}

/// Checks that attentions over parts of the keys, one part hidden from all queries, merge to attention over all keys, gradients
/// included.
pub(crate) fn parts(target: &Target) -> Result<(), Error> {
    let case = Case::of([2, 2, 2, 20, 90, 8, 8], &[Rule::Mask(PER_HEAD)]);
    let mut hidden = case.clone();
    for row in hidden.mask.chunks_mut(90) {
        row[30..50].fill(0);
    }
    let whole = Run::new(target, &hidden)?;
    let (want, gradients) = hidden.want();
    let bools: Vec<bool> = hidden.mask.iter().map(|word| *word == 0).collect();
    let bools = TensorData::new(bools, [2, 2, 20, 90]);
    let mask = Tensor::<4, Bool>::from_data(bools, &target.burn().autodiff());
    let bounds = [0, 30, 50, 51, 90];
    let parts = bounds.windows(2).map(|bounds| {
        let (from, keys) = (bounds[0], bounds[1] - bounds[0]);
        let [k, v] = [&whole.k, &whole.v].map(|t| t.clone().narrow(2, from, keys));
        let mask = mask.clone().narrow(3, from, keys);
        Attend::new().mask(mask).forward(whole.q.clone(), k, v)
    });
    let parts: Vec<Attended> = parts.collect::<Result<_, _>>()?;
    let out = merge(&parts)?;
    assert_close("merged o", &floats(&out.o), &want.o, rel_l2(Element::F32));
    let lse = floats(&out.lse);
    assert_close("merged lse", &lse, &want.lse, rel_l2(Element::F32));
    let run = Run { out, ..whole };
    let found = run.backward(&hidden);
    let of = |tensor: &Tensor<4>| floats(&tensor.grad(&found).unwrap());
    assert_gradient("merged dq", &of(&run.q), &gradients.dq, Element::F32);
    assert_gradient("merged dk", &of(&run.k), &gradients.dk, Element::F32);
    assert_gradient("merged dv", &of(&run.v), &gradients.dv, Element::F32);
    Ok(())
}

pub(crate) fn halves(target: &Target, element: Element) -> Outcome {
    if let Err(refused) = element.supported("attention", target.capability()) {
        return Outcome::Unsupported(refused.to_string());
    }
    let all = [
        (USUAL, vec![Rule::Causal, Rule::Softcap(3.0)]),
        (USUAL, Vec::new()),
        ([1, 2, 1, 33, 140, 128, 7], vec![Rule::Bias(PER_HEAD)]),
    ];
    Outcome::of(all.map(|(of, rules)| {
        let sinks = !rules.is_empty();
        Case::new(problem(of, &rules).with_element(element).with_sinks(sinks)).check(target)
    }))
}
