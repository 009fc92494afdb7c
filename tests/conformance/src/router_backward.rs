//! Gradients of the router logits against the f64 oracle, and the logits themselves bit for bit.

use crate::Outcome;
use moebius_ops::Element;
use moebius_ops::routing::{Problem, logits_backward_reference};
use moebius_shaders::routing::{
    LogitsBackwardBuffers, launch_logits, launch_logits_backward, plan_logits, plan_logits_backward,
};
use moebius_tests::data::Rng;
use moebius_tests::elements::{download, rounded, unwritten, upload};
use moebius_tests::target::{Target, download_f32, nans, upload_f32};
use moebius_tests::tolerance::{assert_close, rel_l2};

/// Tokens, hidden columns, experts: single, odd, around tiles of 4 and vectors of 4 and 16, more
/// tokens than a block, more experts than tokens.
const SIZES: [(usize, usize, usize); 8] = [
    (1, 1, 1),
    (5, 7, 3),
    (3, 16, 4),
    (4, 68, 5),
    (33, 64, 8),
    (600, 48, 10),
    (17, 260, 64),
    (9, 96, 256),
];

/// dx and dw of random inputs, both as the device and as the oracle has them.
fn check_size(target: &Target, size: (usize, usize, usize), element: Element) -> Outcome {
    let Some(client) = target.client() else {
        return Outcome::Unsupported("no kernels".into());
    };
    let (tokens, hidden, experts) = size;
    let problem = Problem::new(tokens, experts, 1).unwrap();
    let plan = match plan_logits_backward(problem, hidden, element, target.capability()) {
        Ok(plan) => plan,
        Err(error) => return Outcome::Unsupported(error.to_string()),
    };
    let mut rng = Rng::new((tokens * hidden + experts) as u64);
    let dlogits = rng.vec(tokens * experts, 1.0);
    let x = rounded(rng.vec(tokens * hidden, 1.0), element);
    let w = rounded(rng.vec(experts * hidden, 1.0), element);
    let buffers = LogitsBackwardBuffers {
        dlogits: upload_f32(&client, &dlogits),
        x: upload(&client, &x, element),
        w: upload(&client, &w, element),
        dx: Some(unwritten(&client, tokens * hidden, element)),
        dw: Some(nans(&client, experts * hidden)),
    };
    let run = |buffers: &LogitsBackwardBuffers| {
        launch_logits_backward(&client, &plan, buffers.clone());
        let [dx, dw] = [&buffers.dx, &buffers.dw].map(|out| out.clone().unwrap());
        (
            download(&client, dx, tokens * hidden, element),
            download_f32(&client, dw, experts * hidden),
        )
    };
    let (dx, dw) = run(&buffers);
    let (want_dx, want_dw) = logits_backward_reference(&dlogits, &x, &w, hidden);
    assert_close(&format!("dx {size:?}"), &dx, &want_dx, rel_l2(element));
    assert_close(&format!("dw {size:?}"), &dw, &want_dw, rel_l2(Element::F32));
    assert_eq!(run(&buffers), (dx, dw), "the same bits again");
    Outcome::Ran
}

fn check(target: &Target, element: Element) -> Outcome {
    Outcome::of(SIZES.map(|size| check_size(target, size, element)))
}

pub(crate) fn sizes(target: &Target) -> Outcome {
    check(target, Element::F32)
}

pub(crate) fn f16(target: &Target) -> Outcome {
    check(target, Element::F16)
}

pub(crate) fn bf16(target: &Target) -> Outcome {
    check(target, Element::Bf16)
}

/// Either gradient alone, and dw = 0 without tokens.
pub(crate) fn one_of_both(target: &Target) -> Outcome {
    let Some(client) = target.client() else {
        return Outcome::Unsupported("no kernels".into());
    };
    for tokens in [0, 6] {
        let problem = Problem::new(tokens, 3, 1).unwrap();
        let plan = plan_logits_backward(problem, 8, Element::F32, target.capability()).unwrap();
        let ones = |len: usize| upload_f32(&client, &vec![1.0; len.max(1)]);
        let buffers = LogitsBackwardBuffers {
            dlogits: ones(tokens * 3),
            x: ones(tokens * 8),
            w: ones(24),
            dx: None,
            dw: None,
        };
        let dw = nans(&client, 24);
        let only_dw = LogitsBackwardBuffers {
            dw: Some(dw.clone()),
            ..buffers.clone()
        };
        launch_logits_backward(&client, &plan, only_dw);
        assert_eq!(download_f32(&client, dw, 24), [tokens as f32; 24]);
        let dx = nans(&client, tokens * 8);
        let only_dx = LogitsBackwardBuffers {
            dx: Some(dx.clone()),
            ..buffers
        };
        launch_logits_backward(&client, &plan, only_dx);
        let want = vec![3.0; tokens * 8];
        assert_eq!(download_f32(&client, dx, tokens * 8), want);
    }
    Outcome::Ran
}

/// A token's logits have the same bits alone and among others, whatever tile they fall in.
pub(crate) fn logits_independent_of_the_batch(target: &Target) -> Outcome {
    let Some(client) = target.client() else {
        return Outcome::Unsupported("no kernels".into());
    };
    for (hidden, experts) in [(96, 9), (260, 64), (33, 5)] {
        let mut rng = Rng::new(hidden as u64);
        let (x, w) = (rng.vec(11 * hidden, 1.0), rng.vec(experts * hidden, 1.0));
        let w = upload_f32(&client, &w);
        let logits = |x: &[f32]| {
            let tokens = x.len() / hidden;
            let problem = Problem::new(tokens, experts, 1).unwrap();
            let plan = plan_logits(problem, hidden, Element::F32, target.capability()).unwrap();
            let out = nans(&client, tokens * experts);
            launch_logits(
                &client,
                &plan,
                upload_f32(&client, x),
                w.clone(),
                out.clone(),
            );
            download_f32(&client, out, tokens * experts)
        };
        let all = logits(&x);
        for token in [0, 3, 10] {
            let alone = logits(&x[token * hidden..][..hidden]);
            assert_eq!(alone, all[token * experts..][..experts], "token {token}");
        }
    }
    Outcome::Ran
}
