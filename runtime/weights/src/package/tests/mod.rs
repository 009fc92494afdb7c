//! Packages are written, verified, tampered with, and described by manifests that lie.

mod changed;
mod manifests;
mod written;

use std::fs;
use std::path::Path;

use super::*;
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
            weights: None,
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
