//! Lists the case files that `src/bundled.rs` takes into the binary.

use std::error::Error;
use std::path::Path;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../tests/cases");
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries: Vec<_> = fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    let mut files: Vec<_> = entries.iter().map(fs::DirEntry::path).collect();
    files.retain(|file| {
        file.extension()
            .is_some_and(|ending| ending == "safetensors")
    });
    files.sort();
    let cases = files.iter().map(|file| {
        let name = file.file_stem().unwrap_or_default();
        format!("({name:?}, include_bytes!({file:?})),\n")
    });
    let list = format!("&[{}]", cases.collect::<String>());
    fs::write(Path::new(&env::var("OUT_DIR")?).join("cases.rs"), list)?;
    Ok(())
}
