//! Gradients of the router logits against the f64 oracle, and the logits bit for bit.

use crate::{Outcome, operation};
use moebius_ops::routing::Problem;
use moebius_ops::{Element, HostTensor, Routing};
use moebius_shaders::routing::{
    LogitsBackwardBuffers, launch_logits_backward, plan_logits_backward,
};
use moebius_tests::data::Rng;
use moebius_tests::elements::rounded;
use moebius_tests::target::{Target, download_f32, nans, upload_f32};
use moebius_tests::tolerance::rel_l2;

/// Numbers of tokens, hidden columns and experts: 1, odd, around tiles of 4 and vectors of 4 and 16, more tokens than a block,
/// more experts than tokens.
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

fn logits(problem: Problem, hidden: usize, element: Element, backward: bool) -> Routing {
    Routing::Logits {
        problem,
        hidden,
        element,
        backward,
    }
}

/// Compares dx and dw of random inputs with the oracle, and two runs bit for bit.
fn check_size(target: &Target, size: (usize, usize, usize), element: Element) -> Outcome {
    let (tokens, hidden, experts) = size;
    let problem = Problem::new(tokens, experts, 1).unwrap();
    let mut rng = Rng::new((tokens * hidden + experts) as u64);
    let dlogits = rng.vec(tokens * experts, 1.0);
    let x = rounded(rng.vec(tokens * hidden, 1.0), element);
    let w = rounded(rng.vec(experts * hidden, 1.0), element);
    let operands = [&x, &w, &dlogits].map(|values| HostTensor::of_f32(values));
    let backward = logits(problem, hidden, element, true);
    // XLA and Flex round dw to w's type; kernels leave it in f32.
    let tolerance = |name: &str| match target.client() {
        Some(_) if name == "dWg" => rel_l2(Element::F32),
        _ => rel_l2(element),
    };
    let outcome = operation::check(target, backward, &operands, tolerance);
    if let Outcome::Ran = outcome {
        let again = || operation::run(target, &backward, &operands).unwrap();
        assert_eq!(again(), again(), "the same bits again");
    }
    outcome
}

pub(crate) fn check(target: &Target, element: Element) -> Outcome {
    Outcome::of(SIZES.map(|size| check_size(target, size, element)))
}

/// Checks either gradient alone, and that dw is 0 without tokens.
pub(crate) fn one_of_both(target: &Target) {
    let client = target.client().unwrap();
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
}

/// Checks that a token's logits have the same bits alone and among others, in any tile.
pub(crate) fn logits_independent_of_the_batch(target: &Target) {
    for (hidden, experts) in [(96, 9), (260, 64), (33, 5)] {
        let mut rng = Rng::new(hidden as u64);
        let (x, w) = (rng.vec(11 * hidden, 1.0), rng.vec(experts * hidden, 1.0));
        let of_tokens = |x: &[f32]| -> Vec<f32> {
            let problem = Problem::new(x.len() / hidden, experts, 1).unwrap();
            let forward = logits(problem, hidden, Element::F32, false);
            let operands = [x, &w].map(HostTensor::of_f32);
            match &operation::run(target, &forward, &operands).unwrap()[..] {
                [HostTensor::Floats(logits)] => logits.iter().map(|l| *l as f32).collect(),
                other => panic!("{other:?}"),
            }
        };
        let all = of_tokens(&x);
        for token in [0, 3, 10] {
            let alone = of_tokens(&x[token * hidden..][..hidden]);
            let among = &all[token * experts..][..experts];
            target.assert_same_rows(&format!("token {token}"), &alone, among);
        }
    }
}
