//! What is too slow for every run, or repeats on another compiler, driver or processor what every run does.

use std::path::Path;

use crate::deep::Deep;
use crate::job::Job;
use crate::places::{Places, instruction_set, text};
use crate::plan::{self, Card, KERNELS, on_device, run};
use crate::programs::Program;

/// Cases that depend on the processor's instructions: a program, its device, a part of the cases' names, and about how many
/// seconds they take on an emulator.
const EMULATED: [(&str, &str, &str, f64); 8] = [
    ("conformance_quantize", "cpu", "casts::", 4.0),
    ("conformance_moe", "cpu", "moe_layer::bf16", 60.0),
    ("conformance_moe", "flex", "moe_layer::", 20.0),
    ("conformance_fp8_layers", "flex", "fp8_linear::", 8.0),
    ("xla_operations", "", "positions::", 100.0),
    ("xla_operations", "", "batch", 60.0),
    ("xla_operations", "", "where_it_lies", 120.0),
    ("xla_parallel", "", "expert::", 120.0),
];

/// All deep jobs.
pub(crate) fn jobs(programs: &[Program], places: &Places) -> Vec<Deep> {
    let find = |target: &str| programs.iter().find(|program| program.target == target);
    let mut jobs: Vec<Deep> = programs
        .iter()
        .filter(|program| !program.rules.libtpu || places.libtpu.is_some())
        .flat_map(at_length)
        .collect();
    for program in programs {
        let of_family = |family: &String| of_family(program, family, places);
        jobs.extend(program.families.iter().flat_map(of_family));
    }
    let each_device = programs.iter().filter(|program| program.rules.each_device);
    for program in each_device {
        let job = plan::on_vulkan(program, places, "whole ");
        jobs.extend(job.map(|job| Deep::new(job, program.subject(), 60.0)));
    }
    if let (Some(qemu), "AVX-512") = (&places.qemu, instruction_set()) {
        let programs = EMULATED
            .iter()
            .filter_map(|case| Some((find(case.0)?, case)));
        jobs.extend(programs.map(|(program, case)| emulated(program, case, qemu)));
    }
    jobs.extend(builds(places));
    for (group, folder) in [("package", "wasm"), ("page", "web-demo")] {
        let name = format!("the {group} in Chromium, at length");
        let job = plan::browser_group(places, &name, &[group]).with("MOEBIUS_TEST_DEEP", "1");
        jobs.push(Deep::new(job, folder, 130.0));
    }
    jobs.push(published(places));
    jobs
}

/// Programs on cards in software: whole, the order of threads turned around, every access of some families checked, and
/// the cases on other cards; training and models.
pub(crate) fn on_cards(programs: &[Program], drivers: &Path) -> Vec<Deep> {
    let mut jobs = Vec::new();
    for program in programs.iter().filter(|program| program.rules.each_device) {
        let mut add = |card: Card, words: &str, variables: &[(&str, &str)], seconds: f64| {
            let mut job = plan::on_a_card(program, card, drivers, words);
            for (name, value) in variables {
                job = job.with(name, *value);
            }
            jobs.push(Deep::new(job, program.subject(), seconds));
        };
        for card in plan::CARDS {
            add(card, "whole ", &[], 60.0);
        }
        let orders = "forward,backward,random:7,warps,ahead";
        if let Some(families) = program.among(CHECKED) {
            let families = ("MOEBIUS_TEST_FAMILIES", families.as_str());
            for card in plan::CARDS {
                let variables = [families, ("MOEBIUS_EMULATOR_ORDERS", orders)];
                add(card, "in five orders ", &variables, 60.0);
                let variables = [families, ("MOEBIUS_EMULATOR_CHECK", "1")];
                add(card, "with accesses checked ", &variables, 60.0);
            }
            for (device, name) in [("cuda", "a100"), ("cuda", "h100"), ("rocm", "rx7900")] {
                let words = format!("as {name} ");
                add(Card { device, name }, &words, &[families], 30.0);
            }
        }
        for (words, name, value) in [
            ("in five orders ", "MOEBIUS_EMULATOR_ORDERS", orders),
            ("with accesses checked ", "MOEBIUS_EMULATOR_CHECK", "1"),
        ] {
            let job = plan::in_metal(program, CHECKED_WITHOUT_BURN, words);
            jobs.extend(job.map(|job| Deep::new(job.with(name, value), program.subject(), 30.0)));
        }
    }
    jobs
}

/// Families and cases of which every schedule and every access is checked: all kinds of kernels with barriers, and none that sums all of
/// a tensor by Burn's kernel, whose bits depend on the order of blocks.
const CHECKED: &str = "routing,topk,permute,capacity,rows,router_backward,hash_routing,expert_load,kv_cache,fp8_mma,fp8,fp8_instructions::linear_layers,\
    moe_layer::relu,moe_layer::gated_silu,moe_layer::gelu_with_bias,moe_layer::capacity,moe_layer::ranks_and_empty_batch,moe_layer::f16,\
    moe_layer::bf16,moe_layer::repeats_bit_for_bit,moe_layer::independent_of_the_batch,moe_layer::device_memory,\
    moe_layer::warm_forward_allocates_nothing,moe_layer::launches_are_fixed,\
    attention::tiles_f16,attention::matrices_f16,grouped_gemm::f16,weight_gradient::f16,segment_attention::f16,expert_activation::f16,fp8_gemm::f16,\
    grouped_gemm::matrices_f16,weight_gradient::matrices_f16";

