//! The sampler keeps the same tokens as `transformers`, gives the probabilities of a naive sampler, and draws with these frequencies.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::collections::{BTreeMap, HashSet};

use moebius_engine::{Allowed, History, SampleError, Sampling, SamplingOptions, philox};
use proptest::prelude::*;
use serde_json::Value;

fn history(prompt: &[u32], generated: &[u32]) -> History {
    let mut history = History::new(prompt);
    generated.iter().for_each(|id| history.push(*id));
    history
}

fn sampling(options: &SamplingOptions) -> Sampling {
    Sampling::new(options.clone()).unwrap()
}

/// Default options, with the changes of `change`.
fn with(change: impl FnOnce(&mut SamplingOptions)) -> SamplingOptions {
    let mut options = SamplingOptions::default();
    change(&mut options);
    options
}

/// The options of a case, which have Python's names.
fn options(settings: &Value) -> SamplingOptions {
    let mut options = SamplingOptions::default();
    for (name, value) in settings.as_object().unwrap() {
        let number = value.as_f64().map(|number| number as f32);
        match name.as_str() {
            "temperature" => options.temperature = number.unwrap(),
            "top_k" => options.top_k = value.as_u64().unwrap() as usize,
            "top_p" => options.top_p = number.unwrap(),
            "min_p" => options.min_p = number.unwrap(),
            "repetition_penalty" => options.repetition_penalty = number.unwrap(),
            "logit_bias" => {
                let biases = value.as_object().unwrap().iter();
                let biases =
                    biases.map(|(id, bias)| (id.parse().unwrap(), bias.as_f64().unwrap() as f32));
                options.logit_bias = biases.collect();
            }
            other => panic!("{other}"),
        }
    }
    options
}

#[test]
fn what_is_left_is_what_transformers_leaves() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("sampler.json")).unwrap();
    let mut compared = HashSet::new();
    for (number, case) in cases.iter().enumerate() {
        let list = |name: &str| case[name].as_array().unwrap().iter();
        // null stands for −∞, which JSON doesn't have.
        let finite = |logit: f64| logit as f32;
        let logits = list("logits").map(|logit| logit.as_f64().map_or(f32::NEG_INFINITY, finite));
        let logits: Vec<f32> = logits.collect();
        let ids: Vec<u32> = list("ids").map(|id| id.as_u64().unwrap() as u32).collect();
        let sampling = sampling(&options(&case["settings"]));
        // The split between prompt and answer doesn't matter here.
        let history = history(&ids[..3], &ids[3..]);
        let ours = sampling.probabilities(&logits, &history).unwrap();
        let theirs = list("left").zip(list("probabilities"));
        // Nearly impossible tokens may have the weight 0 here.
        let likely = ours.iter().map(|(id, _)| u64::from(*id));
        let left = list("left").map(|id| id.as_u64().unwrap());
        assert!(likely.eq(left), "case {number}: {case}");
        for ((id, ours), (_, theirs)) in ours.iter().zip(theirs) {
            let theirs = theirs.as_f64().unwrap();
            // transformers rounds scores to f32 after every step; here they are f64 from the temperature on.
            let near = (ours - theirs).abs() <= 1e-5 * theirs + 1e-12;
            assert!(near, "case {number}, id {id}: {ours}, {theirs}");
        }
        compared.extend(case["settings"].as_object().unwrap().keys().cloned());
    }
    assert_eq!((cases.len(), compared.len()), (96, 6));
}

