use super::Text;

#[test]
fn a_batch_depends_on_seed_and_step_alone() {
    let text = Text::bundled();
    let batch = |seed, step| text.batch(seed, step, 4, 16).unwrap();
    assert_eq!(batch(1, 2), batch(1, 2));
    assert_ne!(batch(1, 2), batch(1, 3));
    assert_ne!(batch(1, 2), batch(2, 2));
    // The windows of a smaller batch are the first windows of a larger one.
    let one = text.batch(1, 2, 1, 16).unwrap();
    assert_eq!(one.inputs, batch(1, 2).inputs[..16]);
}

#[test]
fn targets_are_the_bytes_that_follow() {
    let text = Text::new((0..=255).collect());
    let batch = text.batch(0, 0, 8, 10).unwrap();
    for (input, target) in batch.inputs.iter().zip(&batch.targets) {
        assert_eq!(input + 1, *target);
    }
}

#[test]
fn every_byte_can_be_a_target_and_a_short_text_is_refused() {
    let text = Text::new(b"abc".to_vec());
    assert_eq!(text.batch(0, 0, 1, 2).unwrap().targets, [98, 99]);
    let error = text.batch(0, 0, 1, 3).unwrap_err().to_string();
    assert_eq!(error, "text: expected more than 3 bytes, got 3");
    assert!(Text::new(Vec::new()).batch(0, 0, 1, 1).is_err());
}

#[test]
fn the_bundled_text_is_plain_ascii_with_unix_lines() {
    let text = Text::bundled();
    let plain = |byte: &u8| *byte == b'\n' || (b' '..=b'~').contains(byte);
    assert!(text.bytes().iter().all(plain));
    assert!((400_000..1_000_000).contains(&text.bytes().len()));
    assert!(text.bytes().starts_with(b"CHAPTER 1. Loomings."));
}
