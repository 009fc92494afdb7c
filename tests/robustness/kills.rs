//! Processes that are killed while they write leave complete files or none.

use crate::process::{command, output, start, wait};
use moebius::fp8::{Fp8Format, Granularity};
use moebius_model::{Checkpoint, CheckpointError, DecoderConfig, Text, TrainConfig, Trainer};
use moebius_ops::scaling::Fp8Scheme;
use moebius_tests::data::Rng;
use moebius_tests::gradients::parameters;
use moebius_weights::{ConvertOptions, Dtype, Reader, TensorSpec, Writer, convert, host_quantizer};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

fn kills() -> usize {
    if crate::deep() { 300 } else { 16 }
}

/// A training with more steps than any test waits for.
fn config() -> TrainConfig {
    TrainConfig {
        batch: 1,
        sequence: 8,
        steps: 1_000_000,
        ..TrainConfig::default()
    }
}

const SIZES: DecoderConfig = DecoderConfig {
    hidden: 16,
    heads: 1,
    layers: 1,
    sequence: 8,
    experts: 4,
    inter: 32,
    top_k: 1,
};

fn new() -> Trainer {
    Trainer::new(config(), SIZES, Text::bundled().ids(), &flex()).unwrap()
}

fn flex() -> burn::tensor::Device {
    moebius::open(&moebius::Device::Flex).unwrap()
}

/// The training resumed from a folder's checkpoint, or a new one.
fn resumed(folder: &Path) -> Trainer {
    let ids = Text::bundled().ids();
    match Checkpoint::read(folder) {
        Ok(checkpoint) => Trainer::resume(checkpoint, SIZES, ids, &flex()).unwrap(),
        Err(CheckpointError::Missing { .. }) => new(),
        Err(error) => panic!("{error}"),
    }
}

/// Trains forever; after every step writes a checkpoint and prints the number of finished steps.
pub(crate) fn train(arguments: &[String]) {
    let folder = Path::new(&arguments[0]);
    let mut trainer = resumed(folder);
    println!("begins after {}", trainer.steps_done());
    loop {
        trainer.step().unwrap();
        trainer.report().unwrap();
        trainer.checkpoint().unwrap().write(folder).unwrap();
        println!("{}", trainer.steps_done());
    }
}

