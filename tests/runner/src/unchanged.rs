//! Jobs that needn't run again on this machine, because nothing that they depend on has changed since they last passed.
//!
//! A key stands for everything a job depends on: the loaded parts of its programs, which contain every kernel, reference and
//! tolerance they can reach; the tree's data, except folders that only other jobs read; the command and its variables; and the
//! machine with its drivers and packages. A job whose key has passed before doesn't run; it is reported as unchanged and counts
//! as no passed test.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use object::{Object, ObjectSection, SectionFlags};
use serde_json::{Value, json};

use crate::job::Job;
use crate::outcome::Outcome;
use crate::places::{self, Places};

/// The version of the keys' format: it changes with what keys are made of.
const FORMAT: &str = "moebius jobs 3";
/// The name of the browser's tests in [`READ_BY`].
pub(crate) const BROWSER: &str = "browser";
/// Folders of data, each with its only readers: test programs by target name, or the browser's tests.
pub(crate) const READ_BY: [(&str, &[&str]); 5] = [
    ("tests/snapshots/", &["snapshots"]),
    ("tests/support/", &["support_table"]),
    ("tests/checkpoints/", &["robustness"]),
    ("web-demo/", &[BROWSER, "browser_reference"]),
    ("runtime/serve/site/", &[BROWSER, "page"]),
];

/// The folders in [`READ_BY`] that a reader reads.
pub(crate) fn read_by(reader: &str) -> Vec<&'static str> {
    let theirs = READ_BY.iter().filter(|(_, by)| by.contains(&reader));
    theirs.map(|(folder, _)| *folder).collect()
}

/// The number of keys kept, those of the jobs that passed most recently.
const MOST: usize = 1000;

/// The last time that a job passed with a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Green {
    pub(crate) commit: String,
    pub(crate) passed: usize,
    pub(crate) refused: usize,
    /// The time of that pass, in seconds since 1970.
    pub(crate) at: u64,
}

/// The jobs that passed in earlier runs on this machine.
#[derive(Debug)]
pub(crate) struct Known {
    folder: PathBuf,
    /// A hash of what all jobs depend on.
    common: String,
    /// Hashes of the folders that only few jobs read.
    folders: BTreeMap<&'static str, String>,
    /// Hashes of the programs read so far; many jobs share a program.
    programs: RefCell<BTreeMap<PathBuf, blake3::Hash>>,
    /// The folder whose name differs from run to run, which keys must not contain.
    fleeting: String,
    commit: String,
    green: BTreeMap<String, Green>,
}

impl Known {
    /// Reads the passes of earlier runs from `cache`; none if the file is missing or damaged.
    pub(crate) fn read(places: &Places, scratch: &Path) -> io::Result<Self> {
        let (tree, folders) = tree()?;
        let mut common = blake3::Hasher::new();
        for part in [FORMAT, &tree, &machine(places)?] {
            common.update(part.as_bytes());
        }
        let common = hex(&common);
        Ok(Self {
            folders,
            ..Self::of(&places.cache, scratch, &common)
        })
    }

    /// As [`Known::read`], with `common` standing for what all jobs depend on.
    pub(crate) fn of(cache: &Path, scratch: &Path, common: &str) -> Self {
        let folder = cache.join("green");
        let text = fs::read_to_string(folder.join("jobs.json")).unwrap_or_default();
        let value: Value = serde_json::from_str(&text).unwrap_or_default();
        let entries = value.as_object().into_iter().flatten();
        let green = entries.filter_map(|(key, entry)| {
            let number = |name: &str| usize::try_from(entry[name].as_u64()?).ok();
            let green = Green {
                commit: entry["commit"].as_str()?.to_owned(),
                passed: number("passed")?,
                refused: number("refused")?,
                at: entry["at"].as_u64().unwrap_or_default(),
            };
            Some((key.clone(), green))
        });
        Self {
            folder,
            common: common.to_owned(),
            folders: BTreeMap::new(),
            programs: RefCell::default(),
            fleeting: places::text(scratch),
            commit: places::commit(),
            green: green.collect(),
        }
    }

