//! Tests of copies from host memory to devices and back.

use moebius_pjrt::{Buffer, ElementType, Error, TensorType};

use super::{device, f32s};

#[test]
fn every_element_type_goes_to_the_device_and_back() {
    for element in ElementType::ALL {
        for dims in [&[][..], &[0], &[3, 0, 2], &[7], &[3, 5, 2]] {
            let spec = TensorType::new(dims, element);
            let length = spec.bytes();
            // Booleans must be 0 or 1; for floats any byte will do, since a copy doesn't interpret them.
            let byte = |i: usize| {
                if element == ElementType::Pred {
                    i as u8 % 2
                } else {
                    (i * 37) as u8
                }
            };
            // Start one byte later, so that nothing is aligned.
            let host: Vec<u8> = (0..=length).map(byte).collect();
            let host = &host[1..];
            let buffer = Buffer::from_host(&device(), &spec, host).unwrap();
            assert_eq!((buffer.element(), buffer.dims()), (element, dims));
            assert_eq!(buffer.spec(), &spec);
            assert_eq!(buffer.read().unwrap(), host, "{spec}");
            assert_eq!(buffer.device_bytes().unwrap(), length, "{spec}");
            let mut own = vec![0; length];
            buffer.to_host(&mut own).unwrap();
            assert_eq!(own, host, "{spec}");
        }
    }
}

#[test]
fn host_memory_of_another_size_is_refused() {
    let spec = f32s([2, 3]);
    for got in [0, 23, 25] {
        let copied = Buffer::from_host(&device(), &spec, &vec![0; got]).map(drop);
        let buffer = Buffer::from_host(&device(), &spec, &[0; 24]).unwrap();
        let read = buffer.to_host(&mut vec![0; got]);
        for result in [copied, read] {
            let error = result.unwrap_err();
            assert!(matches!(error, Error::HostBytes { expected: 24, got: g, .. } if g == got));
        }
    }
    let huge = f32s([usize::MAX, 2]);
    let refused = Buffer::from_host(&device(), &huge, &[]);
    assert!(matches!(refused, Err(Error::TooLarge { .. })));
}
