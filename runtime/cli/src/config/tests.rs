use super::flags::{Flag, keys, places, taken};
use super::*;
use crate::args::Preset;
use clap::ValueEnum;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Values of which each flag takes one that isn't its default.
const VALUES: [&str; 13] = [
    "3",
    "portable",
    "flex",
    "ngram",
    "experts=2,data=2",
    "tensor",
    "127.0.0.1:9",
    "never",
    "fp8",
    "e5m2",
    "f16",
    "1111111111111111111111111111111111111111111111111111111111111111",
    "gguf:Q8_0",
];

fn nothing(_: &str) -> Option<OsString> {
    None
}

fn words(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(OsString::from).collect()
}

/// A file of settings in a folder of its own.
struct Written {
    folder: TempDir,
}

impl Written {
    fn new(text: &str) -> Self {
        let written = Self {
            folder: TempDir::new().unwrap(),
        };
        written.write(text);
        written
    }

    fn write(&self, text: &str) {
        fs::write(self.path(), text).unwrap();
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("moebius.toml")
    }

    /// `moebius --config FILE` and `line`.
    fn line(&self, line: &[OsString]) -> Vec<OsString> {
        let begin = [
            OsString::from("moebius"),
            "--config".into(),
            self.path().into(),
        ];
        begin.into_iter().chain(line.iter().cloned()).collect()
    }

    fn parse_with(&self, line: &str, variables: Variables<'_>) -> Result<String, CliError> {
        let cli = parse_with(&self.line(&words(line)), variables)?;
        Ok(format!("{cli:?}"))
    }

    fn parse(&self, line: &str) -> String {
        self.parse_with(line, &nothing).unwrap()
    }

    fn error(&self, line: &str) -> CliError {
        self.parse_with(line, &nothing).unwrap_err()
    }
}

/// A value of `flag` that isn't its default, as text.
fn sample(flag: &Flag<'_>) -> String {
    if flag.is_switch() {
        return "true".to_owned();
    }
    let named = flag.arg.get_possible_values();
    let named = named.iter().map(|value| value.get_name().to_owned());
    let mut values = named.chain(VALUES.map(str::to_owned));
    let defaults = flag.arg.get_default_values();
    let other = |value: &String| !defaults.iter().any(|default| default == value.as_str());
    let fits = |value: &String| flag.check(std::slice::from_ref(value)).is_ok();
    let found = values.find(|value| other(value) && fits(value));
    found.unwrap_or_else(|| panic!("no value for --{}", flag.name))
}

