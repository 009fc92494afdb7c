//! The jobs of a run and their order: the cheapest first, and long ones early enough that no lane is idle at the end.

use std::path::{Path, PathBuf};

use crate::job::{Counts, Job, XLA};
use crate::places::{Places, text};
use crate::programs::Program;
use crate::unchanged::{self, BROWSER};

/// The features of every build: a second set would build all dependencies again.
const FEATURES: &str = if cfg!(target_os = "linux") {
    ALL_FEATURES
} else {
    "cpu,xla,fusion,otlp"
};
/// The features of every build on Linux, and of checks everywhere.
const ALL_FEATURES: &str = "cpu,xla,fusion,otlp,vulkan,cuda,rocm";
/// The devices of tests. XLA comes first: jobs that compile with it run one at a time, and shouldn't be left for the end.
const DEVICES: [&str; 4] = ["xla:cpu", "wgpu", "cpu", "flex"];
/// XLA's flags for programs that run once, as most in tests do: without optimisation they compile up to several times faster.
pub(crate) const XLA_QUICKLY: &str =
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true";
/// The variable with options of lavapipe's compiler.
pub(crate) const LAVAPIPE_OPTIONS: &str = "GALLIVM_PERF";
/// Families with kernels of their own, which are tested within WebGPU's default limits.
pub(crate) const KERNELS: &str = "fp8,routing,topk,router_backward,hash_routing,expert_load,permute,capacity,rows,\
    grouped_gemm,fp8_gemm,sparse24_gemm,block_gemm,weight_gradient,expert_activation,segment_attention,exact,moe_layer,quantize";

/// Families and cases that, beside [`KERNELS`], launch every kernel that a GPU's plan may choose.
const OTHER_KERNELS: &str = "kv_cache,nn,moe_training,experts,fp8_training,activation_dropout,attention::large_scores,attention::f16,\
    attention::seen_values,attention::as_emitted,attention::tiles,attention::tiles_f16,attention::dropout,attention::dropout_repeats,\
    attention::masks,attention::lengths,attention::bf16,attention::tiles_bf16,attention::matrices_f16,attention::matrices_bf16";

/// Families and cases that launch kernels without Burn, which has no device for Metal.
pub(crate) const WITHOUT_BURN: &str = "topk,router_backward,hash_routing,expert_load,permute,capacity,rows,grouped_gemm,fp8_gemm,\
    sparse24_gemm,block_gemm,weight_gradient,expert_activation,segment_attention,exact,attention::tiles,attention::tiles_f16,attention::tiles_bf16";

/// The folder of the kit with the server's clients.
pub(crate) const CLIENTS: &str = "tests/clients";

/// Crates that build without Burn; their tests run first.
const READING: [&str; 2] = ["moebius-tree", "moebius-runner"];

/// Jobs that need no build of Burn and only Rust installed; they run first.
pub(crate) fn reading() -> Vec<Job> {
    let parse = r#"for file in scripts/* .ci/run; do case "$file" in *.mjs | *.py) ;; *) bash -n "$file" || exit ;; esac; done"#;
    let [tree, runner] = READING;
    let tests = format!("cargo test --locked -p {tree} -p {runner}");
    vec![
        Job::words("format", "cargo fmt --all --check"),
        Job::new("shell scripts parse", &["bash", "-c", parse]),
        kit("the kit for machines with a GPU", "tests/gpu"),
        kit("the kit with a real model", "tests/real_model"),
        Job::words("the tree: style, layers, documents", &tests).tests(),
    ]
}

/// The tests of a kit in Python. `-B` leaves no compiled files in its folder, which is part of a key.
fn kit(name: &str, folder: &str) -> Job {
    Job::words(
        name,
        &format!("python3 -B -m unittest discover -s {folder} -p test_*.py"),
    )
}

/// The tests of the checks from outside, which take half a minute with a server that only plays one.
pub(crate) fn kit_of_clients() -> Job {
    kit("the kit of the server's clients", CLIENTS).depending_on([CLIENTS])
}

