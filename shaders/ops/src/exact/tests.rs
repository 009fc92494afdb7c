use super::*;
use crate::attention::{self, Rules, Sizes};
use crate::kv_cache::Layout;

#[test]
fn products_by_hand() {
    let product = Product {
        rows: 4,
        share: 2,
        experts: 2,
        n: 1,
        k: 2,
        chosen: true,
        bias: true,
    };
    product.check().unwrap();
    let (x, w) = ([1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 10.0, 0.0]);
    let y = product.reference(&x, &w, &[0, 1, 1, 2], &[0.5, 0.25]);
    // The last row has no expert.
    assert_eq!(y, [3.5, 10.25, 30.25, 0.0]);
    let dense = Product::dense(2, 1, 2).reference(&x, &w[..2], &[], &[]);
    assert_eq!(dense, [3.0, 7.0]);
    assert!(
        Product {
            share: 3,
            ..product
        }
        .check()
        .is_err()
    );
    assert!(Product { k: 0, ..product }.check().is_err());
}

#[test]
fn sums_by_hand() {
    let combine = Combine {
        tokens: 2,
        top_k: 2,
        width: 1,
        weighted: true,
        based: true,
        scale: 2.0,
    };
    let rows = [1.0, 2.0, 3.0, 4.0];
    let y = combine.reference(&rows, &[1.0, 0.5, 0.0, 1.0], &[10.0, 20.0]);
    assert_eq!(y, [14.0, 28.0]);
    assert_eq!(combine.reference(&rows, &[], &[]), [6.0, 14.0]);
}

#[test]
fn norms_by_hand() {
    let norm = Norm {
        rows: 1,
        width: 2,
        epsilon: 0.0,
    };
    assert_eq!(norm.reference(&[1.0, 7.0], &[1.0, 2.0]), [0.2, 2.8]);
    assert!(Norm { width: 0, ..norm }.check().is_err());
}

#[test]
fn rotations_by_hand() {
    let rotate = Rotate {
        batch: 1,
        tokens: 1,
        heads: 1,
        width: 6,
        half: 2,
        at: 1,
        interleaved: false,
        shared: true,
    };
    let x = [9.0, 1.0, 2.0, 3.0, 4.0, 8.0];
    let tables: [&[f64]; 2] = [&[0.0, 1.0], &[1.0, 0.0]];
    // The first pair (1, 3) turns by a quarter, the second (2, 4) stays.
    let y = rotate.reference(&x, tables);
    assert_eq!(y, [9.0, -3.0, 2.0, 1.0, 4.0, 8.0]);
    let neighbours = Rotate {
        interleaved: true,
        ..rotate
    };
    // The pairs are (1, 2) and (3, 4), and come out in halves.
    let y = neighbours.reference(&x, tables);
    assert_eq!(y, [9.0, -2.0, 3.0, 1.0, 4.0, 8.0]);
    assert!(Rotate { at: 3, ..rotate }.check().is_err());
}

#[test]
fn gates_multiply() {
    let activate = Activate {
        rows: 1,
        inter: 2,
        gated: true,
        activation: Activation::Relu,
    };
    assert_eq!(activate.reference(&[-1.0, 2.0, 3.0, 4.0]), [0.0, 8.0]);
}

#[test]
fn other_attentions_are_refused() {
    let attend = |format, rules: &[Rule]| {
        let sizes = Sizes {
            batch: 1,
            heads: 2,
            kv_heads: 1,
            queries: 3,
            keys: 32,
            head_dim: 8,
            value_dim: 8,
        };
        let layout = Layout::new([4, 16], 1, [8, 8], format).unwrap();
        let rules = Rules::new(rules.iter().copied()).unwrap();
        let problem = attention::Problem::new(sizes).unwrap();
        Attend::new(problem.with_rules(rules).unwrap(), layout, 2).unwrap()
    };
    let bounded = attend(CacheFormat::F32, &[Rule::Window(3), Rule::Softcap(5.0)]);
    let seen = Seen {
        softcap: Some(5.0),
        window: 3,
    };
    assert_eq!(Seen::of(&bounded), Ok(seen));
    assert_eq!(seen.cap(), Some([5.0, 0.2]));
    let plain = Seen::of(&attend(CacheFormat::F32, &[Rule::Causal]));
    assert_eq!(plain.map(|seen| seen.cap()), Ok(None));
    for (format, rules) in [
        (CacheFormat::F16, &[Rule::Causal][..]),
        (CacheFormat::F32, &[]),
        (CacheFormat::F32, &[Rule::Causal, Rule::Alibi]),
    ] {
        let fault = Seen::of(&attend(format, rules)).map_err(|error| error.fault);
        assert_eq!(fault, Err(Fault::Unsupported));
    }
}
