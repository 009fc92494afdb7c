//! Attention: Burn's, rule by rule, and what it refuses.

use burn::module::Module;
use burn::nn::attention::{MhaInput, MultiHeadAttentionConfig};
use burn::tensor::activation::softmax;
use burn::tensor::module::attention_fallback;
use burn::tensor::ops::AttentionModuleOptions;
use burn::tensor::{Bool, DType, Device, Distribution, Int, Tensor};
use moebius::attention::{Attend, Attended, Attention, attention, merge};
use moebius::{Error, ErrorKind};

fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), device)
}

fn largest<const D: usize>(a: Tensor<D>, b: Tensor<D>) -> f32 {
    (a - b).abs().max().into_scalar::<f32>()
}

fn refused(kind: ErrorKind, result: Result<Attended, Error>) -> String {
    let error = result.expect_err("refused");
    assert_eq!(error.kind(), kind, "{error}");
    error.to_string()
}

/// Compares every option of Burn's function, with more keys than queries.
#[test]
fn it_is_what_burns_attention_is() {
    let device = Device::flex();
    let [q, k, v] = [[2, 3, 17, 8], [2, 3, 30, 8], [2, 3, 30, 5]].map(|s| random(s, &device));
    let hidden = random([2, 3, 17, 30], &device).greater_elem(1.0);
    let bias = random([2, 3, 17, 30], &device);
    for choice in 0..32 {
        let on = |bit: usize| choice >> bit & 1 == 1;
        let options = AttentionModuleOptions {
            scale: on(0).then_some(0.7),
            softcap: on(1).then_some(1.5),
            is_causal: on(2),
        };
        let (mask, bias) = (on(3).then(|| hidden.clone()), on(4).then(|| bias.clone()));
        let [q, k, v] = [&q, &k, &v].map(Tensor::clone);
        let want = attention_fallback(
            q.clone(),
            k.clone(),
            v.clone(),
            mask.clone(),
            bias.clone(),
            options,
        );
        let got = attention(q, k, v, mask, bias, options).unwrap();
        assert!(largest(got, want) < 1e-5, "{options:?}");
    }
}

#[test]
fn the_layer_is_burns_with_the_same_weights() {
    let device = Device::flex();
    let config = MultiHeadAttentionConfig::new(24, 3).with_dropout(0.0);
    let burns = config.init(&device);
    let layer = Attention::from(burns.clone());
    let loaded = Attention::from(config.init(&device)).load_record(burns.clone().into_record());
    let [x, y] = [[2, 9, 24], [2, 13, 24]].map(|shape| random(shape, &device));
    let causal: Tensor<3, Bool> = Tensor::<2, Bool>::tril_mask([9, 9], 0, &device)
        .unsqueeze::<3>()
        .expand([2, 9, 9]);
    let want = burns.forward(MhaInput::self_attn(x.clone()).mask_attn(causal));
    for layer in [&layer, &loaded] {
        let got = layer.forward(x.clone(), &Attend::new().causal()).unwrap();
        assert!(largest(got, want.context.clone()) < 1e-5);
    }
    let want = burns.forward(MhaInput::new(x.clone(), y.clone(), y.clone()));
    let got = layer.forward_cross([x.clone(), y.clone(), y], &Attend::new());
    assert!(largest(got.unwrap(), want.context) < 1e-5);
    let empty = layer.forward(Tensor::zeros([2, 0, 24], &device), &Attend::new());
    assert_eq!(empty.unwrap().dims(), [2, 0, 24]);
    let narrow = x.narrow(2, 0, 23);
    let error = layer.forward(narrow, &Attend::new()).unwrap_err();
    assert_eq!(error.to_string(), "query: expected [.., 24], got [.., 23]");
}

#[test]
fn a_quiet_softmax_is_a_sink_of_zero() {
    let device = Device::flex();
    let config = MultiHeadAttentionConfig::new(16, 2)
        .with_dropout(0.0)
        .with_quiet_softmax(true);
    let burns = config.init(&device);
    let x = random([1, 6, 16], &device);
    let want = burns.forward(MhaInput::self_attn(x.clone())).context;
    let sinks = Attend::new().sinks(Tensor::zeros([2], &device));
    let got = Attention::from(burns).forward(x, &sinks).unwrap();
    assert!(largest(got, want) < 1e-5);
}

