//! Builds the library of float conversions that `src/conversions.rs` loads, on targets where CubeCL's CPU compiler
//! needs it.

use std::env;
use std::error::Error;
use std::path::Path;
use std::process::Command;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=conversions");
    let needs = env::var_os("CARGO_FEATURE_CPU").is_some()
        && env::var("CARGO_CFG_TARGET_ARCH")? == "x86_64"
        && env::var("CARGO_CFG_TARGET_OS")? == "linux";
    if !needs {
        return Ok(());
    }
    let target = env::var("TARGET")?;
    let output = Path::new(&env::var("OUT_DIR")?).join("conversions.so");
    let mut rustc = Command::new(env::var("RUSTC")?);
    rustc
        .args(["--edition", "2024", "--crate-type", "cdylib"])
        .args(["--crate-name", "conversions", "--target", &target])
        .args(["-Copt-level=3", "-Cpanic=abort", "-Cstrip=symbols"])
        .args(["-Clink-arg=-nostartfiles", "-Clink-arg=-nostdlib"])
        .arg("-o")
        .arg(output)
        .arg("conversions/library.rs");
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut option = std::ffi::OsString::from("-Clinker=");
        option.push(linker);
        rustc.arg(option);
    }
    let status = rustc.status()?;
    if !status.success() {
        return Err(format!("rustc on conversions/library.rs: {status}").into());
    }
    Ok(())
}
