//! Low-rank changes of frozen weights, against the same weights with the changes written into them.

use burn::module::{Module, Param};
use burn::tensor::{Device, Gradients, Tensor, TensorData};
use moebius::ErrorKind;
use moebius::fp8::training::Fp8Recipe;
use moebius::fp8::{
    ActivationScaling, Activations, Fp8Format, Fp8Tensor, Granularity, LowRank, Precision,
    Quantizer, Weight,
};
use moebius::moe::experts::FeedForwardExperts;
use moebius::moe::{Activation, Experts, MoeConfig, MoeLayer};
use moebius::nn::Linear;

/// Values in ±0.5 that depend on the seed.
fn tensor<const D: usize>(shape: [usize; D], seed: usize, device: &Device) -> Tensor<D> {
    let count: usize = shape.iter().product();
    let value = |at: usize| ((at * 7919 + seed * 104_729) % 1009) as f32 / 1009.0 - 0.5;
    let values: Vec<f32> = (0..count).map(value).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().iter().collect()
}

/// Checks that values agree to 1e-5 of the largest.
fn assert_near<const D: usize>(got: Tensor<D>, want: Tensor<D>, what: &str) {
    assert_eq!(got.dims(), want.dims(), "{what}");
    let (got, want) = (floats(got), floats(want));
    let largest = want.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    assert!(largest > 1e-3, "{what} is nothing");
    for (got, want) in got.iter().zip(&want) {
        assert!(
            (got - want).abs() < 1e-5 * largest,
            "{what}: {got} for {want}"
        );
    }
}

/// A change of rank 3 of the rows from `first` on.
fn change(
    [matrices, rows, columns]: [usize; 3],
    first: usize,
    seed: usize,
    device: &Device,
) -> LowRank {
    LowRank {
        down: Param::from_tensor(tensor([matrices, 3, columns], seed, device)),
        up: Param::from_tensor(tensor([matrices, rows, 3], seed + 1, device)),
        first,
        scale: 1.5,
    }
}

/// s · B · A by Burn's products.
fn delta(change: &LowRank) -> Tensor<3> {
    let [down, up] = [&change.down, &change.up].map(|of| of.val().inner());
    up.matmul(down) * change.scale
}

/// Checks the gradients of a change by the gradient dW \[E, out, in\] of the weight with the change written into it: dA = s · Bᵀ · dW and
/// dB = s · dW · Aᵀ.
fn assert_gradients(change: &LowRank, gradients: &Gradients, of_weight: Tensor<3>, what: &str) {
    let [down, up] = [&change.down, &change.up].map(Param::val);
    let rows = up.dims()[1];
    let of_rows = of_weight.narrow(1, change.first, rows);
    let want_down = up.clone().inner().transpose().matmul(of_rows.clone()) * change.scale;
    let want_up = of_rows.matmul(down.clone().inner().transpose()) * change.scale;
    assert_near(down.grad(gradients).unwrap(), want_down, what);
    assert_near(up.grad(gradients).unwrap(), want_up, what);
}

#[test]
fn a_changed_layer_computes_and_learns_what_the_written_change_does() {
    let device = Device::flex().autodiff();
    let w = tensor([10, 6], 1, &device);
    let bias = || Some(Param::from_tensor(tensor([10], 2, &device)));
    let x = tensor([2, 4, 6], 3, &device).require_grad();
    let dy = tensor([2, 4, 10], 4, &device);
    for (first, rows) in [(0, 10), (0, 4), (3, 5), (6, 4)] {
        let what = format!("rows {first} to {}", first + rows);
        let frozen = Linear::new(Param::from_tensor(w.clone()), bias())
            .unwrap()
            .no_grad();
        let change = change([1, rows, 6], first, 5, &device);
        let weight = frozen.weight.clone().with_changes(vec![change]).unwrap();
        let layer = Linear { weight, ..frozen };
        let [change] = layer.weight.changes() else {
            panic!("{what}")
        };
        let mut written = w.clone().inner().unsqueeze::<3>();
        let part = written.clone().narrow(1, first, rows) + delta(change);
        written = written.slice_assign([0..1, first..first + rows, 0..6], part);
        let written = Tensor::<2>::from_inner(written.squeeze_dim(0));
        assert_near(
            layer.weight.values().unwrap().inner(),
            written.clone().inner(),
            &what,
        );
        let merged = Module::materialize(layer.clone());
        assert!(merged.weight.changes().is_empty());
        assert_near(
            merged.weight.values().unwrap().inner(),
            written.clone().inner(),
            &what,
        );

        let other = Linear::new(Param::from_tensor(written), bias()).unwrap();
        let [got, want] = [&layer, &other].map(|layer| layer.forward(x.clone()).unwrap());
        assert_near(got.clone().inner(), want.clone().inner(), &what);
        let [got, want] = [got, want].map(|y| (y * dy.clone()).sum().backward());
        assert_near(x.grad(&got).unwrap(), x.grad(&want).unwrap(), &what);
        let of_weight = other.weight.values().unwrap().grad(&want).unwrap();
        assert_gradients(change, &got, of_weight.unsqueeze(), &what);
        // The validation form keeps the change.
        let valid = layer.valid().forward(x.clone().inner()).unwrap();
        assert_near(
            valid,
            other.valid().forward(x.clone().inner()).unwrap(),
            &what,
        );
    }
}

