//! NaN and infinities reach what sees them, and nothing else.

use super::{
    Data, F32, WHOLE, assert_close, blocks, check_by, data, expected, problem, run, sizes,
};
use moebius_ops::HostTensor;
use moebius_ops::attention::{Pattern, Problem, Rule};

fn floats<'a>(data: &'a mut Data, name: &'static str) -> &'a mut Vec<f64> {
    match data.get_mut(name) {
        Some(HostTensor::Floats(values)) => values,
        other => panic!("{name}: {other:?}"),
    }
}

/// The data with a value in place of an element of key `key` of the first key head of both sequences.
fn spoilt(data: &Data, p: &Problem, (name, value): (&'static str, f64), key: usize) -> Data {
    let s = p.sizes();
    let (width, heads, rows) = match name {
        "k" => (s.head_dim, s.kv_heads, s.keys),
        "v" => (s.value_dim, s.kv_heads, s.keys),
        "q" => (s.head_dim, s.heads, s.queries),
        _ => (s.value_dim, s.heads, s.queries),
    };
    let mut data = data.clone();
    let x = floats(&mut data, name);
    for batch in 0..s.batch {
        x[(batch * heads * rows + key) * width + 1] = value;
    }
    data
}

#[test]
fn rows_that_are_not_finite_stay_with_what_sees_them() {
    let rules = [Rule::Causal, Rule::Softcap(2.0), Rule::Relative(3)];
    let p = problem(sizes(21, 29), &rules).with_sinks(true);
    let (data, infinity) = (data(&p), f64::INFINITY);
    let of_values = |value, key| spoilt(&data, &p, ("v", value), key);
    let both = spoilt(&of_values(infinity, 17), &p, ("v", -infinity), 20);
    let mut all: Vec<Data> = ["k", "v", "q", "do"]
        .map(|name| spoilt(&data, &p, (name, f64::NAN), 19))
        .into();
    all.extend([of_values(infinity, 19), of_values(-infinity, 19), both]);
    for data in &all {
        // o, its log-sum-exp, dq and dk.
        for want in &expected(&p, data)[..4] {
            let some = want.values.iter().any(|x| x.is_finite());
            assert!(some, "{}", want.name);
        }
        check_by(&p, data, &[WHOLE, blocks(8)], F32);
    }
}

#[test]
fn keys_that_nothing_sees_may_hold_anything() {
    let all = Pattern {
        batch: true,
        heads: true,
    };
    let p = problem(sizes(21, 29), &[Rule::Bias(all), Rule::Mask(all)]);
    let (mut data, s) = (data(&p), *p.sizes());
    let Some(HostTensor::Words(mask)) = data.get_mut("mask") else {
        panic!("there is a mask");
    };
    for (i, word) in mask.iter_mut().enumerate() {
        if i % s.keys >= 23 {
            *word = 0;
        }
    }
    let clean = expected(&p, &data);
    for (name, width) in [("k", s.head_dim), ("v", s.value_dim)] {
        for (i, x) in floats(&mut data, name).iter_mut().enumerate() {
            let key = i / width % s.keys;
            if key >= 23 {
                *x = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY][key % 3];
            }
        }
    }
    for (i, bias) in floats(&mut data, "bias").iter_mut().enumerate() {
        if i % s.keys >= 23 {
            *bias = f64::NAN;
        }
    }
    for tiling in [WHOLE, blocks(8)] {
        assert_close(&run(&p, &data, tiling), &clean, F32, &format!("{tiling:?}"));
    }
}
