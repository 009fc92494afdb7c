use super::{attention_of, experts_of};
use moebius_ops::attention::{Problem, Rule, Rules, Sizes};

#[test]
fn two_experts_share_a_token_by_their_weights() {
    let weights = [
        vec![0.0, 1.0, -1.0],
        vec![1.0, 2.0, 5.0],
        vec![1.0, 1.0, 1.0],
    ];
    let e = std::f64::consts::E;
    // relu maps negative inputs to 0.
    let y = experts_of([1, 1, 3, 2], &[1.0, -1.0], &weights).unwrap();
    assert!((y[0] - (2.0 * e + 1.0) / (e + 1.0)).abs() < 1e-12, "{y:?}");
    assert_eq!(y[1], 0.0);
}

#[test]
fn rows_of_an_attention_see_their_own_head() {
    let sizes = Sizes {
        batch: 1,
        heads: 2,
        kv_heads: 2,
        queries: 2,
        keys: 2,
        head_dim: 1,
        value_dim: 1,
    };
    let all = Problem::new(sizes).unwrap();
    let causal = all.with_rules(Rules::new([Rule::Causal]).unwrap()).unwrap();
    let (q, k, v) = (
        [0.0, 0.0, 1.0, 1.0],
        [5.0, 7.0, 1.0, 2.0],
        [2.0, 4.0, 10.0, 20.0],
    );
    assert_eq!(
        attention_of(&all, [0, 1].into_iter(), &q, [&k, &v]).unwrap(),
        [3.0, 3.0]
    );
    assert_eq!(
        attention_of(&causal, [0, 2].into_iter(), &q, [&k, &v]).unwrap(),
        [2.0, 10.0]
    );
    let e = std::f64::consts::E;
    let o = attention_of(&causal, [3].into_iter(), &q, [&k, &v]).unwrap();
    assert!(
        (o[0] - (10.0 + 20.0 * e) / (1.0 + e)).abs() < 1e-12,
        "{o:?}"
    );
}
