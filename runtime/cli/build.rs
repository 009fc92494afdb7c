//! Lists the case files and the model files that `src/bundled.rs` includes in the binary, and has the linker pack the
//! binary's relocations.

use std::error::Error;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let cases = files("../../tests/cases", &["safetensors"])?;
    let cases = cases.iter().map(|file| (file.file_stem(), file));
    list("cases.rs", cases)?;
    let model = files("../shipped", &["json", "safetensors"])?;
    // The case file beside the model is only for tests.
    let model = model.iter().map(|file| (file.file_name(), file));
    let model = model.filter(|(name, _)| {
        let name = name.and_then(OsStr::to_str);
        name.is_some_and(|name| !name.ends_with(".case.safetensors"))
    });
    list("model.rs", model)?;
    if packs_relocations()? {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    Ok(())
}

/// Whether programs that run on this machine may have packed relocations, which glibc reads from 2.36 on; they make a
/// release build 9 MB smaller. Binaries for other machines get plain relocations.
fn packs_relocations() -> Result<bool, env::VarError> {
    if env::var("TARGET")? != "x86_64-unknown-linux-gnu" || env::var("HOST")? != env::var("TARGET")?
    {
        return Ok(false);
    }
    let said = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let said = said.map_or(String::new(), |output| {
        String::from_utf8_lossy(&output.stdout).into_owned()
    });
    let version = said.trim().strip_prefix("glibc ").and_then(|version| {
        let (major, minor) = version.split_once('.')?;
        Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
    });
    Ok(version.is_some_and(|version| version >= (2, 36)))
}

/// The files of a folder with one of these extensions, sorted.
fn files(folder: &str, endings: &[&str]) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join(folder);
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries: Vec<_> = fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    let mut files: Vec<_> = entries.iter().map(fs::DirEntry::path).collect();
    files.retain(|file| {
        let ending = file.extension().and_then(|ending| ending.to_str());
        ending.is_some_and(|ending| endings.contains(&ending))
    });
    files.sort();
    Ok(files)
}

/// Writes a Rust expression with the files' names and bytes to a file in OUT_DIR.
fn list<'a>(
    to: &str,
    files: impl Iterator<Item = (Option<&'a OsStr>, &'a PathBuf)>,
) -> Result<(), Box<dyn Error>> {
    let items = files.map(|(name, file)| {
        let name = name.unwrap_or_default();
        format!("({name:?}, include_bytes!({file:?})),\n")
    });
    let list = format!("&[{}]", items.collect::<String>());
    Ok(fs::write(Path::new(&env::var("OUT_DIR")?).join(to), list)?)
}
