//! Tests of `moebius doctor` as a program: what it finds wrong, and what it says to do about it.
#![cfg(feature = "flex")]
#![allow(
    clippy::expect_used,
    reason = "a test that cannot set itself up has failed"
)]

use std::process::Command;

use serde_json::Value;

/// The command with the arguments in `line`, which have no spaces.
fn doctor(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_moebius"));
    command.arg("doctor").args(line.split_whitespace());
    command
}

/// Exit code and checks of a command that writes JSON.
fn run(command: &mut Command) -> (Option<i32>, Vec<Value>) {
    let output = command.output().expect("the binary starts");
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let checks = report["checks"].as_array().expect("a list");
    (output.status.code(), checks.clone())
}

fn check<'a>(checks: &'a [Value], name: &str) -> &'a Value {
    let found = checks.iter().find(|check| check["name"] == name);
    found.expect("the check is there")
}

fn text<'a>(check: &'a Value, key: &str) -> &'a str {
    check[key].as_str().unwrap_or_default()
}

/// Asserts a check's state, and words in what it found and in what is to be done.
fn assert_check(check: &Value, state: &str, found: &str, fix: &str) {
    assert_eq!(check["state"], state, "{check}");
    assert!(text(check, "found").contains(found), "{check}");
    assert!(text(check, "fix").contains(fix), "{check}");
}

/// Seconds of a self-test, as its check tells them.
fn seconds(check: &Value) -> f64 {
    let found = text(check, "found");
    let seconds = found.rsplit_once("self-test passed in ");
    let seconds = seconds.and_then(|(_, of)| of.strip_suffix(" s")?.parse().ok());
    seconds.expect(found)
}

/// The shortest of three counts, since other programs may run at the same time.
#[test]
fn the_self_test_takes_at_most_a_second() {
    let of_one = |_| {
        let (_, checks) = run(&mut doctor("--device flex --json"));
        seconds(check(&checks, "flex"))
    };
    let shortest = (0..3).map(of_one).fold(f64::INFINITY, f64::min);
    assert!(shortest <= 1.0, "{shortest} s");
}

#[test]
fn every_runtime_and_the_house_are_checked() {
    let (code, checks) = run(&mut doctor("--json"));
    let names = "cuda rocm vulkan wgpu cpu flex xla:cpu xla:tpu xla:cuda";
    for name in names.split(' ') {
        let is_it = |check: &Value| {
            let rest = text(check, "name").strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
        };
        assert!(checks.iter().any(is_it), "{name}: {checks:?}");
    }
    for name in ["cache folder", "model cache", "variables"] {
        check(&checks, name);
    }
    assert_check(check(&checks, "flex"), "ok", "self-test passed", "");
    let failed = checks.iter().any(|check| check["state"] == "failed");
    assert_eq!(code, Some(i32::from(failed)), "{checks:?}");
    for check in &checks {
        assert!(!text(check, "found").is_empty(), "{check}");
        let idle = check["state"] == "ok" && !check["fix"].is_null();
        assert!(!idle, "{check}");
        if text(check, "found").contains("not part of this build") {
            assert!(text(check, "fix").contains("--features"), "{check}");
        }
        // The crate that looks for plugins says the same command.
        let pip = text(check, "fix")
            .split('`')
            .find(|t| t.starts_with("pip "));
        if let (true, Some(pip)) = (text(check, "found").contains("no PJRT plugin"), pip) {
            assert!(text(check, "found").contains(pip), "{check}");
        }
    }
}

#[test]
fn a_pipe_gets_a_line_for_each_check() {
    let output = doctor("--device flex").output().expect("the binary starts");
    let lines = String::from_utf8_lossy(&output.stdout);
    assert!(lines.starts_with("ok flex: "), "{lines}");
    let states = ["ok ", "warning ", "failed ", "missing "];
    let all = lines
        .lines()
        .all(|line| states.iter().any(|state| line.starts_with(state)));
    assert!(all && lines.lines().count() == 4, "{lines}");
}

#[test]
fn a_device_that_is_not_there_is_missing_and_nothing_works() {
    let (code, checks) = run(&mut doctor("--device rocm:77 --json"));
    assert_eq!((code, &checks[0]["name"]), (Some(1), &"rocm:77".into()));
    assert_check(&checks[0], "missing", "rocm", "");
}

#[test]
#[cfg(all(feature = "vulkan", target_os = "linux"))]
fn drivers_that_a_variable_hides_are_missing() {
    let mut command = doctor("--device vulkan --json");
    for name in ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"] {
        command.env(name, "/nonexistent/driver.json");
    }
    let (code, checks) = run(&mut command);
    assert_eq!(code, Some(1));
    let vulkan = check(&checks, "vulkan");
    assert_check(
        vulkan,
        "missing",
        "no adapter",
        "unset VK_DRIVER_FILES, VK_ICD_FILENAMES",
    );
    assert_check(vulkan, "missing", "vulkan", "mesa-vulkan-drivers");
}

