use super::*;
use proptest::prelude::*;

fn sizes(queries: usize, keys: usize) -> Sizes {
    Sizes {
        batch: 2,
        heads: 4,
        kv_heads: 2,
        queries,
        keys,
        head_dim: 3,
        value_dim: 2,
    }
}

/// Reproducible pseudo-random values from −1 to 1.
fn values(n: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

/// Owned inputs and tables of a problem.
#[derive(Clone)]
struct Data {
    floats: [Vec<f64>; 7],
    documents: [Vec<u32>; 2],
    blocks: Vec<u32>,
    mask: Vec<u32>,
    dropout: [u32; 4],
}

impl Data {
    fn new(p: &Problem) -> Self {
        let s = p.sizes();
        let words = |n: usize, of: u32| (0..n as u32).map(|i| (i * 7 + i / 3) % of).collect();
        let (rules, pairs) = (p.rules(), |table: Option<Pattern>| {
            table.map_or(0, |pattern| pattern.shape(s).iter().product())
        });
        let blocks = rules
            .blocks()
            .map_or(0, |n| s.queries.div_ceil(n) * s.keys.div_ceil(n));
        let (mask, bias) = (pairs(rules.mask()), pairs(rules.bias()));
        let relative = rules.relative().map_or(0, |n| s.heads * (2 * n + 1));
        let sinks = if p.sinks() { s.heads } else { 0 };
        let lengths = [
            p.query_rows() * s.head_dim,
            p.key_rows() * s.head_dim,
            p.key_rows() * s.value_dim,
            bias,
            relative,
            sinks,
            s.heads,
        ];
        let mut seed = 0;
        Self {
            floats: lengths.map(|n| {
                seed += 1;
                values(n, seed).iter().map(|x| 2.0 * x).collect()
            }),
            documents: [s.queries, s.keys].map(|n| words(s.batch * n, 3)),
            blocks: words(blocks, 2),
            mask: words(mask, 2),
            dropout: Dropout::new(0.4, 3).unwrap().words(),
        }
    }

    fn inputs(&self) -> Inputs<'_> {
        let [q, k, v, bias, relative, sinks, slopes] = &self.floats;
        Inputs {
            q,
            k,
            v,
            tables: Tables {
                query_documents: &self.documents[0],
                key_documents: &self.documents[1],
                blocks: &self.blocks,
                mask: &self.mask,
                slopes,
                bias,
                relative,
                sinks,
                dropout: &self.dropout,
                rule: None,
            },
        }
    }
}

fn problem(queries: usize, keys: usize, rules: &[Rule]) -> Problem {
    let rules = Rules::new(rules.iter().copied()).unwrap();
    let problem = Problem::new(sizes(queries, keys)).unwrap();
    problem.with_rules(rules).unwrap()
}

#[test]
fn three_keys_by_hand() {
    let sizes = Sizes {
        batch: 1,
        heads: 1,
        kv_heads: 1,
        queries: 2,
        keys: 3,
        head_dim: 1,
        value_dim: 1,
    };
    let problem = Problem::new(sizes).unwrap();
    let causal = Rules::new([Rule::Causal]).unwrap();
    let problem = problem.with_rules(causal).unwrap();
    let log = |x: f64| x.ln();
    let inputs = Inputs {
        q: &[1.0, 2.0],
        k: &[log(1.0), log(2.0), log(3.0)],
        v: &[10.0, 20.0, 30.0],
        tables: Tables::default(),
    };
    let Attended { o, lse } = reference(&problem, &inputs);
    // Query 0 is at position 1 and weighs its two keys 1 : 2; query 1 weighs its three keys 1 : 4 : 9.
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} instead of {b}");
    close(o[0], 50.0 / 3.0);
    close(lse[0], log(3.0));
    close(o[1], (10.0 + 80.0 + 270.0) / 14.0);
    close(lse[1], log(14.0));
    // A sink as heavy as all keys of query 0 together halves its output.
    let tables = Tables {
        sinks: &[log(3.0)],
        ..Tables::default()
    };
    let sinks = problem.with_sinks(true);
    let sunk = reference(&sinks, &Inputs { tables, ..inputs });
    close(sunk.o[0], 25.0 / 3.0);
    close(sunk.lse[0], log(6.0));
}

#[test]
fn a_query_that_sees_no_key_has_no_output_and_no_gradient() {
    // Six queries and two keys: the first four queries are before the first key.
    let problem = problem(6, 2, &[Rule::Causal]);
    let data = Data::new(&problem);
    let Attended { o, lse } = reference(&problem, &data.inputs());
    assert!(o[..8].iter().all(|x| *x == 0.0));
    assert!(lse[..4].iter().all(|x| *x == f64::from(f32::MIN)));
    assert!(lse[4].abs() < 100.0);
    let d_o = values(o.len(), 8);
    let g = reference_backward(&problem, &data.inputs(), &d_o, &vec![0.0; lse.len()]);
    assert!(g.dq[..12].iter().all(|x| *x == 0.0));
    assert!(g.dk.iter().chain(&g.dv).all(|x| x.is_finite()));
}

