use super::*;

#[test]
fn redirects_stay_as_safe_as_they_were() {
    let to = |from: &str, location: &str| {
        let from: Uri = from.parse().unwrap();
        joined(&from, location).map(|uri| uri.to_string())
    };
    let hub = "https://hub.test:8443/a/b?c=d";
    for (location, right) in [
        ("/x/y?z=1", Some("https://hub.test:8443/x/y?z=1")),
        ("https://cdn.test/x", Some("https://cdn.test/x")),
        ("//cdn.test/x", Some("https://cdn.test/x")),
        ("http://hub.test/x", None),
        ("file:///x", None),
        ("x/y", None),
        ("", None),
        ("https://", None),
    ] {
        assert_eq!(to(hub, location).as_deref(), right, "{location}");
    }
    let plain = to("http://127.0.0.1:80/a", "http://127.0.0.1:81/b");
    assert_eq!(plain.as_deref(), Some("http://127.0.0.1:81/b"));
}

#[test]
fn ranges_are_read() {
    assert_eq!(range("bytes 5-9/10"), Some((5, 10)));
    assert_eq!(range("bytes 0-0/1"), Some((0, 1)));
    for text in [
        "bytes 5-9/*",
        "bytes */10",
        "5-9/10",
        "bytes -1-9/10",
        "bytes x-9/10",
        "",
    ] {
        assert_eq!(range(text), None, "{text}");
    }
}

#[test]
fn paths_are_escaped() {
    assert_eq!(
        encoded("a b/c#d?e%f-g_h.gguf"),
        "a%20b/c%23d%3Fe%25f-g_h.gguf"
    );
    assert_eq!(encoded("ä"), "%C3%A4");
}

#[test]
fn the_token_is_for_the_hub() {
    let settings = |endpoint: &str| Settings {
        endpoint: endpoint.to_owned(),
        token: Some("secret".to_owned()),
        certificates: None,
        cache: "cache".into(),
    };
    let client = Client::new(&settings("https://mirror.test:444")).unwrap();
    for (address, ours) in [
        ("https://mirror.test:444/x", true),
        ("https://huggingface.co/x", true),
        ("https://hf.co/x", true),
        ("http://huggingface.co/x", false),
        ("https://mirror.test/x", false),
        ("http://mirror.test:444/x", false),
        ("https://huggingface.co.evil.test/x", false),
        ("https://cdn-lfs.huggingface.co/x", false),
    ] {
        assert_eq!(client.is_hub(&address.parse().unwrap()), ours, "{address}");
    }
}
