use std::fs;
use std::path::Path;

use super::{Checkpoint, FILE, Manifest, PART};
use crate::bytes::{DecoderConfig, Text};
use crate::config::{Subject, TrainConfig};
use crate::error::CheckpointError;
use crate::train::Trainer;

fn config() -> TrainConfig {
    TrainConfig {
        batch: 1,
        sequence: 8,
        ..TrainConfig::default()
    }
}

fn sizes() -> DecoderConfig {
    DecoderConfig {
        sequence: 8,
        layers: 1,
        ..DecoderConfig::default().with_hidden(16)
    }
}

fn trainer() -> Trainer {
    let device = moebius::open(&moebius::Device::Flex).unwrap();
    Trainer::new(config(), sizes(), Text::bundled().ids(), &device).unwrap()
}

fn resume(checkpoint: Checkpoint) -> Trainer {
    let device = moebius::open(&moebius::Device::Flex).unwrap();
    Trainer::resume(checkpoint, sizes(), Text::bundled().ids(), &device).unwrap()
}

/// A folder with the checkpoint of a training after one step, and that training.
fn written() -> (tempfile::TempDir, Trainer) {
    let folder = tempfile::tempdir().unwrap();
    let mut trainer = trainer();
    trainer.step().unwrap();
    trainer.report().unwrap();
    trainer.checkpoint().unwrap().write(folder.path()).unwrap();
    (folder, trainer)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// The [`names`] of the files, each cut off before the checksum.
fn steps(folder: &Path) -> Vec<String> {
    let short = |name: String| match name.rsplit_once('-') {
        Some((step, _)) => step.to_owned(),
        None => name,
    };
    names(folder).into_iter().map(short).collect()
}

#[test]
fn a_folder_holds_one_checkpoint_and_the_next_replaces_it() {
    let (folder, mut trainer) = written();
    let folder = folder.path();
    assert_eq!(steps(folder), [FILE, "model-1", "optimizer-1"]);
    trainer.step().unwrap();
    trainer.checkpoint().unwrap().write(folder).unwrap();
    assert_eq!(steps(folder), [FILE, "model-2", "optimizer-2"]);
    let read = Checkpoint::read(folder).unwrap();
    assert_eq!((read.step(), *read.config()), (2, config()));
    assert_eq!(read.sizes(), Some(sizes()));
    // A checkpoint that is read and written again before any step stays the same.
    let stamp = || Manifest::read(folder).unwrap().model;
    let before = stamp();
    resume(read).checkpoint().unwrap().write(folder).unwrap();
    assert_eq!(stamp(), before);
    assert_eq!(resume(Checkpoint::read(folder).unwrap()).steps_done(), 2);
}

#[test]
fn a_checkpoint_that_cannot_be_written_leaves_the_one_before() {
    let (folder, mut trainer) = written();
    trainer.step().unwrap();
    fs::create_dir(folder.path().join(PART)).unwrap();
    let checkpoint = trainer.checkpoint().unwrap();
    let error = checkpoint.write(folder.path()).unwrap_err();
    assert!(matches!(error, CheckpointError::Write { .. }), "{error}");
    assert_eq!(Checkpoint::read(folder.path()).unwrap().step(), 1);
}

/// The files of the next checkpoint come one after the other, each whole or as a torn part, and what is there is read at each moment.
#[test]
fn each_prefix_of_a_write_leaves_a_whole_checkpoint() {
    let (_, mut trainer) = written();
    trainer.step().unwrap();
    let next = tempfile::tempdir().unwrap();
    trainer.checkpoint().unwrap().write(next.path()).unwrap();
    let [_, model, optimizer] = <[String; 3]>::try_from(names(next.path())).unwrap();
    let order = [model.as_str(), optimizer.as_str(), FILE];
    for done in 0..=order.len() {
        for torn in [false, true] {
            let (folder, _) = written();
            let copy = |name: &str, to: &str, share: usize| {
                let bytes = fs::read(next.path().join(name)).unwrap();
                fs::write(folder.path().join(to), &bytes[..bytes.len() / share]).unwrap();
            };
            for name in &order[..done] {
                copy(name, name, 1);
            }
            if let (true, Some(name)) = (torn, order.get(done)) {
                copy(name, PART, 2);
            }
            let step = if done == order.len() { 2 } else { 1 };
            let read = Checkpoint::read(folder.path()).unwrap();
            assert_eq!(read.step(), step, "{done} {torn}");
            // The training goes on from there, and its next checkpoint clears what was left.
            let mut resumed = resume(read);
            resumed.step().unwrap();
            resumed.checkpoint().unwrap().write(folder.path()).unwrap();
            let kept = [
                FILE.to_owned(),
                format!("model-{}", step + 1),
                format!("optimizer-{}", step + 1),
            ];
            assert_eq!(steps(folder.path()), kept, "{done} {torn}");
        }
    }
}

#[test]
fn an_untrained_decoder_has_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("a/b");
    trainer().checkpoint().unwrap().write(&inner).unwrap();
    assert_eq!(resume(Checkpoint::read(&inner).unwrap()).steps_done(), 0);
}

