//! What is run, in which order. Cheapest first, and what takes long early enough that no lane is idle at the end.

use std::path::{Path, PathBuf};

use crate::job::{Counts, Job, XLA};
use crate::places::{Places, text};
use crate::programs::Program;
use crate::unchanged::{self, BROWSER};

/// One feature set for every stage: each further one would build all dependencies again.
const FEATURES: &str = if cfg!(target_os = "linux") {
    ALL_FEATURES
} else {
    "cpu,xla,fusion"
};
/// What is looked at everywhere.
const ALL_FEATURES: &str = "cpu,xla,fusion,vulkan,cuda,rocm";
/// XLA first: what compiles with it waits for one another, and should not be left for the end.
const DEVICES: [&str; 4] = ["xla:cpu", "wgpu", "cpu", "flex"];
/// Most programs that tests give to XLA run once each; XLA compiles them up to several times faster without optimisation.
const XLA_QUICKLY: &str =
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true";
/// Families with kernels of their own: they show what WebGPU's default limits mean.
pub(crate) const KERNELS: &str = "fp8,routing,topk,router_backward,hash_routing,expert_load,permute,capacity,rows,\
    grouped_gemm,fp8_gemm,weight_gradient,expert_activation,segment_attention,moe_layer,quantize";

/// What of the other families launches every kernel that a GPU's plan may choose.
const OTHER_KERNELS: &str = "kv_cache,nn,moe_training,experts,fp8_training,activation_dropout,attention::large_scores,attention::f16,\
    attention::seen_values,attention::as_emitted,attention::tiles,attention::tiles_f16,attention::dropout,attention::dropout_repeats,\
    attention::masks,attention::lengths,attention::bf16,attention::tiles_bf16,attention::matrices_f16,attention::matrices_bf16";

/// Families whose cases launch kernels and need no Burn, which has no device for Metal's texts.
pub(crate) const WITHOUT_BURN: &str = "topk,router_backward,hash_routing,expert_load,permute,capacity,rows,grouped_gemm,fp8_gemm,\
    weight_gradient,expert_activation,segment_attention,attention::tiles,attention::tiles_f16,attention::tiles_bf16";

/// Crates that need no build of Burn; their tests are the first verdict.
const READING: [&str; 2] = ["moebius-tree", "moebius-runner"];

/// What needs no build of Burn and nothing installed but Rust: the first verdict.
pub(crate) fn reading() -> Vec<Job> {
    let parse = r#"for file in scripts/* .ci/run; do case "$file" in *.mjs) ;; *) bash -n "$file" || exit ;; esac; done"#;
    let [tree, runner] = READING;
    let tests = format!("cargo test --locked -p {tree} -p {runner}");
    vec![
        Job::words("format", "cargo fmt --all --check"),
        Job::new("shell scripts parse", &["bash", "-c", parse]),
        Job::words("the tree: style, layers, documents", &tests).tests(),
    ]
}

/// Compiles every test program; its messages name them, and cargo's report says what took how long.
pub(crate) fn build() -> Job {
    let options = "--no-run --message-format=json-render-diagnostics --timings";
    let command = format!("cargo test --locked --workspace {options} --features {FEATURES}");
    Job::words("build", &command).holding("cargo")
}

/// The crates that users depend on.
pub(crate) const PUBLISHED: &str = "moebius-ops moebius-host moebius-device moebius-shaders moebius-pjrt moebius-xla moebius \
    moebius-weights moebius-model moebius-text moebius-engine moebius-cases";

/// Checks by cargo besides tests, of which only one at a time can use its target folder. The crates that users depend on are packed
/// without compiling them again.
pub(crate) fn cargo_checks() -> Vec<Job> {
    let cargo =
        |name: &str, words: &str| Job::words(name, &format!("cargo {words}")).holding("cargo");
    // With the program that has all cases of conformance, which no run builds.
    let clippy = format!(
        "clippy --locked --workspace --all-targets --features {ALL_FEATURES},whole -- -D warnings"
    );
    let docs = format!("doc --locked --workspace --no-deps --lib --features {ALL_FEATURES}");
    let examples = format!("test --locked --workspace --doc --features {FEATURES}");
    let packages = PUBLISHED.split_whitespace();
    let packages: String = packages.map(|name| format!(" --package {name}")).collect();
    let packages = format!("package --locked --offline --allow-dirty --no-verify{packages}");
    vec![
        cargo("clippy", &clippy),
        cargo("docs", &docs).with("RUSTDOCFLAGS", "-D warnings"),
        cargo("examples in the docs", &examples).tests(),
        cargo("packages of the crates", &packages),
    ]
}

/// A test program as a job; `words` are added to its name, `arguments` to its command.
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
        // libtest tells how long each test took; the option is unstable, so it has to be let in.
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

