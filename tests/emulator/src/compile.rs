//! Compiles kernel texts to shared objects with the host's C++ compiler, and caches the objects.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};
use std::{env, fs, process};

use crate::grid::state::STACK_BYTES;
use crate::{settings, text};

/// Flags that make the host compute as a GPU does: no contraction and no reordering of operations, pointers that may alias
/// other types, and integers that wrap.
const FLAGS: &str = "-x c++ -std=c++17 -O1 -fPIC -fvisibility=hidden -fno-strict-aliasing -fwrapv -ffp-contract=off -fno-math-errno \
    -fno-exceptions -fno-rtti -fno-stack-protector -w";
/// Flags with which every access calls the emulator. CubeCL turns atomic loads into volatile reads, which are therefore told apart.
const CHECKS: &str = "-fsanitize=thread --param=tsan-distinguish-volatile=1 -g1 -DEMU_CHECK";

/// The language of a kernel text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    /// CUDA C++ for an architecture: 890 for sm_89.
    Cuda(u32),
    /// HIP C++.
    Hip,
    /// Metal's shading language.
    Metal,
}

/// A kernel text, as `nvrtcCompileProgram` or `hiprtcCompileProgram` receives it and a module carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) language: Language,
    pub(crate) text: String,
}

impl Source {
    const MARK: &'static str = "// moebius-emulator: ";
    const CUDA: &'static str = "CUDA C++ for sm ";
    const HIP: &'static str = "HIP C++";
    const METAL: &'static str = "Metal";

    /// The image that stands in for PTX or a code object: the text itself, so that a stored module works wherever it is loaded.
    pub(crate) fn image(&self) -> String {
        let language = match self.language {
            Language::Cuda(architecture) => format!("{}{architecture}", Source::CUDA),
            Language::Hip => Source::HIP.to_owned(),
            Language::Metal => Source::METAL.to_owned(),
        };
        format!("{}{language}\n{}", Source::MARK, self.text)
    }

    /// Parses an image; `None` for any other text.
    pub(crate) fn of_image(image: &str) -> Option<Source> {
        let (language, text) = image.strip_prefix(Source::MARK)?.split_once('\n')?;
        let language = match language.strip_prefix(Source::CUDA) {
            Some(architecture) => Language::Cuda(architecture.parse().ok()?),
            None if language == Source::HIP => Language::Hip,
            None if language == Source::METAL => Language::Metal,
            None => return None,
        };
        Some(Source {
            language,
            text: text.to_owned(),
        })
    }

    /// Returns the text's shared object, and compiles it unless it is cached.
    ///
    /// # Errors
    ///
    /// The compiler's message, or that there is no compiler.
    pub(crate) fn object(&self) -> Result<PathBuf, String> {
        let compiler = compiler()?;
        let check = settings::get().check;
        let flags = self.flags(check);
        let program = text::program(&self.text, self.language, check);
        let mut hash = blake3::Hasher::new();
        for part in [compiler.version.as_str(), &flags.join(" "), &program] {
            hash.update(part.as_bytes());
            hash.update(&[0]);
        }
        let path = folder()?.join(format!("{}.so", hash.finalize().to_hex()));
        if is_kept(&path) {
            return Ok(path);
        }
        build(compiler, &flags, &program, &path)?;
        Ok(path)
    }

    fn flags(&self, check: bool) -> Vec<String> {
        let mut flags: Vec<String> = FLAGS.split(' ').map(str::to_owned).collect();
        if let Language::Cuda(architecture) = self.language {
            flags.push(format!("-D__CUDA_ARCH__={architecture}"));
        }
        flags.push(format!("-DEMU_LANES={}u", settings::get().card.lanes));
        flags.push(format!("-DEMU_STACK_BYTES={STACK_BYTES}ul"));
        if check {
            flags.extend(CHECKS.split(' ').map(str::to_owned));
        }
        #[cfg(target_arch = "x86_64")]
        for (present, flag) in [
            (std::arch::is_x86_feature_detected!("fma"), "-mfma"),
            (std::arch::is_x86_feature_detected!("f16c"), "-mf16c"),
            (std::arch::is_x86_feature_detected!("avx2"), "-mavx2"),
        ] {
            if present {
                flags.push(flag.to_owned());
            }
        }
        flags
    }
}

struct Compiler {
    program: String,
    version: String,
}

/// The host's C++ compiler: `$CXX`, else the first usual name that can be run.
fn compiler() -> Result<&'static Compiler, String> {
    static FOUND: OnceLock<Option<Compiler>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let own = env::var("CXX").ok().filter(|name| !name.is_empty());
        match own {
            Some(own) => asked(&own),
            None => ["c++", "g++", "clang++"].into_iter().find_map(asked),
        }
    });
    let none = "the emulator compiles kernels with the host's C++ compiler, and found none: set CXX, \
                or install g++ 12 or clang 15 or newer";
    found.as_ref().ok_or_else(|| none.to_owned())
}

