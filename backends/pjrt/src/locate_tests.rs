//! Tests of the order of the search, in folders made for them.

use std::fs;

use tempfile::TempDir;

use super::*;

fn touch(path: &Path) -> PathBuf {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "").unwrap();
    path.to_owned()
}

/// Makes a plugin's file in every place, and lists them from the first that is searched to the last.
fn everywhere(root: &Path) -> (Environment, Vec<PathBuf>) {
    let package = "libtpu/libtpu.so";
    let places = vec![
        touch(&root.join("own.so")),
        touch(&root.join("tpu_library_path.so")),
        touch(&root.join("named.so")),
        touch(&root.join("venv/lib/python3.12/site-packages").join(package)),
        touch(&root.join("venv/lib/python3.9/site-packages").join(package)),
        touch(
            &root
                .join("venv/lib64/python3.12/site-packages")
                .join(package),
        ),
        touch(&root.join("system/lib/python3/dist-packages").join(package)),
        touch(&root.join("cache/libtpu-0.0.51").join(package)),
        touch(&root.join("cache/libtpu-0.0.6").join(package)),
        touch(&root.join("lib/libtpu.so")),
        touch(&root.join("lib/pjrt_c_api_tpu_plugin.so")),
    ];
    let environment = Environment {
        plugins: BTreeMap::from([(Platform::Tpu, places[0].clone())]),
        tpu_library: Some(places[1].clone()),
        named: named(&format!("other:/x.so, TPU:{}", places[2].display())),
        prefixes: vec![root.join("none"), root.join("venv"), root.join("system")],
        wheels: Some(root.join("cache")),
        library_folders: vec![root.join("lib")],
        ..Environment::default()
    };
    (environment, places)
}

#[test]
fn the_first_place_wins_and_the_next_one_follows() {
    let root = TempDir::new().unwrap();
    let (mut environment, places) = everywhere(root.path());
    for (i, place) in places.iter().enumerate() {
        assert_eq!(locate(Platform::Tpu, &environment).as_ref(), Ok(place));
        match i {
            0 => environment.plugins.clear(),
            1 => environment.tpu_library = None,
            2 => environment.named.clear(),
            _ => fs::remove_file(place).unwrap(),
        }
    }
    let error = locate(Platform::Tpu, &environment).unwrap_err();
    assert_eq!(error.named_by, None);
    let text = error.to_string();
    for place in [
        &root.path().join("none/lib/python3*/site-packages"),
        &places[3],
        &places[7],
        &places[10],
    ] {
        assert!(text.contains(&*place.to_string_lossy()), "{text}");
    }
    assert!(
        text.contains("pip install libtpu") && text.contains("MOEBIUS_PJRT_TPU"),
        "{text}"
    );
}

#[test]
fn a_named_file_that_is_not_there_is_not_passed_over() {
    let root = TempDir::new().unwrap();
    let (complete, _) = everywhere(root.path());
    let gone = root.path().join("gone.so");
    let mut by_user = complete.clone();
    by_user.plugins.insert(Platform::Tpu, gone.clone());
    let mut by_path = complete.clone();
    by_path.plugins.clear();
    by_path.tpu_library = Some(gone.clone());
    let mut by_name = by_path.clone();
    by_name.tpu_library = None;
    by_name.named = vec![("libtpu".to_owned(), gone.clone())];
    let variables = [
        "MOEBIUS_PJRT_TPU",
        "TPU_LIBRARY_PATH",
        "PJRT_NAMES_AND_LIBRARY_PATHS",
    ];
    for (environment, variable) in [by_user, by_path, by_name].iter().zip(variables) {
        let error = locate(Platform::Tpu, environment).unwrap_err();
        assert_eq!(error.named_by, Some(variable));
        assert_eq!(error.looked_at, std::slice::from_ref(&gone));
        assert!(error.to_string().starts_with(variable));
    }
}

#[test]
fn platforms_have_their_own_places() {
    let root = TempDir::new().unwrap();
    let (mut environment, _) = everywhere(root.path());
    environment.plugins.clear();
    for platform in [Platform::Cpu, Platform::Cuda] {
        let error = locate(platform, &environment).unwrap_err();
        assert!(error.to_string().contains(platform.install()));
    }
    let packages = root.path().join("venv/lib/python3.12/site-packages");
    let twelve = touch(&packages.join("jax_plugins/xla_cuda12/xla_cuda_plugin.so"));
    assert_eq!(locate(Platform::Cuda, &environment), Ok(twelve));
    let thirteen = touch(&packages.join("jax_plugins/xla_cuda13/xla_cuda_plugin.so"));
    assert_eq!(locate(Platform::Cuda, &environment), Ok(thirteen));
    let cpu = touch(
        &root
            .path()
            .join("cache/xla-cpu-pjrt-0.0.1/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"),
    );
    assert_eq!(locate(Platform::Cpu, &environment), Ok(cpu));
}

#[test]
fn names_and_paths_are_split() {
    let parsed = named("cpu:/a.so,XLA_CUDA12:/b:c.so, ,broken");
    let expected = [("cpu", "/a.so"), ("xla_cuda12", "/b:c.so")];
    let expected = expected.map(|(name, path)| (name.to_owned(), PathBuf::from(path)));
    assert_eq!(parsed, expected);
}
