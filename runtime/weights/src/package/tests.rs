//! Packages are written, verified, tampered with, and described by manifests that lie.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::*;
use crate::reader::Reader;
use crate::writer::{TensorSpec, Writer};
use safetensors::Dtype;
use serde_json::{Value, json};
use tempfile::TempDir;

const WEIGHTS: &str = "model.safetensors";
const TEMPLATE: &str = "additional_chat_templates/tool.jinja";

fn facts() -> PackageFacts {
    PackageFacts {
        model: ModelFacts {
            name: "tiny".to_owned(),
            family: "olmoe".to_owned(),
            parameters: 12,
            active_parameters: 6,
            layers: 2,
            vocabulary: 199,
            context: 64,
            stored: vec!["F32".to_owned()],
            weight_bytes: 48,
        },
        run: Use {
            device: "flex".to_owned(),
            dtype: "f32".to_owned(),
        },
        hardware: Hardware {
            device_name: "a processor".to_owned(),
            architecture: None,
            driver: None,
            memory_bytes: Some(1 << 40),
            processors: 2,
            system: "linux x86_64".to_owned(),
        },
        figures: Figures {
            runs: 3,
            load_s: 0.25,
            streams: 4,
            prompt_tokens: 32,
            answer_tokens: 16,
            alone_tokens_per_s: 10.5,
            together_tokens_per_s: 30.0,
            long_prompt_tokens: 128,
            first_token_ms: 12.0,
            first_token_known_ms: 2.0,
        },
        software: Software {
            moebius: "0.1.0".to_owned(),
        },
    }
}

/// A package of four files, in a folder that is removed with the first part of the result.
fn made() -> (TempDir, Package) {
    let place = tempfile::tempdir().unwrap();
    let mut writer = PackageWriter::begin(&place.path().join("package")).unwrap();
    let files: [(&str, &[u8]); 4] = [
        (WEIGHTS, &[7; 3_000_000]),
        ("config.json", b"{}"),
        ("LICENSE", b"as you like"),
        (TEMPLATE, b"{{ messages }}"),
    ];
    for (path, bytes) in files {
        let from = place.path().join("source");
        fs::write(&from, bytes).unwrap();
        writer.add(&from, path, &mut |_| ()).unwrap();
    }
    assert_eq!(writer.bytes(), 3_000_000 + 2 + 11 + 14);
    let package = writer.finish(facts()).unwrap();
    (place, package)
}

fn checked(folder: &Path) -> Result<Package, PackageError> {
    verify(folder, None, &mut |_| ())
}

/// The manifest in `folder`, changed by `change` and written back with sums that fit.
fn forge(folder: &Path, change: impl FnOnce(&mut Value)) {
    let place = folder.join(MANIFEST_FILE);
    let mut manifest: Value = serde_json::from_slice(&fs::read(&place).unwrap()).unwrap();
    change(&mut manifest);
    let bytes = manifest.to_string().into_bytes();
    let sums = fs::read_to_string(folder.join(SUMS_FILE)).unwrap();
    let others = sums.split_once('\n').unwrap().1;
    let own = digest::sha256(&bytes);
    let sums = format!("{own}  {MANIFEST_FILE}\n{others}");
    fs::write(place, bytes).unwrap();
    fs::write(folder.join(SUMS_FILE), sums).unwrap();
}

#[test]
fn a_package_is_as_it_was_written() {
    let (_place, package) = made();
    assert!(is_package(&package.folder));
    assert_eq!(package.manifest.licences, ["LICENSE"]);
    let paths: Vec<&str> = package
        .manifest
        .files
        .iter()
        .map(|file| file.path.as_str())
        .collect();
    assert_eq!(paths, ["LICENSE", TEMPLATE, "config.json", WEIGHTS]);
    let (mut done, mut of) = (Vec::new(), 0);
    let found = verify(
        &package.folder,
        Some(&package.fingerprint),
        &mut |hashing| {
            done.push(hashing.done);
            of = hashing.of;
        },
    );
    assert_eq!(found.unwrap(), package);
    assert!(done.is_sorted(), "{done:?}");
    assert_eq!(done.last(), Some(&of));
    assert_eq!(of, 3_000_027);
    // SHA-256 of `{}`, as coreutils compute it.
    let sum = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
    let sums = fs::read_to_string(package.folder.join(SUMS_FILE)).unwrap();
    assert!(sums.contains(&format!("{sum}  config.json\n")), "{sums}");
}

