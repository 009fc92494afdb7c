//! The test programs that cargo built, and their packages' rules for running them.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A test program.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) package: String,
    /// The cargo target: `training`, or `moebius_xla` for the unit tests of a library.
    pub(crate) target: String,
    pub(crate) executable: PathBuf,
    /// The package's folder, where cargo runs the program.
    pub(crate) folder: PathBuf,
    /// Whether the program holds the unit tests of a library or a command.
    pub(crate) unit: bool,
    pub(crate) rules: Rules,
    /// The families of cases in a conformance program, in order.
    pub(crate) families: Vec<String>,
}

impl Program {
    /// Asks a conformance program for its families, by the names of its cases.
    ///
    /// # Errors
    /// The program can't be started, fails, or names no case: jobs chosen by family would leave its cases out.
    pub(crate) fn ask_families(&mut self) -> io::Result<()> {
        let list = Command::new(&self.executable)
            .arg("--list")
            .env("MOEBIUS_TEST_DEVICES", "flex")
            .output()?;
        let text = String::from_utf8_lossy(&list.stdout).into_owned();
        let names = text.lines().filter_map(|line| line.split_once("::"));
        self.families = names.map(|(family, _)| family.to_owned()).collect();
        self.families.dedup();
        if !list.status.success() || self.families.is_empty() {
            let said = String::from_utf8_lossy(&list.stderr).into_owned();
            return Err(invalid(format!("{} --list: {said}", self.target)));
        }
        Ok(())
    }

    /// The families and cases of `list`, separated by commas, that the program has; `None` if it has none of them.
    pub(crate) fn among(&self, list: &str) -> Option<String> {
        let has = |name: &&str| {
            let family = name.split("::").next().unwrap_or_default();
            self.families.iter().any(|one| one == family)
        };
        let names: Vec<&str> = list.split(',').filter(has).collect();
        (!names.is_empty()).then(|| names.join(","))
    }

    /// The name in a changed path that makes the program's deep jobs due: `attention` for `conformance_attention`.
    pub(crate) fn subject(&self) -> &str {
        let target = self.target.as_str();
        target.strip_prefix("conformance_").unwrap_or(target)
    }
}

/// The rules of `[package.metadata.tests.TARGET]` in a `Cargo.toml`; without an entry, all are off.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rules {
    /// The program has conformance cases: families that can be chosen, and emulated devices. Implies `each_device`,
    /// `own_harness` and `xla_quickly`.
    pub(crate) conformance: bool,
    /// The program runs once for each device, named by `MOEBIUS_TEST_DEVICES`.
    pub(crate) each_device: bool,
    /// The program opens devices, so `--quick` leaves it out.
    pub(crate) device: bool,
    /// The program runs alone, because it measures or uses all processors.
    pub(crate) alone: bool,
    /// The program has its own harness, which takes none of libtest's unstable options.
    pub(crate) own_harness: bool,
    /// The program is slow though it opens no device: like those with devices, it doesn't run again while nothing has changed.
    pub(crate) long: bool,
    /// The program runs only where libtpu is installed.
    pub(crate) libtpu: bool,
    /// The program's tests have longer versions for the deep tier.
    pub(crate) deep: bool,
    /// Tests whose names contain `arbitrary` draw random inputs; the deep tier draws a million.
    pub(crate) random: bool,
    /// The program compiles with XLA.
    pub(crate) xla: bool,
    /// The program's XLA programs run once each, so they are compiled without optimisation.
    pub(crate) xla_quickly: bool,
}

impl Rules {
    fn of(package: &Value, target: &str) -> io::Result<Self> {
        let mut rules = Self::default();
        let wrong = |what: String| invalid(format!("[package.metadata.tests.{target}] {what}"));
        let entry = package["metadata"]["tests"][target].as_object();
        for (key, value) in entry.into_iter().flatten() {
            let rule = match key.as_str() {
                "conformance" => &mut rules.conformance,
                "each-device" => &mut rules.each_device,
                "device" => &mut rules.device,
                "alone" => &mut rules.alone,
                "own-harness" => &mut rules.own_harness,
                "long" => &mut rules.long,
                "libtpu" => &mut rules.libtpu,
                "deep" => &mut rules.deep,
                "random" => &mut rules.random,
                "xla" => &mut rules.xla,
                "xla-quickly" => &mut rules.xla_quickly,
                _ => return Err(wrong(format!("has an unknown key `{key}`"))),
            };
            let value = value.as_bool();
            *rule = value.ok_or_else(|| wrong(format!("{key} is true or false")))?;
        }
        if rules.conformance {
            rules.each_device = true;
            rules.own_harness = true;
            rules.xla_quickly = true;
        }
        Ok(rules)
    }
}

