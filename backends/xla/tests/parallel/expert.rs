//! Tests of expert parallelism against one device and against the definition.

use crate::data::{
    Batch, Routing, assert_close, capped, in_bf16, joined, layer, result, wide, with,
};
use crate::run::{Loaded, load};
use moebius_ops::grouped_gemm::Activation;
use moebius_ops::routing::Score;
use moebius_xla::parallel::{Divided, Layer, Whole};

/// The tolerance in f32: sums of at most a few hundred products in another order, and differences in the router's
/// gradient that cancel where one expert has nearly all of the weight.
const F32: f64 = 1e-5;

/// A divided layer, and the program of both its passes.
struct Divisions {
    of: Divided,
    both: Loaded,
}

/// A layer, and the program of both its passes on one device.
struct Case {
    layer: Layer,
    one: Loaded,
}

impl Case {
    fn new(layer: Layer) -> Self {
        let one = Whole { layer, devices: 1 };
        let one = load(&one.gradients().unwrap(), 1);
        Self { layer, one }
    }

    /// Compares both passes with one device; returns the number of rounds and the rows that each device sent.
    fn check(&self, divisions: &Divisions, routing: Routing) -> (u64, Vec<u64>) {
        let (of, layer) = (&divisions.of, &self.layer);
        let batch = Batch::new(layer, routing, 7);
        let both = divisions.both.run(&batch.both(of.devices, true));
        let one = &self.one.run(&batch.both(1, false))[0];
        let what = |name: &str| format!("{name} of {of:?}, {routing:?}");
        let (y, dx) = (joined(&both, 0), joined(&both, 1));
        assert!(dx == one[1], "{}", what("bits of dx"));
        // With more slots, the compiler decides which product is fused with an addition and so isn't rounded.
        let single = layer.problem.routing.top_k() == 1;
        assert!(!single || y == one[0], "{}", what("bits of y"));
        let expected = batch.expected(layer);
        assert_eq!(expected.len(), one.len());
        for (i, (expected, one)) in expected.iter().zip(one).enumerate() {
            let (got, what) = (result(&both, i), what(&format!("result {i}")));
            assert_close(&what, &got, expected, F32);
            assert_close(&what, &got, &wide(one), F32);
        }
        let at = expected.len();
        for device in &both {
            assert_eq!(device[2], both[0][2], "{}", what("the router's gradient"));
            assert_eq!(device[at], both[0][at], "{}", what("rounds"));
        }
        let sent = both.iter().map(|device| device[at + 1][0] as u64);
        (both[0][at][0] as u64, sent.collect())
    }
}

impl Divisions {
    fn new(of: Divided) -> Self {
        let both = load(&of.gradients().unwrap(), of.devices);
        Self { of, both }
    }
}

const ROUTINGS: [Routing; 3] = [Routing::Free, Routing::OneExpert, Routing::HalfUnused];

/// The number of rounds that each routing takes.
fn rounds(case: &Case, of: Divided) -> [u64; 3] {
    let divisions = Divisions::new(of);
    ROUTINGS.map(|routing| case.check(&divisions, routing).0)
}

#[test]
fn four_devices_with_two_choices_of_eight() {
    let layer = layer(128, 8, 2);
    let case = Case::new(layer);
    let whole = Divided::worst_case(layer, 4).unwrap();
    assert_eq!(rounds(&case, whole), [1, 1, 1]);
    assert_eq!(rounds(&case, Divided { rows: 16, ..whole }), [2, 3, 3]);
}

#[test]
fn four_devices_with_an_expert_each() {
    let layer = layer(128, 4, 1);
    let case = Case::new(layer);
    let even = Divided::balanced(layer, 4).unwrap();
    assert_eq!(rounds(&case, Divided { rows: 16, ..even })[1], 2);
}

#[test]
fn eight_devices_with_four_experts_each() {
    let layer = layer(64, 32, 2);
    let case = Case::new(layer);
    let even = Divided::balanced(layer, 8).unwrap();
    assert!(rounds(&case, even)[1] >= 3);
}

#[test]
fn eight_devices_with_one_choice_and_biases() {
    let layer = with(layer(64, 8, 1), |problem| {
        problem.routing = problem.routing.with_score(Score::Softmax, false);
        problem.bias = true;
        problem.gated = false;
        problem.activation = Activation::Relu;
    });
    let case = Case::new(layer);
    rounds(&case, Divided::worst_case(layer, 8).unwrap());
}