/// What a line needs besides: flags and arguments that clap finds missing.
fn companions(line: &[OsString], flags: &[Flag<'_>]) -> Vec<OsString> {
    let mut added = Vec::<OsString>::new();
    while let Err(error) = Cli::try_parse_from([line, added.as_slice()].concat()) {
        if error.kind() == ErrorKind::TooFewValues {
            added.push("org/name".into());
            continue;
        }
        let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else {
            panic!("{line:?}: {error}");
        };
        // One after the other: what the first brings with it may be another that is missing, or stand for it.
        let name = missing[0].split(' ').next().unwrap_or_default();
        let flag = flags.iter().find(|flag| format!("--{}", flag.name) == name);
        match flag {
            Some(flag) => added.extend(flag.words(&[sample(flag)])),
            None => added.push("org/name".into()),
        }
        assert!(added.len() < 20, "{line:?}: {error}");
    }
    added
}

/// Commands that run, and those that only have commands below them.
fn commands(root: &clap::Command) -> Vec<Vec<&str>> {
    let places = places(root).into_iter();
    let runs = places.filter(|place| place.path != ["bench"]);
    runs.map(|place| place.path).collect()
}

#[test]
fn every_flag_is_a_key_with_the_same_effect() {
    let root = Cli::command();
    let file = Written::new("");
    for path in commands(&root) {
        let flags = taken(&root, &path);
        let command: Vec<OsString> = path.iter().map(OsString::from).collect();
        for flag in &flags {
            let value = sample(flag);
            let given = [command.clone(), flag.words(std::slice::from_ref(&value))].concat();
            let needed = companions(&file.line(&given), &flags);
            file.write("");
            let by_flag = parse_with(&file.line(&[given, needed.clone()].concat()), &nothing);
            let line = file.line(&[command.clone(), needed].concat());
            let table = flags::table_name(&path);
            let toml = flag.value(std::slice::from_ref(&value));
            file.write(&format!("[{table}]\n{} = {toml}\n", flag.name));
            let by_file = parse_with(&line, &nothing);
            let [by_flag, by_file] = [by_flag, by_file].map(|cli| format!("{:?}", cli.unwrap()));
            assert_eq!(by_flag, by_file, "{table}.{}", flag.name);
            let without = Cli::try_parse_from(&line).map(|cli| format!("{cli:?}"));
            assert_ne!(without.ok(), Some(by_file), "{table}.{}", flag.name);
            let name = [&["MOEBIUS"][..], path.as_slice(), &[flag.name]].concat();
            let name = name.join("_").replace('-', "_").to_uppercase();
            file.write("");
            let by_variable = |of: &str| (of == name).then(|| OsString::from(&value));
            let by_variable = parse_with(&line, &by_variable).unwrap();
            assert_eq!(by_flag, format!("{by_variable:?}"), "{name}");
        }
    }
}

#[test]
fn the_schema_has_every_key_and_no_other() {
    let root = Cli::command();
    let schema = schema::of(&root);
    let tables = schema["properties"].as_object().unwrap();
    for path in commands(&root) {
        let mut table = &tables[*path.first().unwrap_or(&flags::COMMON)];
        for name in path.iter().skip(1) {
            table = &table["properties"][*name];
        }
        for (_, flag) in keys(&root, &path) {
            let key = &table["properties"][flag.name];
            assert!(key["description"].is_string(), "{path:?} {}", flag.name);
        }
    }
    let serve = tables["serve"]["properties"].as_object().unwrap();
    let known = taken(&root, &["serve"]).len();
    assert_eq!(serve.len(), known);
    assert_eq!(serve["running"]["type"][0], "integer");
    assert_eq!(serve["no-special"]["type"], "boolean");
    assert_eq!(serve["dtype"]["enum"][3], "fp8");
}

/// The long flags of `moebius` and of all its commands, each after its command.
fn long_flags(root: &clap::Command) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut left = vec![(String::new(), root)];
    while let Some((path, command)) = left.pop() {
        let name = if path.is_empty() { "moebius" } else { &path };
        let flags = command.get_arguments().filter_map(|arg| arg.get_long());
        found.extend(flags.map(|flag| format!("{name} --{flag}")));
        for below in command.get_subcommands() {
            let name = format!("{path} {}", below.get_name());
            left.push((name.trim_start().to_owned(), below));
        }
    }
    found
}

/// The keys of a schema and of the tables below it.
fn schema_keys(schema: &serde_json::Value) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for (name, of) in schema["properties"].as_object().unwrap() {
        if of["type"] == "object" {
            found.extend(schema_keys(of));
        } else {
            found.insert(name.as_str());
        }
    }
    found
}

#[test]
fn the_table_of_settings_has_every_flag_and_key_and_no_other() {
    let (root, file) = (Cli::command(), "tests/settings.toml");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let table: toml::Table = fs::read_to_string(path).unwrap().parse().unwrap();
    let mut listed = BTreeSet::new();
    for (command, flags) in table.iter().filter(|(name, _)| *name != "lines") {
        let flags = flags.as_table().unwrap().keys();
        listed.extend(flags.map(|flag| format!("{command} --{flag}")));
    }
    let there = long_flags(&root);
    let unlisted: Vec<_> = there.difference(&listed).collect();
    assert!(unlisted.is_empty(), "not in {file}: {unlisted:#?}");
    let gone: Vec<_> = listed.difference(&there).collect();
    assert!(gone.is_empty(), "in {file} alone: {gone:#?}");
    let settings = listed.iter().filter_map(|line| line.split_once(" --"));
    let settings = settings.filter(|(command, flag)| {
        let first = command.split(' ').next().unwrap();
        !flags::OUTSIDE.contains(&first) && *flag != "config"
    });
    let names: BTreeSet<&str> = settings.map(|(_, flag)| flag).collect();
    assert_eq!(schema_keys(&schema::of(&root)), names);
}