#[test]
fn slopes_are_those_of_the_paper() {
    let powers = [
        0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625,
    ];
    assert_eq!(alibi_slopes(8), powers);
    let six = alibi_slopes(6);
    assert_eq!(six[..4], [0.25, 0.0625, 0.015625, 0.00390625]);
    assert_eq!(six[4..], [0.5, 0.125]);
    assert!(alibi_slopes(0).is_empty());
}

/// Analytic gradients match finite differences of the forward pass under every rule.
#[test]
fn gradients_are_differences_of_the_forward() {
    let all = Pattern {
        batch: false,
        heads: true,
    };
    let rules = [
        vec![],
        vec![
            Rule::Alibi,
            Rule::Softcap(1.5),
            Rule::Bias(all),
            Rule::Causal,
        ],
        vec![
            Rule::Bias(Pattern {
                batch: true,
                heads: false,
            }),
            Rule::Softcap(2.0),
            Rule::Documents,
        ],
        vec![
            Rule::Relative(2),
            Rule::Softcap(2.0),
            Rule::SymmetricWindow(3),
            Rule::Mask(all),
        ],
    ];
    let cases = rules.iter().zip([false, true, true, false]);
    let cases =
        cases.flat_map(|(rules, sinks)| [false, true].map(|dropout| (rules, sinks, dropout)));
    for (rules, sinks, dropout) in cases {
        let problem = problem(5, 4, rules).with_sinks(sinks).with_dropout(dropout);
        let data = Data::new(&problem);
        let d_o = values(problem.query_rows() * 2, 20);
        let d_lse = values(problem.query_rows(), 21);
        let loss = |data: &Data| {
            let Attended { o, lse } = reference(&problem, &data.inputs());
            let empty = f64::from(f32::MIN);
            let lse = lse.iter().map(|x| if *x == empty { 0.0 } else { *x });
            let products = o.iter().copied().chain(lse).zip(d_o.iter().chain(&d_lse));
            products.map(|(x, d)| x * d).sum::<f64>()
        };
        let g = reference_backward(&problem, &data.inputs(), &d_o, &d_lse);
        let gradients = [&g.dq, &g.dk, &g.dv, &g.dbias, &g.drelative, &g.dsinks];
        for (input, gradient) in gradients.into_iter().enumerate() {
            assert_eq!(gradient.len(), data.floats[input].len());
            for (at, expected) in gradient.iter().enumerate() {
                let mut moved = [data.clone(), data.clone()];
                moved[0].floats[input][at] += 1e-5;
                moved[1].floats[input][at] -= 1e-5;
                let difference = (loss(&moved[0]) - loss(&moved[1])) / 2e-5;
                let distance = (difference - expected).abs();
                assert!(
                    distance < 1e-7,
                    "{rules:?}, {input} at {at}: {difference}, {expected}"
                );
            }
        }
    }
}

/// The factors match the formula computed by hand, and the share of dropped weights is near p in total, per row and per column,
/// and near p² among pairs of neighbours.
#[test]
fn dropouts_are_what_their_hash_says() {
    let mix = crate::routing::mix;
    let words = [11, 12, 1 << 31, 2.0_f32.to_bits()];
    let rows = [11, 12].map(|seed: u32| mix(mix(mix(seed + 1) + 2) + 3));
    let hash = |key| mix(mix(key ^ rows[0]).wrapping_add(rows[1]));
    let site = |key| Site {
        batch: 1,
        head: 2,
        query: 3,
        key,
    };
    for key in 0..64_usize {
        let want = if hash(key as u32) < 1 << 31 { 0.0 } else { 2.0 };
        assert_eq!(Dropout::of(words).factor(site(key)), want);
    }
    let dropout = Dropout::new(0.25, 0).unwrap();
    assert_eq!(dropout.words()[2..], [1 << 30, (4.0_f32 / 3.0).to_bits()]);
    let n = 512;
    let dropped: Vec<Vec<bool>> = (0..n)
        .map(|query| {
            let factor = dropout.row([0, 0, query]);
            (0..n as u32).map(|key| factor(key) == 0.0).collect()
        })
        .collect();
    let share = |found: usize, of: usize| found as f64 / of as f64;
    for i in 0..n {
        let row = dropped[i].iter().filter(|x| **x).count();
        let column = dropped.iter().filter(|row| row[i]).count();
        for found in [row, column] {
            assert!((share(found, n) - 0.25).abs() < 0.1, "line {i}: {found}");
        }
    }
    // Neighbours in a row, in a column and along a diagonal are dropped together as often as by chance.
    for [down, right] in [[0, 0], [0, 1], [1, 0], [1, 1], [2, 3]] {
        let both = |(i, j): (usize, usize)| dropped[i][j] && dropped[i + down][j + right];
        let places = (0..n - down).flat_map(|i| (0..n - right).map(move |j| (i, j)));
        let found = places.filter(|at| both(*at)).count();
        let want = if down + right == 0 { 0.25 } else { 0.0625 };
        let share = share(found, (n - down) * (n - right));
        assert!((share - want).abs() < 0.004, "{down}, {right}: {share}");
    }
    for p in [f64::NAN, -1e-9, 1.0, f64::INFINITY] {
        assert!(Dropout::new(p, 1).is_err(), "{p}");
    }
    assert_eq!(Dropout::new(1.0 - 1e-16, 1).unwrap().words()[2], u32::MAX);
}

