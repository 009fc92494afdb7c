//! NaN and infinities reach what sees them, and nothing else.

use crate::data::{Data, F32, assert_all_close, problem, sizes};
use crate::run::{WHOLE, blocks, run};
use moebius_ops::attention::{Pattern, Problem, Rule};

fn check(p: &Problem, data: &Data, what: &str) {
    let want = data.expected(p);
    let some = |name: &str| want[name].iter().any(|x| x.is_finite());
    assert!(some("o") && some("dq") && some("dk"), "{what}");
    for tiling in [WHOLE, blocks(8)] {
        let what = format!("{what} {p:?} {tiling:?}");
        assert_all_close(&run(p, data, tiling), &want, F32, &what);
    }
}

/// Key `key` of the first key head of both sequences.
fn spoilt(data: &mut Data, p: &Problem, (name, value): (&'static str, f64), key: usize) {
    let s = p.sizes();
    let (width, heads, rows) = match name {
        "k" => (s.head_dim, s.kv_heads, s.keys),
        "v" => (s.value_dim, s.kv_heads, s.keys),
        "q" => (s.head_dim, s.heads, s.queries),
        _ => (s.value_dim, s.heads, s.queries),
    };
    let x = data.floats.get_mut(name).unwrap();
    for batch in 0..s.batch {
        x[(batch * heads * rows + key) * width + 1] = value;
    }
}

#[test]
fn rows_that_are_not_finite_stay_with_what_sees_them() {
    let rules = [Rule::Causal, Rule::Softcap(2.0), Rule::Relative(3)];
    let p = problem(sizes(21, 29), &rules).with_sinks(true);
    for name in ["k", "v", "q", "do"] {
        let mut data = Data::new(&p);
        spoilt(&mut data, &p, (name, f64::NAN), 19);
        check(&p, &data, name);
    }
    for infinity in [f64::INFINITY, f64::NEG_INFINITY] {
        let mut data = Data::new(&p);
        spoilt(&mut data, &p, ("v", infinity), 19);
        check(&p, &data, "infinity");
    }
    let mut data = Data::new(&p);
    spoilt(&mut data, &p, ("v", f64::INFINITY), 17);
    spoilt(&mut data, &p, ("v", f64::NEG_INFINITY), 20);
    check(&p, &data, "both infinities");
}

#[test]
fn keys_that_nothing_sees_may_hold_anything() {
    let all = Pattern {
        batch: true,
        heads: true,
    };
    let p = problem(sizes(21, 29), &[Rule::Bias(all), Rule::Mask(all)]);
    let mut data = Data::new(&p);
    let s = *p.sizes();
    for (i, word) in data.words.get_mut("mask").unwrap().iter_mut().enumerate() {
        if i % s.keys >= 23 {
            *word = 0;
        }
    }
    let clean = data.expected(&p);
    for (name, width) in [("k", s.head_dim), ("v", s.value_dim)] {
        let x = data.floats.get_mut(name).unwrap();
        for (i, x) in x.iter_mut().enumerate() {
            let key = i / width % s.keys;
            if key >= 23 {
                *x = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY][key % 3];
            }
        }
    }
    for (i, bias) in data.floats.get_mut("bias").unwrap().iter_mut().enumerate() {
        if i % s.keys >= 23 {
            *bias = f64::NAN;
        }
    }
    for tiling in [WHOLE, blocks(8)] {
        let what = format!("{tiling:?}");
        assert_all_close(&run(&p, &data, tiling), &clean, F32, &what);
    }
}
