//! Tests of `moebius` in little memory: what needs more than there is ends with an error before the system ends the program.
#![cfg(all(feature = "flex", target_os = "linux"))]
#![allow(
    clippy::expect_used,
    reason = "a test that cannot set itself up has failed"
)]

mod published;

use std::fs::{self, File};
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use published::model;
use serde_json::{Value, json};

/// The memory that programs have here: 1 GiB.
const ROOM: u64 = 1 << 30;

/// The address space that they have where no control group can be made: a program takes more addresses than memory.
const ADDRESSES: u64 = 2 << 30;

/// A control group with [`ROOM`] bytes of memory; removed at the end.
struct Group(PathBuf);

impl Group {
    /// A new group, in the first version of control groups or in the second; `None` where this process may make neither.
    fn new() -> Option<Self> {
        let versions = [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", "memory.max"),
        ];
        let made = |(mount, limit): (&str, &str)| {
            let group = Path::new(mount).join(format!("moebius-{}", std::process::id()));
            fs::create_dir(&group).ok()?;
            let group = Self(group);
            // Without the controller of memory the group has no such file, and none can be made.
            let mut file = File::options().write(true).open(group.0.join(limit)).ok()?;
            file.write_all(ROOM.to_string().as_bytes()).ok()?;
            Some(group)
        };
        versions.into_iter().find_map(made)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A group that stays is empty, and the next one has another name.
        let _ = fs::remove_dir(&self.0);
    }
}

/// Names of the devices of this build and machine that compute in main memory. Where it is the address space that is limited, that is Flex alone:
/// compilers and drivers of the others take more addresses than memory.
fn devices(group: Option<&Group>) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_moebius"));
    let output = command.args(["devices", "--json"]).output();
    let output = output.expect("the program starts");
    let survey: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let all = survey["devices"].as_array().expect("a list");
    let usable = all.iter().filter(|entry| {
        let in_main_memory = entry["capability"]["kind"] == "cpu";
        entry["available"] == true && in_main_memory
    });
    let names = usable.map(|entry| entry["device"].as_str().expect("a name").to_owned());
    names
        .filter(|name| group.is_some() || name == "flex")
        .collect()
}

/// The command in the group, or with a limit of its address space; its arguments are to be added.
fn limited(group: Option<&Group>) -> Command {
    let program = env!("CARGO_BIN_EXE_moebius");
    let Some(Group(group)) = group else {
        let mut command = Command::new("prlimit");
        command.arg(format!("--as={ADDRESSES}")).arg(program);
        return command;
    };
    let mut command = Command::new("sh");
    let joins = r#"echo $$ > "$0/cgroup.procs" && exec "$@""#;
    command.args(["-c", joins]).arg(group).arg(program);
    command
}

/// Makes embedding and head of the model in `folder` so large that its weights are 2.5 GiB of zeros, which take no place in a file with holes.
fn widen(folder: &Path) {
    let path = folder.join("model.safetensors");
    let old = fs::read(&path).expect("weights");
    let (length, rest) = old.split_at(8);
    let length = u64::from_le_bytes(length.try_into().expect("8 bytes"));
    let (header, data) = rest.split_at(usize::try_from(length).expect("a header"));
    let header: Value = serde_json::from_slice(header).expect("JSON");
    let (mut new, mut kept) = (serde_json::Map::new(), Vec::new());
    let wide = ["model.embed_tokens.weight", "lm_head.weight"];
    let entries = header.as_object().expect("an object");
    let entries = entries.iter().filter(|(name, _)| *name != "__metadata__");
    for (name, entry) in entries.filter(|(name, _)| !wide.contains(&name.as_str())) {
        let place = |at: usize| entry["data_offsets"][at].as_u64().expect("a place") as usize;
        let from = kept.len();
        kept.extend_from_slice(&data[place(0)..place(1)]);
        let mut entry = entry.clone();
        entry["data_offsets"] = json!([from, kept.len()]);
        new.insert(name.clone(), entry);
    }
    let width = header[wide[0]]["shape"][1].as_u64().expect("a width");
    let rows = (5 << 28) / (4 * width);
    let mut end = kept.len() as u64;
    for name in wide {
        let from = end;
        end += 4 * rows * width;
        let entry = json!({ "dtype": "F32", "shape": [rows, width], "data_offsets": [from, end] });
        new.insert(name.to_owned(), entry);
    }
    let mut text = Value::Object(new).to_string().into_bytes();
    text.resize(text.len().next_multiple_of(8), b' ');
    let mut file = File::create(&path).expect("a file");
    let parts = [&(text.len() as u64).to_le_bytes()[..], &text, &kept];
    file.write_all(&parts.concat()).expect("written");
    let begin = file.stream_position().expect("a place") - kept.len() as u64;
    file.set_len(begin + end).expect("a hole");
    let path = folder.join("config.json");
    let config = fs::read(&path).expect("a configuration");
    let mut config: Value = serde_json::from_slice(&config).expect("JSON");
    config["vocab_size"] = Value::from(rows);
    fs::write(path, config.to_string()).expect("written");
}

/// Checks that a command ended with exit 2, not by a signal, and that it knew of the limit: it says how many bytes it has for what.
fn assert_out_of_room(output: &Output, what: &str, limit: u64) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let rest = said.split_once(&format!("{what}: expected at most the "));
    let (_, rest) = rest.expect(&said);
    let free = rest.split(' ').next().and_then(|free| free.parse().ok());
    assert!(free.is_some_and(|free: u64| free <= limit), "{said}");
}

/// A program that is told of 1 GiB refuses to load or to train what needs more, on every device in main memory, and runs what needs less.
#[test]
fn a_model_that_needs_more_than_there_is_ends_with_an_error() {
    let group = Group::new();
    let devices = devices(group.as_ref());
    let (limit, bytes) = match &group {
        Some(Group(folder)) => (format!("the control group {}", folder.display()), ROOM),
        None => ("the address space, for want of a group".into(), ADDRESSES),
    };
    println!("{bytes} bytes by {limit}, on {devices:?}");
    assert!(devices.iter().any(|name| name == "flex"), "{devices:?}");
    let run = |arguments: &[&str], device: &str, folder: &Path| {
        let mut command = limited(group.as_ref());
        command
            .args(arguments)
            .args(["--device", device, "--model"]);
        command.arg(folder).output().expect("the program starts")
    };
    let folder = model();
    let generate = ["generate", "--prompt", "w3", "--max-tokens", "2"];
    let answered = run(&generate, "flex", folder.path());
    let said = String::from_utf8_lossy(&answered.stderr);
    assert_eq!(answered.status.code(), Some(0), "{said}");

    widen(folder.path());
    let [text, out] =
        ["text.txt", "out"].map(|name| folder.path().join(name).display().to_string());
    fs::write(&text, "w1 w2 w3 ".repeat(400)).expect("written");
    let train = ["train", "--text", &text, "--out", &out, "--held-out", "0"];
    for device in &devices {
        println!("{device}");
        // The hole is larger than the limit, so that it was the limit which the program knew.
        let refused = run(&generate, device, folder.path());
        assert_out_of_room(&refused, "memory for weights and cache", bytes);
        let refused = run(&train, device, folder.path());
        assert_out_of_room(&refused, "memory of a training step", bytes);
        assert!(!Path::new(&out).exists());
    }
}