/// What decides about a program that takes long: itself, and the command where its tests run that. Other programs always run.
fn depends_on(program: &Program) -> Vec<PathBuf> {
    let rules = &program.rules;
    if !(rules.device || rules.each_device || rules.long) {
        return Vec::new();
    }
    let mut all = vec![program.executable.clone()];
    // Test programs lie in `deps`, beside which cargo puts the programs of the workspace.
    if program.package == "moebius-cli"
        && let Some(folder) = program.executable.ancestors().nth(2)
    {
        all.push(folder.join("moebius"));
    }
    all
}

/// Every test program once, or once for each device; device-free ones first.
pub(crate) fn tests(programs: &[Program], libtpu: bool) -> Vec<Job> {
    let here = programs.iter().filter(|program| {
        let read = READING.contains(&program.package.as_str());
        !read && (libtpu || !program.rules.libtpu)
    });
    let (each, once): (Vec<&Program>, Vec<&Program>) =
        here.partition(|program| program.rules.each_device);
    // Without a record: that of this run is looked at later.
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

/// Families of conformance within WebGPU's default limits, on Chromium's software driver.
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

/// A job of the families and cases of a list that the program has; `None` where it has none.
pub(crate) fn of_families(job: Job, program: &Program, families: &str) -> Option<Job> {
    Some(job.with("MOEBIUS_TEST_FAMILIES", program.among(families)?))
}

/// Every kernel on `vulkan`.
pub(crate) fn kernels_on_vulkan(conformance: &Program, places: &Places) -> Option<Job> {
    let job = on_vulkan(conformance, places, "")?;
    of_families(job, conformance, &format!("{KERNELS},{OTHER_KERNELS}"))
}

/// Every kernel of CUDA C++ or HIP C++, on a card in software.
pub(crate) fn kernels_on_a_card(conformance: &Program, card: Card, drivers: &Path) -> Option<Job> {
    let families = format!("{KERNELS},{OTHER_KERNELS},fp8_mma,fp8_instructions,fp8_conversion");
    let job = on_a_card(conformance, card, drivers, "");
    of_families(job, conformance, &families)
}

/// Families of kernels in Metal's language, on the grid of the cards in software.
pub(crate) fn in_metal(conformance: &Program, families: &str, words: &str) -> Option<Job> {
    of_families(on_device(conformance, "msl", words), conformance, families)
}

/// A card in software, by its name there.
#[derive(Clone, Copy)]
pub(crate) struct Card {
    /// The device that it is.
    pub(crate) device: &'static str,
    pub(crate) name: &'static str,
}

/// The cards of every run.
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

/// A program on a card that the drivers in a folder show.
pub(crate) fn on_a_card(program: &Program, card: Card, drivers: &Path, words: &str) -> Job {
    let job = on_device(program, card.device, words)
        .with("MOEBIUS_EMULATOR_CARD", card.name)
        .depending_on([drivers.join("libcuda.so")]);
    let folder = text(drivers);
    // CubeCL wants to know where a toolkit would be, and asks `hipconfig` for the headers.
    if card.device == "cuda" {
        let job = job.with("LD_LIBRARY_PATH", folder.as_str());
        return job.with("CUDA_PATH", folder);
    }
    let run = ["bash", "-c", r#"PATH=$ROCM_PATH:$PATH exec "$@""#, "bash"];
    job.with("ROCM_PATH", folder).under(&run)
}

/// A program on `vulkan`: on a GPU, or on a software driver that takes SPIR-V, with the loader that its libraries need.
pub(crate) fn on_vulkan(program: &Program, places: &Places, words: &str) -> Option<Job> {
    let job = on_device(program, "vulkan", words);
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

/// Holds the support table against what conformance left in `records`.
pub(crate) fn support_table(program: &Program, records: &str, conformance: &[&Program]) -> Job {
    let mut job = run(program, "of this run", &[]).with("MOEBIUS_TEST_RECORD", records);
    let on_devices = |of: &&Program| {
        let devices = ["cpu", "wgpu", "vulkan", "cuda", "rocm", "msl"];
        devices.map(|device| on_device(of, device, "").name)
    };
    job.after = conformance.iter().flat_map(on_devices).collect();
    job
}

/// The parts of the main job that tests of libraries don't have: `devices`, `bench` at a size that takes seconds
/// without optimisation, and a few tokens of the bundled model.
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

/// Groups of the browser's tests.
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

/// The browser package, its page and their quick tests.
pub(crate) fn browser(places: &Places) -> Vec<Job> {
    // --check alone takes a .js for the older kind of module.
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

/// The groups of tests in Chromium, each with one test that shows that package or page work.
pub(crate) const GROUPS: [(&str, &str); 2] = [
    ("package", "outputsEqualThoseOfANativeRun"),
    ("page", "readyOnce"),
];

/// A group of tests in Chromium, which take minutes, or one of them.
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
    // The package is compared with a native run, which gives the same bits on the same driver.
    match (&places.swiftshader, group) {
        (Some(driver), "package") => job.with("VK_ICD_FILENAMES", driver),
        _ => job,
    }
}
