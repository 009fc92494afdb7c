use super::*;
use crate::attention::{Inputs, Problem, Rules, Sizes, Tables, alibi_slopes};

/// Reproducible pseudo-random values from −2 to 2.
fn values(n: usize, seed: u32) -> Vec<f32> {
    let next = |i: usize| {
        let mixed = (i as u32 + 1)
            .wrapping_mul(2_654_435_761)
            .wrapping_add(seed);
        let mixed = (mixed ^ (mixed >> 15)).wrapping_mul(2_246_822_519);
        (mixed >> 8) as f32 / (1_u32 << 22) as f32 - 2.0
    };
    (0..n).map(next).collect()
}

fn layout([pages, page]: [usize; 2], format: CacheFormat) -> Layout {
    Layout::new([pages, page], 2, [16, 8], format).expect("a layout")
}

/// The pool after appending two sequences of 21 and 5 tokens, and k and v of the first.
fn filled(layout: Layout, table: &[u32]) -> (Vec<u32>, [Vec<f32>; 2]) {
    let mut pool = vec![0; layout.words()];
    let append = Append {
        layout,
        batch: 2,
        tokens: 21,
        table: table.len() / 2,
        element: Element::F32,
    };
    let (k, v) = (values(2 * 2 * 21 * 16, 1), values(2 * 2 * 21 * 8, 2));
    let step = Step {
        table,
        spans: &[0, 21, 0, 5],
    };
    reference_append(&append, &mut pool, step, [&k, &v]);
    (pool, [k, v])
}

#[test]
fn what_is_kept_is_what_came_rounded() {
    for (format, relative) in CacheFormat::ALL.into_iter().zip([0.0, 5e-4, 4e-3, 0.0625]) {
        let layout = layout([8, 16], format);
        let table = [5, 2, 7, 0];
        let (pool, [k, v]) = filled(layout, &table);
        let step = Step {
            table: &table,
            spans: &[0, 0, 0, 0],
        };
        let found = stored(&layout, &pool, (step, 2, 0), 21);
        for (kept, came) in found.iter().zip([k, v]) {
            for (kept, came) in kept.iter().zip(&came) {
                // A code below the smallest normal number errs by up to half the smallest subnormal.
                let allowed = relative * came.abs() + if relative > 0.01 { 4e-3 } else { 0.0 };
                assert!((kept - came).abs() <= allowed, "{format:?}: {kept} {came}");
            }
        }
        let [others, _] = stored(&layout, &pool, (step, 2, 1), 6);
        assert!(others[..5 * 16].iter().any(|x| *x != 0.0));
        assert!(
            others[5 * 16..6 * 16].iter().all(|x| *x == 0.0),
            "past the end"
        );
    }
}

#[test]
fn tokens_keep_their_values_wherever_their_pages_are() {
    for format in CacheFormat::ALL {
        let (paged, whole) = (layout([8, 16], format), layout([2, 32], format));
        let (tables, wholes) = ([5, 2, 7, 0], [1, 0]);
        let (of_pages, _) = filled(paged, &tables);
        let (of_whole, _) = filled(whole, &wholes);
        let step = |table| Step {
            table,
            spans: &[0, 0, 0, 0],
        };
        assert_eq!(
            stored(&paged, &of_pages, (step(&tables), 2, 0), 21),
            stored(&whole, &of_whole, (step(&wholes), 1, 0), 21)
        );
    }
}

#[test]
fn an_attention_over_the_cache_is_one_over_its_tokens() {
    let layout = layout([8, 16], CacheFormat::F32);
    let table = [5, 2, 7, 0];
    let (pool, [k, v]) = filled(layout, &table);
    let sizes = Sizes {
        batch: 2,
        heads: 4,
        kv_heads: 2,
        queries: 3,
        keys: 32,
        head_dim: 16,
        value_dim: 8,
    };
    let rules = Rules::new([Rule::Causal, Rule::Alibi]).expect("rules");
    let of = |sizes| {
        Problem::new(sizes)
            .and_then(|p| p.with_rules(rules))
            .expect("sizes")
    };
    let attend = Attend::new(of(sizes), layout, 2).expect("the cache's sizes");
    let q: Vec<f64> = values(2 * 4 * 3 * 16, 3)
        .into_iter()
        .map(f64::from)
        .collect();
    let slopes: Vec<f64> = alibi_slopes(4).into_iter().map(f64::from).collect();
    let tables = Tables {
        slopes: &slopes,
        ..Default::default()
    };
    let step = Step {
        table: &table,
        spans: &[18, 21, 4, 5],
    };
    let found = reference(&attend, &pool, step, &q, tables);
    let one = Sizes {
        batch: 1,
        keys: 21,
        ..sizes
    };
    // The first sequence's keys and values come first.
    let first = |x: &[f32], dim: usize| x[..2 * 21 * dim].iter().map(|x| f64::from(*x)).collect();
    let (k, v): (Vec<f64>, Vec<f64>) = (first(&k, 16), first(&v, 8));
    let inputs = Inputs {
        q: &q[..4 * 3 * 16],
        k: &k,
        v: &v,
        tables,
    };
    let expected = crate::attention::reference(&of(one), &inputs);
    assert_eq!(found.o[..4 * 3 * 8], expected.o);
    assert_eq!(found.lse[..12], expected.lse);
    let past_the_end = &found.o[(4 * 3 + 1) * 8..(4 * 3 + 3) * 8];
    assert!(past_the_end.iter().all(|x| *x == 0.0));
    assert_eq!(found.lse[13], f64::from(f32::MIN));
}

#[test]
fn what_no_cache_has_is_refused() {
    let refused = |result: Result<Layout, Mismatch>, says: &str| {
        let error = result.expect_err(says).to_string();
        assert!(error.contains(says), "{error}");
    };
    let of = |pages, heads, dims| Layout::new(pages, heads, dims, CacheFormat::F16);
    refused(of([4, 24], 2, [16, 16]), "a multiple of 16");
    refused(of([4, 16], 0, [16, 16]), "key heads");
    refused(of([4, 16], 2, [12, 16]), "a multiple of 8");
    refused(of([4, 16], 2, [16, 264]), "at most 256");
    refused(of([1 << 24, 16], 2, [64, 64]), "2^31");
    let sizes = Sizes {
        batch: 1,
        heads: 2,
        kv_heads: 2,
        queries: 1,
        keys: 32,
        head_dim: 16,
        value_dim: 8,
    };
    let of = |rule| {
        let rules = Rules::new([rule])?;
        let problem = Problem::new(sizes)?.with_rules(rules)?;
        Attend::new(problem, layout([2, 16], CacheFormat::F32), 2)
    };
    assert!(of(Rule::Window(4)).is_ok());
    for rule in [Rule::CausalTopLeft, Rule::Documents, Rule::Blocks(2)] {
        let error = of(rule).expect_err("a rule of pairs").to_string();
        assert!(error.contains(rule.name()), "{error}");
    }
}