/// LLVM is part of a build with `cpu`: kernels are compiled where no program and no library of it is found. Each process compiles them anew, here
/// with a compiler that is built without optimisation, beside other programs.
#[test]
#[cfg(all(feature = "cpu", target_os = "linux"))]
fn the_processor_needs_no_compiler_of_the_system() {
    let nothing = tempfile::tempdir().expect("a folder");
    let mut command = doctor("--device cpu --json");
    command.env("PATH", nothing.path());
    command.env_remove("LD_LIBRARY_PATH");
    let (code, checks) = run(&mut command);
    assert_eq!(code, Some(0), "{checks:?}");
    let cpu = check(&checks, "cpu");
    assert_check(cpu, "ok", "self-test passed", "");
    assert!(seconds(cpu) <= 30.0, "{cpu}");
}

/// Files that are no libraries hide those of their names, so that the driver is missing on a machine that has it, too.
#[test]
#[cfg(all(feature = "cuda", target_os = "linux"))]
fn libraries_that_a_folder_hides_are_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["libcuda.so", "libcuda.so.1"] {
        std::fs::write(folder.path().join(name), "").expect("written");
    }
    let mut command = doctor("--device cuda --json");
    let (code, checks) = run(command.env("LD_LIBRARY_PATH", folder.path()));
    assert_eq!(code, Some(1), "{checks:?}");
    let cuda = check(&checks, "cuda");
    assert_check(cuda, "missing", "libcuda", "install NVIDIA's driver");
}

#[test]
#[cfg(all(feature = "xla", target_os = "linux"))]
fn a_truncated_plugin_is_a_failure_of_its_device_alone() {
    use std::fs::File;
    use std::io::{Read, copy};

    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("plugin.so");
    // The beginning of any program of the same format.
    let whole = File::open(env!("CARGO_BIN_EXE_moebius")).expect("the binary");
    let mut part = File::create(&path).expect("a file");
    copy(&mut whole.take(1 << 20), &mut part).expect("written");
    let mut command = doctor("--device xla:cpu --json");
    let (code, checks) = run(command.env("MOEBIUS_PJRT_CPU", &path));
    assert_eq!(code, Some(1), "{checks:?}");
    let fix = "pip install xla-cpu-pjrt";
    assert_check(check(&checks, "xla:cpu"), "failed", "self-test", fix);
}

#[test]
#[cfg(target_os = "linux")]
fn a_cache_folder_that_cannot_be_written_is_a_warning() {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().expect("a folder");
    let models = folder.path().join("models");
    fs::create_dir(&models).expect("a folder");
    let warned = |mut command: Command, caches: &std::path::Path, reason: &str| {
        command
            .env("XDG_CACHE_HOME", caches)
            .env("HF_HUB_CACHE", &models);
        let (code, checks) = run(&mut command);
        assert_eq!(code, Some(0), "{checks:?}");
        let cache = check(&checks, "cache folder");
        assert_check(
            cache,
            "warning",
            &caches.display().to_string(),
            "XDG_CACHE_HOME",
        );
        assert_check(cache, "warning", reason, "");
    };
    let flex = || doctor("--device flex --json");
    let file = folder.path().join("file");
    fs::write(&file, "").expect("written");
    warned(flex(), &file, "Not a directory");
    // A limit on files stands for a full disk: it binds whoever runs the test.
    let mut limited = Command::new("sh");
    let script = "trap '' XFSZ; ulimit -f 0; exec \"$@\"";
    limited.args(["-c", script, "sh", env!("CARGO_BIN_EXE_moebius")]);
    limited.args(["doctor", "--device", "flex", "--json"]);
    warned(limited, &folder.path().join("full"), "File too large");
    let closed = folder.path().join("closed");
    fs::create_dir(&closed).expect("a folder");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).expect("permitted");
    // The system's administrator may write everywhere.
    if fs::write(closed.join("file"), "").is_err() {
        warned(flex(), &closed, "Permission denied");
    }
}

#[test]
fn a_cache_of_models_that_cannot_be_read_is_a_failure() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let mut command = doctor("--device flex --json");
    let (code, checks) = run(command.env("HF_HUB_CACHE", file.path()));
    assert_eq!(code, Some(1), "{checks:?}");
    let path = file.path().display().to_string();
    assert_check(
        check(&checks, "model cache"),
        "failed",
        &path,
        "HF_HUB_CACHE",
    );
}

#[test]
fn a_variable_that_nothing_reads_is_a_warning() {
    let mut command = doctor("--device flex --json");
    let (code, checks) = run(command.env("MOEBIUS_SIMDD", "avx2"));
    assert_eq!(code, Some(0), "{checks:?}");
    let variables = check(&checks, "variables");
    assert_check(variables, "warning", "MOEBIUS_SIMDD", "MOEBIUS_SIMD, ");
}
