//! Tests of the bytes that programs exchange, against formulas, and of the share of padding.
//!
//! With w the bytes of an element, and without the part that stays on the device:
//!
//! | what | bytes that leave a device |
//! |---|---|
//! | counts, once | (P − 1) · E/P · 4 |
//! | choices, once, if there is a capacity | (P − 1) · T/P·K · 8 |
//! | the largest count, once, if there may be several rounds | ⌈2·(P − 1)/P · 4⌉ |
//! | forward, a round | (P − 1) · C · 2·H·w |
//! | backward, a round | (P − 1) · C · (2·H·w + 8), and H·w more for each row if x is sent again |
//! | the router's gradient, once | ⌈2·(P − 1)/P · E·H·4⌉ |
//!
//! Of the `rounds` · (P − 1) · C rows that leave a device, those without a slot are padding.

use crate::data::{Batch, Routing, capped, in_bf16, layer};
use crate::run::load;
use moebius_xla::parallel::{Divided, Layer, Whole};

/// The bytes that each device sends to others in one execution.
#[derive(Debug, PartialEq)]
struct Volume {
    /// Bytes sent once, whatever the routing.
    once: usize,
    /// Bytes sent for each row, there and back in all passes.
    row: usize,
    /// The number of rows that leave the device in a round.
    rows: usize,
}

impl Volume {
    fn forward(of: &Divided) -> Self {
        let (several, capped) = (of.most_rounds() > 1, of.layer.problem.capacity.is_some());
        let slots = of.layer.problem.routing.slots() / of.devices;
        Self {
            once: (of.devices - 1) * (experts(of) / of.devices) * 4
                + if several { reduced(of, 4) } else { 0 }
                + if capped {
                    (of.devices - 1) * slots * 8
                } else {
                    0
                },
            row: 2 * row(of),
            rows: (of.devices - 1) * of.rows,
        }
    }

    fn both_passes(of: &Divided) -> Self {
        let forward = Self::forward(of);
        let again = if of.most_rounds() > 1 { row(of) } else { 0 };
        Self {
            once: forward.once + reduced(of, experts(of) * of.layer.problem.hidden * 4),
            row: forward.row + 2 * row(of) + 8 + again,
            ..forward
        }
    }

    /// The bytes that leave the device in `rounds` rounds.
    fn exchanged(&self, rounds: usize) -> usize {
        self.once + rounds * self.rows * self.row
    }
}

/// The bytes of a token's row.
fn row(of: &Divided) -> usize {
    of.layer.problem.hidden * of.layer.element().bytes()
}

fn experts(of: &Divided) -> usize {
    of.layer.problem.routing.experts()
}

/// The bytes that leave a device when a tensor of `bytes` bytes is summed over the devices.
fn reduced(of: &Divided, bytes: usize) -> usize {
    (2 * (of.devices - 1) * bytes).div_ceil(of.devices)
}

fn counted(of: &Divided) {
    let programs = [of.forward().unwrap(), of.gradients().unwrap()];
    let volumes = [Volume::forward(of), Volume::both_passes(of)];
    for (program, volume) in programs.iter().zip(volumes) {
        let expected = volume.exchanged(of.most_rounds());
        assert_eq!(program.exchanged_bytes as usize, expected, "{of:?}");
    }
}

#[test]
fn programs_exchange_what_the_formula_says() {
    let half = in_bf16(layer(64, 16, 2));
    for (layer, devices) in [
        (layer(48, 8, 2), 4),
        (half, 8),
        (capped(layer(64, 16, 2), 3), 8),
        (layer(9, 3, 1), 1),
    ] {
        let whole = Divided::worst_case(layer, devices).unwrap();
        counted(&whole);
        counted(&Divided::balanced(layer, devices).unwrap());
        counted(&Divided { rows: 1, ..whole });
    }
}

