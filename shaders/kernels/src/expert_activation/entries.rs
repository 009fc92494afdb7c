//! The compiled variants of the activation: every element type gated with silu, as most models have it, and other activations in
//! f32.

use super::{
    Activation, Problem, launch, launch_backward, launch_gradient, name, output_bias, plan,
};
use crate::emit::{KernelEntry, Machine, Planned, valid};
use moebius_ops::Element;
use moebius_ops::expert_activation::output_bias::Problem as OutputBias;

fn problems() -> impl Iterator<Item = Problem> {
    let problem = |element, gated, activation| {
        let problem = valid(Problem::new(2048, 8, 512));
        problem
            .with_element(element)
            .with_activation(Some(activation), gated)
    };
    let gated = Element::ALL.map(|element| problem(element, true, Activation::Silu));
    let plain = [Activation::Relu, Activation::Gelu, Activation::Mish]
        .map(|activation| problem(Element::F32, false, activation));
    gated.into_iter().chain(plain)
}

/// Activations (gated and plain) and their gradients in every element type, and those of a dense network in f32.
pub fn entries() -> Vec<KernelEntry> {
    type Launch = fn(&Machine, Problem) -> Planned;
    let kernels: [(&str, &str, Launch); 3] = [
        ("forward", "expert_activation", |at, p| {
            at.launch(&[], plan(p, &at.capability), launch)
        }),
        ("backward", "expert_activation_backward", |at, p| {
            at.launch(&[], plan(p, &at.capability), launch_backward)
        }),
        ("gradient", "expert_activation_gradient", |at, p| {
            at.launch(&[], plan(p, &at.capability), launch_gradient)
        }),
    ];
    let mut entries = Vec::new();
    for (variant, kernel, launch) in kernels {
        entries.extend(problems().map(|problem| {
            let name = name(&problem, kernel, false);
            let launch = move |at: &Machine| launch(at, problem);
            KernelEntry::new("expert_activation", variant, name, launch).of(problem.element())
        }));
    }
    let dense: [(&str, &str, Launch); 2] = [
        ("forward", "expert_activation", |at, p| {
            at.launch(&[("offsets", false)], plan(p, &at.capability), launch)
        }),
        ("gradient", "expert_activation_gradient", |at, p| {
            let plan = plan(p, &at.capability);
            at.launch(&[("offsets", false)], plan, launch_gradient)
        }),
    ];
    entries.extend(dense.map(|(variant, kernel, launch)| {
        let problem = valid(Problem::new(1024, 1, 512));
        let problem = problem.with_activation(Some(Activation::Silu), true);
        let name = name(&problem, kernel, true);
        let launch = move |at: &Machine| launch(at, problem);
        KernelEntry::new("expert_activation", variant, name, launch).of(problem.element())
    }));
    entries.extend(Element::ALL.map(|element| {
        let name = format!("output_bias_weights_{element}");
        let launch = move |at: &Machine| {
            let problem = OutputBias::new(2048, 8, 2, 512)?.with_element(element);
            let plan = output_bias::plan(problem, &at.capability);
            at.launch(&[], plan, output_bias::launch)
        };
        KernelEntry::new("expert_activation", "output-bias", name, launch).of(element)
    }));
    entries
}
