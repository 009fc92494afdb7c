use super::*;
use crate::certificate::tests::{certificate, tested};

#[test]
fn the_verdict_names_device_layer_and_part() {
    let same = certificate(vec![tested("flex", false), tested("cpu", false)]);
    assert_eq!(verdict(&same), "the same answer on 2 of 2 devices");
    let apart = certificate(vec![tested("flex", false), tested("cuda:0", true)]);
    let said = verdict(&apart);
    assert!(
        said.starts_with("cuda:0: differs from layer 0, router on; after 3 tokens"),
        "{said}"
    );
    assert!(
        said.ends_with("the same answer on 1 of 2 devices"),
        "{said}"
    );
}

#[test]
fn tables_hold_whatever_names_are() {
    let certificate = certificate(vec![tested("flex", false), tested("cuda:0", true)]);
    let text = markdown(&certificate);
    assert!(text.contains("a <card> \\| b"), "{text}");
    let rows = text.lines().filter(|line| line.starts_with('|'));
    // Two devices, and five parts of each, with a heading and a rule for each table.
    assert_eq!(rows.count(), 2 + 2 + 2 * (2 + 5));
    assert!(text.contains("token 7: [2] for [1] by 5.0e-1"), "{text}");
    assert!(text.contains("| layer 0, router | – | – | 9 |"), "{text}");

    let page = html(&certificate);
    assert!(page.contains("a &lt;card&gt; | b"), "{page}");
    for (tag, count) in [("table", 3), ("details", 2), ("svg", 1)] {
        for mark in [format!("<{tag}"), format!("</{tag}>")] {
            assert_eq!(page.matches(&mark).count(), count, "{mark}");
        }
    }
    // The name of a namespace is the only address, and nothing is loaded.
    assert_eq!(page.matches("http").count(), 1);
    assert!(!page.contains("<script") && !page.contains("<link") && !page.contains("src="));
}