    /// The key of a job; `None` for a job that always runs.
    ///
    /// # Errors
    /// A program of the job can't be read.
    pub(crate) fn key(&self, job: &Job) -> io::Result<Option<String>> {
        if job.depends_on.is_empty() {
            return Ok(None);
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.common.as_bytes());
        let mut variables = job.variables.clone();
        variables.sort();
        let variables = variables.iter().flat_map(|(name, value)| [name, value]);
        for text in [&job.name].into_iter().chain(&job.command).chain(variables) {
            add_bytes(&mut hasher, text.replace(&self.fleeting, "").as_bytes());
        }
        for path in &job.depends_on {
            if path.is_dir() {
                add(&mut hasher, path)?
            } else {
                hasher.update(self.program(path)?.as_bytes());
            }
        }
        for folder in &job.reads {
            let hash = self.folders.get(folder).map_or("", String::as_str);
            hasher.update(format!("{folder}={hash}\n").as_bytes());
        }
        Ok(Some(hex(&hasher)))
    }

    /// A hash of a program's loaded parts, or of all bytes of another file.
    fn program(&self, path: &Path) -> io::Result<blake3::Hash> {
        if let Some(hash) = self.programs.borrow().get(path) {
            return Ok(*hash);
        }
        let bytes = read(path)?;
        let hash = loaded(&bytes).unwrap_or_else(|| blake3::hash(&bytes));
        self.programs.borrow_mut().insert(path.to_owned(), hash);
        Ok(hash)
    }

    /// The earlier pass of a job with this key, whose records are copied to `records`.
    pub(crate) fn passed(&self, key: &str, records: &Path) -> Option<Green> {
        let green = self.green.get(key)?;
        places::copy_files(&self.folder.join(key), records, "").ok()?;
        Some(green.clone())
    }

    /// Notes that the job with this key passed, and keeps its records.
    pub(crate) fn keep(&mut self, key: &str, outcome: &Outcome, records: &Path) -> io::Result<()> {
        let folder = self.folder.join(key);
        places::copy_files(records, &folder, "")?;
        let green = Green {
            commit: self.commit.clone(),
            passed: outcome.passed,
            refused: outcome.refused,
            at: seconds_since_1970(),
        };
        self.green.insert(key.to_owned(), green);
        self.drop_oldest(MOST)?;
        let entry = |green: &Green| json!({"commit": green.commit, "passed": green.passed, "refused": green.refused, "at": green.at});
        let entries = self.green.iter();
        let entries = entries.map(|(key, green)| (key.clone(), entry(green)));
        let text = Value::Object(entries.collect()).to_string();
        places::replace(&self.folder.join("jobs.json"), &text)
    }

    /// Removes the oldest passes beyond `most`.
    fn drop_oldest(&mut self, most: usize) -> io::Result<()> {
        let mut keys: Vec<(u64, String)> = self
            .green
            .iter()
            .map(|(key, green)| (green.at, key.clone()))
            .collect();
        keys.sort();
        let beyond = keys.len().saturating_sub(most);
        for (_, key) in keys.drain(..beyond) {
            self.green.remove(&key);
            fs::remove_dir_all(self.folder.join(key))?;
        }
        Ok(())
    }
}

fn hex(hasher: &blake3::Hasher) -> String {
    hasher.finalize().to_hex().to_string()
}

fn seconds_since_1970() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// A hash of the sections of an ELF file that the system loads; `None` for other files. Symbol names and the linker's build ID
/// may change though no instruction does.
fn loaded(bytes: &[u8]) -> Option<blake3::Hash> {
    let file = object::File::parse(bytes).ok()?;
    let mut hasher = blake3::Hasher::new();
    hasher.update(&file.entry().to_le_bytes());
    for section in file.sections() {
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else {
            return None;
        };
        let name = section.name_bytes().ok()?;
        if sh_flags.0 & object::elf::SHF_ALLOC.0 == 0 || name == b".note.gnu.build-id" {
            continue;
        }
        for number in [section.address(), section.size(), sh_flags.0] {
            hasher.update(&number.to_le_bytes());
        }
        hasher.update(name);
        hasher.update(section.data().ok()?);
    }
    Some(hasher.finalize())
}

/// Reads a file; an error names its path.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    fs::read(path).map_err(named)
}

/// Hashes bytes with their length, so that their boundaries count.
fn add_bytes(hasher: &mut blake3::Hasher, bytes: &[u8]) {
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}

