//! Host memory for weights, and their placement in large pages of it.

use burn::module::Module;
use burn::tensor::{Bytes, Device};
use std::collections::TryReserveError;

/// Host memory for the values of several tensors, which is zero until it is written to. On Flex the tensors take it over, and on Linux it is where
/// [`in_large_pages`] would copy their values, which then stays out: values that a file has are written once.
///
/// ```
/// use burn::tensor::{DType, Tensor, TensorData};
/// use moebius::Room;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # #[cfg(feature = "flex")] {
/// let device = moebius::open(&moebius::Device::Flex)?;
/// let mut room = Room::new(&[8, 4], Some(&device))?;
/// room.parts()[1].copy_from_slice(&2.5_f32.to_ne_bytes());
///
/// let bytes = room.into_bytes().remove(1);
/// let data = TensorData::from_bytes(bytes, [1], DType::F32);
/// assert_eq!(Tensor::<1>::from_data(data, &device).into_scalar::<f32>(), 2.5);
/// # }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Room(Memory);

#[derive(Debug)]
enum Memory {
    /// An allocation for each tensor.
    Apart(Vec<Vec<u8>>),
    #[cfg(all(feature = "flex", target_os = "linux"))]
    Together(moebius_host::LargePages),
}

impl Room {
    /// Room for tensors of so many bytes each, on `device` or on none yet.
    ///
    /// # Errors
    /// The error of the allocator, if it has no such memory.
    pub fn new(sizes: &[usize], device: Option<&Device>) -> Result<Self, TryReserveError> {
        #[cfg(all(feature = "flex", target_os = "linux"))]
        if device.is_some_and(crate::device::is_flex)
            && let Some(pages) = moebius_host::LargePages::new(sizes.iter().copied())
        {
            return Ok(Self(Memory::Together(pages)));
        }
        #[cfg(not(all(feature = "flex", target_os = "linux")))]
        let _ = device;
        let zeros = |size: &usize| {
            let mut zeros = Vec::new();
            zeros.try_reserve_exact(*size)?;
            zeros.resize(*size, 0);
            Ok(zeros)
        };
        let apart: Result<_, TryReserveError> = sizes.iter().map(zeros).collect();
        Ok(Self(Memory::Apart(apart?)))
    }

    /// Whether tensors on `device` take room over, so that room for many takes no more memory than they do.
    pub fn stays(device: &Device) -> bool {
        crate::device::is_flex(device)
    }

    /// The memory of each tensor.
    pub fn parts(&mut self) -> Vec<&mut [u8]> {
        match &mut self.0 {
            Memory::Apart(parts) => parts.iter_mut().map(Vec::as_mut_slice).collect(),
            #[cfg(all(feature = "flex", target_os = "linux"))]
            Memory::Together(pages) => pages.parts(),
        }
    }

    /// What was written, for each tensor.
    pub fn into_bytes(self) -> Vec<Bytes> {
        match self.0 {
            Memory::Apart(parts) => parts.into_iter().map(Bytes::from_bytes_vec).collect(),
            #[cfg(all(feature = "flex", target_os = "linux"))]
            Memory::Together(pages) => {
                let shared = |bytes| Bytes::from_shared(bytes, linux::IN_PAGES);
                pages.share().into_iter().map(shared).collect()
            }
        }
    }
}

/// Moves the parameters of a module, side by side, into pages of 2 MiB if Flex computes with them on Linux, but for those that lie there. Elsewhere,
/// and where gradients are recorded, the module stays as it is.
///
/// Large pages help weights that are read once for each token: a processor remembers the addresses of a few thousand pages, so those of 4
/// KiB pages are forgotten before the next token needs them. A later change of a parameter copies it.
pub fn in_large_pages<M: Module>(module: M) -> M {
    #[cfg(all(feature = "flex", target_os = "linux"))]
    return linux::moved(module);
    #[cfg(not(all(feature = "flex", target_os = "linux")))]
    module
}

#[cfg(all(feature = "flex", target_os = "linux"))]
mod linux {
    use crate::device::is_flex;
    use burn::module::{Module, ModuleMapper, Param};
    use burn::tensor::{AllocationProperty, Bytes, Int, Tensor, TensorData};
    use std::collections::VecDeque;

    /// By which memory it is known that values lie in large pages: Flex has no other of this kind.
    pub(super) const IN_PAGES: AllocationProperty = AllocationProperty::Other;

    pub(super) fn moved<M: Module>(module: M) -> M {
        if !module.devices().iter().all(is_flex) {
            return module;
        }
        let mut taken = Taken(Vec::new());
        let module = module.map(&mut taken);
        let values = side_by_side(taken.0);
        module.map(&mut Placed(values.into()))
    }

    /// A mapper that takes the values out of a module, in its order, but those that lie in large pages.
    struct Taken(Vec<TensorData>);

    /// A mapper that puts the values back, in the same order.
    struct Placed(VecDeque<TensorData>);

    impl Taken {
        /// Takes values; returns those that stay.
        fn take(&mut self, data: TensorData) -> Option<TensorData> {
            // An empty tensor stands for one whose values are taken.
            if data.bytes().property() == IN_PAGES && !data.bytes().is_empty() {
                return Some(data);
            }
            self.0.push(data);
            None
        }
    }

    impl ModuleMapper for Taken {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            param.map(|tensor| {
                let options = (&tensor.device(), tensor.dtype());
                match self.take(tensor.into_data()) {
                    Some(data) => Tensor::from_data(data, options),
                    None => Tensor::empty([0; D], options),
                }
            })
        }

        fn map_int<const D: usize>(
            &mut self,
            param: Param<Tensor<D, Int>>,
        ) -> Param<Tensor<D, Int>> {
            param.map(|tensor| {
                let options = (&tensor.device(), tensor.dtype());
                match self.take(tensor.into_data()) {
                    Some(data) => Tensor::from_data(data, options),
                    None => Tensor::empty([0; D], options),
                }
            })
        }
    }

    impl Placed {
        fn next(&mut self) -> TensorData {
            let next = self.0.pop_front();
            next.unwrap_or_else(|| unreachable!("a module has the same parameters twice"))
        }
    }

    impl ModuleMapper for Placed {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            param.map(|tensor| {
                if tensor.dims() == [0; D] {
                    Tensor::from_data(self.next(), (&tensor.device(), tensor.dtype()))
                } else {
                    tensor
                }
            })
        }

        fn map_int<const D: usize>(
            &mut self,
            param: Param<Tensor<D, Int>>,
        ) -> Param<Tensor<D, Int>> {
            param.map(|tensor| {
                if tensor.dims() == [0; D] {
                    Tensor::from_data(self.next(), (&tensor.device(), tensor.dtype()))
                } else {
                    tensor
                }
            })
        }
    }

    /// Copies the values into one mapping; if the system has no memory for it, they stay where they are.
    fn side_by_side(values: Vec<TensorData>) -> Vec<TensorData> {
        let parts = values.into_iter().map(TensorData::into_parts);
        let (bytes, kinds): (Vec<_>, Vec<_>) = parts
            .map(|(bytes, shape, dtype)| (bytes, (shape, dtype)))
            .unzip();
        let bytes = match moebius_host::in_large_pages(bytes) {
            Ok(placed) => {
                let shared = |bytes| Bytes::from_shared(bytes, IN_PAGES);
                placed.into_iter().map(shared).collect()
            }
            Err(bytes) => bytes,
        };
        let values = bytes.into_iter().zip(kinds);
        values
            .map(|(bytes, (shape, dtype))| TensorData::from_bytes(bytes, shape, dtype))
            .collect()
    }
}
