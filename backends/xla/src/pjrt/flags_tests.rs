//! Flags against a small file that looks like a plugin's.

use super::*;

/// A `FieldDescriptorProto` as it begins.
fn described(name: &str, number: &[u8], kind: u8) -> Vec<u8> {
    let mut bytes = vec![0x0a, name.len() as u8];
    bytes.extend(name.as_bytes());
    bytes.push(0x18);
    bytes.extend(number);
    bytes.extend([0x20, 1, 0x28, kind, 0x48, 0x0b]);
    bytes
}

/// A file with a flag of each type, the last of them across the border of two windows.
fn plugin() -> tempfile::NamedTempFile {
    let mut bytes = vec![0; 100];
    bytes.extend(described("xla_truth", &[99], BOOL));
    bytes.extend(described("xla_level", &[0xf4, 0x03], INT32));
    bytes.extend(described("xla_many", &[7], INT64));
    bytes.extend(described("xla_share", &[8], FLOAT));
    bytes.extend(described("xla_folder", &[9], STRING));
    bytes.extend(described("xla_choice", &[10], 14));
    bytes.extend(b"\0xla_text_only\0xla_prefix_of_this\0xla_last_text\0");
    bytes.resize(WINDOW - 15, 1);
    bytes.extend(described("xla_at_the_border", &[0xf4, 0x03], BOOL));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    file
}

fn outcome(variable: Variable, flags: &str) -> Result<(), String> {
    let plugin = plugin();
    let text = Some(flags.to_owned());
    let environment = match variable {
        Variable::Xla => Environment {
            xla_flags: text,
            ..Environment::default()
        },
        Variable::Libtpu => Environment {
            libtpu_flags: text,
            ..Environment::default()
        },
    };
    match check(Platform::Tpu, plugin.path(), &environment) {
        Ok(_) => Ok(()),
        Err(Error::Flag { flag, .. }) => Err(flag),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn flags_of_the_plugin_pass_with_values_of_their_type() {
    for flags in [
        "",
        "  ",
        "--xla_truth",
        "--xla_truth=true --xla_level=-3\t--xla_many=9000000000\n--xla_share=0.5",
        "--xla_folder=",
        "--xla_folder='a folder with spaces'",
        "--xla_at_the_border=false",
    ] {
        assert_eq!(outcome(Variable::Xla, flags), Ok(()), "{flags:?}");
    }
}

#[test]
fn what_would_end_the_process_is_named() {
    for flags in [
        "--xla_nope",
        "--xla_text_only=1",
        "--xla_prefix",
        "--xla_truth=banana",
        "--xla_truth=",
        "--xla_level",
        "--xla_level=",
        "--xla_level=x",
        "--xla_level=9000000000",
        "--xla_many=1.5",
        "--xla_share=much",
        "--xla_folder",
        "--xla_choice=FUSION",
        "-xla_truth",
        "--",
        "--other_flag",
        "--xla_tr\u{fc}th",
        "no_such_file_of_flags",
        "--xla_folder='open",
    ] {
        assert_eq!(outcome(Variable::Xla, flags), Err(flags.to_owned()));
    }
    let second = outcome(Variable::Xla, "--xla_truth --xla_nope=1");
    assert_eq!(second, Err("--xla_nope=1".to_owned()));
}

#[test]
fn a_file_of_flags_is_read() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    std::fs::write(path, "--xla_truth\n--xla_level=2\n").unwrap();
    let environment = Environment {
        xla_flags: Some(path.to_owned()),
        ..Environment::default()
    };
    // What programs depend on is what the file says, not its name.
    let set = check(Platform::Cpu, plugin().path(), &environment);
    assert_eq!(set.unwrap(), "--xla_truth\n--xla_level=2");
    std::fs::write(path, "--xla_truth\nrubbish\n").unwrap();
    assert_eq!(outcome(Variable::Xla, path), Err("rubbish".to_owned()));
}

#[test]
fn flags_of_libtpu_are_whole_texts_of_its_file() {
    assert_eq!(
        outcome(Variable::Libtpu, "--xla_text_only=anything"),
        Ok(())
    );
    for flag in ["--xla_prefix", "--xla_level=1", "--nope"] {
        assert_eq!(outcome(Variable::Libtpu, flag), Err(flag.to_owned()));
    }
}

#[test]
fn a_plugin_that_cannot_be_read_is_an_error() {
    let environment = Environment {
        xla_flags: Some("--xla_truth".to_owned()),
        ..Environment::default()
    };
    let missing = check(Platform::Cpu, Path::new("no/such/plugin.so"), &environment);
    assert!(matches!(missing, Err(Error::Load { .. })));
}
