//! The parts of a build's time, from cargo's report (`cargo … --timings`).

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;

/// The text before the list of units in the report's script.
const LIST: &str = "const UNIT_DATA = ";

/// A unit that cargo compiled or ran: a library, a program or a build script.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Unit {
    pub(crate) package: String,
    pub(crate) version: String,
    /// The unit's target in its package, such as `training "test" (test)` or `build-script (run)`; empty for the library.
    pub(crate) target: String,
    pub(crate) part: Part,
    /// Seconds from start to end, in which other units may have been compiled, too.
    pub(crate) seconds: f64,
}

/// A part of the build that is reported together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Crates from outside the workspace, with their build scripts.
    ThirdParty,
    /// Libraries of the workspace, with their build scripts.
    Libraries,
    /// Test programs, commands and examples of the workspace, which are compiled and linked.
    Programs,
}

impl Part {
    pub(crate) const ALL: [Self; 3] = [Self::ThirdParty, Self::Libraries, Self::Programs];

    /// The part's name in the report.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ThirdParty => "third-party crates",
            Self::Libraries => "own libraries",
            Self::Programs => "programs, compiled and linked",
        }
    }
}

impl Unit {
    /// Parses an entry of the list; `None` for a unit that an earlier build made.
    fn of(entry: &Value, own: &BTreeSet<&str>) -> Option<Self> {
        let text = |key: &str| entry[key].as_str().unwrap_or_default().trim();
        let (package, target) = (text("name"), text("target"));
        // Cargo rounds to hundredths of a second, and writes 0 for units that existed already.
        let seconds = entry["duration"].as_f64();
        let seconds = seconds.filter(|seconds| *seconds > 0.0)?;
        let part = match target {
            _ if !own.contains(package) => Part::ThirdParty,
            "" | "build-script" | "build-script (run)" => Part::Libraries,
            _ => Part::Programs,
        };
        Some(Self {
            package: package.to_owned(),
            version: text("version").to_owned(),
            target: target.to_owned(),
            part,
            seconds,
        })
    }

    /// The unit's name in the report: the package, its version if it is third-party, and the target.
    pub(crate) fn name(&self) -> String {
        let version = match self.part {
            Part::ThirdParty => self.version.as_str(),
            _ => "",
        };
        let words = [self.package.as_str(), version, &self.target];
        let words = words.into_iter().filter(|word| !word.is_empty());
        words.collect::<Vec<_>>().join(" ")
    }
}

/// The units of a build.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Build {
    /// The units, the longest first.
    pub(crate) units: Vec<Unit>,
}