/// Attention over two parts of the keys, merged by log-sum-exp, equals attention over all keys.
#[test]
fn parts_of_the_keys_merge_to_the_whole() {
    let whole = problem(3, 7, &[]);
    let data = Data::new(&whole);
    let expected = reference(&whole, &data.inputs());
    for cut in [0, 1, 4, 7] {
        let parts = [0..cut, cut..7].map(|keys| {
            let part = problem(3, keys.len(), &[]);
            let rows = |x: &[f64], dim: usize| -> Vec<f64> {
                let kept = x.chunks(7 * dim);
                kept.flat_map(|x| x[keys.start * dim..keys.end * dim].to_vec())
                    .collect()
            };
            let (k, v) = (rows(&data.floats[1], 3), rows(&data.floats[2], 2));
            let inputs = Inputs {
                k: &k,
                v: &v,
                ..data.inputs()
            };
            reference(&part, &inputs)
        });
        for (row, lse) in expected.lse.iter().enumerate() {
            let weights = [0, 1].map(|i| (parts[i].lse[row] - lse).exp());
            assert!((weights[0] + weights[1] - 1.0).abs() < 1e-12);
            for i in 2 * row..2 * row + 2 {
                let merged = weights[0] * parts[0].o[i] + weights[1] * parts[1].o[i];
                assert!((merged - expected.o[i]).abs() < 1e-12);
            }
        }
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let good = sizes(4, 4);
    let bad = [
        Sizes { heads: 0, ..good },
        Sizes {
            kv_heads: 0,
            ..good
        },
        Sizes {
            kv_heads: 3,
            ..good
        },
        Sizes {
            head_dim: 0,
            ..good
        },
        Sizes {
            value_dim: 257,
            ..good
        },
        Sizes {
            batch: 1 << 40,
            ..good
        },
        Sizes {
            keys: usize::MAX,
            ..good
        },
        Sizes {
            batch: 0,
            queries: 1 << 30,
            ..good
        },
    ];
    for sizes in bad {
        assert!(Problem::new(sizes).is_err(), "{sizes:?}");
    }
    for sizes in [Sizes { batch: 0, ..good }, Sizes { keys: 0, ..good }] {
        assert!(Problem::new(sizes).is_ok(), "{sizes:?}");
    }
    let rules: [&[Rule]; 8] = [
        &[Rule::Window(0)],
        &[Rule::Dilated(0)],
        &[Rule::Blocks(0)],
        &[Rule::SymmetricWindow(u32::MAX)],
        &[Rule::Softcap(0.0)],
        &[Rule::Softcap(f32::NAN)],
        &[Rule::Softcap(f32::INFINITY)],
        &[Rule::Window(3), Rule::Causal, Rule::Window(4)],
    ];
    for rules in rules {
        assert!(Rules::new(rules.iter().copied()).is_err(), "{rules:?}");
    }
    assert!(Problem::new(good).unwrap().with_scale(f32::NAN).is_err());
    let message = Rules::new([Rule::Window(0)]).unwrap_err().to_string();
    assert_eq!(message, "window: expected 1 to 2^30 - 1, got 0");
}

/// The largest positions that fit 32 bits are accepted and larger ones are refused.
#[test]
fn positions_fit_32_bits() {
    let of = |rule, first| {
        let rules = Rules::new([rule]).unwrap().with_position(Some(first));
        Problem::new(sizes(5, 7)).unwrap().with_rules(rules)
    };
    let most = i64::from(i32::MAX) - 4096 - 12;
    for first in [most, -most, 0] {
        assert_eq!(of(Rule::Causal, first).unwrap().position(3), first + 3);
    }
    for first in [most + 1, -most - 1, i64::MIN, i64::MAX] {
        assert!(of(Rule::Causal, first).is_err(), "{first}");
    }
    let message = of(Rule::Window(100), most).unwrap_err().to_string();
    let range = format!("-{0} to {0} with these sizes and rules", most - 100);
    assert_eq!(message, format!("position: expected {range}, got {most}"));
}

/// Chunks cover the sequence: every visible pair is in exactly one pair of chunks, with the same score.
#[test]
fn chunks_see_what_the_sequence_does() {
    let all = [
        Rule::Causal,
        Rule::Window(5),
        Rule::SymmetricWindow(4),
        Rule::Dilated(3),
    ];
    for rule in all {
        let rules = Rules::new([rule, Rule::Relative(3)]).unwrap();
        let of = |tokens| Problem::new(sizes(tokens, tokens)).unwrap();
        let whole = of(12).with_rules(rules).unwrap();
        let chunks = Chunks::new(of(3).with_rules(rules).unwrap(), 4).unwrap();
        let relative: Vec<f64> = (0..28).map(f64::from).collect();
        let tables = Tables {
            relative: &relative,
            ..Tables::default()
        };
        let site = |query, key| Site {
            batch: 0,
            head: 2,
            query,
            key,
        };
        let what = |p: &Problem, at| {
            let seen = p.rules().seen(p.sizes(), &tables, at);
            seen.then(|| p.rules().score(p.sizes(), &tables, at, 0.5))
        };
        let turns: Vec<usize> = chunks.turns().collect();
        for (query, key) in (0..12).flat_map(|query| (0..12).map(move |key| (query, key))) {
            let (own, other) = (query / 3, key / 3);
            let pair = chunks.pair(own as i64 - other as i64);
            let part = pair.and_then(|pair| what(&pair, site(query % 3, key % 3)));
            assert_eq!(part, what(&whole, site(query, key)), "{rule:?}");
            assert!(part.is_none() || turns.contains(&((4 + own - other) % 4)));
        }
    }
    let window = Rules::new([Rule::SymmetricWindow(2)]).unwrap();
    let chunk = Problem::new(sizes(3, 3)).unwrap().with_rules(window);
    let chunks = Chunks::new(chunk.unwrap(), 4).unwrap();
    assert_eq!(chunks.turns().collect::<Vec<usize>>(), [0, 1, 3]);
}

fn any_rule() -> impl Strategy<Value = Rule> {
    prop_oneof![
        Just(Rule::Causal),
        Just(Rule::CausalTopLeft),
        (1..9u32).prop_map(Rule::Window),
        (1..9u32).prop_map(Rule::SymmetricWindow),
        (0..9u32).prop_map(Rule::Prefix),
        (0..3u32, 1..5u32).prop_map(|(tokens, window)| Rule::Global { tokens, window }),
        (1..5u32).prop_map(Rule::Dilated),
        Just(Rule::Alibi),
    ]
}

proptest! {
    /// `tile`, `keys_of` and `queries_of` agree with the visibility of single pairs.
    #[test]
    fn tiles_and_ranges_agree_with_pairs(
        queries in 1..14usize,
        keys in 1..14usize,
        rules in prop::collection::vec(any_rule(), 0..3),
        first in prop::option::of(-20..20i64),
        cuts in (0..14usize, 1..6usize, 0..14usize, 1..6usize),
    ) {
        let Ok(rules) = Rules::new(rules) else { return Ok(()) };
        let rules = rules.with_position(first);
        let problem = Problem::new(sizes(queries, keys)).unwrap().with_rules(rules).unwrap();
        let s = problem.sizes();
        let tables = Tables::default();
        let seen = |query, key| rules.seen(s, &tables, Site { batch: 0, head: 0, query, key });
        let of = |first: usize, length: usize, all: usize| {
            let first = first % all;
            first..(first + length).min(all)
        };
        let (q, k) = (of(cuts.0, cuts.1, queries), of(cuts.2, cuts.3, keys));
        let near = problem.keys_of(q.clone());
        let far = problem.queries_of(k.clone());
        for query in 0..queries {
            for key in 0..keys {
                if seen(query, key) {
                    prop_assert!(!q.contains(&query) || near.contains(&key));
                    prop_assert!(!k.contains(&key) || far.contains(&query));
                }
            }
        }
        let pairs: Vec<bool> = q.clone().flat_map(|i| k.clone().map(move |j| (i, j))).map(|(i, j)| seen(i, j)).collect();
        match rules.tile(s, q, k) {
            Tile::Empty => prop_assert!(pairs.iter().all(|seen| !seen)),
            Tile::Full => prop_assert!(pairs.iter().all(|seen| *seen)),
            // With a single rule, `Part` means that at least one pair is visible.
            Tile::Part if rules.iter().count() == 1 => prop_assert!(pairs.iter().any(|seen| *seen)),
            Tile::Part => {}
        }
    }
}