/// While training, the layer drops weights as Burn's layer does, other weights in each pass.
#[test]
fn the_layer_drops_weights_while_it_trains() {
    let device = Device::flex();
    let x = random([2, 9, 24], &device);
    let config = MultiHeadAttentionConfig::new(24, 3).with_dropout(0.5);
    let layer = Attention::from(config.init(&device));
    let forward = |layer: &Attention, device: &Device| {
        let x = Tensor::from_data(x.to_data(), device);
        let out = layer.forward(x, &Attend::new()).unwrap();
        Tensor::<3>::from_data(out.into_data(), &Device::flex())
    };
    let plain = forward(&layer, &device);
    assert_eq!(largest(plain.clone(), forward(&layer, &device)), 0.0);
    let training = device.clone().autodiff();
    let trained = layer.clone().train();
    let [first, second] = [(); 2].map(|()| forward(&trained, &training));
    assert!(largest(first.clone(), plain.clone()) > 1e-3);
    assert!(largest(first, second) > 1e-3);
    let frozen = forward(&trained.freeze(), &training);
    assert!(largest(frozen, plain) < 1e-6);
}

#[test]
fn what_does_not_fit_is_refused() {
    let device = Device::flex();
    let zeros = |shape: [usize; 4]| Tensor::<4>::zeros(shape, &device);
    let (q, k, v) = ([2, 4, 6, 8], [2, 2, 9, 8], [2, 2, 9, 5]);
    let of = |kind, attend: &Attend| refused(kind, attend.forward(zeros(q), zeros(k), zeros(v)));
    let shapes = |q, k, v| {
        let out = Attend::new().forward(zeros(q), zeros(k), zeros(v));
        refused(ErrorKind::Shape, out)
    };
    let got = [
        shapes(q, [2, 3, 9, 8], [2, 3, 9, 5]),
        shapes(q, [1, 2, 9, 8], v),
        shapes(q, [2, 2, 9, 7], v),
        shapes(q, k, [2, 2, 8, 5]),
        shapes([2, 4, 6, 257], [2, 2, 9, 257], v),
        shapes([2, 4, 6, 0], [2, 2, 9, 0], v),
    ];
    let want = [
        "key heads: expected a divisor of the 4 query heads, got 3",
        "k [B, Hkv, Skv, D]: expected [2, 2, 9, 8], got [1, 2, 9, 8]",
        "k [B, Hkv, Skv, D]: expected [2, 2, 9, 8], got [2, 2, 9, 7]",
        "v [B, Hkv, Skv, Dv]: expected [2, 2, 9, 5], got [2, 2, 8, 5]",
        "head size: expected 1 to 256, got 257",
        "head size: expected 1 to 256, got 0",
    ];
    assert_eq!(got, want);
    let bools = |shape: [usize; 4]| Tensor::<4, Bool>::full(shape, true, &device);
    let ids = |shape: [usize; 2]| Tensor::<2, Int>::zeros(shape, &device);
    let ones = |shape: [usize; 1]| Tensor::<1>::ones(shape, &device);
    let blocks = |shape: [usize; 2]| Tensor::<2, Bool>::full(shape, true, &device);
    let new = Attend::new;
    let settings = [
        new().window(0),
        new().symmetric_window(0),
        new().global(1, 0),
        new().dilated(0),
        new().blocks(0, blocks([6, 9])),
        new().window(usize::MAX),
        new().softcap(0.0),
        new().softcap(-1.0),
        new().softcap(f32::NAN),
        new().softcap(f32::INFINITY),
        new().scale(f32::NAN),
        new().causal().causal(),
        new().dropout(f64::NAN, 1),
        new().dropout(-0.1, 1),
        new().dropout(1.0, 1),
        new().dropout(f64::INFINITY, 1),
    ];
    for attend in &settings {
        let message = of(ErrorKind::Config, attend);
        assert!(message.contains("expected"), "{attend:?}");
    }
    let tables = [
        new().mask(bools([2, 4, 9, 6])),
        new().mask(bools([2, 2, 6, 9])),
        new().bias(zeros([2, 1, 6, 8])),
        new().blocks(4, blocks([2, 2])),
        new().documents(ids([2, 9]), ids([2, 9])),
        new().documents(ids([2, 6]), ids([1, 9])),
        new().alibi_slopes(ones([2])),
        new().sinks(ones([2])),
        new().relative(Tensor::zeros([4, 6], &device)),
        new().relative(Tensor::zeros([2, 7], &device)),
        new().relative(Tensor::zeros([4, 0], &device)),
    ];
    for attend in &tables {
        let message = of(ErrorKind::Shape, attend);
        assert!(message.contains("expected"), "{attend:?}");
    }
    let message = of(ErrorKind::Config, &new().softcap(f32::NAN));
    assert_eq!(
        message,
        "softcap: expected a positive, finite number, got NaN"
    );
    let many = new()
        .causal()
        .causal_top_left()
        .window(1)
        .prefix(1)
        .dilated(1)
        .alibi();
    let many = many.softcap(1.0).symmetric_window(1).global(1, 1);
    let message = of(ErrorKind::Config, &many);
    assert_eq!(message, "score rules: expected at most 8, got 9");
    let message = of(ErrorKind::Config, &new().dropout(1.0, 1));
    assert_eq!(
        message,
        "dropout: expected at least 0 and less than 1, got 1"
    );
}