/// What `scripts/setup` installs with this option; it may ask for a password.
pub(crate) fn set_up(what: &str, option: &str) -> Job {
    Job {
        asks: true,
        ..Job::words(format!("set-up {what}"), &format!("scripts/setup {option}"))
    }
}

/// The name of the build's job.
pub(crate) const BUILD: &str = "build";

/// The build of every test program; its messages name the programs, and cargo's report has the times.
pub(crate) fn build() -> Job {
    let options = "--no-run --message-format=json-render-diagnostics --timings";
    let command = format!("cargo test --locked --workspace {options} --features {FEATURES}");
    Job::words(BUILD, &command).holding("cargo")
}

/// The crates that users depend on, and those of the command; each after those that it needs.
pub(crate) const PUBLISHED: &str = "moebius-ops moebius-host moebius-device moebius-shaders moebius-pjrt moebius-xla moebius \
    moebius-weights moebius-model moebius-text moebius-engine moebius-grammar moebius-serve moebius-cases \
    moebius-case-files moebius-shipped moebius-benches moebius-cli";

/// Cargo's checks other than tests; only one at a time can use cargo's target folder. Published crates are packed without
/// compiling them again.
pub(crate) fn cargo_checks() -> Vec<Job> {
    let cargo =
        |name: &str, words: &str| Job::words(name, &format!("cargo {words}")).holding("cargo");
    // This includes the program with all conformance cases, which no run builds.
    let clippy = format!(
        "clippy --locked --workspace --all-targets --features {ALL_FEATURES},whole -- -D warnings"
    );
    let docs = format!("doc --locked --workspace --no-deps --lib --features {ALL_FEATURES}");
    let examples = format!("test --locked --workspace --doc --features {FEATURES}");
    let packages = format!("scripts/outside --pack {PUBLISHED}");
    vec![
        cargo("clippy", &clippy),
        cargo("docs", &docs).with("RUSTDOCFLAGS", "-D warnings"),
        cargo("examples in the docs", &examples).tests(),
        Job::words("packages of the crates", &packages).holding("cargo"),
    ]
}

/// A job that runs a test program; `words` are added to its name, `arguments` to its command.
pub(crate) fn run(program: &Program, words: &str, arguments: &[&str]) -> Job {
    let name = if program.unit {
        format!("unit tests of {} {words}", program.package)
    } else {
        format!("{} {words}", program.target)
    };
    let executable = text(&program.executable);
    let mut job = Job::new(name.trim_end(), &[&executable])
        .arguments(arguments)
        .tests();
    if !program.rules.own_harness {
        // libtest reports the time of each test with an unstable option, which must be permitted.
        job = job
            .arguments(&["-Z", "unstable-options", "--report-time"])
            .with("RUSTC_BOOTSTRAP", "1");
    }
    if program.unit {
        job.counts = Counts::Units;
    }
    job.folder = program.folder.clone();
    job.alone = program.rules.alone;
    job.holds = program.rules.xla.then_some(XLA);
    job.depends_on = depends_on(program);
    job.reads = unchanged::read_by(&program.target);
    job.with("CARGO_MANIFEST_DIR", text(&program.folder))
}

/// The files that decide the outcome of a slow program: the program, and the command `moebius` if its tests run it. Other
/// programs always run.
fn depends_on(program: &Program) -> Vec<PathBuf> {
    let rules = &program.rules;
    if !(rules.device || rules.each_device || rules.long) {
        return Vec::new();
    }
    let mut all = vec![program.executable.clone()];
    // Test programs lie in `deps`, and the workspace's commands in the folder above.
    if program.package == "moebius-cli"
        && let Some(folder) = program.executable.ancestors().nth(2)
    {
        all.push(folder.join("moebius"));
    }
    all
}

