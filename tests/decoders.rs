//! Decoders of every family of published models, tiny and with random weights, on every device: their logits equal those of
//! transformers (`tests/cases/make_cases.py`, `tests/cases/make_decoders.py`), and with an adapter those of PEFT, for the decoders that
//! have one (`tests/cases/make_adapters.py`). The same for the trained model that ships with the project (`tests/cases/make_shipped.py`).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use burn::tensor::DType;
use moebius::ErrorKind;
use moebius_cases::{CaseFile, Verdict, judge};
use moebius_model::Error;
use moebius_model::computation::Cost;
use moebius_model::families::FAMILIES;
use moebius_model::load::{ExpertsFrom, LoadOptions, ModelFiles};
use moebius_tests::target::Target;

/// Largest relative L2 error of logits, in f32.
const APART: f64 = 1e-5;

/// The folders of `tests/cases` that hold a decoder, and the folder of the shipped model.
fn folders() -> Vec<PathBuf> {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    let entries = std::fs::read_dir(cases).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let paths = paths.filter(|path| path.join("logits.case.safetensors").is_file());
    let mut folders: Vec<_> = paths.collect();
    folders.sort();
    folders.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime/shipped"));
    folders
}

/// The case of a folder's model, and that of the model with an adapter, if the folder has one.
fn cases(folder: &Path) -> Vec<PathBuf> {
    let adapted = folder.join("adapter.case.safetensors");
    let adapted = Some(adapted).filter(|path| path.is_file());
    let plain = folder.join("logits.case.safetensors");
    [plain].into_iter().chain(adapted).collect()
}

/// Compares the logits of a case with the expected ones; returns what is wrong.
fn failures(path: &Path, target: &Target) -> Vec<String> {
    let name = path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap();
    let name = format!("{}[{}]", name.display(), target.name);
    let case = CaseFile::read(path).unwrap();
    let outputs = match pollster::block_on(judge(&case, &target.burn())) {
        Err(error) => return vec![format!("{name}: {error}")],
        Ok(outputs) if outputs.is_empty() => return vec![format!("{name}: no output")],
        Ok(outputs) => outputs,
    };
    let mut failures = Vec::new();
    for output in outputs {
        let said = format!("{name}: rel_l2 {:.1e}, {:?}", output.rel_l2, output.verdict);
        println!("{said}");
        // Written so that NaN fails.
        let near = output.rel_l2 <= APART;
        if !near || output.verdict != Verdict::Pass {
            failures.push(said);
        }
    }
    failures
}

#[test]
fn every_family_has_a_case() {
    let all: BTreeSet<_> = FAMILIES.iter().map(|family| family.name).collect();
    let folders = folders().into_iter();
    let with = folders.map(|folder| ModelFiles::open(&folder).unwrap().family());
    assert_eq!(with.collect::<BTreeSet<_>>(), all);
}

#[test]
fn logits_are_those_of_transformers() {
    let folders = folders();
    let mut failed = Vec::new();
    for target in Target::all() {
        for case in folders.iter().flat_map(|folder| cases(folder)) {
            failed.extend(failures(&case, target));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

/// A device that lacks f16 or bf16 says so before a weight is read; the others load the model.
#[test]
fn a_type_that_a_device_lacks_is_refused_before_the_weights_are_read() {
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/decoder_olmoe");
    let files = ModelFiles::open(&case).unwrap();
    for target in Target::all() {
        let capability = target.capability();
        for (dtype, has) in [(DType::F16, capability.f16), (DType::BF16, capability.bf16)] {
            let options = LoadOptions {
                dtype,
                ..LoadOptions::default()
            };
            let mut read = 0;
            let loaded = files.load(&target.burn(), options, &mut |_| read += 1);
            let what = format!("{dtype:?}[{}]", target.name);
            match loaded.map(drop) {
                Ok(()) => assert!(has, "{what}"),
                Err(Error::Moebius(error)) => {
                    assert_eq!(error.kind(), ErrorKind::Unsupported, "{what}: {error}");
                    assert_eq!((has, read), (false, 0), "{what}: {error}");
                }
                Err(error) => panic!("{what}: {error}"),
            }
        }
    }
}

/// Passes that wait for each layer tell its time on every device, XLA's, too, and the bytes of live buffers where an allocator counts them.
#[test]
fn layers_have_times_of_their_own() {
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/decoder_olmoe");
    let files = ModelFiles::open(&case).unwrap();
    for target in Target::all() {
        let (name, device) = (target.name, target.burn());
        let model = files.load(&device, LoadOptions::default(), &mut |_| ());
        let costs = Cost::of_layers(&model.unwrap(), &[3, 14, 15, 9], &device).unwrap();
        let layers: Vec<Option<usize>> = costs.iter().map(|cost| cost.layer).collect();
        assert_eq!(layers, [None, Some(0), Some(1), Some(2), None], "{name}");
        let counted = target.client().is_some();
        for cost in costs {
            assert!(cost.seconds > 0.0, "{name}: {cost:?}");
            let least = cost.memory_bytes.map(|bytes| bytes > 4 * 64);
            assert_eq!(least, counted.then_some(true), "{name}: {cost:?}");
        }
    }
}

/// Experts that are read from the files when tokens need them give the bits of experts on the device; on XLA, which chooses by the whole program
/// where it rounds, they agree to 1e-5.
#[test]
fn experts_in_files_change_no_logit() {
    let tokens: Vec<u32> = (0..30).map(|at| (at * 7 + at * at) % 64).collect();
    for target in Target::all() {
        for name in ["olmoe", "gpt_oss_mxfp4", "deepseek_v3_fp8"] {
            let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
            let files = ModelFiles::open(&cases.join(format!("decoder_{name}"))).unwrap();
            let logits = |expert_cache| {
                let options = LoadOptions {
                    expert_cache,
                    experts_from: ExpertsFrom::Files,
                    ..LoadOptions::default()
                };
                let model = files.load(&target.burn(), options, &mut |_| ()).unwrap();
                let logits = model.last_logits(&tokens, &target.burn()).unwrap();
                (logits, model.expert_cache())
            };
            let (want, resident) = logits(None);
            let (got, moves) = logits(Some(512 << 10));
            assert!(
                resident.is_none() && moves.unwrap().read_bytes > 0,
                "{name}"
            );
            if target.name.starts_with("xla") {
                for (got, want) in got.iter().zip(&want) {
                    let near = (got - want).abs() <= 1e-5 * want.abs().max(1.0);
                    assert!(near, "{name}[{}]: {got} {want}", target.name);
                }
            } else {
                assert_eq!(got, want, "{name}[{}]", target.name);
            }
        }
    }
}
