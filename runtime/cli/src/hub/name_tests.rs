use super::*;

#[test]
fn a_model_is_an_owner_a_name_and_perhaps_a_file() {
    let name: ModelName = "Qwen/Qwen3-0.6B-GGUF:Q8_0".parse().unwrap();
    assert_eq!(name.repository, "Qwen/Qwen3-0.6B-GGUF");
    assert_eq!(name.file.as_deref(), Some("Q8_0"));
    assert_eq!(name.to_string(), "Qwen/Qwen3-0.6B-GGUF:Q8_0");
    let name: ModelName = "a_b/c.d".parse().unwrap();
    assert_eq!((name.to_string().as_str(), name.file), ("a_b/c.d", None));
    let long = format!("{}/x", "a".repeat(97));
    for text in [
        "", "gpt2", "a/", "/b", "a/b/c", "a/b:", "../b", "a/..", "-a/b", "a/b-", "a--b/c",
        "a/b..c", "a b/c", "a\\b/c", "ä/b", "C:/b", &long,
    ] {
        assert!(text.parse::<ModelName>().is_err(), "{text}");
    }
}

#[test]
fn a_revision_is_a_path_inside() {
    for text in ["main", "v1.0", "refs/pr/1", "feature/a+b", "0123abc"] {
        assert_eq!(revision(text).as_deref(), Ok(text));
    }
    for text in [
        "", "/main", "a/", "a//b", "..", "a/../b", "./a", "a b", "a?b", "a%2Fb", "a\\b",
    ] {
        assert!(revision(text).is_err(), "{text}");
    }
}

#[test]
fn paths_stay_inside() {
    for path in ["config.json", "a/b/c.gguf", "a b", "..a", "a..b/c", "…"] {
        assert!(stays_inside(path), "{path}");
    }
    for path in [
        "",
        "/",
        "/etc/passwd",
        "../x",
        "../../x",
        "a/../../x",
        "a/..",
        ".",
        "./a",
        "a//b",
        "a/",
        "..\\x",
        "a\\b",
        "\\\\server\\share",
        "a\nb",
        "a\0b",
    ] {
        assert!(!stays_inside(path), "{path:?}");
    }
    assert_eq!(stays_inside("C:x"), !cfg!(windows));
}

#[test]
fn etags_name_blobs() {
    let hash = "AB".repeat(32);
    let etag = Etag::read(&format!("\"{hash}\"")).unwrap();
    assert_eq!(etag.name(), hash);
    assert_eq!(etag.sha256(), Some("ab".repeat(32)));
    let of_git = Etag::read("W/\"0123456789abcdef0123456789abcdef01234567\"").unwrap();
    assert_eq!(of_git.name(), "0123456789abcdef0123456789abcdef01234567");
    assert_eq!(of_git.sha256(), None);
    for text in [
        "",
        "\"\"",
        "../x",
        "a/b",
        "a.incomplete",
        ".",
        "a b",
        &"a".repeat(129),
    ] {
        assert_eq!(Etag::read(text), None, "{text}");
    }
}
