//! Keys and values in pages, and attention over them, against the f64 oracle on the same tokens.

use crate::tensors::{self, dtype, floats, tensor};
use burn::tensor::{Device, Tensor};
use moebius::Error;
use moebius::attention::{Attend, CacheFormat, KvCache, Pages};
use moebius_ops::Element;
use moebius_ops::attention::{Inputs, Problem, Rule, Rules, Sizes, Tables, reference};
use moebius_tests::data::{Rng, rounded};
use moebius_tests::elements::exact;
use moebius_tests::record;
use moebius_tests::target::Target;
use moebius_tests::tolerance::{assert_close, rel_l2};

/// Sequences that grow in steps, and the attention over them.
#[derive(Clone)]
struct Case {
    heads: [usize; 2],
    dims: [usize; 2],
    format: CacheFormat,
    element: Element,
    rules: Vec<Rule>,
    sinks: bool,
    /// The largest number of tokens of a sequence.
    longest: usize,
    paged: bool,
    /// Rows of each step beside those of its longest sequence.
    filled: usize,
    /// New tokens of each sequence, for each step.
    steps: Vec<Vec<usize>>,
}

/// The tensor that a row belongs to.
#[derive(Clone, Copy)]
enum Of {
    Query,
    Key,
    Value,
}

/// The result of one query in one head: o and the log-sum-exp.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    /// Sequence, head and position of the query.
    at: [usize; 3],
    o: Vec<f32>,
    lse: f32,
}

impl Case {
    fn new(steps: &[&[usize]]) -> Self {
        Self {
            heads: [4, 2],
            dims: [16, 24],
            format: CacheFormat::F32,
            element: Element::F32,
            rules: vec![Rule::Causal],
            sinks: false,
            longest: 96,
            paged: true,
            filled: 0,
            steps: steps.iter().map(|step| step.to_vec()).collect(),
        }
    }

    fn with_format(self, format: CacheFormat) -> Self {
        Self { format, ..self }
    }

    fn with_rules(self, rules: &[Rule]) -> Self {
        let rules = rules.to_vec();
        Self { rules, ..self }
    }

    /// The row for a head and token of a sequence, the same in whichever step the token comes.
    fn row(&self, of: Of, [sequence, head, token]: [usize; 3]) -> Vec<f32> {
        let kind = of as usize;
        let seed = ((token * 64 + sequence) * 64 + head) * 4 + kind + 1;
        let dim = self.dims[usize::from(kind == 2)];
        let values = Rng::new(seed as u64).vec(dim, 1.5).into_iter();
        values.map(|x| rounded(x, self.element)).collect()
    }

    fn slopes(&self) -> Vec<f32> {
        (0..self.heads[0]).map(|h| 0.05 * (h + 1) as f32).collect()
    }

    fn relative(&self) -> Vec<f32> {
        let reach = self.rules.iter().find_map(|rule| match rule {
            Rule::Relative(n) => Some(*n as usize),
            _ => None,
        });
        let len = reach.map_or(0, |n| self.heads[0] * (2 * n + 1));
        Rng::new(5).vec(len, 1.0)
    }

    fn sink(&self) -> Vec<f32> {
        Rng::new(6).vec(if self.sinks { self.heads[0] } else { 0 }, 2.0)
    }

    fn attend(&self, device: &Device) -> Attend {
        let mut attend = Attend::new();
        for rule in &self.rules {
            attend = match *rule {
                Rule::Causal => attend.causal(),
                Rule::Window(n) => attend.window(n as usize),
                Rule::SymmetricWindow(n) => attend.symmetric_window(n as usize),
                Rule::Prefix(n) => attend.prefix(n as usize),
                Rule::Global { tokens, window } => attend.global(tokens as usize, window as usize),
                Rule::Dilated(n) => attend.dilated(n as usize),
                Rule::Alibi => attend.alibi_slopes(Tensor::from_floats(&self.slopes()[..], device)),
                Rule::Softcap(cap) => attend.softcap(cap),
                Rule::Relative(n) => {
                    let shape = [self.heads[0], 2 * n as usize + 1];
                    attend.relative(tensor(&self.relative(), shape, device))
                }
                other => unreachable!("{other:?} has a table of pairs"),
            };
        }
        if self.sinks {
            attend.sinks(Tensor::from_floats(&self.sink()[..], device))
        } else {
            attend
        }
    }