/// Every byte of the small files and one byte of the weights, each changed by itself.
#[test]
fn a_changed_byte_is_found_wherever_it_is() {
    let (_place, package) = made();
    let names = [MANIFEST_FILE, SUMS_FILE, "config.json", "LICENSE", TEMPLATE];
    for name in names.into_iter().chain([WEIGHTS]) {
        let path = package.folder.join(name);
        let whole = fs::read(&path).unwrap();
        let places = if name == WEIGHTS {
            2_999_999..3_000_000
        } else {
            0..whole.len()
        };
        for place in places {
            let mut bytes = whole.clone();
            bytes[place] ^= 1;
            fs::write(&path, bytes).unwrap();
            let error = checked(&package.folder).unwrap_err();
            let said = error.to_string();
            let own = [MANIFEST_FILE, SUMS_FILE].contains(&name);
            assert!(
                own || matches!(error, PackageError::Changed(_)),
                "{name}, byte {place}: {said}"
            );
            assert!(own || said.contains(name), "{name}, byte {place}: {said}");
        }
        fs::write(&path, whole).unwrap();
        assert!(checked(&package.folder).is_ok(), "{name}");
    }
}

#[test]
fn errors_name_file_expected_and_got() {
    let (_place, package) = made();
    let folder = &package.folder;
    fs::write(folder.join("config.json"), b"[]").unwrap();
    let error = checked(folder).unwrap_err();
    let PackageError::Changed(fault) = &error else {
        panic!("{error}");
    };
    assert_eq!(fault.path, *folder);
    assert_eq!(fault.source.what, "`config.json`");
    let expected =
        "2 bytes with SHA-256 44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
    assert_eq!(fault.source.expected, expected);
    let got =
        "2 bytes with SHA-256 4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945";
    assert_eq!(fault.source.got, got);

    fs::remove_file(folder.join("config.json")).unwrap();
    let error = checked(folder).unwrap_err();
    assert!(matches!(error, PackageError::Missing(_)), "{error}");
    assert!(error.to_string().ends_with("got none"), "{error}");
    fs::write(folder.join("config.json"), b"{}").unwrap();

    for extra in ["more", ".hidden", "folder/more"] {
        let path = folder.join(extra);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, b"12345").unwrap();
        let error = checked(folder).unwrap_err();
        assert!(matches!(error, PackageError::Additional(_)), "{error}");
        let said = error.to_string();
        assert!(
            said.contains(extra) && said.ends_with("got 5 bytes"),
            "{said}"
        );
        fs::remove_file(path).unwrap();
    }
    assert!(checked(folder).is_ok());
}

#[test]
fn a_shorter_and_a_longer_file_are_changed_ones() {
    let (_place, package) = made();
    let path = package.folder.join(WEIGHTS);
    for bytes in [2_999_999, 3_000_001, 0] {
        fs::write(&path, vec![7_u8; bytes]).unwrap();
        let error = checked(&package.folder).unwrap_err();
        assert!(matches!(error, PackageError::Changed(_)), "{error}");
        assert!(
            error.to_string().ends_with(&format!("got {bytes} bytes")),
            "{error}"
        );
    }
}

