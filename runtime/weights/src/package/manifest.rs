//! The manifest of a package: its types, how it is read, and the checks of what it says.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::digest::{is_sha256, sha256};
use super::error::{PackageError, fault};
use super::files::is_licence;
use super::names::{MANIFEST_FILE, SUMS_FILE};
use crate::error::{InFile, quoted};

/// Value of [`Manifest::format`].
pub(super) const FORMAT: &str = "moebius-package";
/// Value of [`Manifest::version`] that this crate writes and reads.
const VERSION: u32 = 1;

/// Largest number of bytes of a manifest, and of the sums.
pub(super) const MOST_BYTES: u64 = 16 << 20;
/// Largest number of files of a package.
const MOST_FILES: usize = 65_536;
/// Largest number of bytes of a path in a package, and of each of its parts: what file systems take.
const LONGEST_PATH: usize = 1024;
const LONGEST_PART: usize = 255;

/// What a package holds and what was measured with it. `docs/deploy/package.schema.json` describes its JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// `moebius-package`.
    pub format: String,
    /// Version of the format: 1.
    pub version: u32,
    /// The model.
    pub model: ModelFacts,
    /// How the model was run for its figures.
    pub run: Use,
    /// The machine on which the figures were measured.
    pub hardware: Hardware,
    /// What was measured.
    pub figures: Figures,
    /// The program that made the package.
    pub software: Software,
    /// Paths of the licences and notices among the files; empty if the model's folder had none.
    pub licences: Vec<String>,
    /// All other files of the package but [`SUMS_FILE`], in ascending order of their paths.
    pub files: Vec<PackedFile>,
}

/// What a manifest says of a package beside its files, in the manifest's own fields.
#[derive(Clone, Debug, PartialEq)]
pub struct PackageFacts {
    /// The model.
    pub model: ModelFacts,
    /// How the model was run for its figures.
    pub run: Use,
    /// The machine on which the figures were measured.
    pub hardware: Hardware,
    /// What was measured.
    pub figures: Figures,
    /// The program that made the package.
    pub software: Software,
}

/// What is known of a model from its files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFacts {
    /// Name of the model's folder or file.
    pub name: String,
    /// Family, as `olmoe`.
    pub family: String,
    /// Number of parameters: the elements of all weights.
    pub parameters: u64,
    /// Number of parameters that one token is multiplied with.
    pub active_parameters: u64,
    /// Number of layers.
    pub layers: u64,
    /// Number of tokens in the vocabulary.
    pub vocabulary: u64,
    /// Tokens of the longest sequence that the model was made for.
    pub context: u64,
    /// Names of the types of the stored tensors, sorted.
    pub stored: Vec<String>,
    /// Bytes of the files of weights.
    pub weight_bytes: u64,
}

/// How a model was run for its figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Use {
    /// Device, as the command's `--device` takes it.
    pub device: String,
    /// What the model computed in, as the command's `--dtype` takes it.
    pub dtype: String,
    /// What the weights were on the device, as the command's `--weights` takes it, if they were no values of `dtype`.
    pub weights: Option<String>,
}

/// The machine on which figures were measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hardware {
    /// Name of the device, as its driver tells it.
    pub device_name: String,
    /// Architecture of the device, if its driver tells it.
    pub architecture: Option<String>,
    /// Name and version of the device's driver, if it tells them.
    pub driver: Option<String>,
    /// Bytes of the device's memory, if its driver tells them.
    pub memory_bytes: Option<u64>,
    /// Number of processors that the program could use.
    pub processors: u64,
    /// Operating system and architecture of the program, as `linux x86_64`.
    pub system: String,
}

/// What was measured: medians over `runs` runs, of which each gave the same tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// Number of runs.
    pub runs: u64,
    /// Seconds from the opened files to the loaded model, once.
    pub load_s: f64,
    /// Number of requests.
    pub streams: u64,
    /// Prompt tokens of each request.
    pub prompt_tokens: u64,
    /// Generated tokens of each request.
    pub answer_tokens: u64,
    /// Generated tokens per second when the requests are answered one after the other.
    pub alone_tokens_per_s: f64,
    /// Generated tokens per second when the requests are answered together.
    pub together_tokens_per_s: f64,
    /// Prompt tokens of the request whose first token was timed.
    pub long_prompt_tokens: u64,
    /// Milliseconds to the first token after that prompt.
    pub first_token_ms: f64,
    /// Milliseconds to the first token when the prefix cache knows all but the last few tokens of that prompt.
    pub first_token_known_ms: f64,
}

/// The program that made a package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Software {
    /// Version of Moebius, which decides the versions of all libraries.
    pub moebius: String,
}

/// A file of a package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackedFile {
    /// Path in the package, with `/`.
    pub path: String,
    /// Number of bytes.
    pub bytes: u64,
    /// SHA-256 in 64 lower-case hexadecimal digits.
    pub sha256: String,
}

