//! What a GGUF file's tensors say about a model beside its metadata.

use moebius_weights::gguf::GgufFile;
use moebius_weights::{Unfit, quoted};

use crate::decoder::RopeScaling;
use crate::error::Error;
use crate::families::{Described, ROPE_FACTORS, describe_gguf};
use crate::misfits::Misfits;

/// The model of a file, with the numbers that frequencies of rotary positions are divided by, where it has some.
pub(super) fn describe(file: &GgufFile) -> Result<Described, Error> {
    let mut described = describe_gguf(file).map_err(|faults| Misfits {
        faults,
        ..Misfits::default()
    })?;
    if described.family.ignored.contains(&ROPE_FACTORS) && file.get(ROPE_FACTORS).is_some() {
        divide(file, &mut described)?;
    }
    Ok(described)
}

fn divide(file: &GgufFile, described: &mut Described) -> Result<(), Error> {
    let Described {
        spec, unsupported, ..
    } = described;
    let mut refuse = |expected: String, got: String| {
        unsupported.push(Unfit::new(quoted(ROPE_FACTORS), expected, got));
    };
    let ropes = spec.layers.iter_mut();
    let mut ropes: Vec<_> = ropes
        .filter_map(|layer| layer.attention.rope.as_mut())
        .collect();
    let pairs = ropes.first().map_or(0, |rope| rope.rotated / 2);
    let Some(info) = file.get(ROPE_FACTORS) else {
        return Ok(());
    };
    if info.values() != pairs as u64 || !info.kind.is_decoded() {
        let got = format!("{} values of {}", info.values(), info.kind);
        refuse(format!("{pairs} values that can be read"), got);
        return Ok(());
    }
    let by = file.read_f32(ROPE_FACTORS)?;
    if let Some(bad) = by
        .iter()
        .find(|factor| !(factor.is_finite() && **factor > 0.0))
    {
        refuse("positive numbers".to_owned(), bad.to_string());
        return Ok(());
    }
    for rope in &mut ropes {
        if rope.scaling != RopeScaling::None {
            let got = format!("{:?}", rope.scaling);
            refuse("no other scaling of rotary positions".to_owned(), got);
            return Ok(());
        }
        rope.scaling = RopeScaling::Divided { by: by.clone() };
    }
    Ok(())
}