#[test]
fn the_line_comes_before_the_environment_the_file_and_the_preset() {
    let file = Written::new("[serve]\npreset = 'development'\n");
    let running = |file: &Written, line: &str, variable: &str| {
        let value = variable.to_owned();
        let variables = move |name: &str| {
            let named = name == "MOEBIUS_SERVE_RUNNING" || name == "MOEBIUS_RUNNING";
            named.then(|| OsString::from(&value))
        };
        let said = file.parse_with(line, &variables).unwrap();
        let number = said.split("running: ").nth(1).unwrap();
        number.split(',').next().unwrap().to_owned()
    };
    assert_eq!(running(&file, "serve --preset inference", ""), "16");
    assert_eq!(running(&file, "serve", ""), "2");
    file.write("[common]\nrunning = 3\n[serve]\npreset = 'development'\n");
    assert_eq!(running(&file, "serve", ""), "3");
    file.write("[common]\nrunning = 3\n[serve]\nrunning = 4\npreset = 'development'\n");
    assert_eq!(running(&file, "serve", ""), "4");
    assert_eq!(running(&file, "serve", "5"), "5");
    assert_eq!(running(&file, "serve --running 6", "5"), "6");
    // What another variable says comes before a file, too.
    file.write("[serve]\nkeys = 'keys.txt'\n");
    let keys = |name: &str| (name == "MOEBIUS_API_KEYS").then(|| OsString::from("secret"));
    assert!(file.parse("serve").contains("keys.txt"));
    let said = file.parse_with("serve", &keys).unwrap();
    assert!(!said.contains("keys.txt"), "{said}");
}

#[test]
fn a_switch_of_the_file_can_be_turned_off() {
    let file = Written::new("[common]\njson = true\n");
    assert!(file.parse("devices").contains("json: true"));
    assert!(file.parse("devices --json=false").contains("json: false"));
    assert!(file.parse("--json=true devices").contains("json: true"));
    file.write("[devices]\njson = false\n[common]\njson = true\n");
    assert!(file.parse("devices").contains("json: false"));
}

#[test]
fn flags_of_the_line_replace_what_conflicts_with_them() {
    let file = Written::new("[chat]\nmodel = 'm'\ndraft-model = 'd'\ndraft-tokens = 6\n");
    let said = file.parse("chat");
    assert!(said.contains("draft_tokens: Some(6)"), "{said}");
    let said = file.parse("chat --speculate ngram");
    let gone = said.contains("draft_model: None") && said.contains("draft_tokens: None");
    assert!(gone && said.contains("speculate: Some"), "{said}");
    // A preset gives way to the file.
    let said = file.parse("chat --preset inference");
    assert!(said.contains("speculate: None"), "{said}");
    // Two of the file that conflict are the file's mistake.
    file.write("[chat]\nmodel = 'm'\ndraft-model = 'd'\nspeculate = 'ngram'\n");
    let error = file.error("chat");
    let hint = error.hint().unwrap_or_default();
    assert!(error.to_string().contains("cannot be used with"), "{error}");
    assert!(hint.contains("config show"), "{hint}");
    // What follows `--` stays there.
    file.write("[verify]\ndevice = 'flex'\n");
    let said = file.parse("verify -- --x.safetensors");
    let both = said.contains("--x.safetensors") && said.contains("Flex");
    assert!(both, "{said}");
}