#[test]
fn numbers_worked_out_by_hand() {
    // With 4 devices, each has 12 tokens, 24 slots and 2 experts, so at most 24 rows for another device.
    let whole = Divided::worst_case(layer(48, 8, 2), 4).unwrap();
    assert_eq!(whole.rows, 24);
    let forward = Volume {
        once: 3 * 2 * 4,
        row: 2 * 16 * 4,
        rows: 3 * 24,
    };
    assert_eq!(Volume::forward(&whole), forward);
    assert_eq!(forward.exchanged(1), 24 + 72 * 128);
    let both = Volume {
        // The router's gradient, 8 · 16 numbers.
        once: 24 + 768,
        row: 4 * 64 + 8,
        ..forward
    };
    assert_eq!(Volume::both_passes(&whole), both);
    // 24 slots, 6 for each device in an even routing, and a quarter more.
    let even = Divided::balanced(layer(48, 8, 2), 4).unwrap();
    assert_eq!((even.rows, even.most_rounds()), (8, 3));
    let both = Volume {
        once: 24 + 768 + 6,
        row: 5 * 64 + 8,
        rows: 24,
    };
    assert_eq!(Volume::both_passes(&even), both);
    // With one expert on each device, a token has at most one row for a device.
    let single = Divided::worst_case(layer(32, 4, 2), 4).unwrap();
    assert_eq!(single.rows, 8);
    // The weights: the router's 2 · 16, then for each of 2 experts 48 · 16 in and 16 · 24 out.
    let replicated = Whole {
        layer: layer(8, 2, 1),
        devices: 4,
    };
    let weights = 2 * 16 + 2 * 48 * 16 + 2 * 16 * 24;
    let program = replicated.gradients().unwrap();
    assert_eq!(program.exchanged_bytes, 2 * 3 * weights * 4 / 4);
    let one = Whole {
        devices: 1,
        ..replicated
    };
    assert_eq!(one.gradients().unwrap().exchanged_bytes, 0);
}

#[test]
fn rows_for_others_are_counted_on_the_device() {
    let layer = layer(64, 8, 2);
    let of = Divided {
        rows: 4,
        ..Divided::worst_case(layer, 8).unwrap()
    };
    let forward = load(&of.forward().unwrap(), 8);
    let run = |routing| {
        let batch = Batch::new(&layer, routing, 5);
        forward.run(&batch.arguments(&[&batch.x], 8, true))
    };
    let all = run(Routing::OneExpert);
    // Tokens of the last device stay there; the 8 rows of another take two rounds of 4.
    for (at, device) in all.iter().enumerate() {
        assert_eq!(device[1], [2.0]);
        assert!(if at == 7 {
            device[2][0] <= 8.0
        } else {
            device[2][0] >= 8.0
        });
    }
    for device in run(Routing::Free) {
        let (rounds, sent) = (device[1][0] as usize, device[2][0] as usize);
        // The rows sent fit in the rounds.
        assert!(sent <= rounds * Volume::forward(&of).rows);
        assert!(sent <= 16);
    }
}

#[test]
fn what_devices_cannot_share_is_refused() {
    let refused = |layer: Layer, devices: usize| {
        let error = Divided::balanced(layer, devices).unwrap_err();
        error.to_string()
    };
    for ([tokens, experts], devices, said) in [
        (
            [10, 4],
            4,
            "tokens: expected a multiple of 4 devices, got 10",
        ),
        (
            [12, 6],
            4,
            "experts: expected a multiple of 4 devices, got 6",
        ),
        ([12, 4], 0, "devices: expected at least 1, got 0"),
        ([0, 4], 4, "tokens: expected at least 1, got 0"),
    ] {
        assert_eq!(refused(layer(tokens, experts, 1), devices), said);
    }
    let none = Divided {
        layer: layer(12, 4, 1),
        devices: 4,
        rows: 0,
    };
    assert_eq!(
        none.forward().unwrap_err().to_string(),
        "rows of a round: expected at least 1, got 0"
    );
    let slots = refused(layer(1 << 29, 3, 3), 1);
    assert_eq!(slots, "slots: expected at most 1073741824, got 1610612736");
}
