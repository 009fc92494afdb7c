use super::*;
use clap::CommandFactory;

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn granularities_are_read() {
    let block = |rows, columns| Ok(Granularity::Block { rows, columns });
    assert_eq!(granularity("block128"), block(128, 128));
    assert_eq!(granularity("1x32"), block(1, 32));
    assert_eq!(granularity("mx"), Ok(Granularity::Mx));
    for text in [
        "", "block", "block0", "0x4", "4x", "x", "1x2x3", "rows", "-1x4",
    ] {
        assert!(granularity(text).is_err(), "{text}");
    }
}

#[test]
fn bytes_are_read_with_their_unit() {
    let read = |bytes: &str| {
        let line = ["moebius", "generate", "--expert-cache", bytes];
        let parsed = Cli::try_parse_from(line).ok()?;
        match parsed.command {
            Some(Command::Generate(args)) => args.engine.place.expert_cache,
            _ => None,
        }
    };
    assert_eq!(read("4GiB"), Some(4 << 30));
    assert_eq!(read("512 MiB"), Some(512 << 20));
    assert_eq!(read("1000"), Some(1000));
    for text in ["", "GiB", "4GB", "-1", "1.5GiB", "99999999TiB"] {
        assert_eq!(read(text), None, "{text}");
    }
}

/// Where experts wait means nothing without a cache of experts.
#[test]
fn a_place_of_experts_needs_a_cache() {
    let accepts = |words: &str| {
        let line = ["moebius", "serve"].into_iter();
        Cli::try_parse_from(line.chain(words.split_whitespace())).is_ok()
    };
    assert!(accepts("--expert-cache 1GiB --experts-from files"));
    assert!(accepts("--expert-cache 1GiB --experts-from memory"));
    assert!(!accepts("--experts-from files"));
    assert!(!accepts("--expert-cache 1GiB --experts-from disk"));
}

/// A check of a package measures nothing, so that an option of the measurement would change nothing.
#[test]
fn a_check_of_a_package_takes_no_option_of_the_measurement() {
    let accepts = |words: &str| {
        let line = ["moebius", "package", "--verify", "p"];
        Cli::try_parse_from(line.into_iter().chain(words.split_whitespace())).is_ok()
    };
    assert!(accepts("") && accepts("--json"));
    for option in [
        "--device auto",
        "--place experts=2",
        "--dtype f32",
        "--weights file",
        "--expert-cache 1GiB",
        "--memory-margin 20",
        "--narrow-embedding",
        "--exact",
        "--streams 8",
        "--prompt 32",
        "--tokens 32",
        "--known 256",
    ] {
        assert!(!accepts(option), "{option}");
    }
}

#[test]
fn json_is_taken_before_and_after_the_command() {
    for line in [
        ["moebius", "--json", "devices"],
        ["moebius", "devices", "--json"],
    ] {
        assert!(Cli::try_parse_from(line).is_ok_and(|c| c.json));
    }
}

#[test]
fn every_family_is_in_the_help_and_the_documentation() {
    let command = Cli::command();
    let generate = command.find_subcommand("generate");
    let help = generate.and_then(|generate| generate.get_after_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    for text in [help.as_str(), include_str!("../../../../docs/models.md")] {
        let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        let words: Vec<&str> = words.collect();
        for family in moebius_model::families::FAMILIES {
            let name = family.name.trim_end_matches("_text");
            assert!(words.contains(&name), "{name}");
        }
    }
}