/// Hashes a file, or the files of a folder in the order of their names.
fn add(hasher: &mut blake3::Hasher, path: &Path) -> io::Result<()> {
    if !path.is_dir() {
        hasher.update(blake3::hash(&read(path)?).as_bytes());
        return Ok(());
    }
    let entries: io::Result<Vec<PathBuf>> =
        fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect();
    let mut entries = entries?;
    entries.sort();
    for entry in entries {
        add_bytes(
            hasher,
            entry.file_name().unwrap_or_default().as_encoded_bytes(),
        );
        add(hasher, &entry)?;
    }
    Ok(())
}

/// Hashes of the tree's files that programs may read at run time: of those for all jobs, and of each folder of [`READ_BY`].
fn tree() -> io::Result<(String, BTreeMap<&'static str, String>)> {
    let list = "ls-files -z --cached --others --exclude-standard".split(' ');
    let output = Command::new("git").args(list).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!("git ls-files: {said}")));
    }
    let names = String::from_utf8_lossy(&output.stdout);
    let mut names: Vec<&str> = names.split('\0').filter(|name| is_data(name)).collect();
    names.sort_unstable();
    names.dedup();
    let mut common = blake3::Hasher::new();
    let mut folders: BTreeMap<&'static str, blake3::Hasher> = BTreeMap::new();
    for name in names {
        let of_few = READ_BY.iter().find(|(folder, _)| name.starts_with(folder));
        let hasher = match of_few {
            Some((folder, _)) => folders.entry(folder).or_default(),
            None => &mut common,
        };
        hasher.update(name.as_bytes());
        // Git also lists a deleted file until the deletion is committed.
        if Path::new(name).exists() {
            add(hasher, Path::new(name))?;
        }
    }
    let folders = folders
        .iter()
        .map(|(folder, hasher)| (*folder, hex(hasher)));
    Ok((hex(&common), folders.collect()))
}

/// Whether programs may read this file of the tree at run time. Rust sources, manifests and scripts only make programs, which
/// are part of keys; the tests of documents and of the kits in `tests/gpu/` and `tests/real_model/` always run; `tests/clients/` is part of the key of
/// its own job.
fn is_data(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or_default();
    let manifests = "Cargo.toml Cargo.lock clippy.toml rustfmt.toml .gitignore";
    let folders = ".ci/ .cargo/ scripts/ tests/gpu/ tests/real_model/ tests/clients/";
    let makes_programs = name.ends_with(".rs")
        || manifests.split(' ').any(|manifest| manifest == file)
        || folders.split(' ').any(|folder| name.starts_with(folder));
    !name.is_empty() && !makes_programs && !is_document(name)
}

fn starts_with_one(name: &str, starts: &[&str]) -> bool {
    starts.iter().any(|start| name.starts_with(start))
}

/// Whether a path is a document for people, read only by tests that always run.
pub(crate) fn is_document(name: &str) -> bool {
    let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
    let page = file.ends_with(".md") && (folder.is_empty() || file == "README.md");
    page || name.starts_with("docs/") || name == "benches/RESULTS.md"
}