fn invalid(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// The output of `cargo metadata` for the workspace.
pub(crate) fn metadata() -> io::Result<Value> {
    let arguments = ["metadata", "--no-deps", "--format-version", "1"];
    let output = Command::new("cargo").args(arguments).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(invalid(format!("cargo metadata: {said}")));
    }
    serde_json::from_slice(&output.stdout).map_err(io::Error::from)
}

/// The test programs in a build's messages (`--message-format=json…`, among other lines), sorted by name so that runs are alike.
pub(crate) fn built(log: &str, metadata: &Value) -> io::Result<Vec<Program>> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let packages = packages.filter_map(|package| Some((package["id"].as_str()?, package)));
    let packages: BTreeMap<&str, &Value> = packages.collect();
    let mut programs = Vec::new();
    for line in log.lines().filter(|line| line.starts_with('{')) {
        let message: Value = serde_json::from_str(line)?;
        let package = message["package_id"].as_str();
        let package = package.and_then(|id| packages.get(id));
        let (Some(package), Some(executable)) = (package, message["executable"].as_str()) else {
            continue;
        };
        let target = &message["target"];
        let (name, manifest) = (target["name"].as_str(), package["manifest_path"].as_str());
        let (Some(name), Some(manifest)) = (name, manifest) else {
            continue;
        };
        if message["profile"]["test"] != true {
            continue;
        }
        let folder = Path::new(manifest).parent().unwrap_or(Path::new("."));
        programs.push(Program {
            package: package["name"].as_str().unwrap_or_default().to_owned(),
            target: name.to_owned(),
            executable: executable.into(),
            folder: folder.to_owned(),
            unit: target["kind"][0] != "test",
            rules: Rules::of(package, name)?,
            families: Vec::new(),
        });
    }
    let place = |one: &Program| (one.package.clone(), one.target.clone());
    programs.sort_by_key(place);
    Ok(programs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn package(tests: &Value) -> Value {
        json!({"packages": [{"id": "p 1", "name": "p", "manifest_path": "/a/p/Cargo.toml", "metadata": {"tests": tests}}]})
    }

    #[test]
    fn programs_come_with_the_rules_of_their_package() {
        let metadata = package(&json!({"cases": {"each-device": true, "own-harness": true}}));
        let line = |kind: &str, name: &str, test: bool, file: &str| {
            let target = json!({"kind": [kind], "name": name});
            json!({"package_id": "p 1", "executable": file, "profile": {"test": test}, "target": target})
        };
        let lines = [
            "   Compiling p".to_owned(),
            line("test", "cases", true, "/t/cases-1").to_string(),
            line("lib", "p", true, "/t/p-1").to_string(),
            line("bin", "p", false, "/t/p").to_string(),
        ];
        let programs = built(&lines.join("\n"), &metadata).unwrap();
        let [cases, units] = &programs[..] else {
            panic!("expected two programs");
        };
        let rules = &cases.rules;
        assert!(rules.each_device && rules.own_harness && !rules.alone);
        assert_eq!(cases.folder, Path::new("/a/p"));
        assert!(units.unit);
    }

    #[test]
    fn a_program_is_asked_for_what_it_has() {
        let metadata = package(&json!({}));
        let line = json!({"package_id": "p 1", "executable": "/t/x-1", "profile": {"test": true}, "target": {"kind": ["test"], "name": "conformance_rows"}});
        let mut program = built(&line.to_string(), &metadata).unwrap().remove(0);
        program.families = ["rows", "permute"].map(str::to_owned).into();
        assert_eq!(program.subject(), "rows");
        let listed = "topk,rows,permute::sizes,rows_of_another";
        assert_eq!(program.among(listed).unwrap(), "rows,permute::sizes");
        assert_eq!(program.among("topk,attention"), None);
        // A program that fails, and one that lists nothing.
        for executable in ["false", "true"] {
            program.executable = executable.into();
            assert!(program.ask_families().is_err(), "{executable}");
        }
    }

    #[test]
    fn conformance_brings_its_rules_along() {
        let metadata = package(&json!({ "cases": { "conformance": true } }));
        let rules = Rules::of(&metadata["packages"][0], "cases").unwrap();
        let all = Rules {
            conformance: true,
            each_device: true,
            own_harness: true,
            xla_quickly: true,
            ..Rules::default()
        };
        assert_eq!(rules, all);
    }

    #[test]
    fn a_rule_that_is_misspelt_is_an_error() {
        for entry in [json!({"each_device": true}), json!({"alone": "yes"})] {
            let metadata = package(&json!({ "cases": entry }));
            assert!(Rules::of(&metadata["packages"][0], "cases").is_err());
        }
    }
}