/// The ids that may be drawn, most likely first, with their probabilities, computed without regard for speed.
fn naive(
    o: &SamplingOptions,
    logits: &[f32],
    prompt: &[u32],
    generated: &[u32],
) -> Vec<(u32, f64)> {
    let scored = (0_u32..).zip(logits).map(|(id, &logit)| {
        let mut score = f64::from(logit) + f64::from(o.logit_bias.get(&id).copied().unwrap_or(0.0));
        let count = generated.iter().filter(|other| **other == id).count() as f64;
        if count > 0.0 || prompt.contains(&id) {
            let penalty = f64::from(o.repetition_penalty);
            score = if score < 0.0 {
                score * penalty
            } else {
                score / penalty
            };
            score -= f64::from(o.frequency_penalty) * count
                + f64::from(o.presence_penalty) * count.min(1.0);
        }
        (id, score)
    });
    let mut scored: Vec<(u32, f64)> = scored.filter(|(_, score)| score.is_finite()).collect();
    scored.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    if o.temperature == 0.0 {
        return vec![(scored[0].0, 1.0)];
    }
    let highest = scored[0].1;
    if o.top_k > 0 && o.top_k < scored.len() {
        let least = scored[o.top_k - 1].1;
        scored.retain(|(_, score)| *score >= least);
    }
    let mut likely: Vec<(u32, f64)> = scored
        .iter()
        .map(|(id, score)| (*id, ((score - highest) / f64::from(o.temperature)).exp()))
        .collect();
    let all: f64 = likely.iter().map(|(_, weight)| weight).sum();
    let mut before = 0.0;
    likely.retain(|(_, weight)| {
        let kept = before == 0.0 || before < f64::from(o.top_p) * all;
        before += weight;
        kept
    });
    likely.retain(|(_, weight)| *weight >= f64::from(o.min_p));
    let all: f64 = likely.iter().map(|(_, weight)| weight).sum();
    likely
        .iter()
        .map(|(id, weight)| (*id, weight / all))
        .collect()
}

/// Multiples of an eighth, so that f32 and f64 agree on which are equal.
fn eighths(range: std::ops::Range<i32>) -> impl Strategy<Value = f32> {
    range.prop_map(|eighths| eighths as f32 / 8.0)
}

fn any_options(vocabulary: u32) -> impl Strategy<Value = SamplingOptions> {
    let filters = (
        0..vocabulary as usize + 3,
        eighths(0..9),
        eighths(0..9),
        eighths(0..20),
    );
    let penalties = (
        prop_oneof![Just(1.0_f32), Just(0.5), Just(2.0)],
        eighths(-16..17),
        eighths(-16..17),
    );
    let biases = prop::collection::btree_map(0..vocabulary, eighths(-800..800), 0..4);
    (filters, penalties, biases, any::<u64>()).prop_map(|(filters, penalties, logit_bias, seed)| {
        SamplingOptions {
            top_k: filters.0,
            top_p: filters.1,
            min_p: filters.2,
            temperature: filters.3,
            repetition_penalty: penalties.0,
            presence_penalty: penalties.1,
            frequency_penalty: penalties.2,
            logit_bias,
            seed,
            logprobs: Some(3),
        }
    })
}

/// Logits with few distinct values, many of them equal, and some tokens impossible.
fn any_logits() -> impl Strategy<Value = Vec<f32>> {
    let logit =
        prop_oneof![8 => eighths(-40..40), 1 => Just(f32::NEG_INFINITY), 1 => Just(-0.0_f32)];
    prop::collection::vec(logit, 1..60)
}

