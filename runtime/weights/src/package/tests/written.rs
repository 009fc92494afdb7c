//! What a package is made of, and what a writer refuses.

use std::collections::BTreeMap;
use std::fs;

use super::{TEMPLATE, WEIGHTS, checked, facts};
use crate::package::{
    MANIFEST_FILE, PackageError, PackageWriter, SUMS_FILE, is_licence, of_safetensors,
};
use crate::reader::Reader;
use crate::writer::{TensorSpec, Writer};
use safetensors::Dtype;

#[test]
fn a_writer_refuses_bad_paths_and_leaves_nothing_behind() {
    let place = tempfile::tempdir().unwrap();
    let (from, target) = (place.path().join("source"), place.path().join("package"));
    fs::write(&from, b"x").unwrap();
    let mut writer = PackageWriter::begin(&target).unwrap();
    let (long_part, long_path) = ("a".repeat(256), "a/b".repeat(600));
    let paths: [&str; 7] = [
        "../x",
        "",
        "a/",
        MANIFEST_FILE,
        SUMS_FILE,
        &long_part,
        &long_path,
    ];
    for path in paths {
        let error = writer.add(&from, path, &mut |_| ()).unwrap_err();
        assert!(
            matches!(error, PackageError::Manifest(_)),
            "{path}: {error}"
        );
    }
    writer.add(&from, "x", &mut |_| ()).unwrap();
    let again = [
        writer.add(&from, "x", &mut |_| ()),
        writer.add_bytes(b"1", "x"),
    ];
    for again in again.map(Result::unwrap_err) {
        assert!(matches!(again, PackageError::Written(_)), "{again}");
    }
    let gone = writer.add(&place.path().join("none"), "y", &mut |_| ());
    assert!(gone.is_err());
    drop(writer);
    let mut left = fs::read_dir(place.path()).unwrap();
    assert_eq!(left.next().unwrap().unwrap().file_name(), "source");
    assert!(left.next().is_none());

    let empty = PackageWriter::begin(&target)
        .unwrap()
        .finish(facts())
        .unwrap_err();
    assert!(matches!(empty, PackageError::Manifest(_)), "{empty}");
    let mut writer = PackageWriter::begin(&target).unwrap();
    writer.add(&from, "x", &mut |_| ()).unwrap();
    let mut facts = facts();
    facts.figures.load_s = f64::NAN;
    let error = writer.finish(facts).unwrap_err();
    assert!(matches!(error, PackageError::NotJson(_)), "{error}");
    assert!(!target.exists());
}

#[test]
fn bytes_become_a_file_of_a_package() {
    let place = tempfile::tempdir().unwrap();
    let mut writer = PackageWriter::begin(&place.path().join("package")).unwrap();
    writer.add_bytes(b"a = 1\n", "settings.toml").unwrap();
    let package = writer.finish(facts()).unwrap();
    assert_eq!(checked(&package.folder).unwrap(), package);
    let written = fs::read(package.folder.join("settings.toml")).unwrap();
    assert_eq!(written, b"a = 1\n");
}

#[test]
fn licences_are_known_by_their_names() {
    for name in [
        "LICENSE",
        "LICENSE.txt",
        "license-mit",
        "NOTICE",
        "COPYING",
        "USE_POLICY.md",
    ] {
        assert!(is_licence(name), "{name}");
    }
    for name in ["config.json", "README.md", "folder/LICENSE"] {
        assert!(!is_licence(name), "{name}");
    }
}

/// Names of the files that are packed of a model with `shards` files of weights and some files that don't belong to it.
fn packed_of(shards: u64) -> Vec<String> {
    let place = tempfile::tempdir().unwrap();
    let specs = ["a", "b"].map(|name| TensorSpec {
        name: name.to_owned(),
        dtype: Dtype::U8,
        shape: vec![8],
    });
    let most = Some(16 / shards);
    let mut writer = Writer::folder(place.path(), &specs, &BTreeMap::new(), most).unwrap();
    for spec in &specs {
        writer.append(&spec.name, &[1; 8]).unwrap();
    }
    writer.finish().unwrap();
    for name in [
        "config.json",
        "tokenizer.json",
        "LICENSE",
        "pytorch_model.bin",
        "other.safetensors.index.json",
        ".cache",
        MANIFEST_FILE,
        SUMS_FILE,
        TEMPLATE,
        "additional_chat_templates/notes.txt",
    ] {
        let path = place.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, b"{}").unwrap();
    }
    let reader = Reader::open(place.path()).unwrap();
    let packed = of_safetensors(place.path(), &reader).unwrap();
    for (from, path) in &packed {
        assert_eq!(*from, place.path().join(path));
    }
    let mut names: Vec<String> = packed.into_iter().map(|(_, path)| path).collect();
    names.sort();
    names
}

#[test]
fn what_a_loader_reads_is_packed_and_nothing_else() {
    let beside = ["LICENSE", TEMPLATE, "config.json"];
    let one = [&beside[..], &[WEIGHTS, "tokenizer.json"]].concat();
    assert_eq!(packed_of(1), one);
    let shards = [
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
        "tokenizer.json",
    ];
    assert_eq!(packed_of(2), [&beside[..], &shards].concat());
}
