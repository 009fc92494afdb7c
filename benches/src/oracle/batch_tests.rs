use super::*;
use moebius_ops::routing;

const SIZES: [usize; 5] = [9, 5, 6, 3, 2];

fn batch(gated: bool, activation: Activation) -> Batch {
    let [tokens, hidden, inter, experts, top_k] = SIZES;
    let routing = routing::Problem::new(tokens, experts, top_k).expect("a sound problem");
    let problem = Problem {
        gated,
        activation,
        ..Problem::new(routing, hidden, inter)
    };
    let wave = |len: usize, step: f32| (0..len).map(|i| (1.0 + i as f32 * step).sin()).collect();
    let logits: Vec<f32> = wave(tokens * experts, 1.7);
    let routed = routing::reference(&routing, &logits, None);
    Batch {
        problem,
        x: wave(tokens * hidden, 0.37),
        dy: wave(tokens * hidden, 0.73),
        indices: routed.indices,
        weights: routed.weights,
        w_in: wave(experts * problem.columns_in() * hidden, 0.31),
        w_out: wave(experts * hidden * inter, 0.53),
    }
}

fn near(got: &[f64], want: &[f64]) -> bool {
    got.len() == want.len() && got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-12)
}

#[test]
fn tokens_and_columns_are_parts_of_the_whole_gradients() {
    for (gated, activation) in [
        (false, Activation::Relu),
        (true, Activation::Silu),
        (true, Activation::Gelu),
    ] {
        let batch = batch(gated, activation);
        let dy = batch.dy(0..SIZES[0]);
        let whole = reference_backward(&batch.problem, &batch.inputs(), &dy);
        let [tokens, h, f, experts, top_k] = SIZES;
        for t in 0..tokens {
            let token = batch.token(t).expect("one token");
            assert!(near(&token.x, &whole.x[t * h..][..h]), "token {t}");
            assert!(near(&token.weights, &whole.weights[t * top_k..][..top_k]));
            assert_eq!(token.slack, 0.0);
        }
        for (e, c) in (0..experts).flat_map(|e| (0..f).map(move |c| (e, c))) {
            let column = batch.column(e, c);
            let at = |c: usize| (e * batch.problem.columns_in() + c) * h;
            let mut w_in = whole.w_in[at(c)..][..h].to_vec();
            if gated {
                w_in.extend(&whole.w_in[at(f + c)..][..h]);
            }
            let w_out: Vec<f64> = (0..h).map(|i| whole.w_out[(e * h + i) * f + c]).collect();
            assert!(near(&column.w_in, &w_in) && near(&column.w_out, &w_out));
        }
    }
}

#[test]
fn a_relu_at_zero_leaves_room_for_either_side() {
    let mut batch = batch(false, Activation::Relu);
    let h = batch.problem.hidden;
    let e = batch.indices[0] as usize;
    let at = e * batch.problem.columns_in() * h;
    // The first unit's weights are orthogonal to the first token: w·x = 0.
    let (a, b) = (batch.x[0], batch.x[1]);
    batch.w_in[at..at + h].fill(0.0);
    batch.w_in[at..at + 2].copy_from_slice(&[b, -a]);
    assert!(batch.token(0).expect("one token").slack > 0.0 && batch.column(e, 0).slack[0] > 0.0);
}

#[test]
fn a_unit_whose_sums_cancel_for_its_only_token_leaves_room_for_their_rounding() {
    let mut batch = batch(false, Activation::Relu);
    let h = batch.problem.hidden;
    let e = batch.indices[0] as usize;
    // No other token is routed to the expert, and the first unit's sum for this one is a thousandth of its terms.
    let others = batch.indices.iter_mut().skip(1);
    others
        .filter(|index| **index as usize == e)
        .for_each(|index| *index = u32::MAX);
    let at = e * batch.problem.columns_in() * h;
    let (a, b) = (batch.x[0], batch.x[1]);
    batch.w_in[at..at + h].fill(0.0);
    batch.w_in[at..at + 2].copy_from_slice(&[b * 1.001, -a]);
    let share = |unit| {
        let column = batch.column(e, unit);
        let size = column.w_out.iter().map(|w| w * w).sum::<f64>().sqrt();
        column.slack[1] / size
    };
    assert!((1e-4..1e-2).contains(&share(0)), "{}", share(0));
    let ordinary = (1..batch.problem.inter)
        .map(share)
        .filter(|share| share.is_finite());
    assert!(ordinary.fold(0.0, f64::max) < 1e-4);
}