#[test]
fn other_dtypes_and_devices_are_refused() {
    let device = Device::flex();
    let x = Tensor::<4>::zeros([1, 1, 2, 4], &device);
    let half = x.clone().cast(DType::F16);
    let other = refused(
        ErrorKind::Shape,
        Attend::new().forward(x.clone(), half, x.clone()),
    );
    assert!(other.starts_with("dtype of k"), "{other}");
    let double = x.clone().cast(DType::F64);
    let double = refused(
        ErrorKind::Shape,
        Attend::new().forward(double.clone(), double.clone(), double),
    );
    assert!(double.contains("f32, f16 or bf16"), "{double}");
    let recording = Tensor::<4>::zeros([1, 1, 2, 4], &device.clone().autodiff());
    let recording = refused(
        ErrorKind::Device,
        Attend::new().forward(x.clone(), recording, x.clone()),
    );
    assert!(recording.starts_with("device of k"), "{recording}");
    let bias = Tensor::<4>::zeros([1, 1, 2, 2], &device.autodiff());
    let bias = refused(
        ErrorKind::Device,
        Attend::new().bias(bias).forward(x.clone(), x.clone(), x),
    );
    assert!(bias.starts_with("device of the bias"), "{bias}");
}

/// A bias of −∞ hides a key; it may hide all keys of a query.
#[test]
fn infinite_biases_hide() {
    let device = Device::flex();
    let [q, k, v] = [[1, 2, 5, 4]; 3].map(|shape| random(shape, &device));
    let hidden = Tensor::<2, Bool>::tril_mask([5, 5], -1, &device).unsqueeze::<4>();
    let bias =
        Tensor::<4>::zeros([1, 1, 5, 5], &device).mask_fill(hidden.clone(), f32::NEG_INFINITY);
    let [by_bias, by_mask] = [Attend::new().bias(bias), Attend::new().mask(hidden)].map(|attend| {
        let [q, k, v] = [&q, &k, &v].map(Tensor::clone);
        attend.forward(q, k, v).unwrap()
    });
    assert_eq!(largest(by_bias.o.clone(), by_mask.o), 0.0);
    assert_eq!(
        by_bias.o.narrow(2, 0, 1).abs().max().into_scalar::<f32>(),
        0.0
    );
    assert_eq!(
        by_bias.lse.narrow(2, 0, 1).max().into_scalar::<f32>(),
        f32::MIN
    );
}