/// A layer of four gated experts, and one with changes of the gates, of up and of the second matrices that are asked for.
fn mixtures(changed: [bool; 3], device: &Device) -> [MoeLayer; 2] {
    let config = MoeConfig::new(6, 5, 4)
        .with_activation(Activation::Silu)
        .with_gated(true);
    let experts = |[of_in, of_out]: [Vec<LowRank>; 2]| {
        let w_in = Weight::from(Param::from_tensor(tensor([4, 10, 6], 1, device)));
        let w_out = Weight::from(Param::from_tensor(tensor([4, 6, 5], 2, device)));
        FeedForwardExperts {
            w_in: w_in.with_parts(2).no_grad().with_changes(of_in).unwrap(),
            b_in: None,
            w_out: w_out.no_grad().with_changes(of_out).unwrap(),
            b_out: None,
        }
    };
    let of_in = [(0, 3), (5, 4)].into_iter().zip(changed);
    let of_in = of_in.filter(|(_, asked)| *asked);
    let of_in = of_in.map(|((first, seed), _)| change([4, 5, 6], first, seed, device));
    let of_out = changed[2].then(|| change([4, 6, 5], 0, 5, device));
    let with = experts([of_in.collect(), of_out.into_iter().collect()]);
    let values = |weight: &Weight<3>| {
        let values = weight.values().unwrap().inner();
        Weight::from(Param::from_tensor(Tensor::from_inner(values)))
    };
    let written = FeedForwardExperts {
        w_in: values(&with.w_in).with_parts(2),
        b_in: None,
        w_out: values(&with.w_out),
        b_out: None,
    };
    let layer = config.init(device).unwrap();
    [with, written].map(|experts| {
        let mut layer = layer.clone();
        layer.experts = Experts::FeedForward(experts);
        layer
    })
}

#[test]
fn changed_experts_compute_and_learn_what_the_written_changes_do() {
    let device = Device::flex().autodiff();
    let x = tensor([23, 6], 7, &device).require_grad();
    let dy = tensor([23, 6], 8, &device);
    for changed in [
        [true, true, true],
        [true, false, false],
        [false, true, false],
        [false, false, true],
    ] {
        let what = format!("{changed:?}");
        let layers = mixtures(changed, &device);
        let experts = layers.each_ref().map(|layer| match &layer.experts {
            Experts::FeedForward(experts) => experts.clone(),
            _ => panic!("other experts"),
        });
        let outputs = layers
            .each_ref()
            .map(|layer| layer.forward(x.clone()).unwrap().y);
        assert_near(
            outputs[0].clone().inner(),
            outputs[1].clone().inner(),
            &what,
        );
        let [got, want] = outputs.map(|y| (y * dy.clone()).sum().backward());
        assert_near(x.grad(&got).unwrap(), x.grad(&want).unwrap(), &what);
        let [with, written] = experts;
        for (with, written) in [(&with.w_in, &written.w_in), (&with.w_out, &written.w_out)] {
            let of_weight = written.values().unwrap().grad(&want).unwrap();
            for change in with.changes() {
                assert_gradients(change, &got, of_weight.clone(), &what);
            }
        }
    }
}

