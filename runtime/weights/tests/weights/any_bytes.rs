//! Any bytes as a file of weights are read or refused. `fuzz/fuzz_targets/weights.rs` runs this, too.

use moebius_weights::{Reader, Unscaled};

/// Opens `data` as a file of weights and reads everything that can be read.
pub(crate) fn any_bytes(data: &[u8]) {
    let Ok(reader) = Reader::from_bytes("fuzz", data.to_vec()) else {
        return;
    };
    let held: u64 = reader.tensors().map(|(_, info)| info.bytes()).sum();
    // A byte of codes holds four values of two bits at most, which are read as F32.
    assert!(
        held <= 16 * data.len() as u64,
        "tensors outside of the file"
    );
    assert!(
        reader.is_packed() || held <= data.len() as u64,
        "tensors outside of the file"
    );
    for name in reader.names_in_order() {
        let info = reader.get(name);
        match reader.read(name) {
            Ok(bytes) => assert_eq!(Some(bytes.len() as u64), info.map(|info| info.bytes())),
            // Scales of codes may be damaged.
            Err(error) => assert!(reader.is_packed(), "{error}"),
        }
        let _ = reader.read_f32(name);
        if let (Some(format), Some((columns, rows))) = (
            reader.blocks(name),
            info.and_then(|info| info.shape.split_last()),
        ) {
            let rows: usize = rows.iter().product();
            let mut blocks = vec![0; rows * format.row_bytes(*columns)];
            let _ = reader.read_blocks(name, 0, &mut blocks);
        }
        for unscaled in [Unscaled::Refuse, Unscaled::AssumeOne] {
            let Ok(layout) = reader.fp8_layout(name, unscaled) else {
                continue;
            };
            // Damaged scales are refused; a weight that is read is consistent.
            if let Ok(weight) = reader.fp8_weight(&layout) {
                assert!(weight.check().is_ok(), "a weight that contradicts itself");
                let values = weight.dequantize();
                assert_eq!(values.ok().map(|v| v.len()), Some(weight.codes.len()));
            }
        }
    }
    let _ = reader.fp8_layouts(Unscaled::Refuse);
}
