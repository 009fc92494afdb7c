use super::*;

#[test]
fn the_variables_are_those_of_the_documentation() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/environment.md");
    let page = fs::read_to_string(page).unwrap();
    let rows = page
        .lines()
        .filter_map(|row| row.strip_prefix("| ")?.split_once(" | "));
    let of_command = rows.filter(|(_, rest)| {
        let reader = rest.split(" | ").next().unwrap();
        reader.contains("the command") || reader.contains("`moebius serve`") || reader == "`xla:…`"
    });
    let mut documented: Vec<&str> = of_command
        .flat_map(|(names, _)| names.split('`').skip(1).step_by(2))
        .filter_map(|name| name.split('=').next())
        .filter(|name| name.starts_with("MOEBIUS_"))
        .collect();
    documented.sort_unstable();
    assert_eq!(documented, OURS.map(|(name, _)| name));
}

#[test]
fn a_variable_without_effect_is_named() {
    let check = |names: &[&str]| variables(names.iter().map(|name| (*name).to_owned()));
    assert_eq!(check(&["MOEBIUS_SIMD", "HOME"]).state, State::Ok);
    let of_flags = ["MOEBIUS_SERVE_RUNNING", "MOEBIUS_DEVICE"];
    assert_eq!(check(&of_flags).state, State::Ok);
    let wrong = check(&["MOEBIUS_SIMDD", "MOEBIUS_SIMD"]);
    assert_eq!(wrong.state, State::Warning);
    assert_eq!(wrong.found, "MOEBIUS_SIMDD is not read by the command");
    let fix = wrong.fix.unwrap();
    assert!(fix.contains("MOEBIUS_SIMD,"), "{fix}");
    let of_xla = check(&["MOEBIUS_XLA_CACHE"]).state;
    assert_eq!(of_xla == State::Ok, cfg!(feature = "xla"));
}

#[test]
fn the_first_variable_that_is_set_is_the_locale() {
    let of = |values: [&str; 3]| {
        let all = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().zip(values);
        let all: Vec<(&str, &str)> = all.collect();
        terminal(|name| {
            let found = all.iter().find(|(of, _)| *of == name);
            found.map(|(_, value)| (*value).to_owned())
        })
        .state
    };
    assert_eq!(of(["", "", "en_GB.UTF-8"]), State::Ok);
    assert_eq!(of(["", "de_DE.utf8", "C"]), State::Ok);
    assert_eq!(of(["C", "", "en_GB.UTF-8"]), State::Warning);
    assert_eq!(of(["", "", ""]), State::Warning);
}

#[test]
fn a_folder_that_can_be_written_is_left_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    assert!(tried(&folder.path().join("new")).unwrap() > 0);
    let left = fs::read_dir(folder.path().join("new")).unwrap().count();
    assert_eq!(left, 0);
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(tried(&file.join("under")).is_err());
}