impl Manifest {
    /// The manifest of a package with these facts and files.
    pub(super) fn new(facts: PackageFacts, mut files: Vec<PackedFile>) -> Self {
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let licences = files.iter().filter(|file| is_licence(&file.path));
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            model: facts.model,
            run: facts.run,
            hardware: facts.hardware,
            figures: facts.figures,
            software: facts.software,
            licences: licences.map(|file| file.path.clone()).collect(),
            files,
        }
    }

    /// Reads the manifest of the package in `folder` from its bytes, and checks what it says.
    ///
    /// # Errors
    /// [`PackageError::NotJson`] for bytes of another form, [`PackageError::Manifest`] for an impossible value.
    pub fn parse(folder: &Path, bytes: &[u8]) -> Result<Self, PackageError> {
        /// The two fields that every version has.
        #[derive(Deserialize)]
        struct Head {
            format: String,
            version: u32,
        }
        let place = folder.join(MANIFEST_FILE);
        let not_json = |error| PackageError::NotJson(InFile::at(&place)(error));
        let head: Head = serde_json::from_slice(bytes).map_err(not_json)?;
        let unfit = |what: &str, expected: String, got: String| {
            PackageError::Manifest(fault(&place, what, expected, got))
        };
        if head.format != FORMAT {
            let got = quoted(&head.format);
            return Err(unfit("format", quoted(FORMAT), got));
        }
        if head.version != VERSION {
            let (expected, got) = (VERSION.to_string(), head.version.to_string());
            return Err(unfit("version", expected, got));
        }
        let manifest: Self = serde_json::from_slice(bytes).map_err(not_json)?;
        manifest.check(&unfit)?;
        Ok(manifest)
    }

    /// Checks the list of files, and that the licences are in it.
    fn check(
        &self,
        unfit: &dyn Fn(&str, String, String) -> PackageError,
    ) -> Result<(), PackageError> {
        let count = self.files.len();
        if count == 0 || count > MOST_FILES {
            let expected = format!("1 to {MOST_FILES} files");
            return Err(unfit("files", expected, count.to_string()));
        }
        let mut total = 0_u64;
        for file in &self.files {
            let what = format!("files: {}", quoted(&file.path));
            if let Err(got) = check_path(&file.path) {
                return Err(unfit(&what, EXPECTED_PATH.to_owned(), got));
            }
            if !is_sha256(&file.sha256) {
                let expected = "a SHA-256 in 64 lower-case hexadecimal digits".to_owned();
                return Err(unfit(&what, expected, quoted(&file.sha256)));
            }
            let sum = total.checked_add(file.bytes);
            total = sum.ok_or_else(|| {
                let expected = "fewer than 2^64 bytes in all files".to_owned();
                unfit(&what, expected, format!("{} bytes more", file.bytes))
            })?;
        }
        if let Some(pair) = self.files.windows(2).find(|two| two[0].path >= two[1].path) {
            let got = format!("{} before {}", quoted(&pair[0].path), quoted(&pair[1].path));
            return Err(unfit("files", "ascending paths, each once".to_owned(), got));
        }
        let paths: BTreeSet<&str> = self.files.iter().map(|file| file.path.as_str()).collect();
        let known = |path: &&String| paths.contains(path.as_str());
        match self.licences.iter().find(|path| !known(path)) {
            Some(path) => {
                let expected = "paths of files of the package".to_owned();
                Err(unfit("licences", expected, quoted(path)))
            }
            None => Ok(()),
        }
    }

    /// Bytes of all files but the manifest and the sums.
    pub fn bytes(&self) -> u64 {
        // `check` has found that the sum fits; a manifest that was made here has files of one disk.
        let bytes = self.files.iter().map(|file| file.bytes);
        bytes.fold(0, u64::saturating_add)
    }

    /// The text of [`SUMS_FILE`] for this manifest, whose bytes have the SHA-256 `own`.
    pub(super) fn sums(&self, own: &str) -> String {
        let line = |sha256: &str, path: &str| format!("{sha256}  {path}\n");
        let files = self.files.iter();
        let files = files.map(|file| line(&file.sha256, &file.path));
        [line(own, MANIFEST_FILE)]
            .into_iter()
            .chain(files)
            .collect()
    }

    /// The manifest's bytes, and the text of the sums.
    pub(super) fn written(&self) -> serde_json::Result<(Vec<u8>, String)> {
        let mut bytes = serde_json::to_vec_pretty(self)?;
        bytes.push(b'\n');
        let sums = self.sums(&sha256(&bytes));
        Ok((bytes, sums))
    }
}

/// What [`check_path`] expects.
pub(super) const EXPECTED_PATH: &str = "a relative path of plain parts between `/`";

/// Checks that a path of a manifest leads to a file below the package's folder on every system, and is not one of the two files that a
/// package adds. Otherwise says what is wrong with it.
pub(super) fn check_path(path: &str) -> Result<(), String> {
    if path.len() > LONGEST_PATH {
        return Err(format!("{} bytes", path.len()));
    }
    if [MANIFEST_FILE, SUMS_FILE].contains(&path) {
        return Err("a name that packages use themselves".to_owned());
    }
    for part in path.split('/') {
        let reserved = |c: char| c.is_control() || "\\:*?\"<>|".contains(c);
        let got = match part {
            "" => "an empty part",
            "." | ".." => "a part that names another folder",
            part if part.len() > LONGEST_PART => "a part of more than 255 bytes",
            part if part.contains(reserved) => "a character that some systems reserve",
            part if part.ends_with(['.', ' ']) => "a part that ends in a dot or a space",
            _ => continue,
        };
        return Err(got.to_owned());
    }
    Ok(())
}
