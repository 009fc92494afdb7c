//! Perplexity against a sum in plain Rust over the logits that transformers gave.
#![cfg(feature = "flex")]
#![allow(clippy::unwrap_used, reason = "a test may panic on an unreadable tree")]

use std::path::Path;

use burn::tensor::{Device, Int, Tensor, TensorData};
use moebius::attention::CacheFormat;
use moebius_model::decoder::Model;
use moebius_model::load::{LoadOptions, ModelFiles};
use moebius_model::{Error, Perplexity, Windows};
use moebius_weights::Reader;

struct Case {
    model: Model,
    ids: Vec<u32>,
    /// Logits of transformers, a row for each token.
    logits: Vec<Vec<f64>>,
}

fn words(reader: &Reader, name: &str) -> Vec<[u8; 4]> {
    reader.read(name).unwrap().as_chunks::<4>().0.to_vec()
}

fn case(name: &str, device: &Device) -> Case {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    let files = ModelFiles::open(&cases.join(name)).unwrap();
    let model = files.load(device, LoadOptions::default(), &mut |_| ());
    let reader = Reader::open(&cases.join(name).join("logits.case.safetensors")).unwrap();
    let ids: Vec<u32> = words(&reader, "in.tokens")
        .into_iter()
        .map(u32::from_le_bytes)
        .collect();
    let logits = words(&reader, "out.logits").into_iter();
    let logits: Vec<f64> = logits.map(|word| f32::from_le_bytes(word).into()).collect();
    let width = logits.len() / ids.len();
    let logits = logits.chunks(width).map(<[f64]>::to_vec).collect();
    Case {
        model: model.unwrap(),
        ids,
        logits,
    }
}

/// The negative log probability of `next` under a row of logits, in nats.
fn nats(row: &[f64], next: u32) -> f64 {
    let most = row.iter().copied().fold(f64::MIN, f64::max);
    let sum: f64 = row.iter().map(|logit| (logit - most).exp()).sum();
    most + sum.ln() - row[next as usize]
}

fn perplexity(case: &Case, windows: (usize, usize), device: &Device) -> Perplexity {
    let windows = Windows::new(windows.0, windows.1).unwrap();
    Perplexity::of(&case.model, &case.ids, windows, device, &mut |_| ()).unwrap()
}

fn near(got: f64, want: f64) -> bool {
    (got - want).abs() <= 1e-5 * want.abs()
}

#[test]
fn one_window_is_the_text_as_transformers_sees_it() {
    let device = Device::flex();
    for name in ["decoder_olmoe", "decoder_llama", "decoder_gpt_oss"] {
        let case = case(name, &device);
        let pairs = case.logits.iter().zip(&case.ids[1..]);
        let want: f64 = pairs.map(|(row, &next)| nats(row, next)).sum();
        let want = want / (case.ids.len() - 1) as f64;
        let got = perplexity(&case, (64, 63), &device);
        assert_eq!(got.tokens, case.ids.len() - 1);
        assert!(near(got.nats, want), "{name}: {} for {want}", got.nats);
        assert!(near(got.perplexity(), want.exp()));
        // An engine's cache in f32 rounds nothing, one in FP8 does.
        let served = |format| {
            let windows = Windows::new(64, 63).unwrap();
            let served = Perplexity::served(&case.model, &case.ids, windows, format, &device);
            served.unwrap().nats
        };
        assert!(near(served(CacheFormat::F32), want), "{name}");
        assert_ne!(
            served(CacheFormat::E4m3),
            served(CacheFormat::F32),
            "{name}"
        );
    }
}

#[test]
fn windows_judge_every_token_once_by_their_own_tokens() {
    let device = Device::flex();
    let case = case("decoder_olmoe", &device);
    let count = case.ids.len();
    for (context, stride) in [
        (16, 15),
        (16, 8),
        (16, 1),
        (count, 1),
        (count - 1, 3),
        (2, 1),
    ] {
        let mut want = 0.0;
        for token in 1..count {
            // The token is judged by the first window that holds it.
            let first = (0..).step_by(stride).find(|first| token < first + context);
            let first = first.unwrap();
            let seen: Vec<i32> = case.ids[first..token].iter().map(|&id| id as i32).collect();
            let seen = TensorData::new(seen, [1, token - first]);
            let seen = Tensor::<2, Int>::from_data(seen, &device);
            let logits = case.model.forward(seen).unwrap().logits;
            let [_, rows, width] = logits.dims();
            let values: Vec<f64> = logits.into_data().iter().collect();
            want += nats(&values[(rows - 1) * width..], case.ids[token]);
        }
        let got = perplexity(&case, (context, stride), &device);
        let want = want / (count - 1) as f64;
        assert_eq!(got.tokens, count - 1, "{context} by {stride}");
        assert!(
            near(got.nats, want),
            "{context} by {stride}: {got:?}, {want}"
        );
    }
}

#[test]
fn what_can_not_be_judged_is_an_error() {
    let device = Device::flex();
    let case = case("decoder_llama", &device);
    for (context, stride) in [(0, 0), (1, 1), (2, 2), (8, 0), (8, 9)] {
        let refused = Windows::new(context, stride);
        assert!(
            matches!(refused, Err(Error::Config(_))),
            "{context}, {stride}"
        );
    }
    let windows = Windows::new(8, 4).unwrap();
    let refused = |ids: &[u32]| {
        let got = Perplexity::of(&case.model, ids, windows, &device, &mut |_| ());
        got.map(|_| ()).unwrap_err().to_string()
    };
    assert!(refused(&[1]).contains("2 or more"));
    assert!(refused(&[]).contains("2 or more"));
    let stranger = refused(&[1, 2, 4_000_000_000]);
    assert!(stranger.contains("4000000000"), "{stranger}");
}