    fn pages(&self) -> Result<Pages, Error> {
        let sequences = self.steps[0].len();
        if self.paged {
            Pages::paged(sequences, sequences * self.longest / 16 + 3, self.longest)
        } else {
            Pages::contiguous(sequences, self.longest)
        }
    }

    /// A tensor \[B, heads, tokens, D\] with the rows of each sequence's span, and NaN past its end.
    fn put(&self, of: Of, spans: &[[usize; 2]], tokens: usize, device: &Device) -> Tensor<4> {
        let heads = self.heads[usize::from(!matches!(of, Of::Query))];
        let dim = self.dims[usize::from(matches!(of, Of::Value))];
        let mut values = Vec::new();
        for (sequence, [start, end]) in spans.iter().enumerate() {
            for head in 0..heads {
                for token in *start..start + tokens {
                    if token < *end {
                        values.extend(self.row(of, [sequence, head, token]))
                    } else {
                        values.extend(vec![f32::NAN; dim])
                    }
                }
            }
        }
        let shape = [spans.len(), heads, tokens, dim];
        tensors::typed(&values, shape, dtype(self.element), device)
    }

    /// The results of all steps' queries, sorted by sequence, head and position.
    fn run(&self, target: &Target) -> Result<Vec<Row>, Error> {
        let device = target.burn();
        let mut pages = self.pages()?;
        let mut cache = KvCache::new(&pages, self.heads[1], self.dims, self.format, &device)?;
        let mut rows = Vec::new();
        for tokens in &self.steps {
            rows.extend(self.step(&mut pages, &mut cache, tokens, &device)?);
        }
        rows.sort_by_key(|row| row.at);
        Ok(rows)
    }

    fn step(
        &self,
        pages: &mut Pages,
        cache: &mut KvCache,
        tokens: &[usize],
        device: &Device,
    ) -> Result<Vec<Row>, Error> {
        let starts = pages.lengths().to_vec();
        let step = pages.extend(tokens, device)?;
        let rows = step.tokens() + self.filled;
        let step = step.filled_up_to(rows)?;
        let ends = pages.lengths().iter();
        let spans: Vec<[usize; 2]> = starts.into_iter().zip(ends).map(|(s, e)| [s, *e]).collect();
        let put = |of| self.put(of, &spans, step.tokens(), device);
        cache.append(put(Of::Key), put(Of::Value), &step)?;
        let out = cache.attend(put(Of::Query), &step, &self.attend(device))?;
        let (o, lse) = (floats(out.o), floats(out.lse));
        let width = self.dims[1];
        let mut rows = Vec::new();
        for (index, lse) in lse.iter().enumerate() {
            let query = index % step.tokens();
            let (head, sequence) = (
                index / step.tokens() % self.heads[0],
                index / step.tokens() / self.heads[0],
            );
            let [start, end] = spans[sequence];
            let o = &o[index * width..][..width];
            if start + query < end {
                rows.push(Row {
                    at: [sequence, head, start + query],
                    o: o.to_vec(),
                    lse: *lse,
                });
            } else {
                assert!(o.iter().all(|x| *x == 0.0), "past the end: {o:?}");
                assert_eq!(*lse, f32::MIN, "past the end");
            }
        }
        Ok(rows)
    }