#[test]
fn no_queries_and_no_keys() {
    let device = Device::flex();
    for sizes in [[0, 3, 4], [2, 0, 4], [2, 3, 0], [0, 0, 0]] {
        let [b, queries, keys] = sizes;
        let [q, k, v] = [[b, 4, queries, 8], [b, 2, keys, 8], [b, 2, keys, 6]]
            .map(|shape| Tensor::<4>::ones(shape, &device));
        let sinks = Tensor::<1>::from_floats([1.0, 2.0, 3.0, 4.0], &device);
        for sinks in [None, Some(sinks)] {
            let attend = match sinks.clone() {
                Some(sinks) => Attend::new().causal().sinks(sinks),
                None => Attend::new().causal(),
            };
            let out = attend.forward(q.clone(), k.clone(), v.clone()).unwrap();
            assert_eq!(
                (out.o.dims(), out.lse.dims()),
                ([b, 4, queries, 6], [b, 4, queries])
            );
            if keys == 0 && b * queries > 0 {
                let lse: Vec<f32> = out.lse.clone().into_data().iter().collect();
                let first = if sinks.is_some() { 1.0 } else { f32::MIN };
                assert_eq!(lse[0], first);
                assert_eq!(out.o.clone().abs().max().into_scalar::<f32>(), 0.0);
            }
            merge(&[out.clone(), out]).unwrap();
        }
    }
}

#[test]
fn parts_must_be_alike() {
    let device = Device::flex();
    assert!(refused(ErrorKind::Shape, merge(&[])).contains("at least 1"));
    let part = |queries| {
        let x = Tensor::<4>::ones([1, 1, queries, 4], &device);
        Attend::new().forward(x.clone(), x.clone(), x).unwrap()
    };
    assert!(refused(ErrorKind::Shape, merge(&[part(2), part(3)])).contains("o of a part"));
}

/// Covers one query, a few queries whose keys are read in place, and so many that keys are packed.
#[test]
fn a_query_has_the_same_bits_whatever_comes_with_it() {
    let device = Device::flex();
    for [dim, width] in [[12, 20], [64, 64], [20, 7], [192, 128]] {
        let attend = [
            Attend::new().causal(),
            Attend::new().window(37).alibi().sinks(random([4], &device)),
            Attend::new().softcap(2.0).causal(),
        ];
        let q: Tensor<4> = random([1, 4, 300, dim], &device);
        let (k, v) = (
            random([1, 2, 300, dim], &device),
            random([1, 2, 300, width], &device),
        );
        for attend in attend {
            let whole = attend.forward(q.clone(), k.clone(), v.clone()).unwrap();
            for [first, count] in [[299, 1], [130, 1], [126, 4], [256, 3], [64, 20]] {
                let end = first + count;
                let keys = |x: &Tensor<4>| x.clone().narrow(2, 0, end);
                let part = attend.forward(q.clone().narrow(2, first, count), keys(&k), keys(&v));
                let part = part.unwrap();
                let same = |a: &Tensor<4>, b: &Tensor<4>| a.to_data() == b.to_data();
                let o = whole.o.clone().narrow(2, first, count);
                assert!(
                    same(&part.o, &o),
                    "{count} queries from {first} on, {dim} wide"
                );
                let lse = whole.lse.clone().narrow(2, first, count);
                assert_eq!(part.lse.to_data(), lse.to_data());
            }
        }
    }
}

/// Compares weights with Burn's softmax, a sink as one more score, over so many keys that they take two attentions.
#[test]
fn weights_are_a_softmax() {
    let device = Device::flex();
    let (queries, keys) = (5, 300);
    let (q, k) = (
        random([2, 4, queries, 8], &device),
        random([2, 2, keys, 8], &device),
    );
    let sinks: Tensor<1> = random([4], &device);
    let bias = random([1, 4, queries, keys], &device);
    let hidden = Tensor::<2, Bool>::tril_mask([queries, keys], (keys - queries) as i64, &device);
    let of_keys = k
        .clone()
        .reshape([2, 2, 1, keys, 8])
        .expand([2, 2, 2, keys, 8]);
    let scores = q
        .clone()
        .matmul(of_keys.reshape([2, 4, keys, 8]).transpose());
    let scores = scores.div_scalar(8.0_f32.sqrt()) + bias.clone();
    let scores = scores.mask_fill(hidden.unsqueeze::<4>(), f32::NEG_INFINITY);
    let plain = Attend::new().bias(bias).causal();
    let got = plain.weights(q.clone(), k.clone()).unwrap();
    let want = softmax(scores.clone(), 3);
    assert!(largest(got.clone(), want) < 1e-5);
    assert!(largest(got.sum_dim(3), Tensor::ones([2, 4, queries, 1], &device)) < 1e-5);
    let sink = sinks
        .clone()
        .reshape([1, 4, 1, 1])
        .expand([2, 4, queries, 1]);
    let with_sink = softmax(Tensor::cat(vec![scores, sink], 3), 3);
    let [want, of_sink] = [(0, keys), (keys, 1)].map(|(at, n)| with_sink.clone().narrow(3, at, n));
    let got = plain.sinks(sinks).weights(q, k).unwrap();
    assert!(largest(got.clone(), want) < 1e-5);
    assert!(largest(got.sum_dim(3), of_sink.neg() + 1.0) < 1e-5);
}