#[test]
fn what_is_missing_or_damaged_is_named() {
    let empty = tempfile::tempdir().unwrap();
    let error = Checkpoint::read(empty.path()).unwrap_err();
    assert!(matches!(error, CheckpointError::Missing { .. }), "{error}");
    assert!(!Checkpoint::exists(empty.path()));

    for which in [1, 2] {
        let (folder, _) = written();
        let file = &names(folder.path())[which];
        let path = folder.path().join(file);
        let whole = fs::read(&path).unwrap();
        let mut flipped = whole.clone();
        flipped[whole.len() / 2] ^= 1;
        for bytes in [&whole[..whole.len() - 1], &[], &flipped] {
            fs::write(&path, bytes).unwrap();
            let error = Checkpoint::read(folder.path()).unwrap_err();
            assert!(matches!(error, CheckpointError::Damaged { .. }), "{error}");
            assert!(error.to_string().contains(file), "{error}");
        }
        fs::remove_file(&path).unwrap();
        let error = Checkpoint::read(folder.path()).unwrap_err();
        assert!(matches!(error, CheckpointError::Read { .. }), "{error}");
    }
}

#[test]
fn a_foreign_file_is_neither_read_nor_replaced() {
    let (folder, trainer) = written();
    let path = folder.path().join(FILE);
    let ours = fs::read_to_string(&path).unwrap();
    let later = ours.replace("\"version\": 2", "\"version\": 3");
    // A manifest of version 1 has the decoder among the numbers of the configuration.
    let earlier = ours.replace("\"version\": 2", "\"version\": 1");
    let short = ours.replace("\"batch\"", "\"batches\"");
    let (format, cut) = ("{\"format\": 1}", &ours[..60]);
    for text in ["", "{}", "[1, 2]", format, cut, &later, &earlier, &short] {
        fs::write(&path, text).unwrap();
        let read = Checkpoint::read(folder.path()).unwrap_err();
        let checkpoint = trainer.checkpoint().unwrap();
        let write = checkpoint.write(folder.path()).unwrap_err();
        for error in [read, write] {
            assert!(matches!(error, CheckpointError::Foreign { .. }), "{error}");
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn another_training_is_told_from_this_one() {
    let (folder, _) = written();
    let checkpoint = Checkpoint::read(folder.path()).unwrap();
    checkpoint.check_config(&config()).unwrap();
    let other = TrainConfig {
        batch: 2,
        ..config()
    };
    let error = checkpoint.check_config(&other).unwrap_err().to_string();
    let said = "the checkpoint is of another training: batch was 1, not 2";
    assert_eq!(error, said);
    let of_subject = |subject: Subject| checkpoint.check_subject(&subject).unwrap_err().to_string();
    let wider = sizes().with_hidden(32);
    let error = of_subject(wider.into());
    assert!(error.ends_with("heads was 1, not 2"), "{error}");
    let error = of_subject(Subject::from(&sizes().spec()));
    let said = "kind of model was bytes, not published";
    assert!(error.ends_with(said), "{error}");
    let text = Text::new(b"Call me Ishmael.".to_vec()).ids();
    let device = moebius::open(&moebius::Device::Flex).unwrap();
    let resumed = Trainer::resume(checkpoint, sizes(), text, &device);
    let error = resumed.err().unwrap();
    assert!(error.to_string().contains("text was"), "{error}");
}
