//! Counts what an optimizer trains, and finds out whether it can be read.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Tensor};

use crate::error::Error;

/// Numbers of `module` that are trained.
pub(crate) fn parameters<M: Module>(module: &M) -> usize {
    let mut count = Count(0);
    module.visit(&mut count);
    count.0
}

struct Count(usize);

impl ModuleVisitor for Count {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let param = param.val();
        if param.is_require_grad() {
            self.0 += param.shape().num_elements();
        }
    }
}

/// Waits for `device` and reads all parameters of `module`: Burn panics where it makes a record of what a device
/// failed to compute.
///
/// # Errors
/// [`Error::Device`] when the device failed.
pub(crate) fn check_readable<M: Module>(module: &M, device: &Device) -> Result<(), Error> {
    device.sync().map_err(Error::device)?;
    let mut read = Read(Ok(()));
    module.visit(&mut read);
    read.0
}

struct Read(Result<(), Error>);

impl ModuleVisitor for Read {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.0.is_ok() {
            // Data alone may be read when it is looked at.
            let values = param.val().try_into_vec_as::<f32>();
            self.0 = values.map(drop).map_err(Error::device);
        }
    }
}