/// Dropped weights are 0, the others are divided by 1 − p, and all together they are those that the forward pass takes.
#[test]
fn weights_are_those_of_the_forward_pass() {
    let device = Device::flex();
    let [q, k, v] = [[1, 2, 9, 8], [1, 2, 40, 8], [1, 2, 40, 6]].map(|s| random(s, &device));
    let plain = Attend::new().window(20).softcap(2.0);
    let dropping = plain.clone().dropout(0.25, 11);
    let of = |attend: &Attend| attend.weights(q.clone(), k.clone()).unwrap();
    let (all, some) = (of(&plain), of(&dropping));
    let kept = some.clone().greater_elem(0.0);
    let scaled = all
        .clone()
        .div_scalar(0.75)
        .mask_fill(kept.clone().bool_not(), 0.0);
    assert!(largest(some.clone(), scaled) < 1e-5);
    let share = kept.float().sum() / all.greater_elem(0.0).float().sum();
    let share = share.into_scalar::<f32>();
    assert!((0.6..0.9).contains(&share), "{share}");
    let o = dropping.forward(q.clone(), k.clone(), v.clone()).unwrap().o;
    assert!(largest(some.matmul(v), o) < 1e-5);
    // Three queries from the fourth on, where they are.
    let part = plain
        .position(40 - 9 + 3)
        .weights(q.clone().narrow(2, 3, 3), k.clone());
    assert!(
        largest(
            part.unwrap(),
            of(&Attend::new().window(20).softcap(2.0)).narrow(2, 3, 3)
        ) < 1e-5
    );
    // All queries are before the first key.
    let none = Attend::new().causal().position(-9).weights(q, k).unwrap();
    assert_eq!(none.abs().max().into_scalar::<f32>(), 0.0);
}

#[test]
fn a_layer_shows_its_weights() {
    let device = Device::flex();
    let config = MultiHeadAttentionConfig::new(24, 3).with_dropout(0.0);
    let burns = config.init(&device);
    let x = random([2, 9, 24], &device);
    let want = burns.forward(MhaInput::self_attn(x.clone())).weights;
    let layer = Attention::from(burns);
    let got = layer.weights([x.clone(), x], &Attend::new()).unwrap();
    assert!(largest(got, want) < 1e-5);
}

#[test]
fn weights_that_do_not_fit_are_refused() {
    let device = Device::flex();
    let zeros = |shape: [usize; 4]| Tensor::<4>::zeros(shape, &device);
    let weights = |attend: &Attend, q, k| attend.weights(zeros(q), zeros(k));
    let message = |attend: &Attend, kind: ErrorKind, q, k| {
        let error = weights(attend, q, k).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        error.to_string()
    };
    let plain = Attend::new();
    let large = message(
        &plain,
        ErrorKind::Shape,
        [1, 1, 1 << 14, 1],
        [1, 1, 1 << 15, 1],
    );
    let what = "bytes of attention weights [B, Hq, Sq, Skv]";
    let want = format!("{what}: expected at most {}, got {}", 1 << 30, 1_u64 << 31);
    assert_eq!(large, want);
    let heads = message(&plain, ErrorKind::Shape, [2, 4, 6, 8], [2, 3, 9, 8]);
    assert_eq!(
        heads,
        "key heads: expected a divisor of the 4 query heads, got 3"
    );
    let window = message(
        &plain.clone().window(0),
        ErrorKind::Config,
        [1, 1, 6, 8],
        [1, 1, 9, 8],
    );
    assert!(window.contains("expected"), "{window}");
    for (q, k) in [([0, 4, 3, 8], 5), ([2, 4, 0, 8], 5), ([2, 4, 3, 8], 0)] {
        let found = weights(&plain, q, [q[0], 2, k, 8]).unwrap();
        assert_eq!(found.dims(), [q[0], 4, q[2], k]);
    }
}
