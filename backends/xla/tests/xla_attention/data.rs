//! Operands that look random and repeat, and what the reference makes of them.

use crate::run::Results;
use moebius_ops::Element;
use moebius_ops::attention::{
    Dropout, Inputs, Problem, Rule, Rules, Sizes, Tables, alibi_slopes, reference,
    reference_backward,
};
use moebius_xla::ElementType;
use std::collections::HashMap;

/// The tensors that a program reads, by name.
#[derive(Clone, Debug)]
pub(crate) struct Data {
    pub(crate) floats: HashMap<&'static str, Vec<f64>>,
    pub(crate) words: HashMap<&'static str, Vec<u32>>,
}

pub(crate) fn sizes(queries: usize, keys: usize) -> Sizes {
    Sizes {
        batch: 2,
        heads: 4,
        kv_heads: 2,
        queries,
        keys,
        head_dim: 5,
        value_dim: 3,
    }
}

pub(crate) fn problem(sizes: Sizes, rules: &[Rule]) -> Problem {
    let rules = Rules::new(rules.iter().copied()).unwrap();
    let problem = Problem::new(sizes).unwrap().with_scale(0.7).unwrap();
    problem.with_rules(rules).unwrap()
}

/// Numbers in −1 … 1.
fn noise(count: usize, seed: u64) -> impl Iterator<Item = f64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) + 1;
    let next = move |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f64 / f64::from(1 << 23) - 1.0
    };
    (0..count).map(next)
}

/// `x` as the nearest number of a type.
fn rounded(x: f64, element: Element) -> f64 {
    match element {
        Element::F32 => f64::from(x as f32),
        Element::F16 => half::f16::from_f64(x).to_f64(),
        Element::Bf16 => half::bf16::from_f64(x).to_f64(),
    }
}

impl Data {
    pub(crate) fn new(p: &Problem) -> Self {
        let (s, rules) = (p.sizes(), p.rules());
        let pairs = |table: Option<moebius_ops::attention::Pattern>| {
            table.map_or(0, |pattern| pattern.shape(s).iter().product())
        };
        let blocks = |n: usize| s.queries.div_ceil(n) * s.keys.div_ceil(n);
        let lengths = [
            ("q", p.query_rows() * s.head_dim, p.element()),
            ("k", p.key_rows() * s.head_dim, p.element()),
            ("v", p.key_rows() * s.value_dim, p.element()),
            ("do", p.query_rows() * s.value_dim, p.element()),
            ("dlse", p.query_rows(), Element::F32),
            ("bias", pairs(rules.bias()), Element::F32),
            (
                "relative",
                rules.relative().map_or(0, |n| s.heads * (2 * n + 1)),
                Element::F32,
            ),
            ("sinks", if p.sinks() { s.heads } else { 0 }, Element::F32),
        ];
        let floats = lengths.into_iter().zip(1..);
        let floats = floats.map(|((name, length, element), seed)| {
            let values = noise(length, seed).map(|x| rounded(1.5 * x, element));
            (name, values.collect())
        });
        let mut floats: HashMap<&str, Vec<f64>> = floats.collect();
        let slopes = alibi_slopes(s.heads).into_iter().map(f64::from);
        floats.insert("slopes", slopes.collect());
        // Documents lie side by side, but for some that return.
        let documents =
            |rows: usize| (0..s.batch * rows).map(move |i| ((i + i / 11) / 6 % 4) as u32);
        let words = |n: usize, of: u32| (0..n as u32).map(|i| (i * 7 + i / 3) % of).collect();
        let dropout = Dropout::new(0.3, 7).expect("a probability");
        let words = HashMap::from([
            ("query_documents", documents(s.queries).collect()),
            ("key_documents", documents(s.keys).collect()),
            ("blocks", words(rules.blocks().map_or(0, blocks), 2)),
            ("mask", words(pairs(rules.mask()), 3)),
            ("dropout", dropout.words().to_vec()),
        ]);
        Self { floats, words }
    }

