use super::*;

fn subject(number: usize) -> Subject {
    Subject {
        device: format!("vulkan card {number}"),
        driver: "1.2".to_owned(),
        kernels: "abc".to_owned(),
    }
}

#[test]
fn verdicts_are_read_as_they_were_written_and_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("new/verdicts.json");
    assert_eq!(Verdicts::read(&file).unwrap(), Verdicts::default());
    let mut verdicts = Verdicts::default();
    for number in 0..MOST + 9 {
        let verdict = Verdict::Failed(format!("case {number}"));
        verdicts.remember(subject(number), verdict);
    }
    verdicts.remember(subject(MOST), Verdict::Passed);
    verdicts.write(&file).unwrap();
    let read = Verdicts::read(&file).unwrap();
    assert_eq!(read, verdicts);
    assert_eq!(read.0.len(), MOST);
    assert_eq!(read.on(&subject(8)), None);
    assert_eq!(read.on(&subject(MOST)), Some(&Verdict::Passed));
    let beside: Vec<_> = file.parent().unwrap().read_dir().unwrap().collect();
    assert_eq!(beside.len(), 1, "{beside:?}");
}

#[test]
fn files_that_make_no_sense_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("verdicts.json");
    for text in ["", "[", "{}", "[{\"device\": 1}]", "\u{1}"] {
        fs::write(&file, text).unwrap();
        assert!(Verdicts::read(&file).is_err(), "{text}");
    }
    // The file is longer than what is read of it.
    fs::write(&file, format!("[{}]", " ".repeat(MOST_BYTES as usize))).unwrap();
    assert!(Verdicts::read(&file).is_err());
}

#[test]
#[cfg(all(unix, not(target_os = "macos")))]
fn the_file_lies_in_the_cache_folder() {
    let with = |variables: &'static [(&str, &str)]| {
        file(move |name| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| value.into())
        })
    };
    let path = |text: &str| Some(PathBuf::from(text));
    assert_eq!(
        with(&[("HOME", "/h/me")]),
        path("/h/me/.cache/moebius/verdicts.json")
    );
    assert_eq!(
        with(&[("HOME", "/h/me"), ("XDG_CACHE_HOME", "/c")]),
        path("/c/moebius/verdicts.json")
    );
    assert_eq!(with(&[("XDG_CACHE_HOME", "")]), None);
}
