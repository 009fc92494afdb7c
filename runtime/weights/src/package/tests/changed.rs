//! Packages whose files were changed, removed, added or replaced by something else.

use std::fs;
use std::path::{Path, PathBuf};

use super::{TEMPLATE, WEIGHTS, checked, made};
use crate::package::{MANIFEST_FILE, PackageError, SUMS_FILE};

/// Every byte of the small files and one byte of the weights, each changed by itself.
#[test]
fn a_changed_byte_is_found_wherever_it_is() {
    let (_place, package) = made();
    let names = [MANIFEST_FILE, SUMS_FILE, "config.json", "LICENSE", TEMPLATE];
    for name in names.into_iter().chain([WEIGHTS]) {
        let path = package.folder.join(name);
        let whole = fs::read(&path).unwrap();
        let places = if name == WEIGHTS {
            2_999_999..3_000_000
        } else {
            0..whole.len()
        };
        for place in places {
            let mut bytes = whole.clone();
            bytes[place] ^= 1;
            fs::write(&path, bytes).unwrap();
            let error = checked(&package.folder).unwrap_err();
            let said = error.to_string();
            let own = [MANIFEST_FILE, SUMS_FILE].contains(&name);
            assert!(
                own || matches!(error, PackageError::Changed(_)),
                "{name}, byte {place}: {said}"
            );
            assert!(own || said.contains(name), "{name}, byte {place}: {said}");
        }
        fs::write(&path, whole).unwrap();
        assert!(checked(&package.folder).is_ok(), "{name}");
    }
}

#[test]
fn errors_name_file_expected_and_got() {
    let (_place, package) = made();
    let folder = &package.folder;
    fs::write(folder.join("config.json"), b"[]").unwrap();
    let error = checked(folder).unwrap_err();
    let PackageError::Changed(fault) = &error else {
        panic!("{error}");
    };
    assert_eq!(fault.path, *folder);
    assert_eq!(fault.source.what, "`config.json`");
    let expected =
        "2 bytes with SHA-256 44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
    assert_eq!(fault.source.expected, expected);
    let got =
        "2 bytes with SHA-256 4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945";
    assert_eq!(fault.source.got, got);

    fs::remove_file(folder.join("config.json")).unwrap();
    let error = checked(folder).unwrap_err();
    assert!(matches!(error, PackageError::Missing(_)), "{error}");
    assert!(error.to_string().ends_with("got none"), "{error}");
    fs::write(folder.join("config.json"), b"{}").unwrap();

    for extra in ["more", ".hidden", "folder/more"] {
        let path = folder.join(extra);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, b"12345").unwrap();
        let error = checked(folder).unwrap_err();
        assert!(matches!(error, PackageError::Additional(_)), "{error}");
        let said = error.to_string();
        assert!(
            said.contains(extra) && said.ends_with("got 5 bytes"),
            "{said}"
        );
        fs::remove_file(path).unwrap();
    }
    assert!(checked(folder).is_ok());
}

#[test]
fn a_shorter_and_a_longer_file_are_changed_ones() {
    let (_place, package) = made();
    let path = package.folder.join(WEIGHTS);
    for bytes in [2_999_999, 3_000_001, 0] {
        fs::write(&path, vec![7_u8; bytes]).unwrap();
        let error = checked(&package.folder).unwrap_err();
        assert!(matches!(error, PackageError::Changed(_)), "{error}");
        assert!(
            error.to_string().ends_with(&format!("got {bytes} bytes")),
            "{error}"
        );
    }
}

#[test]
fn the_two_files_of_packages_are_needed() {
    for name in [MANIFEST_FILE, SUMS_FILE] {
        let (_place, package) = made();
        fs::remove_file(package.folder.join(name)).unwrap();
        let error = checked(&package.folder).unwrap_err();
        assert!(matches!(error, PackageError::Missing(_)), "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
    let nothing = checked(Path::new("no such folder")).unwrap_err();
    assert!(matches!(nothing, PackageError::Read(_)), "{nothing}");
}

#[test]
fn sums_that_are_not_those_of_the_manifest_are_refused() {
    let (_place, package) = made();
    let place = package.folder.join(SUMS_FILE);
    let sums = fs::read_to_string(&place).unwrap();
    let without = sums.replacen("  config.json\n", "  config.jso\n", 1);
    for (text, said) in [
        (without, "SHA256SUMS, line 4"),
        (format!("{sums}{sums}"), "SHA256SUMS, line 6"),
        (String::new(), "SHA256SUMS, line 1"),
        (sums.trim_end().to_owned(), "SHA256SUMS: expected"),
    ] {
        fs::write(&place, text).unwrap();
        let error = checked(&package.folder).unwrap_err();
        assert!(matches!(error, PackageError::Changed(_)), "{error}");
        assert!(error.to_string().contains(said), "{said}: {error}");
    }
}

/// A link would let a file change, or another be read, after it was hashed.
#[test]
#[cfg(unix)]
fn symbolic_links_are_refused() {
    use crate::package::verify_at;
    use std::os::unix::fs::symlink;

    for name in ["config.json", MANIFEST_FILE, SUMS_FILE] {
        let (place, package) = made();
        let (inside, outside) = (package.folder.join(name), place.path().join("outside"));
        fs::rename(&inside, &outside).unwrap();
        symlink(&outside, &inside).unwrap();
        let error = checked(&package.folder).unwrap_err();
        assert!(matches!(error, PackageError::NotAFile(_)), "{error}");
        assert!(
            error.to_string().ends_with("got a symbolic link"),
            "{error}"
        );
    }
    let (place, package) = made();
    let (inside, outside) = (
        package.folder.join("additional_chat_templates"),
        place.path().join("templates"),
    );
    fs::rename(&inside, &outside).unwrap();
    symlink(&outside, &inside).unwrap();
    let error = checked(&package.folder).unwrap_err();
    assert!(matches!(error, PackageError::NotAFile(_)), "{error}");
    // A package doesn't become an ordinary folder by links in place of its own two files.
    let (place, package) = made();
    for name in [MANIFEST_FILE, SUMS_FILE] {
        let (inside, outside) = (package.folder.join(name), place.path().join(name));
        fs::rename(&inside, &outside).unwrap();
        symlink(&outside, &inside).unwrap();
    }
    let error = verify_at(&package.folder, None, &mut |_| ()).unwrap_err();
    assert!(matches!(error, PackageError::NotAFile(_)), "{error}");
    // A link to the package itself is how a new version takes the place of an old one.
    let (place, package) = made();
    let link = place.path().join("current");
    symlink(&package.folder, &link).unwrap();
    assert_eq!(checked(&link).unwrap().fingerprint, package.fingerprint);
}

#[test]
#[cfg(unix)]
fn what_is_no_file_is_not_opened() {
    let (_place, package) = made();
    let socket = std::os::unix::net::UnixListener::bind(package.folder.join("socket"));
    socket.unwrap();
    let error = checked(&package.folder).unwrap_err();
    assert!(matches!(error, PackageError::NotAFile(_)), "{error}");
    fs::remove_file(package.folder.join("socket")).unwrap();
    let deep: PathBuf = ["a"; 18].iter().collect();
    fs::create_dir_all(package.folder.join(deep)).unwrap();
    let error = checked(&package.folder).unwrap_err();
    assert!(error.to_string().contains("16 deep"), "{error}");
}
