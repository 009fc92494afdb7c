//! Tests of the cache: which programs are kept, which are removed first, and the error for a folder that cannot be
//! created.

use super::*;

fn names(cache: &DiskCache) -> Vec<String> {
    let entries = cache.folder.read_dir().unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn what_is_kept_is_there_for_its_key_alone() {
    let folder = tempfile::tempdir().unwrap();
    let cache = DiskCache::new(folder.path().join("new/folder"), 1000).unwrap();
    let (ours, other) = (blake3::hash(b"ours"), blake3::hash(b"other"));
    cache.keep(&ours, b"program").unwrap();
    assert_eq!(fs::read(cache.path(&ours)).unwrap(), b"program");
    assert!(!cache.path(&other).exists());
    assert_eq!(names(&cache).len(), 1, "no unfinished file is left");
}

#[test]
fn the_least_recently_used_go_first() {
    let folder = tempfile::tempdir().unwrap();
    let size = 100;
    // The limit holds three programs and the slack.
    let cache = DiskCache::new(folder.path(), 4 * size - 1).unwrap();
    let keys: Vec<Hash> = (0..5_u8).map(|i| blake3::hash(&[i])).collect();
    let used = |key: &Hash, seconds| {
        let file = File::options().append(true).open(cache.path(key)).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
            .unwrap();
    };
    for (key, seconds) in keys.iter().zip([30, 10, 20]) {
        cache.keep(key, &[0; 100]).unwrap();
        used(key, seconds);
    }
    let there = |cache: &DiskCache| {
        keys.iter()
            .map(|key| cache.path(key).exists())
            .collect::<Vec<_>>()
    };
    cache.keep(&keys[3], &[0; 100]).unwrap();
    assert_eq!(there(&cache), [true, false, true, true, false]);
    // The newest file stays even when the clock was set back.
    used(&keys[3], 40);
    cache.keep(&keys[4], &[0; 100]).unwrap();
    assert_eq!(there(&cache), [true, false, false, true, true]);
    let too_large = cache.keep(&keys[1], &[0; 1000]);
    assert!(matches!(too_large, Err(Error::Io { .. })));
    assert_eq!(names(&cache).len(), 3);
}

#[test]
fn only_old_unfinished_files_are_swept() {
    let folder = tempfile::tempdir().unwrap();
    let cache = DiskCache::new(folder.path(), 1000).unwrap();
    let (old, new) = (
        folder.path().join("old.part"),
        folder.path().join("new.part"),
    );
    fs::write(&old, "").unwrap();
    fs::write(&new, "").unwrap();
    let file = File::options().append(true).open(&old).unwrap();
    file.set_modified(SystemTime::now() - 2 * ABANDONED)
        .unwrap();
    cache.keep(&blake3::hash(b"key"), b"program").unwrap();
    assert!(!old.exists() && new.exists());
}

#[test]
fn the_folder_is_looked_through_now_and_then() {
    let folder = tempfile::tempdir().unwrap();
    let cache = DiskCache::new(folder.path(), SLACK * 1000).unwrap();
    let left = folder.path().join("left.part");
    let swept = |number: u8, bytes: usize| {
        let file = File::create(&left).unwrap();
        file.set_modified(SystemTime::now() - 2 * ABANDONED)
            .unwrap();
        let key = blake3::hash(&[number]);
        cache.clone().keep(&key, &vec![0; bytes]).unwrap();
        !left.exists()
    };
    let looked: Vec<bool> = (0..4).map(|number| swept(number, 400)).collect();
    assert_eq!(looked, [true, false, false, true]);
}

#[test]
fn a_folder_that_cannot_be_is_an_error() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let cache = DiskCache::new(file.path().join("under a file"), 1);
    assert!(matches!(cache, Err(Error::Io { .. })));
}
