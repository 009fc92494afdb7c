use super::{Buffers, Handle, Lookup};
use cubecl_core::device::{DeviceId, ServiceId};
use cubecl_core::environment::stream::StreamId;
use moebius_ops::{Element, Scalar, Signature, TensorInfo};

/// A source that has a buffer of twelve bytes for every name, and strides for `view`.
struct Twelve(Handle);

impl Lookup for Twelve {
    fn find(&self, _: &str) -> Option<Handle> {
        Some(self.0.clone())
    }

    fn strides(&self, name: &str) -> Option<[usize; 3]> {
        (name == "view").then_some([1; 3])
    }
}

/// The size in bytes of buffer `name` of an operation on f16 tensors: operands of 5, 2 (a view) and 0 elements, a result of 7,
/// and a list of tiles of 2 words.
fn bytes_of(name: &str) -> u64 {
    let halves = |name, len| TensorInfo {
        name,
        shape: vec![len],
        scalar: Scalar::Float(Element::F16),
        summed: false,
    };
    let signature = Signature {
        name: "an operation",
        operands: vec![halves("five", 5), halves("view", 2), halves("none", 0)],
        results: vec![halves("seven", 7)],
    };
    let service = ServiceId::of::<()>(DeviceId::new(0, 0));
    let buffers = Buffers {
        given: &Twelve(Handle::new(service, StreamId { value: 0 }, 12)),
        signature: &signature,
        tiles: 2,
    };
    buffers.get(name).size_in_used()
}

/// Empty tensors and names that the description lacks keep the whole buffer.
#[test]
fn buffers_are_cut_to_their_tensors() {
    let found = ["five", "tiles", "view", "none", "other"].map(bytes_of);
    assert_eq!(found, [10, 8, 12, 12, 12]);
}

#[test]
#[should_panic(expected = "expected a buffer of at least 14 bytes, as planned, got 12")]
fn a_buffer_holds_its_tensor() {
    bytes_of("seven");
}
