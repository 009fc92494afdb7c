use serde_json::json;

use super::*;

fn read(value: &serde_json::Value) -> Result<Listing, String> {
    Listing::of(value.to_string().as_bytes())
}

#[test]
fn a_list_names_sizes_and_hashes() {
    let hash = "0a".repeat(32);
    let list = read(&json!({
        "sha": "c0ffee",
        "private": false,
        "siblings": [
            { "rfilename": "config.json", "size": 5, "blobId": "12ab" },
            { "rfilename": "a/b.gguf", "size": 7, "blobId": "34cd",
              "lfs": { "sha256": hash, "size": 7, "pointerSize": 130 } },
            { "rfilename": "README.md" },
        ],
    }))
    .unwrap();
    assert_eq!(list.commit, "c0ffee");
    assert_eq!(list.names(), ["config.json", "a/b.gguf", "README.md"]);
    let facts = list.entries.iter().map(|entry| {
        let etag = entry.etag.as_ref().map(|etag| etag.name().to_owned());
        (entry.size, etag)
    });
    let right = [
        (Some(5), Some("12ab".to_owned())),
        (Some(7), Some(hash)),
        (None, None),
    ];
    assert_eq!(facts.collect::<Vec<_>>(), right);
}

#[test]
fn a_list_that_leads_out_is_refused() {
    for name in ["../../x", "/etc/passwd", "a\\..\\b", "a/../../b", ""] {
        let list = json!({ "sha": "1", "siblings": [{ "rfilename": name }] });
        let error = read(&list).err().unwrap_or_default();
        assert!(error.starts_with("the path"), "{name}: {error}");
    }
    for sha in ["", "../x", "a/b", "ab.cd", &"a".repeat(65)] {
        let error = read(&json!({ "sha": sha })).err().unwrap_or_default();
        assert!(error.starts_with("the commit"), "{sha}: {error}");
    }
    let lfs = json!({ "sha256": "../x", "size": 1 });
    let list = json!({ "sha": "1", "siblings": [{ "rfilename": "a", "lfs": lfs }] });
    let error = read(&list).err().unwrap_or_default();
    assert!(error.starts_with("the SHA-256"), "{error}");
}

#[test]
fn anything_else_is_no_list() {
    for text in ["", "[]", "{}", "<html>", r#"{"sha":1}"#] {
        assert!(Listing::of(text.as_bytes()).is_err(), "{text}");
    }
    let size = |size: &str| {
        let text = format!(r#"{{"sha":"1","siblings":[{{"rfilename":"a","size":{size}}}]}}"#);
        Listing::of(text.as_bytes()).map(|list| list.entries[0].size)
    };
    assert_eq!(size("18446744073709551615"), Ok(Some(u64::MAX)));
    for wrong in ["18446744073709551616", "-1", "1.5", "\"1\""] {
        assert!(size(wrong).is_err(), "{wrong}");
    }
}