/// Jobs for every test program: once, or once for each device; programs without devices come first.
pub(crate) fn tests(programs: &[Program], libtpu: bool) -> Vec<Job> {
    let here = programs.iter().filter(|program| {
        let read = READING.contains(&program.package.as_str());
        !read && (libtpu || !program.rules.libtpu)
    });
    let (each, once): (Vec<&Program>, Vec<&Program>) =
        here.partition(|program| program.rules.each_device);
    // These write no record, because this run's record is checked later.
    let once = once.into_iter().map(|program| {
        let job = run(program, "", &[]).with("MOEBIUS_TEST_RECORD", "");
        if program.rules.xla && program.rules.xla_quickly {
            return job.with("XLA_FLAGS", XLA_QUICKLY);
        }
        job
    });
    let on_devices = each
        .into_iter()
        .flat_map(|program| DEVICES.map(|device| on_device(program, device, "")));
    once.chain(on_devices).collect()
}

pub(crate) fn on_device(program: &Program, device: &str, words: &str) -> Job {
    let words = format!("{words}[{device}]");
    let mut job = run(program, &words, &[]).with("MOEBIUS_TEST_DEVICES", device);
    if device == "xla:cpu" {
        job.holds = Some(XLA);
        if program.rules.xla_quickly {
            job = job.with("XLA_FLAGS", XLA_QUICKLY);
        }
    }
    job
}

/// Conformance families within WebGPU's default limits, on Chromium's software driver.
pub(crate) fn default_limits(
    program: &Program,
    driver: &str,
    families: &str,
    words: &str,
) -> Option<Job> {
    let words = format!("within WebGPU's default limits{words} ");
    let job = on_device(program, "wgpu", &words).with("VK_ICD_FILENAMES", driver);
    of_families(job, program, families)
}

/// Restricts a job to the families and cases of a list that the program has; `None` if it has none.
pub(crate) fn of_families(job: Job, program: &Program, families: &str) -> Option<Job> {
    Some(job.with("MOEBIUS_TEST_FAMILIES", program.among(families)?))
}

/// Every kernel on `vulkan`.
pub(crate) fn kernels_on_vulkan(conformance: &Program, places: &Places) -> Option<Job> {
    let job = on_vulkan(conformance, places, "")?;
    of_families(job, conformance, &format!("{KERNELS},{OTHER_KERNELS}"))
}

/// Every kernel in CUDA C++ or HIP C++, on an emulated card.
pub(crate) fn kernels_on_a_card(conformance: &Program, card: Card, drivers: &Path) -> Option<Job> {
    let families = format!("{KERNELS},{OTHER_KERNELS},fp8_mma,fp8_instructions,fp8_conversion");
    let job = on_a_card(conformance, card, drivers, "");
    of_families(job, conformance, &families)
}

/// Families of kernels in Metal's language, on the emulator's grid.
pub(crate) fn in_metal(conformance: &Program, families: &str, words: &str) -> Option<Job> {
    of_families(on_device(conformance, "msl", words), conformance, families)
}

/// An emulated card, by its name in the emulator.
#[derive(Clone, Copy)]
pub(crate) struct Card {
    /// The device's name in tests.
    pub(crate) device: &'static str,
    pub(crate) name: &'static str,
}

/// The cards that every run uses.
pub(crate) const CARDS: [Card; 2] = [
    Card {
        device: "cuda",
        name: "l4",
    },
    Card {
        device: "rocm",
        name: "mi300x",
    },
];