    /// The oracle's o and log-sum-exp for one sequence's queries in one step.
    fn want(&self, sequence: usize, [start, end]: [usize; 2]) -> Vec<(Vec<f64>, f64)> {
        let sizes = Sizes {
            batch: 1,
            heads: self.heads[0],
            kv_heads: self.heads[1],
            queries: end - start,
            keys: end,
            head_dim: self.dims[0],
            value_dim: self.dims[1],
        };
        let rules = Rules::new(self.rules.iter().copied()).unwrap();
        let problem = Problem::new(sizes).unwrap().with_rules(rules).unwrap();
        let problem = problem.with_sinks(self.sinks);
        let all = |of, heads: usize, tokens: std::ops::Range<usize>| {
            let tokens = move |head| tokens.clone().map(move |token| [sequence, head, token]);
            let rows = (0..heads).flat_map(tokens).map(move |at| self.row(of, at));
            rows.collect::<Vec<_>>()
        };
        let q = all(Of::Query, self.heads[0], start..end).concat();
        let kept = |of| -> Vec<f64> {
            let rows = all(of, self.heads[1], 0..end).into_iter();
            rows.flat_map(|row| exact(&self.format.kept(&row).collect::<Vec<_>>()))
                .collect()
        };
        let (q, k, v) = (exact(&q), kept(Of::Key), kept(Of::Value));
        let [slopes, relative, sinks] =
            [self.slopes(), self.relative(), self.sink()].map(|table| exact(&table));
        let tables = Tables {
            slopes: &slopes,
            relative: &relative,
            sinks: &sinks,
            ..Tables::default()
        };
        let inputs = Inputs {
            q: &q,
            k: &k,
            v: &v,
            tables,
        };
        let found = reference(&problem, &inputs);
        let rows = found.o.chunks(self.dims[1]).map(<[f64]>::to_vec);
        rows.zip(found.lse).collect()
    }

    /// Compares every step with the oracle.
    fn check(&self, target: &Target) -> Result<(), Error> {
        let rows = self.run(target)?;
        let mut ends = vec![0; self.steps[0].len()];
        let (mut o, mut lse) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        let mut want_of = |sequence: usize, span: [usize; 2]| {
            for (index, (want, log)) in self.want(sequence, span).into_iter().enumerate() {
                let queries = span[1] - span[0];
                let at = [sequence, index / queries, span[0] + index % queries];
                let row = rows.iter().find(|row| row.at == at).unwrap();
                o[0].extend(&row.o);
                lse[0].push(row.lse);
                o[1].extend(want.iter().map(|x| *x as f32));
                lse[1].push(log as f32);
            }
        };
        for tokens in &self.steps {
            for (sequence, more) in tokens.iter().enumerate().filter(|(_, more)| **more > 0) {
                want_of(sequence, [ends[sequence], ends[sequence] + more]);
                ends[sequence] += more;
            }
        }
        let what = format!("{:?} {:?} on {}", self.format, self.rules, target.name);
        assert_close(&what, &o[0], &exact(&o[1]), rel_l2(self.element));
        assert_close(&what, &lse[0], &exact(&lse[1]), rel_l2(Element::F32));
        Ok(())
    }
}

/// New tokens of three sequences in each step: prompts of several lengths, then one or a few tokens, and a step that adds none
/// to the second sequence.
const STEPS: [&[usize]; 5] = [
    &[37, 1, 17],
    &[1, 1, 1],
    &[1, 0, 1],
    &[3, 20, 2],
    &[1, 1, 1],
];

/// Checks every storage format, paged and contiguous.
pub(crate) fn formats(target: &Target) -> Result<(), Error> {
    for format in CacheFormat::ALL {
        Case::new(&STEPS).with_format(format).check(target)?;
    }
    Ok(())
}

/// Checks rules on positions, rules that change scores, and sinks. Rows of queries reach beyond the room: the first sequence has 39 of at
/// most 48 tokens when the second one gets 20 more.
pub(crate) fn rules(target: &Target) -> Result<(), Error> {
    let global = Rule::Global {
        tokens: 3,
        window: 5,
    };
    let rules: [&[Rule]; 5] = [
        &[],
        &[
            Rule::Alibi,
            Rule::Softcap(1.5),
            Rule::Relative(6),
            Rule::Window(20),
        ],
        &[Rule::Prefix(9), Rule::SymmetricWindow(30)],
        &[global, Rule::Causal],
        &[Rule::Dilated(3), Rule::Causal],
    ];
    for rules in rules {
        let mut case = Case::new(&STEPS).with_rules(rules);
        case.longest = 48;
        case.sinks = rules.len() != 2;
        case.check(target)?;
    }
    Ok(())
}

/// Checks several numbers of query heads per key head, and the smallest to the largest head sizes.
pub(crate) fn heads(target: &Target) -> Result<(), Error> {
    let sizes = [
        ([1, 1], [8, 8]),
        ([6, 2], [64, 64]),
        ([8, 1], [40, 256]),
        ([3, 3], [256, 8]),
    ];
    for (heads, dims) in sizes {
        let case = Case {
            heads,
            dims,
            format: CacheFormat::E4m3,
            ..Case::new(&STEPS[1..])
        };
        case.check(target)?;
    }
    Ok(())
}