#[test]
fn arbitrary_logits_are_sampled_as_naively() {
    let inputs = any_logits().prop_flat_map(|logits| {
        let vocabulary = logits.len() as u32;
        let before = prop::collection::vec(0..vocabulary, 0..12);
        (Just(logits), any_options(vocabulary), before)
    });
    proptest!(|((logits, options, before) in inputs, index in any::<u64>())| {
        let (prompt, generated) = before.split_at(before.len() / 2);
        let (sampling, history) = (sampling(&options), history(prompt, generated));
        if logits.iter().all(|logit| *logit == f32::NEG_INFINITY) {
            let error = sampling.sample(&logits, &history, index).unwrap_err();
            prop_assert_eq!(error, SampleError::NothingPossible { count: logits.len() });
            return Ok(());
        }
        let mut expected = naive(&options, &logits, prompt, generated);
        expected.sort_by_key(|(id, _)| *id);
        let ours = sampling.probabilities(&logits, &history).unwrap();
        let ids = |list: &[(u32, f64)]| list.iter().map(|(id, _)| *id).collect::<Vec<_>>();
        // A sum that ends within a rounding error of a token's end may include the token or not.
        if ids(&ours) != ids(&expected) {
            let nudged = |share: f64| {
                let top_p = (f64::from(options.top_p) * share) as f32;
                let mut other = naive(&SamplingOptions { top_p, ..options.clone() }, &logits, prompt, generated);
                other.sort_by_key(|(id, _)| *id);
                ids(&other)
            };
            prop_assert!([nudged(1.0 - 1e-6), nudged(1.0 + 1e-6)].contains(&ids(&ours)), "{:?} {:?}", ours, expected);
        } else {
            for ((id, ours), (_, expected)) in ours.iter().zip(&expected) {
                prop_assert!((ours - expected).abs() < 1e-11 * expected + 1e-11, "{id}: {ours} {expected}");
            }
        }
        let draw = sampling.sample(&logits, &history, index).unwrap();
        prop_assert!(ours.iter().any(|(id, share)| *id == draw.id && *share > 0.0));
        prop_assert_eq!(&sampling.sample(&logits, &history, index).unwrap(), &draw);

        let all: f64 = logits.iter().map(|logit| f64::from(*logit).exp()).sum();
        let logprobs = draw.logprobs.unwrap();
        let of = |id: u32| f64::from(logits[id as usize]) - all.ln();
        let near = |ours: f32, exact: f64| f64::from(ours) == exact || (f64::from(ours) - exact).abs() < 1e-5;
        prop_assert!(near(logprobs.chosen, of(draw.id)));
        let plain = SamplingOptions::default();
        let mut top = naive(&plain, &logits, &[], &[]);
        top.truncate(3);
        prop_assert_eq!(logprobs.top.iter().map(|(id, _)| *id).collect::<Vec<_>>(), ids(&top));
        prop_assert!(logprobs.top.iter().all(|(id, ours)| near(*ours, of(*id))));
    });
}

#[test]
fn only_allowed_tokens_are_drawn_with_the_probabilities_of_all() {
    let logits = [3.0, 5.0, f32::NEG_INFINITY, 1.0, 2.0];
    let history = history(&[1], &[3]);
    for temperature in [0.0, 1.0] {
        let options = with(|options| {
            options.temperature = temperature;
            options.top_k = 2;
            options.logit_bias = [(1, 9.0)].into();
            options.logprobs = Some(1);
        });
        let among = |allowed: &[u32], index: u64| {
            let allowed: Allowed = allowed.iter().copied().collect();
            sampling(&options).sample_among(Some(&allowed), &logits, &history, index)
        };
        for index in 0..200 {
            // The two likeliest allowed tokens are left of all.
            let draw = among(&[0, 3, 4, 70], index).unwrap();
            assert!([0, 4].contains(&draw.id), "{draw:?}");
            let all: f32 = logits.iter().map(|logit| logit.exp()).sum();
            let logprobs = draw.logprobs.unwrap();
            let chosen = logits[draw.id as usize] - all.ln();
            assert!((logprobs.chosen - chosen).abs() < 1e-5, "{logprobs:?}");
            assert_eq!(logprobs.top[0].0, 1);
        }
        for none in [&[][..], &[2][..], &[5, 64][..]] {
            let refused = SampleError::NothingPossible { count: 5 };
            assert_eq!(among(none, 0), Err(refused));
        }
    }
}

