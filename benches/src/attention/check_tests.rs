use super::*;
use moebius_ops::attention::{Rule, Rules};

/// What every query of a problem has, one by one as the check computes it, is what the whole problem has.
#[test]
fn a_query_alone_sees_what_it_sees_among_the_others() {
    let sizes = Sizes {
        batch: 1,
        heads: 1,
        kv_heads: 1,
        queries: 5,
        keys: 7,
        head_dim: 2,
        value_dim: 2,
    };
    let numbers = |count: usize, seed: usize| -> Vec<f64> {
        let number = |i: usize| ((i * 37 + seed * 11) % 19) as f64 / 7.0 - 1.0;
        (0..count).map(number).collect()
    };
    let (q, k, v) = (numbers(10, 1), numbers(14, 2), numbers(14, 3));
    for rules in [&[][..], &[Rule::Causal], &[Rule::Window(3)]] {
        let rules = Rules::new(rules.iter().copied()).unwrap();
        for queries in [5, 7] {
            let sizes = Sizes { queries, ..sizes };
            let q = [q.clone(), numbers(4, 4)].concat();
            let q = &q[..queries * 2];
            let problem = Problem::new(sizes).unwrap().with_rules(rules).unwrap();
            let want = reference(&problem, &whole(q, &k, &v));
            for i in 0..queries {
                let one = alone(&problem, i).unwrap();
                let keys = one.sizes().keys * 2;
                let got = reference(&one, &whole(&q[i * 2..][..2], &k[..keys], &v[..keys]));
                assert_eq!(got.o, want.o[i * 2..][..2], "{rules:?} {i}");
                assert_eq!(got.lse, want.lse[i..][..1], "{rules:?} {i}");
            }
        }
    }
}

fn whole<'a>(q: &'a [f64], k: &'a [f64], v: &'a [f64]) -> Inputs<'a> {
    Inputs {
        q,
        k,
        v,
        tables: Tables::default(),
    }
}