#[test]
fn changes_that_do_not_fit_are_refused() {
    let device = Device::flex();
    let weight = || Weight::from(Param::from_tensor(tensor([10, 6], 1, &device)));
    let kind = |changes: Vec<LowRank>| weight().with_changes(changes).unwrap_err().kind();
    let of = |shape, first| change(shape, first, 1, &device);
    for (changes, want) in [
        (vec![of([1, 10, 5], 0)], ErrorKind::Shape),
        (vec![of([2, 10, 6], 0)], ErrorKind::Shape),
        (vec![of([1, 0, 6], 0)], ErrorKind::Shape),
        (vec![of([1, 5, 6], 6)], ErrorKind::Config),
        (vec![of([1, 5, 6], 0), of([1, 5, 6], 4)], ErrorKind::Config),
        (vec![of([1, 5, 6], 5), of([1, 5, 6], 0)], ErrorKind::Config),
    ] {
        assert_eq!(kind(changes), want);
    }
    let whole = || vec![of([1, 10, 6], 0)];
    let changed = weight().with_changes(whole()).unwrap();
    // The factors are [3, 6] and [10, 3].
    assert_eq!(changed.bytes(), weight().bytes() + 4 * (18 + 30));
    let in_fp8 = changed.clone().in_fp8(Fp8Recipe::current()).unwrap_err();
    assert_eq!(in_fp8.kind(), ErrorKind::State);
    let training = weight().in_fp8(Fp8Recipe::current()).unwrap();
    assert_eq!(
        training.with_changes(whole()).unwrap_err().kind(),
        ErrorKind::State
    );
    // Codes are those of the weight with the change written into it, and take changes themselves, but where activations are rounded.
    let (codes, error) = changed.quantize(&e4m3(Granularity::Row)).unwrap();
    assert!(error < 0.05 && codes.changes().is_empty(), "{error}");
    let rows = || ActivationScaling::new(Activations::Dynamic(Granularity::Row), &device);
    let rounding = codes.clone().with_activations(rows()).unwrap();
    let refused = rounding.with_changes(whole()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::State);
    let changed = codes.with_changes(whole()).unwrap();
    assert_eq!(
        changed.clone().with_changes(vec![]).unwrap().bytes() + 4 * 48,
        changed.bytes()
    );
    let refused = changed.with_activations(rows()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::State);
}

fn e4m3(granularity: Granularity) -> Quantizer {
    Quantizer::new(Fp8Format::E4M3, granularity)
}

/// Checks that the factors of a change have the same gradients in two weights.
fn assert_same_gradients<const D: usize>(
    weights: [&Weight<D>; 2],
    gradients: &[Gradients; 2],
    what: &str,
) {
    let [got, want] = weights.map(Weight::changes);
    assert_eq!(got.len(), want.len(), "{what}");
    for (got, want) in got.iter().zip(want) {
        for (got, want) in [(&got.down, &want.down), (&got.up, &want.up)] {
            let [got, want] = [(got, &gradients[0]), (want, &gradients[1])]
                .map(|(param, gradients)| param.val().grad(gradients).unwrap());
            assert_near(got, want, what);
        }
    }
}

/// Codes stay as they are below what trains: products and gradients are those of the decoded weights in f32.
#[test]
fn codes_below_changes_compute_and_learn_what_decoded_weights_do() {
    let device = Device::flex().autodiff();
    let x = tensor([2, 4, 36], 3, &device).require_grad();
    let dy = tensor([2, 4, 70], 4, &device);
    for granularity in [
        Granularity::Row,
        Granularity::Mx,
        Granularity::of_blocks(16, 8),
    ] {
        let what = format!("{granularity:?}");
        let w = tensor([70, 36], 1, &device.clone().inner());
        let (codes, _) = Weight::from(Param::from_tensor(w))
            .quantize(&e4m3(granularity))
            .unwrap();
        let layer = |weight: Weight<2>| {
            let weight = weight.with_changes(vec![change([1, 40, 36], 3, 5, &device)]);
            let bias = Param::from_tensor(tensor([70], 2, &device));
            Linear::new(weight.unwrap(), Some(bias)).unwrap()
        };
        let decoded = Tensor::from_inner(codes.values().unwrap());
        let layers = [
            layer(codes.train()),
            layer(Weight::from(Param::from_tensor(decoded)).no_grad()),
        ];
        let [with, other] = &layers;
        assert_eq!(with.weight.precision(), Precision::Fp8);
        let outputs = layers
            .each_ref()
            .map(|layer| layer.forward(x.clone()).unwrap());
        assert_near(
            outputs[0].clone().inner(),
            outputs[1].clone().inner(),
            &what,
        );
        let gradients = outputs.map(|y| (y * dy.clone()).sum().backward());
        let [got, want] = gradients.each_ref().map(|of| x.grad(of).unwrap());
        assert_near(got, want, &what);
        assert_same_gradients([&with.weight, &other.weight], &gradients, &what);
        let of_bias = |layer: &Linear, of: &Gradients| {
            let bias = layer.bias.as_ref().unwrap().val();
            bias.grad(of).unwrap()
        };
        let [got, want] = [(with, &gradients[0]), (other, &gradients[1])];
        assert_near(of_bias(got.0, got.1), of_bias(want.0, want.1), &what);
        let [got, want] = [with, other].map(|layer| layer.weight.values().unwrap().inner());
        assert_near(got, want, &what);
        let [got, want] = [with, other].map(|layer| layer.valid().forward(x.clone().inner()));
        assert_near(got.unwrap(), want.unwrap(), &what);
    }
    let (codes, _) = Weight::from(Param::from_tensor(tensor([70, 36], 1, &device)))
        .quantize(&e4m3(Granularity::Row))
        .unwrap();
    let refused = |weight: Weight<2>| {
        let layer = Linear::new(weight, None).unwrap();
        layer.forward(x.clone()).unwrap_err().kind()
    };
    let source = Activations::Dynamic(Granularity::Row);
    let rounding = ActivationScaling::new(source, &device);
    let rounding = codes.clone().with_activations(rounding).unwrap();
    assert_eq!(refused(rounding.train()), ErrorKind::Config);
    assert_eq!(refused(codes), ErrorKind::Device);
}

