//! The compiled variants of the router.

use super::{
    Groups, Plan, Problem, Score, hash, launch, launch_hash, launch_load, launch_logits,
    launch_logits_backward, launch_topk_backward, plan, plan_hash, plan_load, plan_logits,
    plan_logits_backward, plan_topk_backward, topk,
};
use crate::emit::{KernelEntry, Machine, Planned, valid};
use crate::error::Unsupported;
use moebius_device::Capability;
use moebius_ops::Element;
use moebius_ops::routing::{HashKey, HashProblem, LoadProblem, TopkGradient};

/// A routing of 1024 tokens to 2 of 8 experts.
fn problem() -> Problem {
    valid(Problem::new(1024, 8, 2))
}

/// Values per token.
const HIDDEN: usize = 512;

fn logits(at: &Machine, element: Element) -> Planned {
    let plan = plan_logits(problem(), HIDDEN, element, &at.capability)?;
    launch_logits(at.client(), &plan, at.buffer(), at.buffer(), at.buffer());
    Ok(())
}

fn logits_backward(at: &Machine, element: Element) -> Planned {
    let plan = plan_logits_backward(problem(), HIDDEN, element, &at.capability);
    at.launch(&[], plan, launch_logits_backward)
}

fn hash(at: &Machine, key: HashKey, masked: bool) -> Planned {
    let plan = plan_hash(HashProblem::new(problem(), key)?, masked, &at.capability);
    at.launch(&[("mask", masked)], plan, |client, plan, buffers| {
        launch_hash(client, plan, 0, buffers);
    })
}

fn load(at: &Machine) -> Planned {
    let plan = plan_load(LoadProblem::new(problem(), 2)?, &at.capability)?;
    launch_load(at.client(), &plan, at.buffer(), at.buffer());
    Ok(())
}

/// The choice of experts with every score, with a mask, and with a bias in groups.
fn topk_entries() -> impl Iterator<Item = KernelEntry> {
    let groups = Some(Groups {
        count: 8,
        chosen: 4,
        best: 2,
    });
    let choices = [
        (Score::Softmax, true, None, [false, false]),
        (Score::Softmax, false, None, [false, false]),
        (Score::Sigmoid, true, None, [false, false]),
        (Score::Sigmoid, false, None, [false, false]),
        (Score::Softmax, true, None, [true, false]),
        (Score::Sigmoid, true, None, [false, true]),
        (Score::Sigmoid, true, groups, [false, true]),
        (Score::Softmax, false, groups, [true, false]),
    ];
    choices
        .into_iter()
        .flat_map(|(score, renormalize, groups, given)| {
            let problem = valid(Problem::new(1024, 64, 2)).with_score(score, renormalize);
            let problem = valid(problem.with_groups(groups));
            let name = |alone| topk::name(&problem, given[0], given[1], alone);
            let (together, alone) = (name(false), name(true));
            let given = [("mask", given[0]), ("bias", given[1])];
            let all = KernelEntry::new("routing", "top-k", together, move |at| {
                at.launch(&given, plan(problem, &at.capability), launch)
            });
            let some = KernelEntry::new("routing", "top-k in parts", alone, move |at| {
                at.launch(&given, plan_parts(problem, &at.capability), launch)
            });
            [all, some]
        })
}

/// The plan for a device that allows the fewest rounds of loops with which the choice can be made.
fn plan_parts(problem: Problem, device: &Capability) -> Result<Plan, Unsupported> {
    let with = |most: u32| Capability {
        loop_rounds: Some(most),
        ..device.clone()
    };
    let mut plans = (1..1 << 16).map(|most| plan(problem, &with(most)));
    plans
        .find(Result::is_ok)
        .unwrap_or_else(|| plan(problem, device))
}

/// Every formula of the gradient, and the logsumexp with a mask.
fn topk_backward_entries() -> impl Iterator<Item = KernelEntry> {
    use Score::{Sigmoid, Softmax};
    use TopkGradient::{Lse, Probs, Weights};
    let cases = [
        ("weights_softmax", Weights, Softmax, true, false),
        ("weights_softmax_raw", Weights, Softmax, false, false),
        ("weights_sigmoid", Weights, Sigmoid, true, false),
        ("weights_sigmoid_raw", Weights, Sigmoid, false, false),
        ("probs_softmax", Probs, Softmax, true, false),
        ("probs_sigmoid", Probs, Sigmoid, true, false),
        ("lse", Lse, Softmax, true, false),
        ("lse_masked", Lse, Softmax, true, true),
    ];
    cases
        .into_iter()
        .map(|(suffix, of, score, renormalize, masked)| {
            let problem = problem().with_score(score, renormalize);
            let name = format!("route_backward_{suffix}");
            KernelEntry::new("routing", "top-k backward", name, move |at| {
                let plan = plan_topk_backward(problem, of, &at.capability);
                at.launch(&[("mask", masked)], plan, launch_topk_backward)
            })
        })
}

/// Both kinds of hash key, every element type, and a mask.
fn hash_entries() -> impl Iterator<Item = KernelEntry> {
    let hidden = HIDDEN;
    let content = Element::ALL.map(|element| (HashKey::Content { hidden, element }, false));
    let position = [false, true].map(|masked| (HashKey::Position { sequence: 128 }, masked));
    content.into_iter().chain(position).map(|(key, masked)| {
        let name = hash::name(key, masked);
        let entry = KernelEntry::new("routing", "hash", name, move |at| hash(at, key, masked));
        match key {
            HashKey::Position { .. } => entry,
            HashKey::Content { element, .. } => entry.of(element),
        }
    })
}

/// Logits, choices, their gradients, and the loads of experts.
pub fn entries() -> Vec<KernelEntry> {
    let mut entries = Vec::new();
    for element in Element::ALL {
        let launch = move |at: &Machine| logits(at, element);
        let name = format!("router_logits_{element}");
        entries.push(KernelEntry::new("routing", "logits", name, launch).of(element));
    }
    entries.extend(topk_entries());
    let backward = "logits backward";
    for element in Element::ALL {
        for kernel in ["router_dx", "router_dw"] {
            let launch = move |at: &Machine| logits_backward(at, element);
            let name = format!("{kernel}_{element}");
            entries.push(KernelEntry::new("routing", backward, name, launch).of(element));
        }
    }
    let sum = |at: &Machine| logits_backward(at, Element::F32);
    entries.push(KernelEntry::new("routing", backward, "router_dw_sum", sum));
    entries.extend(topk_backward_entries());
    entries.extend(hash_entries());
    let loads = ["load_blocks", "load_sum"];
    entries.extend(loads.map(|name| KernelEntry::new("routing", "load", name, load)));
    entries
}