#[test]
fn one_and_two_devices() {
    let layer = layer(10, 6, 3);
    let case = Case::new(layer);
    assert_eq!(
        rounds(&case, Divided::worst_case(layer, 1).unwrap()),
        [1; 3]
    );
    let two = Divided::balanced(layer, 2).unwrap();
    rounds(&case, Divided { rows: 4, ..two });
}

#[test]
fn the_forward_pass_alone() {
    let of = Divided::balanced(layer(32, 8, 2), 4).unwrap();
    let batch = Batch::new(&of.layer, Routing::Free, 3);
    let forward = load(&of.forward().unwrap(), 4).run(&batch.arguments(&[&batch.x], 4, true));
    let both = load(&of.gradients().unwrap(), 4).run(&batch.both(4, true));
    for (forward, both) in forward.iter().zip(&both) {
        assert_eq!(forward[0], both[0]);
        assert_eq!(forward[1..], both[both.len() - 2..]);
    }
}

#[test]
fn halves_are_rounded_once_more_on_their_way() {
    let layer = in_bf16(layer(32, 4, 2));
    let of = Divided::balanced(layer, 4).unwrap();
    let batch = Batch::new(&layer, Routing::Free, 13);
    let both = load(&of.gradients().unwrap(), 4).run(&batch.both(4, true));
    let one = Whole { layer, devices: 1 };
    let one = load(&one.gradients().unwrap(), 1).run(&batch.both(1, false));
    for (i, expected) in one[0].iter().enumerate() {
        let (got, what) = (result(&both, i), format!("result {i}"));
        // One unit in the last of the result's 8 bits, and half a unit for the rows of its slots.
        assert_close(&what, &got, &wide(expected), 3.0 / 256.0);
    }
}

#[test]
fn a_capacity_drops_what_one_device_drops() {
    let layer = capped(layer(128, 8, 2), 24);
    let of = Divided::worst_case(layer, 4).unwrap();
    // A device's 32 tokens may all choose both experts of another, 64 rows; the capacity allows only 48.
    assert_eq!((of.rows, of.most_rounds()), (48, 1));
    let one = Whole { layer, devices: 1 };
    let [one, of, rounds] = [
        (one.gradients(), 1),
        (of.gradients(), 4),
        (Divided { rows: 8, ..of }.gradients(), 4),
    ]
    .map(|(program, devices)| load(&program.unwrap(), devices));
    for routing in ROUTINGS {
        let batch = Batch::new(&layer, routing, 17);
        let one = &one.run(&batch.both(1, false))[0];
        for of in [&of, &rounds] {
            let divided = of.run(&batch.both(4, true));
            for (i, expected) in one.iter().enumerate() {
                let got = result(&divided, i);
                let what = format!("result {i} of {routing:?}");
                assert_close(&what, &got, &wide(expected), F32);
            }
        }
        // Four experts take 96 of the 256 slots.
        let tokens = one[0].chunks(16);
        let nothing = tokens.filter(|y| y.iter().all(|y| *y == 0.0)).count();
        assert!(routing != Routing::HalfUnused || nothing > 16, "{nothing}");
    }
}

/// The bias affects only the choice: every token chooses the last expert, with the weight that its logit gives it.
#[test]
fn a_bias_decides_the_choice_alone() {
    let layer = Layer {
        selection_bias: true,
        ..layer(64, 8, 2)
    };
    let divided = Divided::worst_case(layer, 4).unwrap();
    let whole = Whole { layer, devices: 1 };
    let [one, of] = [(whole.gradients(), 1), (divided.gradients(), 4)]
        .map(|(program, devices)| load(&program.unwrap(), devices));
    let batch = Batch::new(&layer, Routing::Free, 19);
    let bias: Vec<f32> = (0..8).map(|e| if e == 7 { 1.0 } else { 0.0 }).collect();
    let arguments = |devices, divided| {
        let mut arguments = batch.both(devices, divided);
        arguments
            .iter_mut()
            .for_each(|list| list.insert(2, bias.clone()));
        arguments
    };
    let one = &one.run(&arguments(1, false))[0];
    let of = of.run(&arguments(4, true));
    assert_close("y", &joined(&of, 0), &wide(&one[0]), F32);
    assert_close("dx", &joined(&of, 1), &wide(&one[1]), F32);
    // Each of these devices sends at least the rows of the last expert.
    assert!(
        of[..3]
            .iter()
            .all(|device| device[of[0].len() - 1][0] >= 16.0)
    );
}
