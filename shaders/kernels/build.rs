//! Computes a fingerprint of the kernels from the sources of this crate and of the operations, and from CubeCL's versions,
//! because CubeCL generates the code.
//!
//! Without the workspace's lock file, as in a published crate, the manifest tells CubeCL's version.

use std::path::{Path, PathBuf};
use std::{fs, io};

fn main() -> io::Result<()> {
    let mut files = Vec::new();
    collect(Path::new("src"), &mut files)?;
    let operations = Path::new("../ops/src");
    if operations.is_dir() {
        collect(operations, &mut files)?;
        println!("cargo::rerun-if-changed={}", operations.display());
    }
    files.sort();
    files.push("Cargo.toml".into());
    let mut hash = Hash(0xCBF2_9CE4_8422_2325);
    for file in files {
        println!("cargo::rerun-if-changed={}", file.display());
        hash.add(file.to_string_lossy().as_bytes());
        hash.add(&fs::read(&file)?);
    }
    println!("cargo::rerun-if-changed=src");
    let lock = Path::new("../../Cargo.lock");
    if let Ok(text) = fs::read_to_string(lock) {
        println!("cargo::rerun-if-changed={}", lock.display());
        let packages = text.split("[[package]]");
        for package in packages.filter(|package| package.contains("name = \"cubecl")) {
            hash.add(package.as_bytes());
        }
    }
    println!("cargo::rustc-env=MOEBIUS_KERNELS={:016x}", hash.0);
    Ok(())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// A 64-bit FNV-1a hash, which is the same for every compiler.
struct Hash(u64);

impl Hash {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().chain(&[0]) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
        }
    }
}