/// Kills a child at a random moment after its first line of output; every other time waits until the file `unfinished` exists.
fn kill(child: &mut Child, said: &Path, rng: &mut Rng, unfinished: &Path) {
    let begun = Instant::now();
    let mut until = |ready: &dyn Fn() -> bool| {
        while !ready() {
            assert!(child.try_wait().unwrap().is_none(), "the child has ended");
            let hangs = begun.elapsed() > Duration::from_secs(300);
            assert!(!hangs, "the child hangs");
        }
    };
    until(&|| fs::read(said).unwrap().contains(&b'\n'));
    sleep(Duration::from_micros(rng.below(60_000) as u64));
    if rng.below(2) == 0 {
        until(&|| unfinished.exists());
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Whenever a training is killed, its folder holds the last checkpoint reported as finished, or the next one; and a training
/// that was killed many times learns the same as an uninterrupted one.
pub(crate) fn a_finished_checkpoint_survives() {
    let outside = tempfile::tempdir().unwrap();
    let (folder, said) = (
        &outside.path().join("training"),
        &outside.path().join("said"),
    );
    fs::create_dir(folder).unwrap();
    let (mut rng, mut torn) = (Rng::new(1), 0);
    // Whether a kill interrupts the writing of a file is chance, and at least one must.
    for number in 0..20 * kills() {
        if number >= kills() && torn > 0 {
            break;
        }
        let mut child = start(command("train", &[folder.to_str().unwrap()]), said);
        kill(&mut child, said, &mut rng, &folder.join("checkpoint.part"));
        torn += usize::from(folder.join("checkpoint.part").exists());
        let text = fs::read_to_string(said).unwrap();
        let last = text.lines().last().unwrap();
        let last = last.trim_start_matches("begins after ").parse();
        let last: usize = last.unwrap_or_else(|_| panic!("{text}"));
        // Before the first checkpoint there is nothing to lose.
        let step = resumed(folder).steps_done();
        let right = step == last || step == last + 1;
        assert!(right, "step {step}, the child finished {last}");
    }
    assert!(torn > 0, "no kill interrupted a file");
    let mut killed = resumed(folder);
    let mut straight = new();
    while straight.steps_done() < killed.steps_done() {
        straight.step().unwrap();
    }
    straight.report().unwrap();
    let last = |trainer: &mut Trainer| {
        trainer.step().unwrap();
        let losses = trainer.report().unwrap().losses;
        let weights = parameters(trainer.model()).into_iter().map(|p| p.values);
        (losses, weights.collect::<Vec<_>>())
    };
    let same = last(&mut killed) == last(&mut straight);
    assert!(same, "they learned differently");
}

/// Writes a model of 16 matrices.
fn write_model(folder: &Path) {
    let spec = |layer| TensorSpec {
        name: format!("model.layers.{layer}.mlp.up_proj.weight"),
        dtype: Dtype::F32,
        shape: vec![256, 192],
    };
    let specs: Vec<TensorSpec> = (0..16).map(spec).collect();
    let mut writer = Writer::folder(folder, &specs, &BTreeMap::new(), None).unwrap();
    let mut rng = Rng::new(9);
    for spec in &specs {
        let values = rng.vec(256 * 192, 1.0);
        let bytes = values.iter().flat_map(|value| value.to_le_bytes());
        let bytes: Vec<u8> = bytes.collect();
        writer.append(&spec.name, &bytes).unwrap();
    }
    writer.finish().unwrap();
    fs::write(folder.join("config.json"), "{}").unwrap();
}

/// Converts the model in the first argument into the folder or file that the second names.
pub(crate) fn convert_once(arguments: &[String]) {
    let mut options = ConvertOptions::new(Fp8Scheme {
        format: Fp8Format::E4M3,
        granularity: Granularity::Row,
    });
    options.shard_bytes = Some(200_000);
    let source = Reader::open(Path::new(&arguments[0])).unwrap();
    let mut quantize = host_quantizer(options.scheme);
    println!("begins");
    let target = Path::new(&arguments[1]);
    convert(&source, target, &options, &mut quantize, &mut |_, _, _| ()).unwrap();
}

/// The names and bytes of a folder's files, or of one file.
fn contents(path: &Path) -> BTreeMap<String, Vec<u8>> {
    if path.is_file() {
        return BTreeMap::from([(String::new(), fs::read(path).unwrap())]);
    }
    let entries = fs::read_dir(path).unwrap();
    let named = entries.map(|entry| {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name, fs::read(path).unwrap())
    });
    named.collect()
}

/// Whenever a conversion is killed, its target is absent or complete; an unfinished file has another name, which the next run
/// reports.
pub(crate) fn a_conversion_is_whole_or_absent() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model");
    fs::create_dir(&model).unwrap();
    write_model(&model);
    let said = folder.path().join("said");
    let mut rng = Rng::new(2);
    for name in ["fp8", "fp8.safetensors"] {
        let run =
            |out: &Path| command("convert", &[model.to_str().unwrap(), out.to_str().unwrap()]);
        let whole = folder.path().join(format!("whole-{name}"));
        let begun = Instant::now();
        output(run(&whole));
        let takes = begun.elapsed().as_micros() as usize;
        let whole = contents(&whole);
        let out = folder.path().join(name);
        let part = folder.path().join(format!("{name}.part"));
        let (mut absent, mut interrupted) = (0, 0);
        // A small file is written within a moment, which few kills hit.
        for number in 0..20 * kills() {
            if number >= kills() / 2 && interrupted > 0 && absent > 0 {
                break;
            }
            let mut child = start(run(&out), &said);
            sleep(Duration::from_micros(rng.below(takes * 5 / 4) as u64));
            child.kill().unwrap();
            child.wait().unwrap();
            if out.exists() {
                assert!(contents(&out) == whole, "{name} is there and not complete")
            } else {
                absent += 1
            }
            if !part.exists() {
                remove(&out);
                continue;
            }
            interrupted += 1;
            let mut again = start(run(&folder.path().join(name)), &said);
            assert!(!wait(&mut again).success());
            let text = fs::read_to_string(&said).unwrap();
            let told = ["Busy", "TargetExists"]
                .iter()
                .any(|word| text.contains(word));
            assert!(told, "{text}");
            remove(&part);
            remove(&out);
        }
        let both = absent > 0 && interrupted > 0;
        assert!(both, "{name}: {absent} absent, {interrupted} interrupted");
        output(run(&out));
        assert!(contents(&out) == whole, "{name}");
    }
}

fn remove(path: &Path) {
    if path.is_dir() {
        fs::remove_dir_all(path).unwrap();
    } else if path.exists() {
        fs::remove_file(path).unwrap();
    }
}
