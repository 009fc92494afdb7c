use super::quietly;

#[test]
fn a_panic_becomes_its_message() {
    assert_eq!(quietly(|| 7), Ok(7));
    assert_eq!(
        quietly(|| -> u8 { panic!("no driver {}", 3) }),
        Err("no driver 3".to_owned())
    );
}

#[test]
fn a_device_threads_message_is_the_one_that_counts() {
    let outcome = quietly(|| {
        let runner = std::thread::Builder::new()
            .name("DSD-0-0".to_owned())
            .spawn(|| panic!("library missing\nsearched: everywhere"))
            .unwrap();
        runner.join().expect("a closed channel");
    });
    assert_eq!(outcome, Err("library missing".to_owned()));
}
