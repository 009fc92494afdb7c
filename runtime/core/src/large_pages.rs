//! Placement of weights in large pages of host memory.

use burn::module::Module;

/// Moves the parameters of a module, side by side, into pages of 2 MiB if Flex computes with them on Linux. Elsewhere, and where gradients
/// are recorded, the module stays as it is.
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

    pub(super) fn moved<M: Module>(module: M) -> M {
        if !module.devices().iter().all(is_flex) {
            return module;
        }
        let mut taken = Taken(Vec::new());
        let module = module.map(&mut taken);
        let values = side_by_side(taken.0);
        module.map(&mut Placed(values.into()))
    }

    /// A mapper that takes the values out of a module, in its order.
    struct Taken(Vec<TensorData>);

    /// A mapper that puts the values back, in the same order.
    struct Placed(VecDeque<TensorData>);

    impl ModuleMapper for Taken {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            param.map(|tensor| {
                let options = (tensor.device(), tensor.dtype());
                self.0.push(tensor.into_data());
                Tensor::empty([0; D], (&options.0, options.1))
            })
        }

        fn map_int<const D: usize>(
            &mut self,
            param: Param<Tensor<D, Int>>,
        ) -> Param<Tensor<D, Int>> {
            param.map(|tensor| {
                let options = (tensor.device(), tensor.dtype());
                self.0.push(tensor.into_data());
                Tensor::empty([0; D], (&options.0, options.1))
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
            param.map(|empty| Tensor::from_data(self.next(), (&empty.device(), empty.dtype())))
        }

        fn map_int<const D: usize>(
            &mut self,
            param: Param<Tensor<D, Int>>,
        ) -> Param<Tensor<D, Int>> {
            param.map(|empty| Tensor::from_data(self.next(), (&empty.device(), empty.dtype())))
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
                let shared = |bytes| Bytes::from_shared(bytes, AllocationProperty::Native);
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