/// A program on an emulated card, whose drivers are in the folder `drivers`.
pub(crate) fn on_a_card(program: &Program, card: Card, drivers: &Path, words: &str) -> Job {
    let job = on_device(program, card.device, words)
        .with("MOEBIUS_EMULATOR_CARD", card.name)
        .depending_on([drivers.join("libcuda.so")]);
    let folder = text(drivers);
    // CubeCL asks for the place of a CUDA toolkit, and `hipconfig` for HIP's headers.
    if card.device == "cuda" {
        let job = job.with("LD_LIBRARY_PATH", folder.as_str());
        return job.with("CUDA_PATH", folder);
    }
    let run = ["bash", "-c", r#"PATH=$ROCM_PATH:$PATH exec "$@""#, "bash"];
    job.with("ROCM_PATH", folder).under(&run)
}

/// A program on `vulkan`.
pub(crate) fn on_vulkan(program: &Program, places: &Places, words: &str) -> Option<Job> {
    with_vulkan(on_device(program, "vulkan", words), places)
}

/// Gives a job a GPU for `vulkan`, or a software driver that takes SPIR-V, with the loader that it needs; `None` where there is neither.
pub(crate) fn with_vulkan(job: Job, places: &Places) -> Option<Job> {
    if places.gpu.is_some() {
        return Some(job);
    }
    let job = job.with("VK_ICD_FILENAMES", places.spirv_driver.as_ref()?);
    let Some(loader) = &places.spirv_loader else {
        return Some(job);
    };
    let libraries = Path::new(loader).parent().map(text).unwrap_or_default();
    Some(job.under(&[loader, "--library-path", &libraries]))
}

/// The check of the support table against the records of conformance.
pub(crate) fn support_table(program: &Program, records: &str, conformance: &[&Program]) -> Job {
    let mut job = run(program, "of this run", &[]).with("MOEBIUS_TEST_RECORD", records);
    let on_devices = |of: &&Program| {
        let devices = ["cpu", "wgpu", "vulkan", "cuda", "rocm", "msl"];
        devices.map(|device| on_device(of, device, "").name)
    };
    job.after = conformance.iter().flat_map(on_devices).collect();
    job
}

/// Parts of the main job that no library test covers: `devices`, `bench` at a size that takes seconds without optimisation, and
/// a few tokens of the bundled model.
pub(crate) fn command(places: &Places) -> Job {
    let script = r#""$1" devices || exit
        for device in cpu wgpu flex xla:cpu; do "$1" bench moe --hidden 64 --batch 2 --seq 64 --device "$device" &&
            "$1" generate --prompt "Call me" --max-tokens 8 --device "$device" || exit; done"#;
    Job::new(
        "the main job's parts, small",
        &["bash", "-c", script, "bash", &places.moebius()],
    )
    .depending_on([places.moebius()])
    .holding(XLA)
}

/// Groups of the browser's tests as one job.
pub(crate) fn browser_group(places: &Places, name: &str, groups: &[&str]) -> Job {
    let run = format!("{}/run.mjs", places.browser_tests);
    let native = places.moebius();
    let command = [&["node", &run], groups, &["--native", &native]].concat();
    let mut job = Job::new(name, &command)
        .tests()
        .after("the browser package and its page")
        .depending_on(["wasm/pkg", "web-demo/dist", &native]);
    job.reads = unchanged::read_by(BROWSER);
    job
}

/// Jobs for the browser package, its page and their quick tests.
pub(crate) fn browser(places: &Places) -> Vec<Job> {
    // `--check` alone would parse a .js file as the older kind of module.
    let parse = r#"git ls-files --cached --others --exclude-standard '*.js' '*.mjs' | while IFS= read -r file; do
        node --input-type=module --check <"$file" || { echo "in $file"; exit 1; }; done"#;
    vec![
        Job::new("scripts of pages parse", &["bash", "-c", parse]),
        Job::new(
            "the browser package and its page",
            &["scripts/demo", "--build-only"],
        ),
        browser_group(places, "the bytes of the page", &["size"]),
        browser_group(places, "the package in Deno", &["deno"]),
    ]
}

/// The groups of tests in Chromium, each with the one test that shows that package or page work.
pub(crate) const GROUPS: [(&str, &str); 2] = [
    ("package", "outputsEqualThoseOfANativeRun"),
    ("page", "readyOnce"),
];

/// A group of tests in Chromium, which take minutes, or only its one test.
pub(crate) fn in_chromium(places: &Places, (group, one): (&str, &str), whole: bool) -> Job {
    let name = format!("the {group} in Chromium");
    let job = if whole {
        browser_group(places, &name, &[group])
    } else {
        browser_group(
            places,
            &format!("{name}, in short"),
            &[group, "--only", one],
        )
    };
    // The package is compared with a native run, which gives the same bits only on the same driver.
    match (&places.swiftshader, group) {
        (Some(driver), "package") => job.with("VK_ICD_FILENAMES", driver),
        _ => job,
    }
}