impl Build {
    /// Reads the report that cargo wrote in the folder `target` since `start`; `None` if it wrote none.
    pub(crate) fn read(
        target: &Path,
        start: SystemTime,
        metadata: &Value,
    ) -> io::Result<Option<Self>> {
        let path = folder(target).join("cargo-timing.html");
        match path.metadata().and_then(|data| data.modified()) {
            Ok(time) if time >= start => {
                Self::parse(&fs::read_to_string(&path)?, metadata).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Reads the list of units in a report; `metadata` names the packages of the workspace.
    fn parse(report: &str, metadata: &Value) -> io::Result<Self> {
        let unknown = || io::Error::other("cargo's report has no list of units");
        let (_, list) = report.split_once(LIST).ok_or_else(unknown)?;
        // JavaScript follows the list.
        let first = serde_json::Deserializer::from_str(list).into_iter().next();
        let list: Vec<Value> = first.ok_or_else(unknown)??;
        let packages = metadata["packages"].as_array().into_iter().flatten();
        let own = packages.filter_map(|package| package["name"].as_str());
        let own: BTreeSet<&str> = own.collect();
        let units = list.iter().filter_map(|entry| Unit::of(entry, &own));
        let mut units: Vec<Unit> = units.collect();
        units.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
        Ok(Self { units })
    }

    /// The number of crates or programs built in a part, and their units' total seconds. Units are compiled side by side, so
    /// that the parts' seconds add up to more than the build's.
    pub(crate) fn sum(&self, part: Part) -> (usize, f64) {
        let (mut names, mut seconds) = (BTreeSet::new(), 0.0);
        for unit in self.units.iter().filter(|unit| unit.part == part) {
            // A crate's build scripts don't count as crates.
            let target = match part {
                Part::Programs => unit.target.as_str(),
                _ => "",
            };
            names.insert((&unit.package, &unit.version, target));
            seconds += unit.seconds;
        }
        (names.len(), seconds)
    }
}

/// The folder of cargo's reports.
pub(crate) fn folder(target: &Path) -> PathBuf {
    target.join("cargo-timings")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Excerpts of a report by cargo 1.95.
    const REPORT: &str = r#"<script>
DURATION = 12;
const UNIT_DATA = [
  {"i": 4, "name": "serde_core", "version": "1.0.229", "mode": "todo", "target": " build-script", "features": ["std"],
   "start": 0.91, "duration": 0.42, "unblocked_units": [5], "unblocked_rmeta_units": [], "sections": null},
  {"i": 5, "name": "serde_core", "version": "1.0.229", "mode": "run-custom-build", "target": " build-script (run)",
   "start": 1.33, "duration": 0.02, "sections": null},
  {"i": 3, "name": "serde_core", "version": "1.0.229", "mode": "todo", "target": "", "start": 1.34, "duration": 3.33,
   "sections": [["frontend", {"start": 0.0, "end": 3.15}], ["codegen", {"start": 3.15, "end": 3.33}]]},
  {"i": 6, "name": "itoa", "version": "1.0.18", "mode": "todo", "target": "",
   "start": 0.0, "duration": 0.0, "sections": null},
  {"i": 7, "name": "p", "version": "0.1.0", "mode": "todo", "target": " p \"lib\" (doc test)",
   "start": 0.0, "duration": 0.0},
  {"i": 8, "name": "p", "version": "0.1.0", "mode": "todo", "target": "", "start": 4.7, "duration": 0.5},
  {"i": 9, "name": "p", "version": "0.1.0", "mode": "todo", "target": " build-script", "start": 4.7, "duration": 0.25},
  {"i": 10, "name": "p", "version": "0.1.0", "mode": "todo", "target": " p \"lib\" (test)",
   "start": 5.2, "duration": 1.5},
  {"i": 2, "name": "p", "version": "0.1.0", "mode": "todo", "target": " it \"test\" (test)",
   "start": 6.5, "duration": 4.53}
];
const CONCURRENCY_DATA = [{"t": 0.0, "active": 1}];
</script>"#;

    #[test]
    fn units_are_told_apart_and_what_was_there_is_left_out() {
        let metadata = json!({"packages": [{"name": "p"}]});
        let build = Build::parse(REPORT, &metadata).unwrap();
        let expected = [(1, "3.77"), (1, "0.75"), (2, "6.03")];
        for (part, (count, seconds)) in Part::ALL.into_iter().zip(expected) {
            let (found, sum) = build.sum(part);
            assert_eq!((found, format!("{sum:.2}")), (count, seconds.to_owned()));
        }
        let names: Vec<String> = build.units.iter().take(3).map(Unit::name).collect();
        let expected = [
            r#"p it "test" (test)"#,
            "serde_core 1.0.229",
            r#"p p "lib" (test)"#,
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn another_text_is_an_error_and_an_old_report_is_none() {
        for list in ["", "{};", "[1"] {
            let text = format!("{LIST}{list}");
            assert!(Build::parse(&text, &json!({})).is_err(), "{text}");
        }
        assert!(Build::parse("", &json!({})).is_err());
        let target = std::env::temp_dir().join(format!("moebius-timings-{}", std::process::id()));
        let second = std::time::Duration::from_secs(1);
        let read = |start| Build::read(&target, start, &json!({})).unwrap();
        assert_eq!(read(SystemTime::UNIX_EPOCH), None);
        fs::create_dir_all(folder(&target)).unwrap();
        fs::write(folder(&target).join("cargo-timing.html"), REPORT).unwrap();
        assert_eq!(read(SystemTime::now() - second).unwrap().units.len(), 7);
        assert_eq!(read(SystemTime::now() + second), None);
        fs::remove_dir_all(&target).unwrap();
    }
}
