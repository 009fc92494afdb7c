//! Weights in large pages.

use burn::module::Param;
use burn::tensor::{DType, Distribution, Tensor, TensorData};
use moebius::nn::{Linear, LinearConfig};
use moebius::{Room, in_large_pages};

#[test]
fn a_module_computes_the_same() {
    let device = moebius::open(&moebius::Device::Flex).unwrap();
    let x = Tensor::<2>::random([2, 1024], Distribution::Default, &device);
    let linear = LinearConfig::new(1024, 1030).init(&device).unwrap();
    let y = |linear: &Linear| linear.forward(x.clone()).unwrap().into_data();
    let before = y(&linear);
    let (id, weight) = (
        linear.bias.as_ref().unwrap().id,
        linear.weight.values().unwrap(),
    );
    let moved = in_large_pages(linear);
    assert_eq!(y(&moved), before);
    assert_eq!(moved.bias.as_ref().unwrap().id, id);
    assert_eq!(
        moved.weight.values().unwrap().into_data(),
        weight.into_data()
    );
    let trained = in_large_pages(
        LinearConfig::new(1024, 1024)
            .init(&device.autodiff())
            .unwrap(),
    );
    assert!(trained.bias.unwrap().val().is_require_grad());
}

/// Values that were written to room side by side are those of tensors, beside others of any size, and stay where they were written.
#[test]
fn room_is_where_its_tensors_stay() {
    let device = moebius::open(&moebius::Device::Flex).unwrap();
    let sizes = [12, 0, 4 << 20, 4 * 1024];
    let mut room = Room::new(&sizes, Some(&device)).unwrap();
    assert!(Room::stays(&device));
    let mut parts = room.parts();
    assert_eq!(
        parts.iter().map(|part| part.len()).collect::<Vec<_>>(),
        sizes
    );
    assert!(parts.iter().all(|part| part.iter().all(|byte| *byte == 0)));
    for (at, four) in parts[2].as_chunks_mut::<4>().0.iter_mut().enumerate() {
        *four = (at as f32).to_ne_bytes();
    }
    parts[3].fill(0x3f);
    let place = parts[2].as_ptr();
    let mut bytes = room.into_bytes();
    let bias = TensorData::from_bytes(bytes.remove(3), [1024], DType::F32);
    let weight = TensorData::from_bytes(bytes.remove(2), [1024, 1024], DType::F32);
    let expected = TensorData::new((0..1 << 20).map(|at| at as f32).collect(), [1024, 1024]);
    weight.assert_eq(&expected, true);
    let weight = Tensor::<2>::from_data(weight, &device);
    let bias = Tensor::<1>::from_data(bias, &device);
    let (weight, bias) = (Param::from_tensor(weight), Param::from_tensor(bias));
    let moved = in_large_pages(Linear::new(weight, Some(bias)).unwrap());
    let bias = moved.bias.as_ref().unwrap().val().into_data();
    assert_eq!(
        bias.iter::<f32>().next(),
        Some(f32::from_le_bytes([0x3f; 4]))
    );
    let values = moved.weight.values().unwrap();
    drop(moved);
    let values = values.into_data();
    values.assert_eq(&expected, true);
    assert_eq!(values.bytes().as_ptr(), place);
}

/// Without a device, and for little, room is memory like any other.
#[test]
fn little_room_is_ordinary_memory() {
    let mut room = Room::new(&[4, 3], None).unwrap();
    room.parts()[0].copy_from_slice(&[1, 2, 3, 4]);
    let bytes = room.into_bytes();
    assert_eq!([&bytes[0][..], &bytes[1][..]], [&[1, 2, 3, 4][..], &[0; 3]]);
    assert!(Room::new(&[usize::MAX], None).is_err());
}