/// What results depend on besides the program: the processor, the system's drivers and packages, and the environment variables
/// that programs here read.
fn machine(places: &Places) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let told = |line: &&str| line.starts_with("model name") || line.starts_with("flags");
    for line in processor.lines().filter(told).take(2) {
        hasher.update(line.as_bytes());
    }
    // The system's packages as Debian lists them, and the versions of what is unpacked in the cache folder.
    let unpacked = [
        "lavapipe/libraries/version",
        "lavapipe/lvp_icd.json",
        "nvrtc/version",
        "spirv-tools/version",
    ]
    .map(|name| places.cache.join(name));
    let listed = [PathBuf::from("/var/lib/dpkg/status")];
    let files = listed.iter().chain(&unpacked);
    for path in files.filter(|path| path.exists()) {
        add(&mut hasher, path)?;
    }
    for (folder, stem) in [("pjrt", ""), ("", "deno-")] {
        let entries = fs::read_dir(places.cache.join(folder)).into_iter();
        let entries = entries.flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.filter(|name| name.starts_with(stem)).collect();
        names.sort();
        hasher.update(names.join("\n").as_bytes());
    }
    let ours = |name: &str| starts_with_one(name, &["MOEBIUS_", "XLA_", "RUST_", "CUBECL_"]);
    let variables = std::env::vars().filter(|(name, _)| ours(name));
    for (name, value) in variables.collect::<BTreeMap<_, _>>() {
        hasher.update(format!("{name}={value}\n").as_bytes());
    }
    let drivers = [
        &places.lavapipe,
        &places.swiftshader,
        &places.spirv_driver,
        &places.gpu,
    ];
    for driver in drivers {
        hasher.update(driver.as_deref().unwrap_or("none").as_bytes());
    }
    Ok(hex(&hasher))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// A folder for one test, containing a program.
    struct Fixture(PathBuf);

    impl Fixture {
        fn new(name: &str) -> Self {
            let name = format!("moebius-green-{name}-{}", std::process::id());
            let fixture = Self(std::env::temp_dir().join(name));
            let _ = fs::remove_dir_all(&fixture.0);
            for part in ["scratch/records", "again", "cache", "data"] {
                fs::create_dir_all(fixture.path(part)).unwrap();
            }
            fixture.write("program", "kernel text, reference and tolerance");
            fixture.write("data/case", "values");
            fixture
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.path(name), text).unwrap();
        }

        fn known(&self, common: &str) -> Known {
            Known::of(&self.path("cache"), &self.path("scratch"), common)
        }

        fn key(&self, job: &Job) -> String {
            self.known("common").key(job).unwrap().unwrap()
        }

        fn job(&self) -> Job {
            let drivers = places::text(&self.path("scratch/drivers"));
            Job::words("cases [cuda]", "program --all")
                .with("DRIVERS", drivers)
                .depending_on([self.path("program"), self.path("data")])
        }
    }

    impl Drop for Fixture {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_job_that_passed_is_known_with_its_records() {
        let fixture = Fixture::new("known");
        let [records, again] = ["scratch/records", "again"].map(|name| fixture.path(name));
        let mut known = fixture.known("common");
        let key = fixture.key(&fixture.job());
        assert_eq!(known.passed(&key, &again), None);
        fixture.write("scratch/records/cases-1.tsv", "a line");
        let outcome = Outcome {
            passed: 7,
            refused: 2,
            ..Outcome::default()
        };
        known.keep(&key, &outcome, &records).unwrap();
        let read = fixture.known("common");
        let key = read.key(&fixture.job()).unwrap().unwrap();
        let green = read.passed(&key, &again).unwrap();
        assert_eq!((green.passed, green.refused), (7, 2));
        let kept = fs::read_to_string(again.join("cases-1.tsv")).unwrap();
        assert_eq!(kept, "a line");
        fixture.write("cache/green/jobs.json", "{");
        assert!(fixture.known("common").green.is_empty());
    }

    #[test]
    fn the_jobs_that_passed_last_are_kept() {
        let fixture = Fixture::new("oldest");
        let mut known = fixture.known("common");
        let records = fixture.path("scratch/records");
        for (key, at) in [("a", 3), ("b", 1), ("c", 2)] {
            known.keep(key, &Outcome::default(), &records).unwrap();
            known.green.get_mut(key).unwrap().at = at;
        }
        known.drop_oldest(2).unwrap();
        let folder = |key: &str| fixture.path("cache/green").join(key).exists();
        assert_eq!(["a", "b", "c"].map(folder), [true, false, true]);
    }

    #[test]
    fn a_change_of_anything_is_another_key() {
        let fixture = Fixture::new("changes");
        let job = fixture.job();
        let mut keys = vec![fixture.key(&job)];
        assert_eq!(fixture.key(&job), keys[0]);
        // A constant of a kernel, a reference or a tolerance is part of the program; a driver's version is part of `common`.
        fixture.write("program", "kernel text, reference and Tolerance");
        keys.push(fixture.key(&job));
        let driver = fixture.known("another driver");
        keys.push(driver.key(&job).unwrap().unwrap());
        keys.push(fixture.key(&job.clone().with("CARD", "h100")));
        keys.push(fixture.key(&job.clone().arguments(&["--quick"])));
        fixture.write("data/case", "Values");
        keys.push(fixture.key(&job));
        fs::rename(fixture.path("data/case"), fixture.path("data/other")).unwrap();
        keys.push(fixture.key(&job));
        fixture.write("data/new", "");
        keys.push(fixture.key(&job));
        assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), 8, "{keys:?}");
    }

    #[test]
    fn the_place_of_a_runs_own_files_makes_no_difference() {
        let fixture = Fixture::new("places");
        let elsewhere = fixture.path("elsewhere");
        let known = Known::of(&fixture.path("cache"), &elsewhere, "common");
        let drivers = places::text(&elsewhere.join("drivers"));
        let job = fixture.job().without("DRIVERS").with("DRIVERS", drivers);
        let key = known.key(&job).unwrap();
        assert_eq!(key, Some(fixture.key(&fixture.job())));
    }

    #[test]
    fn a_job_without_a_program_always_runs_and_a_missing_program_is_an_error() {
        let fixture = Fixture::new("always");
        let known = fixture.known("common");
        let always = Job::words("format", "cargo fmt");
        assert_eq!(known.key(&always).unwrap(), None);
        let job = fixture.job().depending_on([fixture.path("missing")]);
        assert!(known.key(&job).unwrap_err().to_string().contains("missing"));
    }

    /// Checked on this test's own program: a symbol's name isn't loaded, a constant is.
    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_not_loaded_makes_no_difference() {
        let mut bytes = fs::read(std::env::current_exe().unwrap()).unwrap();
        let place = |bytes: &[u8], name: &str| {
            let file = object::File::parse(bytes).unwrap();
            let section = file.section_by_name(name).unwrap();
            let (start, size) = section.file_range().unwrap();
            (start + size / 2) as usize
        };
        let [name, constant] = [".strtab", ".rodata"].map(|name| place(&bytes, name));
        let first = loaded(&bytes).unwrap();
        bytes[name] ^= 1;
        assert_eq!(loaded(&bytes).unwrap(), first);
        bytes[constant] ^= 1;
        assert_ne!(loaded(&bytes).unwrap(), first);
        assert_eq!(loaded(b"a shell script"), None);
    }

    #[test]
    fn folders_of_few_are_in_the_keys_of_their_readers() {
        let fixture = Fixture::new("folders");
        let key = |hash: &str, reads: &[&'static str]| {
            let mut known = fixture.known("common");
            known.folders.insert("web-demo/", hash.to_owned());
            let reads = reads.to_vec();
            let job = Job {
                reads,
                ..fixture.job()
            };
            known.key(&job).unwrap().unwrap()
        };
        assert_eq!(key("a", &[]), key("b", &[]));
        assert_ne!(key("a", &["web-demo/"]), key("b", &["web-demo/"]));
        assert_eq!(read_by("browser_reference"), ["web-demo/"]);
        assert!(read_by("conformance_moe").is_empty());
    }

    /// A source file that names one of the folders might read it, so it must belong to one of the folder's readers, or to a
    /// crate whose jobs always run.
    #[test]
    fn no_other_program_names_the_folders() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let list = ["ls-files", "*.rs"];
        let output = Command::new("git").args(list).current_dir(&root).output();
        let names = String::from_utf8(output.unwrap().stdout).unwrap();
        let always = ["tests/tree/", "tests/runner/"];
        let mut named = 0;
        for name in names.lines().filter(|name| !starts_with_one(name, &always)) {
            let text = fs::read_to_string(root.join(name)).unwrap_or_default();
            let comment = |line: &&str| line.trim_start().starts_with("//");
            let code: String = text.lines().filter(|line| !comment(line)).collect();
            for (folder, readers) in READ_BY {
                let last = folder.trim_end_matches('/').rsplit('/').next().unwrap();
                if code.contains(&format!("\"{last}\"")) || code.contains(&format!("{last}/")) {
                    // Folders of that name in Hugging Face's cache.
                    let caching = ["runtime/weights/", "runtime/cli/"];
                    let another = last == "snapshots" && starts_with_one(name, &caching);
                    let known = another || readers.iter().any(|reader| name.contains(reader));
                    assert!(known, "{name} names {folder}, which others alone read");
                    named += 1;
                }
            }
        }
        assert!(named >= 4, "{named} sources name the folders");
    }

    #[test]
    fn data_is_what_programs_read_when_they_run() {
        let data = "tests/cases/a.safetensors web-demo/page.js tests/emulator/src/device/grid.h backends/xla/OPERATIONS.md";
        for name in data.split(' ') {
            assert!(is_data(name), "{name}");
        }
        let others = "README.md runtime/core/Cargo.toml scripts/test docs/page.png shaders/kernels/src/lib.rs benches/RESULTS.md";
        for name in others.split(' ').chain([""]) {
            assert!(!is_data(name), "{name}");
        }
    }
}
