//! Integer weights in the layouts of GPTQ, AWQ and compressed-tensors (`tests/cases/make_integers.py`).

use std::path::Path;

use moebius_weights::{Dtype, Reader};

fn cases(name: &str) -> Reader {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases/integers");
    Reader::open(&folder.join(name)).unwrap()
}

#[test]
fn words_of_integers_are_weights() {
    let (stored, expected) = (cases("model.safetensors"), cases("expected.safetensors"));
    let names = |reader: &Reader| -> Vec<String> {
        reader.tensors().map(|(name, _)| name.to_owned()).collect()
    };
    assert_eq!(
        names(&stored),
        names(&expected),
        "no part is a tensor by itself"
    );
    for name in names(&expected) {
        let info = stored.get(&name).unwrap();
        assert_eq!(
            (info.dtype, &info.shape[..]),
            (Dtype::F32, &[16, 64][..]),
            "{name}"
        );
        let want = expected.read_f32(&name).unwrap();
        assert_eq!(stored.read_f32(&name).unwrap(), want, "{name}");
        assert_eq!(
            stored.read_f32_part(&name, 70..130).unwrap(),
            want[70..130],
            "{name}"
        );
        let bytes: Vec<u8> = want.iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(stored.read(&name).unwrap(), bytes, "{name}");
    }
    let error = stored.read_f32_part("awq.weight", 1000..1025).unwrap_err();
    assert!(error.to_string().contains("4096"), "{error}");
}
