//! Lists the case files of this folder that `src/lib.rs` includes.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = env::var("CARGO_MANIFEST_DIR")?;
    println!("cargo::rerun-if-changed={folder}");
    let entries: Vec<_> = fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    let mut files: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
    files.retain(|file| {
        file.extension()
            .is_some_and(|ending| ending == "safetensors")
    });
    files.sort();
    let items = files.iter().map(|file| {
        let name = file.file_stem().unwrap_or_default();
        format!("({name:?}, include_bytes!({file:?})),\n")
    });
    let list = format!("&[{}]", items.collect::<String>());
    Ok(fs::write(
        Path::new(&env::var("OUT_DIR")?).join("files.rs"),
        list,
    )?)
}
