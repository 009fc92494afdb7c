use super::*;

/// Writes files of a group below `mount`, each with one line.
fn group(mount: &Path, path: &str, files: &[(&str, &str)]) {
    let folder = mount.join(path);
    fs::create_dir_all(&folder).unwrap();
    for (name, line) in files {
        fs::write(folder.join(name), format!("{line}\n")).unwrap();
    }
}

fn figures(total: u64, free: u64) -> Option<MemoryFigures> {
    Some(MemoryFigures {
        total,
        free: Some(free),
    })
}

#[test]
fn the_second_version_has_two_limits_and_groups_around() {
    let folder = tempfile::tempdir().unwrap();
    let mount = folder.path();
    let own = [
        ("memory.max", "4000"),
        ("memory.high", "3000"),
        ("memory.current", "1000"),
        (
            "memory.stat",
            "anon 500\nfile 450\ninactive_file 100\nactive_file 200",
        ),
    ];
    group(mount, "job/own", &own);
    assert_eq!(memory_of("0::/job/own\n", mount), figures(3000, 2300));
    // A group around that has more, or no limit, changes nothing; one that has less decides, with what all in it take.
    let around = |most| {
        [
            ("memory.max", most),
            ("memory.high", "max"),
            ("memory.current", "2500"),
        ]
    };
    group(mount, "job", &around("max"));
    assert_eq!(memory_of("0::/job/own\n", mount), figures(3000, 2300));
    group(mount, "job", &around("3500"));
    assert_eq!(memory_of("0::/job/own\n", mount), figures(3000, 1000));
    group(mount, "job", &around("2000"));
    assert_eq!(memory_of("0::/job/own\n", mount), figures(2000, 0));
    // A path that begins with groups outside of a container, and one of which the container shows nothing but its own group, the root.
    assert_eq!(memory_of("0::/outside/job\n", mount), figures(2000, 0));
    group(mount, "", &around("6000"));
    assert_eq!(memory_of("0::/elsewhere\n", mount), figures(6000, 3500));
}

#[test]
fn the_first_version_has_a_folder_for_memory() {
    let folder = tempfile::tempdir().unwrap();
    let mount = folder.path();
    let files = |most| {
        [
            ("memory.limit_in_bytes", most),
            ("memory.usage_in_bytes", "900"),
            (
                "memory.stat",
                "cache 300\ntotal_inactive_file 250\ntotal_active_file 50",
            ),
        ]
    };
    let groups = "5:cpu,cpuacct:/job\n4:memory:/job\n0::/\n";
    group(mount, "memory/job", &files("2048"));
    assert_eq!(memory_of(groups, mount), figures(2048, 1448));
    group(mount, "memory/job", &files("9223372036854771712"));
    assert_eq!(memory_of(groups, mount), None);
    assert_eq!(memory_of("5:cpu:/job\n", mount), None);
    assert_eq!(memory_of("", mount), None);
}