    pub(crate) fn bytes(&self, name: &str, element: ElementType) -> Vec<u8> {
        if let Some(words) = self.words.get(name) {
            return words.iter().flat_map(|word| word.to_le_bytes()).collect();
        }
        let bytes = self.floats[name].iter().flat_map(|x| match element {
            ElementType::F16 => half::f16::from_f64(*x).to_le_bytes().to_vec(),
            ElementType::BF16 => half::bf16::from_f64(*x).to_le_bytes().to_vec(),
            ElementType::F32 => (*x as f32).to_le_bytes().to_vec(),
            other => panic!("{other}"),
        });
        bytes.collect()
    }

    fn inputs(&self) -> Inputs<'_> {
        let (floats, words) = (&self.floats, &self.words);
        Inputs {
            q: &floats["q"],
            k: &floats["k"],
            v: &floats["v"],
            tables: Tables {
                query_documents: &words["query_documents"],
                key_documents: &words["key_documents"],
                blocks: &words["blocks"],
                mask: &words["mask"],
                slopes: &floats["slopes"],
                bias: &floats["bias"],
                relative: &floats["relative"],
                sinks: &floats["sinks"],
                dropout: &words["dropout"],
                rule: None,
            },
        }
    }

    /// What all passes should return.
    pub(crate) fn expected(&self, p: &Problem) -> Results {
        let inputs = self.inputs();
        let forward = reference(p, &inputs);
        let (d_o, d_lse) = (&self.floats["do"], &self.floats["dlse"]);
        let none = |like: &[f64]| vec![0.0; like.len()];
        let output = reference_backward(p, &inputs, d_o, &none(d_lse));
        // No value takes part: 0 · NaN would be NaN.
        let v = none(inputs.v);
        let without = Inputs { v: &v, ..inputs };
        let of_lse = reference_backward(p, &without, &none(d_o), d_lse);
        let mut results = Results::from([
            ("o".to_owned(), forward.o),
            ("lse".to_owned(), forward.lse),
            ("dv".to_owned(), output.dv),
        ]);
        for (suffix, g) in [
            (
                "",
                (
                    output.dq,
                    output.dk,
                    output.dbias,
                    output.drelative,
                    output.dsinks,
                ),
            ),
            (
                " of lse",
                (
                    of_lse.dq,
                    of_lse.dk,
                    of_lse.dbias,
                    of_lse.drelative,
                    of_lse.dsinks,
                ),
            ),
        ] {
            let (dq, dk, dbias, drelative, dsinks) = g;
            let rest = [
                ("dbias", dbias),
                ("drelative", drelative),
                ("dsinks", dsinks),
            ];
            let there = rest.into_iter().filter(|(name, _)| match *name {
                "dbias" => p.rules().bias().is_some(),
                "drelative" => p.rules().relative().is_some(),
                _ => p.sinks(),
            });
            let all = [("dq", dq), ("dk", dk)].into_iter().chain(there);
            results.extend(all.map(|(name, values)| (format!("{name}{suffix}"), values)));
        }
        results
    }
}

/// Compares all results: by their relative distance, but NaN and infinities by place, and lse of rows that see nothing exactly.
pub(crate) fn assert_all_close(
    got: &Results,
    want: &Results,
    [forward, backward]: [f64; 2],
    what: &str,
) {
    let names = |results: &Results| {
        let mut names: Vec<String> = results.keys().cloned().collect();
        names.sort();
        names
    };
    assert_eq!(names(got), names(want), "{what}");
    for (name, want) in want {
        let got = &got[name];
        assert_eq!(got.len(), want.len(), "{what}: {name}");
        let (mut square, mut error) = (0.0, 0.0);
        for (i, (got, want)) in got.iter().zip(want).enumerate() {
            let at = || format!("{what}: {name}[{i}] is {got}, not {want}");
            assert_eq!(got.is_finite(), want.is_finite(), "{}", at());
            if *want == f64::from(f32::MIN) {
                assert_eq!(got, want, "{}", at());
            } else if want.is_finite() {
                square += want * want;
                error += (got - want) * (got - want);
            }
        }
        let allowed = if name.starts_with('d') {
            backward
        } else {
            forward
        };
        // Gradients that are 0 by cancellation are so up to the rounding of what cancels.
        let distance = error.sqrt() / square.sqrt().max(1e-2);
        assert!(distance <= allowed, "{what}: {name} differs by {distance}");
    }
}

/// Relative distances in f32: forward, backward.
pub(crate) const F32: [f64; 2] = [2e-5, 1e-4];