#[test]
fn philox_gives_the_words_of_its_authors() {
    // Expected values are the "kat_vectors" of Random123, the library of the paper, for philox4x32 with 10 rounds.
    let got = philox([0; 4], [0; 2]);
    assert_eq!(got, [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    let got = philox([u32::MAX; 4], [u32::MAX; 2]);
    assert_eq!(got, [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
    let counter = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
    let got = philox(counter, [0xa409_3822, 0x299f_31d0]);
    assert_eq!(got, [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]);
}

#[test]
fn draws_are_as_frequent_as_their_probabilities() {
    const DRAWS: u64 = 100_000;
    let logits: Vec<f32> = (0..40).map(|id| ((id * 7) % 40) as f32 / 8.0).collect();
    let history = history(&[1, 2, 3], &[3, 3, 39]);
    let options = SamplingOptions {
        temperature: 1.5,
        top_k: 30,
        top_p: 0.95,
        min_p: 0.03,
        repetition_penalty: 1.1,
        presence_penalty: 0.3,
        frequency_penalty: 0.2,
        logit_bias: BTreeMap::from([(0, 3.0)]),
        seed: 2026,
        logprobs: None,
    };
    for options in [options, SamplingOptions::default()] {
        let sampling = sampling(&options);
        let likely = sampling.probabilities(&logits, &history).unwrap();
        let mut counts = BTreeMap::<u32, f64>::new();
        for index in 0..DRAWS {
            let draw = sampling.sample(&logits, &history, index).unwrap();
            *counts.entry(draw.id).or_default() += 1.0;
        }
        let is_likely = |id: &u32| likely.iter().any(|(other, _)| other == id);
        assert!(counts.keys().all(is_likely));
        let terms = likely.iter().map(|(id, share)| {
            let expected = share * DRAWS as f64;
            (counts.get(id).copied().unwrap_or(0.0) - expected).powi(2) / expected
        });
        // Chi-square has a mean equal to its degrees of freedom and twice that as its variance; the limit is five standard deviations.
        let (chi_square, freedom) = (terms.sum::<f64>(), likely.len() as f64 - 1.0);
        let most = freedom + 5.0 * (2.0 * freedom).sqrt();
        assert!(chi_square < most, "{chi_square} of {freedom}");
    }
}

/// The draws of a seed are part of the interface, so that an answer can be reproduced. For equally likely tokens they don't depend on
/// rounding.
#[test]
fn draws_of_a_seed_stay_the_same() {
    let (seed, logits) = (0x0123_4567_89AB_CDEF, vec![1.0; 1000]);
    let options = with(|o| o.seed = seed);
    for index in [0, 1, 1 << 40] {
        let draw = sampling(&options).sample(&logits, &History::default(), index);
        let counter = [index as u32, (index >> 32) as u32, 0, 0];
        let words = philox(counter, [0x89AB_CDEF, 0x0123_4567]);
        let word = u64::from(words[0]) + (u64::from(words[1]) << 32);
        let expected = (u128::from(word) * 1000) >> 64;
        assert_eq!(u128::from(draw.unwrap().id), expected);
    }
}

/// Seeds and indices that differ in any bit give different draws.
#[test]
fn draws_depend_on_seed_and_place() {
    let logits = vec![0.0; 1 << 20];
    let draw = |seed: u64, index: u64| {
        let sampling = sampling(&with(|o| o.seed = seed));
        let draw = sampling.sample(&logits, &History::default(), index);
        draw.unwrap().id
    };
    let bits = [0, 31, 32, 63].map(|bit| 1_u64 << bit);
    let mut all = HashSet::from([draw(0, 0)]);
    for bit in bits {
        all.extend([draw(bit, 0), draw(0, bit)]);
    }
    assert_eq!(all.len(), 9);
    assert_eq!(draw(5, 6), draw(5, 6));
}

#[test]
fn greedy_takes_the_lowest_id_of_the_highest() {
    let greedy = Sampling::greedy();
    let take = |logits: &[f32]| greedy.sample(logits, &History::default(), 0).unwrap().id;
    assert_eq!(take(&[1.0, 3.0, 3.0, 2.0]), 1);
    assert_eq!(take(&[f32::NEG_INFINITY, -5.0]), 1);
    assert_eq!(take(&[-0.0, 0.0]), 0);
    // The smallest temperature above 0 acts like greedy choice.
    let options = with(|o| o.temperature = f32::from_bits(1));
    let draw = sampling(&options).sample(&[1.0, 3.0, 2.0], &History::default(), 0);
    assert_eq!(draw.unwrap().id, 1);
}

/// The most likely token, or what is wrong with the logits, computed without regard for speed.
fn most_likely(logits: &[f32]) -> Result<u32, SampleError> {
    let wrong = |logit: &f32| logit.is_nan() || *logit == f32::INFINITY;
    if let Some(id) = logits.iter().position(wrong) {
        let got = logits[id].to_string();
        return Err(SampleError::NotANumber { id, got });
    }
    let (mut highest, mut found) = (f32::NEG_INFINITY, None);
    for (id, logit) in (0..).zip(logits) {
        if *logit > highest {
            (highest, found) = (*logit, Some(id));
        }
    }
    let count = logits.len();
    found.ok_or(SampleError::NothingPossible { count })
}

/// Any logit at any place is compared with all others, and what is no number is found wherever it is.
#[test]
fn greedy_looks_at_every_logit() {
    let (infinite, tiny) = (f32::INFINITY, f32::from_bits(1));
    let some = [f32::NAN, -f32::NAN, infinite, -infinite, f32::MAX, f32::MIN];
    let some = [&some[..], &[tiny, -tiny, 0.0, -0.0, 1.0]].concat();
    let greedy = Sampling::greedy();
    for length in (0..40).chain([511, 512, 513, 1100]) {
        let low = (0..length).map(|id| (id * 7 % 5) as f32 - 9.0);
        let others = [0.0, -0.0, -infinite].map(|logit| vec![logit; length]);
        for others in others.into_iter().chain([low.collect()]) {
            // Places in each part of the 16 or 512 logits that may be compared at once, and the last ones.
            let step = if length < 40 { 1 } else { 73 };
            for at in (0..length).step_by(step) {
                for (first, second) in some.iter().flat_map(|a| some.iter().map(move |b| (a, b))) {
                    let mut logits = others.clone();
                    (logits[at], logits[length - 1 - at]) = (*first, *second);
                    let drawn = greedy.sample(&logits, &History::default(), 0);
                    let id = drawn.map(|draw| draw.id);
                    assert_eq!(id, most_likely(&logits), "{logits:?}");
                }
            }
            let drawn = greedy.sample(&others, &History::default(), 0);
            assert_eq!(drawn.map(|draw| draw.id), most_likely(&others));
        }
    }
}

#[test]
fn penalties_tell_prompt_from_text() {
    let logits = [1.0, 1.0, 1.0];
    let history = history(&[0], &[1, 1]);
    let greedy_with = |change: fn(&mut SamplingOptions)| {
        let sampling = sampling(&SamplingOptions {
            temperature: 0.0,
            ..with(change)
        });
        sampling.sample(&logits, &history, 0).unwrap().id
    };
    // Presence and frequency penalties don't apply to the prompt, but the repetition penalty does.
    assert_eq!(greedy_with(|o| o.presence_penalty = -0.5), 1);
    assert_eq!(greedy_with(|o| o.presence_penalty = 0.5), 0);
    assert_eq!(greedy_with(|o| o.frequency_penalty = 0.5), 0);
    assert_eq!(greedy_with(|o| o.repetition_penalty = 1.5), 2);
    // The presence penalty counts once, the frequency penalty twice: 1 - 0.5 + 2 · 0.3 > 1.
    let both = greedy_with(|o| (o.presence_penalty, o.frequency_penalty) = (0.5, -0.3));
    assert_eq!(both, 1);
}

#[test]
fn what_cannot_be_sampled_is_an_error() {
    let (plain, empty) = (SamplingOptions::default(), History::default());
    let biased = with(|o| o.logit_bias = BTreeMap::from([(2, 1.0)]));
    let penalised = with(|o| o.presence_penalty = 1.0);
    let nan = "logit of the id 1: expected a number or -inf, got NaN";
    let infinite = "logit of the id 0: expected a number or -inf, got inf";
    let none = "logits: expected one above -inf, got none of 0";
    let unbiased = "logit_bias: expected ids below 2, got 2";
    let unknown = "history: expected ids below 1, got 1";
    for (logits, options, history, said) in [
        (&[0.0, f32::NAN][..], &plain, &empty, nan),
        (&[f32::INFINITY], &plain, &empty, infinite),
        (&[], &plain, &empty, none),
        (&[0.0; 2], &biased, &empty, unbiased),
        (&[0.0], &penalised, &History::new(&[1]), unknown),
    ] {
        let error = sampling(options).sample(logits, history, 0).unwrap_err();
        assert_eq!(error.to_string(), said);
    }
}

/// Changes one of the options.
type Change = fn(&mut SamplingOptions);

#[test]
fn options_out_of_their_ranges_are_refused() {
    let refused: [(&str, Change); 12] = [
        ("temperature", |o| o.temperature = -0.1),
        ("temperature", |o| o.temperature = f32::NAN),
        ("temperature", |o| o.temperature = f32::INFINITY),
        ("top_p", |o| o.top_p = 1.5),
        ("top_p", |o| o.top_p = f32::NAN),
        ("min_p", |o| o.min_p = -0.5),
        ("min_p", |o| o.min_p = f32::NAN),
        ("repetition_penalty", |o| o.repetition_penalty = 0.0),
        ("repetition_penalty", |o| o.repetition_penalty = f32::NAN),
        ("presence_penalty", |o| o.presence_penalty = 2.5),
        ("frequency_penalty", |o| o.frequency_penalty = f32::NAN),
        ("logit_bias", |o| {
            o.logit_bias = BTreeMap::from([(3, f32::NAN)])
        }),
    ];
    for (what, change) in refused {
        assert_eq!(Sampling::new(with(change)).unwrap_err().what, what);
    }
    let error = Sampling::new(with(|o| o.top_p = 1.5)).unwrap_err();
    let said = "top_p: expected a number from 0 to 1, got 1.5";
    assert_eq!(error.to_string(), said);
}

/// A vocabulary as large as those of real models, where selections take many rounds without sorting.
#[test]
fn large_vocabularies_are_sampled_as_naively() {
    // A permutation of the ids, so that likely ones lie anywhere; values repeat, so that bounds fall among equal ones.
    let size = 151_936_u64;
    let logits: Vec<f32> = (0..size)
        .map(|id| ((id * 48_271) % size / 16) as f32 / 800.0)
        .collect();
    for (top_k, top_p) in [(0, 0.001), (0, 0.5), (0, 0.999), (50, 1.0), (100_000, 0.7)] {
        let options = with(|o| (o.top_k, o.top_p) = (top_k, top_p));
        let mut expected = naive(&options, &logits, &[], &[]);
        expected.sort_by_key(|(id, _)| *id);
        let ours = sampling(&options).probabilities(&logits, &History::default());
        let ids = |list: &[(u32, f64)]| list.iter().map(|(id, _)| *id).collect::<Vec<_>>();
        let (ours, expected) = (ids(&ours.unwrap()), ids(&expected));
        let (few, many) = (ours.len(), expected.len());
        assert!(ours == expected, "{top_k} {top_p}: {few} {many}");
    }
}

/// The largest finite logits give finite scores, and impossible tokens stay impossible.
#[test]
fn extreme_logits_are_sampled() {
    let options = SamplingOptions {
        repetition_penalty: f32::MIN_POSITIVE,
        logit_bias: BTreeMap::from([(0, f32::MAX), (1, f32::MAX), (2, f32::MIN)]),
        ..SamplingOptions::default()
    };
    let logits = [f32::MAX, f32::NEG_INFINITY, f32::MIN, 0.0];
    let history = history(&[0, 1, 2, 3], &[]);
    let draw = sampling(&options).sample(&logits, &history, 0).unwrap();
    assert_eq!(draw.id, 0);
    let likely = sampling(&options).probabilities(&logits, &history).unwrap();
    assert!(likely.iter().all(|(id, _)| *id != 1));
}