#[test]
fn the_two_files_of_packages_are_needed() {
    for name in [MANIFEST_FILE, SUMS_FILE] {
        let (_place, package) = made();
        fs::remove_file(package.folder.join(name)).unwrap();
        let error = checked(&package.folder).unwrap_err();
        assert!(matches!(error, PackageError::Missing(_)), "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
    let nothing = checked(Path::new("no such folder")).unwrap_err();
    assert!(matches!(nothing, PackageError::Read(_)), "{nothing}");
}

#[test]
fn a_package_of_somebody_else_has_another_fingerprint() {
    let (_place, package) = made();
    forge(&package.folder, |manifest| {
        manifest["model"]["name"] = json!("other")
    });
    let other = checked(&package.folder).unwrap();
    assert_ne!(other.fingerprint, package.fingerprint);
    let error = verify(&package.folder, Some(&package.fingerprint), &mut |_| ()).unwrap_err();
    assert!(matches!(error, PackageError::Fingerprint(_)), "{error}");
    assert!(error.to_string().contains(&package.fingerprint), "{error}");
}

/// A server verifies what is a package, in safetensors or in GGUF, and nothing else.
#[test]
fn a_model_is_verified_if_it_is_a_package() {
    let (place, package) = made();
    let at = |place: &Path, sum: Option<&str>| verify_at(place, sum, &mut |_| ());
    for inside in [package.folder.clone(), package.folder.join(WEIGHTS)] {
        let found = at(&inside, None).unwrap();
        assert_eq!(found.unwrap().fingerprint, package.fingerprint);
    }
    fs::write(package.folder.join("LICENSE"), b"as WE like!").unwrap();
    assert!(at(&package.folder, None).is_err());
    // A package doesn't become an ordinary folder by the loss of its manifest.
    fs::remove_file(package.folder.join(MANIFEST_FILE)).unwrap();
    let lost = at(&package.folder, None).unwrap_err();
    assert!(matches!(lost, PackageError::Missing(_)), "{lost}");
    // A folder that is no package, and one that should be; then with a manifest of npm's.
    let other = place.path();
    assert_eq!(at(other, None).unwrap(), None);
    let missing = at(other, Some(&package.fingerprint)).unwrap_err();
    assert!(matches!(missing, PackageError::Missing(_)), "{missing}");
    fs::write(other.join(MANIFEST_FILE), b"{\"name\":\"app\"}").unwrap();
    assert_eq!(at(other, None).unwrap(), None);
    assert!(at(other, Some(&package.fingerprint)).is_err());
}

#[test]
fn a_truncated_manifest_is_no_json() {
    let (_place, package) = made();
    let bytes = fs::read(package.folder.join(MANIFEST_FILE)).unwrap();
    // The last byte is a line's end, and the last but one closes the object.
    for length in 0..bytes.len() - 1 {
        let error = Manifest::parse(&package.folder, &bytes[..length]).unwrap_err();
        assert!(
            matches!(error, PackageError::NotJson(_)),
            "{length}: {error}"
        );
    }
    let parsed = Manifest::parse(&package.folder, &bytes).unwrap();
    assert_eq!(parsed, package.manifest);
    let large = vec![b' '; 17 << 20];
    fs::write(package.folder.join(MANIFEST_FILE), large).unwrap();
    let error = checked(&package.folder).unwrap_err();
    assert!(matches!(error, PackageError::Manifest(_)), "{error}");
}

/// Manifests that fit their sums, and say what can't be.
#[test]
fn hostile_manifests_are_refused_by_their_fields() {
    type Change = fn(&mut Value);
    let cases: [(&str, Change); 16] = [
        ("format", |m| m["format"] = json!("npm")),
        ("version", |m| m["version"] = json!(2)),
        ("files", |m| m["files"] = json!([])),
        ("ascending", |m| {
            let first = m["files"][0].clone();
            m["files"].as_array_mut().unwrap().push(first);
        }),
        ("licences", |m| m["licences"] = json!(["/etc/passwd"])),
        ("64 lower-case", |m| m["files"][0]["sha256"] = json!("00")),
        ("64 lower-case", |m| {
            m["files"][0]["sha256"] = json!("A".repeat(64))
        }),
        ("2^64", |m| {
            for at in 0..2 {
                m["files"][at]["bytes"] = json!(u64::MAX);
            }
        }),
        ("relative path", |m| {
            m["files"][0]["path"] = json!("../LICENSE")
        }),
        ("relative path", |m| {
            m["files"][0]["path"] = json!("/etc/passwd")
        }),
        ("relative path", |m| {
            m["files"][0]["path"] = json!("a/../../b")
        }),
        ("relative path", |m| m["files"][0]["path"] = json!("a//b")),
        ("relative path", |m| m["files"][0]["path"] = json!("..\\b")),
        ("relative path", |m| m["files"][0]["path"] = json!("C:b")),
        ("relative path", |m| m["files"][0]["path"] = json!("a\nb")),
        ("relative path", |m| {
            m["files"][0]["path"] = json!(MANIFEST_FILE)
        }),
    ];
    for (word, change) in cases {
        let (_place, package) = made();
        forge(&package.folder, change);
        let error = checked(&package.folder).unwrap_err();
        assert!(
            matches!(error, PackageError::Manifest(_)),
            "{word}: {error}"
        );
        assert!(error.to_string().contains(word), "{word}: {error}");
    }
}

#[test]
fn numbers_that_are_none_are_no_manifest() {
    let (_place, package) = made();
    let text = fs::read_to_string(package.folder.join(MANIFEST_FILE)).unwrap();
    for (old, new) in [
        ("\"bytes\": 2,", "\"bytes\": -2,"),
        ("\"bytes\": 2,", "\"bytes\": 2.5,"),
        ("\"bytes\": 2,", "\"bytes\": 18446744073709551616,"),
        ("\"bytes\": 2,", "\"bytes\": 2, \"bytes\": 2,"),
        ("\"bytes\": 2,", "\"bytes\": 2, \"mode\": 7,"),
        ("\"version\": 1", "\"version\": 4294967297"),
        ("\"load_s\": 0.25", "\"load_s\": 1e999"),
        ("\"load_s\": 0.25", "\"load_s\": NaN"),
    ] {
        assert!(text.contains(old), "{old} in {text}");
        let changed = text.replace(old, new);
        let error = Manifest::parse(&package.folder, changed.as_bytes()).unwrap_err();
        assert!(matches!(error, PackageError::NotJson(_)), "{new}: {error}");
    }
}

#[test]
fn sums_that_are_not_those_of_the_manifest_are_refused() {
    let (_place, package) = made();
    let place = package.folder.join(SUMS_FILE);
    let sums = fs::read_to_string(&place).unwrap();
    let without = sums.replacen("  config.json\n", "  config.jso\n", 1);
    for (text, said) in [
        (without, "SHA256SUMS, line 4"),
        (format!("{sums}{sums}"), "SHA256SUMS, line 6"),
        (String::new(), "SHA256SUMS, line 1"),
        (sums.trim_end().to_owned(), "SHA256SUMS: expected"),
    ] {
        fs::write(&place, text).unwrap();
        let error = checked(&package.folder).unwrap_err();
        assert!(matches!(error, PackageError::Changed(_)), "{error}");
        assert!(error.to_string().contains(said), "{said}: {error}");
    }
}

/// A link would let a file change, or another be read, after it was hashed.
#[test]
#[cfg(unix)]
fn symbolic_links_are_refused() {
    use std::os::unix::fs::symlink;
    for name in ["config.json", MANIFEST_FILE, SUMS_FILE] {
        let (place, package) = made();
        let (inside, outside) = (package.folder.join(name), place.path().join("outside"));
        fs::rename(&inside, &outside).unwrap();
        symlink(&outside, &inside).unwrap();
        let error = checked(&package.folder).unwrap_err();
        assert!(matches!(error, PackageError::NotAFile(_)), "{error}");
        assert!(
            error.to_string().ends_with("got a symbolic link"),
            "{error}"
        );
    }
    let (place, package) = made();
    let (inside, outside) = (
        package.folder.join("additional_chat_templates"),
        place.path().join("templates"),
    );
    fs::rename(&inside, &outside).unwrap();
    symlink(&outside, &inside).unwrap();
    let error = checked(&package.folder).unwrap_err();
    assert!(matches!(error, PackageError::NotAFile(_)), "{error}");
    // A package doesn't become an ordinary folder by links in place of its own two files.
    let (place, package) = made();
    for name in [MANIFEST_FILE, SUMS_FILE] {
        let (inside, outside) = (package.folder.join(name), place.path().join(name));
        fs::rename(&inside, &outside).unwrap();
        symlink(&outside, &inside).unwrap();
    }
    let error = verify_at(&package.folder, None, &mut |_| ()).unwrap_err();
    assert!(matches!(error, PackageError::NotAFile(_)), "{error}");
    // A link to the package itself is how a new version takes the place of an old one.
    let (place, package) = made();
    let link = place.path().join("current");
    symlink(&package.folder, &link).unwrap();
    assert_eq!(checked(&link).unwrap().fingerprint, package.fingerprint);
}

#[test]
#[cfg(unix)]
fn what_is_no_file_is_not_opened() {
    let (_place, package) = made();
    let socket = std::os::unix::net::UnixListener::bind(package.folder.join("socket"));
    socket.unwrap();
    let error = checked(&package.folder).unwrap_err();
    assert!(matches!(error, PackageError::NotAFile(_)), "{error}");
    fs::remove_file(package.folder.join("socket")).unwrap();
    let deep: PathBuf = ["a"; 18].iter().collect();
    fs::create_dir_all(package.folder.join(deep)).unwrap();
    let error = checked(&package.folder).unwrap_err();
    assert!(error.to_string().contains("16 deep"), "{error}");
}

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

/// The properties of an object in the schema: their names, and those that must be there.
fn properties(schema: &Value) -> (Vec<String>, Vec<String>) {
    assert_eq!(schema["additionalProperties"], json!(false), "{schema}");
    let names = schema["properties"].as_object().unwrap().keys().cloned();
    let required = schema["required"].as_array().unwrap().iter();
    let required = required.map(|name| name.as_str().unwrap().to_owned());
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    (sorted(names.collect()), sorted(required.collect()))
}

/// The committed schema has exactly the fields that are written, at every level.
#[test]
fn the_schema_describes_what_is_written() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/deploy/package.schema.json");
    let schema: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let (_place, package) = made();
    let written = serde_json::to_value(&package.manifest).unwrap();
    let keys = |value: &Value| {
        let mut keys: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        keys.sort();
        keys
    };
    let of = &schema["properties"];
    assert_eq!(of["format"]["const"], written["format"]);
    assert_eq!(of["version"]["const"], written["version"]);
    let objects = ["model", "run", "hardware", "figures", "software"];
    let objects = objects.map(|name| (&of[name], &written[name]));
    let file = (&of["files"]["items"], &written["files"][0]);
    for (schema, written) in [(&schema, &written), file].into_iter().chain(objects) {
        let (names, required) = properties(schema);
        assert_eq!(names, keys(written));
        // An `Option` may be left out when a manifest is read.
        let optional =
            |name: &&String| ["architecture", "driver", "memory_bytes"].contains(&name.as_str());
        let needed: Vec<String> = names
            .iter()
            .filter(|name| !optional(name))
            .cloned()
            .collect();
        assert_eq!(required, needed);
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