/// The same of those that need no Burn.
const CHECKED_WITHOUT_BURN: &str = "topk,permute,capacity,rows,router_backward,hash_routing,expert_load,attention::tiles_f16,\
    grouped_gemm::f16,weight_gradient::f16,segment_attention::f16,expert_activation::f16,fp8_gemm::f16,grouped_gemm::matrices_f16,\
    weight_gradient::matrices_f16";

/// The long versions of a program's tests, and XLA with all its optimisation where the default tier goes without.
fn at_length(program: &Program) -> Vec<Deep> {
    let mut jobs = Vec::new();
    if program.rules.deep {
        let job = run(program, "at length", &[]).with("MOEBIUS_TEST_DEEP", "1");
        jobs.push(Deep::new(job, &program.target, 300.0));
    }
    if program.rules.random {
        let job = run(program, "on a million random inputs each", &["arbitrary"]);
        let job = job.with("PROPTEST_CASES", "1000000");
        jobs.push(Deep::new(job, &program.target, 30.0));
    }
    // Conformance has such a job for each family.
    if program.rules.xla_quickly && !program.rules.conformance {
        let words = "optimised, nothing kept";
        let mut job = if program.rules.each_device {
            on_device(program, "xla:cpu", &format!("{words} "))
        } else {
            run(program, words, &[])
        };
        job.variables.retain(|(name, _)| name != "XLA_FLAGS");
        let job = job.with("MOEBIUS_XLA_CACHE", "");
        jobs.push(Deep::new(job, &program.target, 40.0));
    }
    jobs
}

/// A family of conformance on another driver and compiler.
fn of_family(conformance: &Program, family: &str, places: &Places) -> Vec<Deep> {
    let mut jobs = Vec::new();
    let in_default = KERNELS.split(',').any(|name| name == family);
    if let (Some(driver), false) = (&places.swiftshader, in_default) {
        // SwiftShader needs 17 GB to compile tiles with `Rows` and `Dilated` (a remainder in each lane), and no plan chooses them there.
        let (words, skipped) = match family {
            "attention" => (", without tiles", Some("attention::tiles")),
            _ => ("", None),
        };
        let words = format!(": {family}{words}");
        let job = plan::default_limits(conformance, driver, family, &words);
        jobs.extend(job.map(|mut job| {
            if let Some(test) = skipped {
                job.command.extend(["--skip", test].map(str::to_owned));
            }
            Deep::new(job, family, 20.0)
        }));
    }
    let words = format!("optimised, nothing kept: {family} ");
    let mut job = on_device(conformance, "xla:cpu", &words);
    job.variables.retain(|(name, _)| name != "XLA_FLAGS");
    let job = job.with("MOEBIUS_TEST_FAMILIES", family);
    jobs.push(Deep::new(job.with("MOEBIUS_XLA_CACHE", ""), family, 30.0));
    jobs
}

/// A model that others have published, in the browser.
fn published(places: &Places) -> Deep {
    let name = "SmolLM2-135M in Chromium";
    let mut job = plan::browser_group(places, name, &["real"]);
    let run = r#"model=$(scripts/real-model --gguf) && exec "$@" --model "$model""#;
    let shell = ["bash", "-c", run, "bash"].map(str::to_owned);
    job.command.splice(0..0, shell);
    let job = job.depending_on(["scripts/real-model"]);
    Deep::new(job, "wasm", 120.0)
}

/// Some cases as on a processor without AVX-512.
fn emulated(program: &Program, case: &(&str, &str, &str, f64), qemu: &str) -> Deep {
    let (target, device, filter, seconds) = *case;
    let words = format!("on an emulated Haswell (AVX2): {filter} ");
    let mut job = match device {
        "" => run(program, &words, &[filter]),
        device => on_device(program, device, &words),
    };
    if !device.is_empty() {
        job.command.push(filter.to_owned());
    }
    let emulator = [qemu, "-cpu", "Haswell"].map(str::to_owned);
    job.command.splice(0..0, emulator);
    Deep::new(job, target, seconds)
}

/// Builds that share nothing with that of the tests, in folders of their own.
fn builds(places: &Places) -> [Deep; 4] {
    let folder = |name: &str| text(&places.target.with_file_name(format!("target-{name}")));
    let readme = "cargo run --release && cargo run --release -- verify tests/cases/*.safetensors --device flex";
    let plain = "cargo test -p moebius-conformance --test conformance_moe -- moe_ && cargo test -p moebius-tests --test training -- resumed";
    let release = Job::new("README's command, in release", &["bash", "-c", readme])
        .with("CARGO_TARGET_DIR", folder("release"));
    let without = Job::new("without Burn's fusion", &["bash", "-c", plain])
        .tests()
        .with("CARGO_TARGET_DIR", folder("without-fusion"))
        .with("MOEBIUS_TEST_DEVICES", "cpu,wgpu");
    let outside = [&["scripts/outside"], &plan::PUBLISHED[..]].concat();
    let outside = Job::new("a program that depends on the packed crates", &outside)
        .with("CARGO_TARGET_DIR", folder("outside"));
    let benchmarks = Job::new("benchmarks, in release", &["cargo", "bench", "--locked"])
        .with("CARGO_TARGET_DIR", folder("release"));
    // Each builds all crates with all processors: two at once would take as long, and might not end in the time of a job.
    [release, without, outside, benchmarks]
        .map(|job| Deep::new(job.holding("all crates"), "Cargo", 900.0))
}
