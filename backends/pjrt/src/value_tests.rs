//! Tests of named values, written and read again.

use super::*;

#[test]
fn what_is_written_reads_back() {
    let options = [
        ("text", Value::from("v5e:2x2")),
        ("int", Value::from(-3)),
        ("ints", Value::from(vec![1, 2, 3])),
        ("float", Value::from(0.5)),
        ("bool", Value::from(true)),
    ];
    let records = write(&options).unwrap();
    // SAFETY: the records point into `options`, which lives until the end of the test.
    let read = unsafe { read(records.as_ptr(), records.len()) };
    for (read, given) in read.iter().zip(&options) {
        assert_eq!((read.0.as_str(), &read.1), (given.0, &given.1));
    }
    assert_eq!(read.len(), options.len());
}

#[test]
fn names_are_given_once() {
    let twice = [("a", Value::from(1)), ("a", Value::from(2))];
    assert!(matches!(write(&twice), Err(Error::ClientOption { .. })));
    assert!(matches!(
        write(&[("", Value::from(1))]),
        Err(Error::ClientOption { .. })
    ));
}