fn asked(name: &str) -> Option<Compiler> {
    let answer = Command::new(name).arg("--version").output().ok()?;
    let version = String::from_utf8_lossy(&answer.stdout);
    answer.status.success().then(|| Compiler {
        program: name.to_owned(),
        version: version.lines().next().unwrap_or_default().to_owned(),
    })
}

/// Compiles to a temporary name and renames the finished object, so that another process never sees part of it.
fn build(compiler: &Compiler, flags: &[String], program: &str, path: &Path) -> Result<(), String> {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let beside = |kind: &str| path.with_extension(format!("{}-{number}.{kind}", process::id()));
    let (source, object, library) = (beside("cpp"), beside("o"), beside("so"));
    let outcome = steps(compiler, flags, program, [&source, &object, &library]).and_then(|()| {
        fs::rename(&library, path).map_err(|error| format!("{}: {error}", path.display()))
    });
    // A failure leaves only files that are named after this process.
    let _ = fs::remove_file(&source);
    let _ = fs::remove_file(&object);
    outcome
}

/// Compiles and links in two steps: linked with the sanitizer's flag, an object would need the sanitizer's library.
fn steps(
    compiler: &Compiler,
    flags: &[String],
    program: &str,
    [source, object, library]: [&Path; 3],
) -> Result<(), String> {
    let failed = |error: io::Error| format!("{}: {error}", source.display());
    let mut file = fs::File::create(source).map_err(failed)?;
    file.write_all(program.as_bytes()).map_err(failed)?;
    let mut compile = Command::new(&compiler.program);
    compile.args(flags).arg("-c").arg(source);
    compile.arg("-o").arg(object);
    succeeded(compile.output(), &compiler.program)?;
    let mut link = Command::new(&compiler.program);
    link.args(["-shared", "-Wl,-Bsymbolic", "-o"]);
    link.args([library, object]).arg("-lm");
    succeeded(link.output(), &compiler.program)
}

fn succeeded(run: io::Result<Output>, program: &str) -> Result<(), String> {
    let output = run.map_err(|error| format!("{program}: {error}"))?;
    let said = || String::from_utf8_lossy(&output.stderr).into_owned();
    output.status.success().then_some(()).ok_or_else(said)
}

/// How long an object stays cached after its last use.
const KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The cache folder, after old objects are removed; an error if it can't be made.
fn folder() -> Result<&'static Path, String> {
    static FOLDER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = place();
        let swept = fs::create_dir_all(&folder).and_then(|()| sweep(&folder));
        swept
            .map(|()| folder.clone())
            .map_err(|error| format!("{}: {error}", folder.display()))
    });
    folder.as_deref().map_err(Clone::clone)
}

/// Whether an object of this name is cached; if so, its time of last use becomes now.
fn is_kept(object: &Path) -> bool {
    let Ok(file) = fs::File::open(object) else {
        return false;
    };
    // Where the folder isn't writable, the time can't be set, but nothing is removed either.
    let _ = file.set_modified(SystemTime::now());
    true
}

/// The path of the cache folder: `$MOEBIUS_EMULATOR_CACHE`, else a folder of the user's.
fn place() -> PathBuf {
    if let Some(folder) = env::var_os("MOEBIUS_EMULATOR_CACHE") {
        return PathBuf::from(folder);
    }
    let home = env::var_os("HOME").map_or_else(env::temp_dir, PathBuf::from);
    home.join(".cache/moebius/emulator")
}

fn sweep(folder: &Path) -> io::Result<()> {
    let now = SystemTime::now();
    for entry in fs::read_dir(folder)?.flatten() {
        let used = entry.metadata().and_then(|data| data.modified());
        let age = used.ok().and_then(|used| now.duration_since(used).ok());
        if age.is_some_and(|age| age > KEPT) {
            // Another process may have removed the file already.
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_holds_its_text() {
        for language in [Language::Cuda(890), Language::Hip, Language::Metal] {
            let text = "int a;\nint b;".to_owned();
            let source = Source { language, text };
            assert_eq!(Source::of_image(&source.image()), Some(source));
        }
        assert_eq!(Source::of_image(".version 8.0"), None);
    }

    #[test]
    fn what_was_not_used_for_long_is_removed() -> io::Result<()> {
        let folder = env::temp_dir().join(format!("moebius-emulator-{}", process::id()));
        fs::create_dir_all(&folder)?;
        let [old, used] = ["old.so", "used.so"].map(|name| folder.join(name));
        for object in [&old, &used] {
            fs::write(object, "")?;
            let long_ago = SystemTime::now() - 2 * KEPT;
            fs::File::open(object)?.set_modified(long_ago)?;
        }
        assert!(is_kept(&used) && !is_kept(&folder.join("new.so")));
        sweep(&folder)?;
        assert!(!old.exists() && used.exists());
        fs::remove_dir_all(&folder)
    }
}
