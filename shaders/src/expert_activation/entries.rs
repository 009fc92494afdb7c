//! What is compiled of the activation: every type gated with silu, as most models have it, and the other activations in f32.

use super::*;
use crate::emit::{KernelEntry, Machine, Planned, valid};
use moebius_ops::Element;
use moebius_ops::expert_activation::output_bias::Problem as OutputBias;

fn problems() -> Vec<Problem> {
    let problem = |element, gated, activation| {
        let problem = valid(Problem::new(2048, 8, 512));
        problem
            .with_element(element)
            .with_activation(Some(activation), gated)
    };
    let gated = Element::ALL.map(|element| problem(element, true, Activation::Silu));
    let plain = [Activation::Relu, Activation::Gelu, Activation::Mish]
        .map(|activation| problem(Element::F32, false, activation));
    gated.into_iter().chain(plain).collect()
}

fn forward(at: &Machine, problem: Problem) -> Planned {
    let buffers = ForwardBuffers {
        pre: at.buffer(),
        offsets: at.buffer(),
        hidden: at.buffer(),
    };
    launch(at.client(), &plan(problem, &at.capability)?, buffers);
    Ok(())
}

fn backward(at: &Machine, problem: Problem) -> Planned {
    let buffers = BackwardBuffers {
        pre: at.buffer(),
        dhidden: at.buffer(),
        order: at.buffer(),
        offsets: at.buffer(),
        weights: at.buffer(),
        dpre: at.buffer(),
        dweights: at.buffer(),
    };
    launch_backward(at.client(), &plan(problem, &at.capability)?, buffers);
    Ok(())
}

fn gradient(at: &Machine, problem: Problem) -> Planned {
    let buffers = GradientBuffers {
        pre: at.buffer(),
        dhidden: at.buffer(),
        offsets: at.buffer(),
        dpre: at.buffer(),
    };
    launch_gradient(at.client(), &plan(problem, &at.capability)?, buffers);
    Ok(())
}

fn output_bias(at: &Machine, element: Element) -> Planned {
    let problem = OutputBias::new(2048, 8, 2, 512)?.with_element(element);
    let buffers = output_bias::Buffers {
        dy: at.buffer(),
        bias: at.buffer(),
        order: at.buffer(),
        offsets: at.buffer(),
        dweights: at.buffer(),
    };
    let plan = output_bias::plan(problem, &at.capability)?;
    output_bias::launch(at.client(), &plan, buffers);
    Ok(())
}

pub(crate) fn entries() -> Vec<KernelEntry> {
    type Launch = fn(&Machine, Problem) -> Planned;
    let kernels: [(&str, &str, Launch); 3] = [
        ("forward", "expert_activation", forward),
        ("backward", "expert_activation_backward", backward),
        ("gradient", "expert_activation_gradient", gradient),
    ];
    let mut entries = Vec::new();
    for (variant, kernel, launch) in kernels {
        entries.extend(problems().into_iter().map(|problem| {
            let name = name(&problem, kernel);
            let launch = move |at: &Machine| launch(at, problem);
            KernelEntry::new(("expert_activation", variant), name, launch).of(problem.element)
        }));
    }
    entries.extend(Element::ALL.map(|element| {
        let name = format!("output_bias_weights_{element}");
        let launch = move |at: &Machine| output_bias(at, element);
        KernelEntry::new(("expert_activation", "output-bias"), name, launch).of(element)
    }));
    entries
}