/// Checks keys in several parts of 256 tokens: steps with few query rows, which are spread over units, and with many.
pub(crate) fn long(target: &Target) -> Result<(), Error> {
    let case = Case {
        longest: 800,
        format: CacheFormat::Bf16,
        ..Case::new(&[&[520], &[1], &[255], &[2]])
    };
    case.check(target)?;
    case.with_rules(&[Rule::Window(300)]).check(target)
}

/// Checks steps without new tokens, and without sequences.
pub(crate) fn empty(target: &Target) -> Result<(), Error> {
    let device = target.burn();
    for sequences in [0, 2] {
        let mut pages = Pages::paged(sequences, 4, 32)?;
        let mut cache = KvCache::new(&pages, 2, [16, 24], CacheFormat::F32, &device)?;
        let step = pages.extend(&vec![0; sequences], &device)?;
        let none =
            |heads: usize, dim: usize| Tensor::<4>::zeros([sequences, heads, 0, dim], &device);
        cache.append(none(2, 16), none(2, 24), &step)?;
        let out = cache.attend(none(4, 16), &step, &Attend::new().causal())?;
        assert_eq!(out.o.dims(), [sequences, 4, 0, 24]);
        assert_eq!(out.lse.dims(), [sequences, 4, 0]);
    }
    Ok(())
}

pub(crate) fn f16(target: &Target) -> Result<(), Error> {
    typed(target, Element::F16, CacheFormat::F16)
}

pub(crate) fn bf16(target: &Target) -> Result<(), Error> {
    typed(target, Element::Bf16, CacheFormat::E4m3)
}

fn typed(target: &Target, element: Element, format: CacheFormat) -> Result<(), Error> {
    let case = Case {
        element,
        format,
        ..Case::new(&STEPS)
    };
    case.check(target)
}

/// Asserts that both cases give the same bits; on XLA, whose order of summation depends on the shape, close values.
fn assert_same(what: &str, target: &Target, [one, other]: [&Case; 2]) -> Result<(), Error> {
    let (one, other) = (one.run(target)?, other.run(target)?);
    assert_eq!(one.len(), other.len());
    for (one, other) in one.iter().zip(&other) {
        assert_eq!(one.at, other.at);
        let lse = [[one.lse], [other.lse]];
        for [one, other] in [[&one.o[..], &other.o], [&lse[0], &lse[1]]] {
            target.assert_same_rows(what, one, other);
        }
    }
    Ok(())
}

/// Checks that appending token by token, in pieces, with rows that fill pieces up, or all at once gives the same bits.
pub(crate) fn steps_are_the_whole(target: &Target) -> Result<(), Error> {
    let case = |steps: &[&[usize]]| Case {
        longest: 320,
        ..Case::new(steps)
    };
    let whole = case(&[&[300]]);
    let pieces = case(&[&[3], &[250], &[1], &[1], &[29], &[16]]);
    let mut tokens = vec![&[270_usize][..]];
    tokens.extend([&[1_usize][..]; 30]);
    assert_same("in pieces", target, [&whole, &pieces])?;
    let filled = Case {
        filled: 27,
        ..pieces
    };
    assert_same("in pieces that are filled up", target, [&whole, &filled])?;
    assert_same("a token at a time", target, [&whole, &case(&tokens)])
}

pub(crate) fn paged_is_contiguous(target: &Target) -> Result<(), Error> {
    let paged = Case::new(&STEPS).with_format(CacheFormat::F16);
    let whole = Case {
        paged: false,
        ..paged.clone()
    };
    assert_same("pages", target, [&paged, &whole])
}

pub(crate) fn independent_of_the_batch(target: &Target) -> Result<(), Error> {
    let alone = Case::new(&[&[37], &[1], &[1], &[3], &[1]]).run(target)?;
    let beside = Case::new(&STEPS).run(target)?;
    for row in &alone {
        let other = beside.iter().find(|other| other.at == row.at).unwrap();
        target.assert_same_rows("alone", &row.o, &other.o);
    }
    Ok(())
}

