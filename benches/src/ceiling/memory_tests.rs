use super::*;

#[test]
fn lists_and_sizes_of_the_system_are_read() {
    assert_eq!(numbers("\t0-2,5\n"), [0, 1, 2, 5]);
    assert_eq!(numbers("x"), [0; 0]);
    assert_eq!(size("32768K"), Some(32 << 20));
    assert_eq!(size("3M"), Some(3 << 20));
    assert_eq!([size("3G"), size("")], [None; 2]);
}

#[test]
fn a_shared_cache_counts_once_and_only_the_last_level_counts() {
    let name = format!("moebius-caches-{}", std::process::id());
    let system = std::env::temp_dir().join(name);
    for (processor, shared) in [(0, "0-1"), (1, "0-1"), (2, "2-3"), (3, "2-3")] {
        let own = processor.to_string();
        for (index, level, size, sharing) in
            [(0, "1", "32K", own.as_str()), (3, "3", "32M", shared)]
        {
            let folder = system.join(format!("cpu{processor}/cache/index{index}"));
            std::fs::create_dir_all(&folder).unwrap();
            let of = [("type", "Unified"), ("level", level), ("size", size)];
            for (name, text) in of.into_iter().chain([("shared_cpu_list", sharing)]) {
                std::fs::write(folder.join(name), format!("{text}\n")).unwrap();
            }
        }
    }
    assert_eq!(caches_of(&system, &[0, 1]), 32 << 20);
    assert_eq!(caches_of(&system, &[1, 2, 3]), 64 << 20);
    assert_eq!(caches_of(&system, &[9]), 0);
    std::fs::remove_dir_all(&system).unwrap();
}

#[test]
fn copies_are_together_four_times_the_cache() {
    let mib = 1 << 20;
    assert_eq!(copies_beyond(32 * mib, 16 * mib), 8);
    assert_eq!(copies_beyond(32 * mib, 17 * mib), 8);
    // A weight larger than four times the cache still takes turns with one other copy.
    assert_eq!(copies_beyond(32 * mib, 1 << 30), 2);
}

#[test]
fn all_words_are_summed() {
    let words: Vec<u64> = (0..37).collect();
    assert_eq!(sum(&words), 36 * 37 / 2);
}
