//! The compiled variants of attention within segments: every element type, and causal in f32.

use super::{Problem, Side, launch, launch_backward, launch_segments, name, plan};
use crate::emit::{KernelEntry, Machine, Planned, valid};
use moebius_ops::Element;
use moebius_ops::segment_attention::Segments;

fn problems() -> [Problem; 4] {
    let problem = |element, causal| {
        // 1024 tokens in 4 sequences, top-2 of 8 experts.
        let segments = valid(Segments::new(2048, 8, 2, 256));
        let problem = valid(Problem::new(segments, 8, 64));
        problem.with_element(element).with_causal(causal)
    };
    let [f32, f16, bf16] = Element::ALL.map(|element| problem(element, false));
    [f32, f16, bf16, problem(Element::F32, true)]
}

fn segments(at: &Machine) -> Planned {
    let plan = plan(problems()[0], &at.capability)?;
    launch_segments(at.client(), &plan, at.buffer(), at.buffer(), at.buffer());
    Ok(())
}

fn forward(at: &Machine, problem: Problem) -> Planned {
    at.launch(&[], plan(problem, &at.capability), launch)
}

fn backward(at: &Machine, problem: Problem) -> Planned {
    at.launch(&[], plan(problem, &at.capability), launch_backward)
}

/// Forward and backward passes in every element type.
pub fn entries() -> Vec<KernelEntry> {
    let segments = KernelEntry::new(
        "segment_attention",
        "segments",
        "attention_segments",
        segments,
    );
    let mut entries = vec![segments];
    let entry = |variant, name, problem: Problem, launch: fn(&Machine, Problem) -> Planned| {
        let launch = move |at: &Machine| launch(at, problem);
        KernelEntry::new("segment_attention", variant, name, launch).of(problem.element())
    };
    let of = |kernel: &str, problem| name(&problem, kernel);
    entries.extend(problems().map(|p| entry("forward", of("segment_attention", p), p, forward)));
    let [f32, f16, bf16, _causal] = problems();
    for problem in [f32, f16, bf16] {
        let name = format!("attention_statistics_{}", problem.element());
        entries.push(entry("backward", name, problem, backward));
    }
    let gradients = [
        Side::Query.kernel(),
        Side::Key.kernel(),
        "attention_value_gradient",
    ];
    for kernel in gradients {
        entries.extend(problems().map(|p| entry("backward", of(kernel, p), p, backward)));
    }
    entries
}
