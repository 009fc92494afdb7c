//! Tests of the configuration as a program finds it, of completions and of manual pages.
#![allow(
    clippy::expect_used,
    reason = "a test that cannot set itself up has failed"
)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// The commands, as the help lists them.
const COMMANDS: &str = "devices doctor demo verify validate emit bench train upcycle merge convert fetch package optimize generate chat serve logits perplexity \
    config completions man";

/// Runs `moebius` in `folder`, which is also the user's folder of configurations.
fn moebius(folder: &Path, line: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_moebius"));
    command.args(line.split(' ')).current_dir(folder);
    command.env_remove("MOEBIUS_CONFIG");
    command.env("XDG_CONFIG_HOME", folder);
    command.envs(variables.iter().copied());
    command.output().expect("the binary starts")
}

fn text(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn folder() -> TempDir {
    TempDir::new().expect("a folder")
}

fn write(folder: &TempDir, name: &str, text: &str) {
    let path = folder.path().join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(path, text).expect("written");
}

#[test]
#[cfg(unix)] // elsewhere no variable names the user's folder
fn the_file_is_the_named_one_or_the_one_here_or_the_users() {
    let folder = folder();
    let path = |line: &str, variables: &[(&str, &str)]| {
        text(&moebius(folder.path(), line, variables))
            .trim()
            .to_owned()
    };
    let user = folder.path().join("moebius/config.toml");
    assert_eq!(path("config path", &[]), user.display().to_string());
    write(&folder, "moebius/config.toml", "[serve]\nrunning = 3\n");
    let shown = path("config show serve", &[]);
    let said = format!("running = 3  # serve of {}", user.display());
    assert!(shown.contains(&said), "{shown}");
    write(&folder, "moebius.toml", "[serve]\nrunning = 4\n");
    assert_eq!(path("config path", &[]), "moebius.toml");
    write(&folder, "other.toml", "[serve]\nrunning = 5\n");
    let named = [("MOEBIUS_CONFIG", "other.toml")];
    assert!(path("config show serve", &named).contains("running = 5  # serve of other.toml"));
    let shown = path("config show serve --config moebius.toml", &named);
    assert!(shown.contains("running = 4  # "), "{shown}");
    let missing = [("MOEBIUS_CONFIG", "missing.toml")];
    let output = moebius(folder.path(), "devices", &missing);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn what_is_shown_has_the_same_effect_as_a_file() {
    let folder = folder();
    let settings = "[generate]\nstop = ['a', \"b\\n\"]\n[serve]\npreset = 'inference'\n[bench.moe]\ncompare-fine = true\n";
    write(&folder, "given.toml", settings);
    let variables = [("MOEBIUS_SERVE_BATCH_TOKENS", "64")];
    for line in [
        "",
        " serve --running 5",
        " generate --temperature 0.5",
        " bench moe",
    ] {
        let show = |file: &str, variables: &[(&str, &str)]| {
            let command = format!("config show --json --config {file}{line}");
            let shown = text(&moebius(folder.path(), &command, variables));
            let mut shown: Value = serde_json::from_str(&shown).expect("JSON");
            for table in shown.as_object_mut().expect("an object").values_mut() {
                for setting in table.as_object_mut().expect("an object").values_mut() {
                    *setting = setting["value"].take();
                }
            }
            shown
        };
        let shown = show("given.toml", &variables);
        let command = format!("config show --config given.toml{line}");
        let toml = text(&moebius(folder.path(), &command, &variables));
        write(&folder, "shown.toml", &toml);
        assert_eq!(shown, show("shown.toml", &[]), "{line}: {toml}");
    }
    let shown = text(&moebius(
        folder.path(),
        "config show --config given.toml serve --running 5",
        &variables,
    ));
    for said in [
        "[serve]\n",
        "running = 5  # the command line\n",
        "batch-tokens = 64  # MOEBIUS_SERVE_BATCH_TOKENS\n",
        "preset = \"inference\"  # serve of given.toml\n",
        "dtype = \"fp8\"  # serve of preset inference\n",
        "queued = 128  # default\n",
    ] {
        assert!(shown.contains(said), "{said}: {shown}");
    }
    for wrong in ["sevre", "config", "serve --runing 3", "serve --help"] {
        let output = moebius(folder.path(), &format!("config show {wrong}"), &[]);
        assert_eq!(output.status.code(), Some(2), "{wrong}: {output:?}");
    }
}

#[test]
fn completions_know_every_command() {
    let folder = folder();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = text(&moebius(
            folder.path(),
            &format!("completions {shell}"),
            &[],
        ));
        for command in COMMANDS.split_whitespace() {
            assert!(script.contains(command), "{shell}: {command}");
        }
        assert!(script.contains("kv-cache-dtype"), "{shell}");
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = folder();
    text(&moebius(folder.path(), "man --out pages/man1", &[]));
    let commands = COMMANDS.split_whitespace().map(str::to_owned);
    let below = ["bench-moe", "bench-engine", "config-show"].map(str::to_owned);
    for command in commands.chain(below) {
        let page = format!("pages/man1/moebius-{command}.1");
        let page = fs::read_to_string(folder.path().join(page)).expect(&command);
        assert!(page.contains(".SH NAME"), "{command}");
    }
    let page = folder.path().join("pages/man1/moebius.1");
    assert!(fs::read_to_string(page).expect("a page").contains("serve"));
    let help = text(&moebius(folder.path(), "--help", &[]));
    for command in COMMANDS.split_whitespace() {
        assert!(help.contains(&format!("\n  {command}")), "{command}");
    }
}

#[test]
fn the_schema_describes_the_file() {
    let folder = folder();
    let shown = text(&moebius(folder.path(), "config schema", &[]));
    let schema: Value = serde_json::from_str(&shown).expect("JSON");
    let tables = schema["properties"].as_object().expect("tables");
    for command in COMMANDS.split_whitespace() {
        let outside = ["config", "completions", "man"].contains(&command);
        assert_ne!(tables.contains_key(command), outside, "{command}");
    }
}
