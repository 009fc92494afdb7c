//! Where experts are read from that aren't in host memory.

use super::HostExpert;
use crate::Error;
use std::fmt;

/// The experts of one layer where they lie: in a file, or wherever they can be read from more than once.
///
/// A layer reads an expert each time that it gets a place on the device, and keeps it until the place is needed for another. All experts are
/// alike in shapes and dtypes, and reading one again gives the same values.
pub trait ExpertSource: fmt::Debug + Send + Sync {
    /// An expert of zeros that is like the others; reads nothing.
    ///
    /// # Errors
    /// An error for experts that no layer can have.
    fn blank(&self) -> Result<HostExpert, Error>;

    /// Reads expert number `expert`, which the layer has.
    ///
    /// # Errors
    /// [`Error::unread`] with the reason, such as a file that ends too early.
    fn read(&self, expert: usize) -> Result<HostExpert, Error>;

    /// Hears which experts are likely to be read soon, the first of them first, and returns without waiting for them.
    fn expect(&self, experts: &[usize]);

    /// Bytes that reading an expert takes from where it lies.
    fn bytes_of_each(&self) -> u64;
}