/// Checks that appending is a single launch that copies nothing and allocates nothing.
pub(crate) fn appends_in_place(target: &Target) {
    let Some(client) = target.client() else {
        return;
    };
    let device = target.burn();
    let case = Case {
        longest: 1 << 14,
        // Rows of 512 bytes: CUDA pads other rows to a multiple of 512 bytes, and padded tensors are copied first.
        dims: [128, 128],
        ..Case::new(&[&[1]])
    };
    let mut pages = case.pages().unwrap();
    let made = KvCache::new(&pages, 2, case.dims, case.format, &device);
    let mut cache = made.unwrap();
    let mut step = |tokens: usize| {
        let start = pages.lengths()[0];
        let step = pages.extend(&[tokens], &device).unwrap();
        let put = |of| case.put(of, &[[start, start + tokens]], tokens, &device);
        let (k, v) = (put(Of::Key), put(Of::Value));
        device.sync().unwrap();
        let launches = record::launched_by(|| {
            cache.append(k, v, &step).unwrap();
            device.sync().unwrap();
        });
        // Foreign kernels have no name, so their type stands in.
        let name = |launch: record::Launch| launch.name.unwrap_or(launch.kernel.to_owned());
        let names: Vec<String> = launches.into_iter().map(name).collect();
        assert_eq!(names, ["cache_append_f32_f32"]);
    };
    step(5);
    let reserved = moebius_device::memory_in_use(&client).reserved;
    for _ in 0..5 {
        step(1);
    }
    let after = moebius_device::memory_in_use(&client).reserved;
    let more = after.saturating_sub(reserved);
    assert!(more < cache.bytes() as u64 / 4, "{more} bytes more");
}

/// Checks that appending to a clone of a cache leaves the original as it is.
pub(crate) fn clones_are_apart(target: &Target) -> Result<(), Error> {
    let device = target.burn();
    let case = Case::new(&[&[7]]);
    let mut pages = case.pages()?;
    let mut cache = KvCache::new(&pages, 2, case.dims, case.format, &device)?;
    case.step(&mut pages, &mut cache, &[7], &device)?;
    let (mut other_pages, mut other) = (pages.clone(), cache.clone());
    let next = case.step(&mut pages, &mut cache, &[1], &device)?;
    // The clone appends NaN at the same position; the NaN must not reach the original.
    let step = other_pages.extend(&[1], &device)?;
    let nan = |dim| Tensor::<4>::full([1, 2, 1, dim], f32::NAN, &device);
    other.append(nan(16), nan(24), &step)?;
    pages.truncate(0, 7)?;
    let again = case.step(&mut pages, &mut cache, &[1], &device)?;
    assert_eq!(next, again);
    Ok(())
}

/// Checks that a NaN left in a released sequence's pages reaches no result, and that a NaN in a token reaches the queries that
/// see the token.
pub(crate) fn stale_values(target: &Target) -> Result<(), Error> {
    let device = target.burn();
    let case = Case {
        sinks: true,
        ..Case::new(&[&[20, 20]])
    };
    let nan = |tokens, dim| Tensor::<4>::full([2, 2, tokens, dim], f32::NAN, &device);
    let mut pages = case.pages()?;
    let mut cache = KvCache::new(&pages, 2, case.dims, case.format, &device)?;
    let step = pages.extend(&[60, 60], &device)?;
    cache.append(nan(60, 16), nan(60, 24), &step)?;
    pages.release(0)?;
    pages.release(1)?;
    let rows = case.step(&mut pages, &mut cache, &[20, 3], &device)?;
    assert!(rows.iter().all(|row| row.lse.is_finite()));
    assert!(rows.iter().all(|row| row.o.iter().all(|x| x.is_finite())));
    // The next token's value is NaN, and the token's own query sees it.
    let step = pages.extend(&[1, 1], &device)?;
    let keys = case.put(Of::Key, &[[20, 21], [3, 4]], 1, &device);
    cache.append(keys, nan(1, 24), &step)?;
    let attend = case.attend(&device);
    let q = case.put(Of::Query, &[[20, 21], [3, 4]], 1, &device);
    let out = cache.attend(q, &step, &attend)?;
    let o = floats(out.o);
    assert!(o.iter().all(|x| x.is_nan()), "{o:?}");
    Ok(())
}