/// A layer of four gated experts of codes in as many parts, and one of the decoded weights, with the same changes of the gates and of the second
/// matrices.
fn mixtures_of_codes(inter: usize, parts: usize, device: &Device) -> [MoeLayer; 2] {
    let config = MoeConfig::new(12, inter, 4)
        .with_activation(Activation::Silu)
        .with_gated(true)
        .with_bias(true);
    let codes = |shape, seed, parts| {
        let values: Tensor<3> = tensor(shape, seed, &device.clone().inner());
        let codes = Fp8Tensor::quantize(values, &e4m3(Granularity::of_blocks(1, 4)));
        Weight::<3>::from_fp8(codes.unwrap(), parts).unwrap()
    };
    let [w_in, w_out] = [
        codes([4, 2 * inter, 12], 1, parts),
        codes([4, 12, inter], 2, 1),
    ];
    let decoded = |weight: &Weight<3>, parts| {
        let values = Tensor::from_inner(weight.values().unwrap());
        Weight::from(Param::from_tensor(values))
            .with_parts(parts)
            .no_grad()
    };
    let values = [decoded(&w_in, 2), decoded(&w_out, 1)];
    let layer = config.init(device).unwrap();
    [[w_in.train(), w_out.train()], values].map(|[w_in, w_out]| {
        let of_in = vec![change([4, inter, 12], 0, 3, device)];
        let of_out = vec![change([4, 12, inter], 0, 5, device)];
        let mut layer = layer.clone();
        layer.experts = Experts::FeedForward(FeedForwardExperts {
            w_in: w_in.with_changes(of_in).unwrap(),
            b_in: Some(Param::from_tensor(tensor([4, 2 * inter], 9, device))),
            w_out: w_out.with_changes(of_out).unwrap(),
            b_out: Some(Param::from_tensor(tensor([4, 12], 10, device))),
        });
        layer
    })
}

fn feed_forward(layer: &MoeLayer) -> FeedForwardExperts {
    match &layer.experts {
        Experts::FeedForward(experts) => experts.clone(),
        _ => panic!("other experts"),
    }
}

#[test]
fn experts_of_codes_compute_and_learn_what_decoded_ones_do() {
    let device = Device::flex().autodiff();
    let x = tensor([23, 12], 7, &device).require_grad();
    let dy = tensor([23, 12], 8, &device);
    for (inter, parts) in [(64, 2), (64, 1), (10, 1)] {
        let what = format!("{inter} inner columns in {parts} parts");
        let layers = mixtures_of_codes(inter, parts, &device);
        let experts = layers.each_ref().map(feed_forward);
        let outputs = layers
            .each_ref()
            .map(|layer| layer.forward(x.clone()).unwrap().y);
        assert_near(
            outputs[0].clone().inner(),
            outputs[1].clone().inner(),
            &what,
        );
        let gradients = outputs.map(|y| (y * dy.clone()).sum().backward());
        let [got, want] = gradients.each_ref().map(|of| x.grad(of).unwrap());
        assert_near(got, want, &what);
        let [with, decoded] = &experts;
        assert_same_gradients([&with.w_in, &decoded.w_in], &gradients, &what);
        assert_same_gradients([&with.w_out, &decoded.w_out], &gradients, &what);
        let of_biases = |experts: &FeedForwardExperts, of: &Gradients| {
            let biases = [&experts.b_in, &experts.b_out];
            biases.map(|bias| bias.as_ref().unwrap().val().grad(of).unwrap())
        };
        let got = of_biases(with, &gradients[0]);
        let want = of_biases(decoded, &gradients[1]);
        got.into_iter()
            .zip(want)
            .for_each(|(got, want)| assert_near(got, want, &what));
        let [got, want] = layers.map(|layer| layer.valid().forward(x.clone().inner()).unwrap().y);
        assert_near(got, want, &what);
    }
    let [cut, _] = mixtures_of_codes(10, 2, &device);
    let refused = cut.forward(x).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Shape);
    let said = "rows of a projection among several, for one product of all: expected a multiple of 64, got 10";
    assert_eq!(refused.to_string(), said);
}
