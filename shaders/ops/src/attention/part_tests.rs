use super::*;
use crate::attention::{Inputs, reference, reference_backward};

const DIM: usize = 2;

fn numbers(count: usize, seed: usize) -> Vec<f64> {
    let number = |i: usize| ((i * 37 + seed * 11) % 19) as f64 / 7.0 - 1.0;
    (0..count).map(number).collect()
}

/// The rows of the queries `picked`, for both heads.
fn rows(values: &[f64], queries: usize, picked: &[usize]) -> Vec<f64> {
    let width = values.len() / (2 * queries);
    let rows = (0..2).flat_map(|head| picked.iter().map(move |query| head * queries + query));
    rows.flat_map(|row| &values[row * width..][..width])
        .copied()
        .collect()
}

/// Results and gradients of some queries alone equal those of the same queries among all.
#[test]
fn some_queries_see_what_they_see_among_the_others() {
    let lists: [&[Rule]; 6] = [
        &[],
        &[Rule::Causal],
        &[Rule::CausalTopLeft],
        &[Rule::Window(3)],
        &[Rule::Prefix(2)],
        &[Rule::SymmetricWindow(3), Rule::Dilated(2)],
    ];
    for (rules, queries) in lists.into_iter().flat_map(|rules| [(rules, 5), (rules, 7)]) {
        let sizes = Sizes {
            batch: 1,
            heads: 2,
            kv_heads: 1,
            queries,
            keys: 7,
            head_dim: DIM,
            value_dim: DIM,
        };
        let rules = Rules::new(rules.iter().copied()).unwrap();
        let whole = Problem::new(sizes).unwrap().with_rules(rules).unwrap();
        let whole = whole.with_scale(0.3).unwrap();
        let picked = [0, 2, 4];
        let (part, mask) = whole.of_queries(2, &picked).unwrap();
        let (q, k, v) = (
            numbers(2 * queries * DIM, 1),
            numbers(7 * DIM, 2),
            numbers(7 * DIM, 3),
        );
        // The other queries have output gradients of 0.
        let mut d_o = numbers(q.len(), 4);
        for (at, d_o) in d_o.iter_mut().enumerate() {
            *d_o *= f64::from(u8::from(picked.contains(&(at / DIM % queries))));
        }
        let inputs = |q, mask| Inputs {
            q,
            k: &k,
            v: &v,
            tables: Tables {
                mask,
                ..Tables::default()
            },
        };
        let of = |values: &[f64]| rows(values, queries, &picked);
        let (part_q, part_d_o) = (of(&q), of(&d_o));
        let want = reference(&whole, &inputs(&q, &[]));
        let got = reference(&part, &inputs(&part_q, &mask));
        assert_eq!(got.o, of(&want.o), "{whole:?}");
        assert_eq!(got.lse, of(&want.lse), "{whole:?}");
        let want = reference_backward(&whole, &inputs(&q, &[]), &d_o, &vec![0.0; 2 * queries]);
        let got = reference_backward(&part, &inputs(&part_q, &mask), &part_d_o, &[0.0; 6]);
        assert_eq!(got.dq, of(&want.dq), "{whole:?}");
        assert_eq!([got.dk, got.dv], [want.dk, want.dv], "{whole:?}");
    }
}

#[test]
fn rules_that_depend_on_more_than_positions_are_refused() {
    let sizes = Sizes {
        batch: 1,
        heads: 1,
        kv_heads: 1,
        queries: 2,
        keys: 2,
        head_dim: 1,
        value_dim: 1,
    };
    let all = Problem::new(sizes).unwrap();
    for rule in [Rule::Alibi, Rule::Softcap(1.0), Rule::Documents] {
        let rules = Rules::new([rule]).unwrap();
        let error = all.with_rules(rules).unwrap().of_queries(1, &[0]);
        let text = error.unwrap_err().to_string();
        assert!(text.contains(rule.name()), "{text}");
    }
    assert!(all.with_dropout(true).of_queries(1, &[0]).is_err());
}