#[test]
fn mistakes_are_named_by_their_place() {
    for (text, said, hint) in [
        ("[serve]\nrunning = 0\n", "serve.running in ", ""),
        (
            "[serve]\nrunning = 0\n",
            ": invalid value '0' for '--running <N>': expected at least 1",
            "",
        ),
        (
            "[serve]\nruning = 2\n",
            "expected the name of a flag, got `runing`",
            "did you mean `running`?",
        ),
        (
            "[sevre]\nrunning = 2\n",
            "expected the table of a command, got `sevre`",
            "did you mean `serve`?",
        ),
        ("[serve]\nzzz = 2\n", "serve.zzz in ", "config schema"),
        (
            "device = 'cpu'\n",
            "expected a table, got a value",
            "[common]",
        ),
        ("[common]\nconfig = 'x'\n", "common.config in ", ""),
        (
            "[bench.mo]\nhidden = 2\n",
            "expected the name of a flag, got `mo`",
            "did you mean `moe`?",
        ),
        ("[bench.moe]\nhidden = 'wide'\n", "bench.moe.hidden in ", ""),
        ("[common]\ndtype = 'fp8'\n", ", for `moebius bench ", ""),
        (
            "[generate]\nmax-tokens = [1, 2]\n",
            "cannot be used multiple times",
            "",
        ),
        (
            "[generate]\njson = 3\n",
            "unexpected value '3' for '--json'",
            "",
        ),
        (
            "[generate]\nstop = 2026-01-01\n",
            "expected a value or a list of values, got datetime",
            "",
        ),
        (
            "[serve]\nrunning = = 2\n",
            "moebius.toml, line 2, column 1",
            "",
        ),
    ] {
        // A mistake in another command's table is one as well.
        let error = Written::new(text).error("devices");
        let text = error.to_string();
        assert!(text.contains(said), "{text}");
        let given = error.hint().unwrap_or_default();
        assert!(given.contains(hint), "{text}: {given}");
    }
    let file = Written::new("");
    let variables = |name: &str| (name == "MOEBIUS_SERVE_RUNNING").then(|| OsString::from("0"));
    let error = file.parse_with("serve", &variables).unwrap_err();
    let said = error.to_string();
    assert!(
        said.starts_with("MOEBIUS_SERVE_RUNNING: invalid value '0'"),
        "{said}"
    );
    fs::remove_file(file.path()).unwrap();
    let error = file.error("devices").to_string();
    assert!(error.starts_with("cannot read "), "{error}");
}

#[test]
fn a_mistake_in_the_file_keeps_no_one_from_help_and_the_configuration() {
    let file = Written::new("[serve\n");
    assert!(matches!(file.error("serve"), CliError::Usage { .. }));
    assert!(matches!(file.error("serve --help"), CliError::Line(_)));
    for line in [
        "config path",
        "config schema",
        "completions bash",
        "man --out x",
    ] {
        file.parse(line);
    }
}

#[test]
fn presets_are_settings_that_differ_from_the_defaults() {
    let root = Cli::command();
    for preset in Preset::value_variants() {
        let settings: toml::Table = preset.settings().parse().unwrap();
        assert!(!settings.is_empty());
        let file = Written::new("");
        let name = preset.to_possible_value().unwrap().get_name().to_owned();
        let mut changed = 0;
        for path in commands(&root) {
            let line = [
                words(&path.join(" ")),
                vec![format!("--preset={name}").into()],
            ]
            .concat();
            let given = Given::read(&file.line(&line)).unwrap();
            let sources = Sources::open(&root, &given, &nothing).unwrap();
            let settings = sources.settings(&root, &given, &file.line(&line)).unwrap();
            for setting in settings
                .iter()
                .filter(|one| one.rank == settings::Rank::Preset)
            {
                let default = setting.flag.arg.get_default_values();
                let same = default
                    .iter()
                    .any(|value| value == setting.values[0].as_str());
                assert!(!same, "{name} sets {} to its default", setting.flag.name);
                changed += 1;
            }
        }
        let listed = preset
            .settings()
            .lines()
            .filter(|line| line.contains(" = "));
        assert_eq!(changed, listed.count(), "{name}");
    }
}
