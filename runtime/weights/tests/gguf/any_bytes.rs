//! Any bytes as a GGUF file are read or refused. `fuzz/fuzz_targets/gguf.rs` runs this, too.

use moebius_weights::gguf::GgufFile;

/// Opens `data` as a GGUF file and reads everything that can be read.
pub(crate) fn any_bytes(data: &[u8]) {
    let Ok(file) = GgufFile::from_bytes("fuzz", data.to_vec()) else {
        return;
    };
    let held: u64 = file.tensors().map(|(_, info)| info.bytes()).sum();
    assert!(held <= data.len() as u64, "tensors outside of the file");
    for (name, info) in file.tensors() {
        let values = file.read_f32(name);
        assert_eq!(values.is_ok(), info.kind.is_decoded(), "{name}");
        if let Ok(values) = values {
            assert_eq!(values.len() as u64, info.values());
            assert_eq!(values.len(), info.shape.iter().product::<usize>());
        }
    }
    for (_, value) in file.metadata() {
        let _ = (value.shown(), value.as_number(), value.as_size());
    }
    let _ = (file.vocabulary(), file.chat_template());
}
