//! The buffers of a launch by the names that descriptions ([`moebius_ops::Operation`]) give tensors. They are bound as long as
//! what they hold: [`crate::Kernels::launch`] cuts those of an operation to their descriptions, and a launch function makes its own as
//! long as it needs them.

use cubecl::client::Client;
use cubecl::prelude::BufferArg;
use cubecl::server::Handle;

/// Buffers with names.
pub trait Lookup {
    /// The buffer of this name, if there is one.
    fn find(&self, name: &str) -> Option<Handle>;

    /// Elements from one index to the next in each dimension but the last, where the tensor is a view with others than its shape tells.
    fn strides(&self, _: &str) -> Option<[usize; 3]> {
        None
    }

    /// Those that a launch takes.
    ///
    /// # Panics
    /// Where one is missing that isn't optional.
    fn fill<B: FromNames>(&self) -> B
    where
        Self: Sized,
    {
        B::from_names(self, &[])
    }
}

/// Some buffers and one more.
impl<L: Lookup> Lookup for (&L, (&str, Handle)) {
    fn find(&self, name: &str) -> Option<Handle> {
        let (others, (own, buffer)) = self;
        if name == *own {
            Some(buffer.clone())
        } else {
            others.find(name)
        }
    }
}

/// What is made of buffers with names.
pub trait FromNames: Sized {
    /// The first of `names` that is there; a structure of buffers reads those of its fields.
    fn from_names(buffers: &impl Lookup, names: &[&str]) -> Self;
}

impl FromNames for Option<Handle> {
    fn from_names(buffers: &impl Lookup, names: &[&str]) -> Self {
        names.iter().find_map(|name| buffers.find(name))
    }
}

impl FromNames for Handle {
    fn from_names(buffers: &impl Lookup, names: &[&str]) -> Self {
        let found = Option::<Self>::from_names(buffers, names);
        found.unwrap_or_else(|| unreachable!("{names:?} is a tensor of the operation"))
    }
}

/// Declares the buffers of a launch, each with its shape and whether it is read or written. A field is called like the tensor of
/// a description unless it says how: `w: Handle = "Wg"` is the tensor Wg, and with several names the first that is there. An
/// optional structure is there where its tensor is.
macro_rules! buffers {
    ($(#[$of_all:meta])* pub struct $all:ident {
        $(
            $(#[$of_one:meta])*
            pub $field:ident: $type:ty $(= $($name:literal)|+)? $(=> $shape:literal $access:ident $(: $more:literal)?)?,
        )*
    }) => {
        $(#[$of_all])*
        #[derive(Clone)]
        pub struct $all {
            $(
                $(#[doc = concat!("`", $shape, "`, ", stringify!($access) $(, ": ", $more)?, ".\n")])?
                $(#[$of_one])*
                pub $field: $type,
            )*
        }

        impl $crate::FromNames for $all {
            fn from_names(buffers: &impl $crate::Lookup, _: &[&str]) -> Self {
                Self {
                    $($field: $crate::FromNames::from_names(
                        buffers,
                        $crate::named::buffers!(@ $field $($($name)+)?),
                    ),)*
                }
            }
        }

        impl $crate::FromNames for Option<$all> {
            fn from_names(buffers: &impl $crate::Lookup, names: &[&str]) -> Self {
                let there = names.iter().any(|name| buffers.find(name).is_some());
                there.then(|| $crate::Lookup::fill(buffers))
            }
        }
    };
    (@ $field:ident) => { &[stringify!($field)] };
    (@ $field:ident $($name:literal)+) => { &[$($name),+] };
}

pub(crate) use buffers;

/// All of `buffer`.
pub(crate) fn bind(buffer: Handle) -> BufferArg {
    let bytes = buffer.size_in_used() as usize;
    // SAFETY: CubeCL 0.11.3 divides a buffer's bytes by the size of what a kernel reads it as, and reads the number that it is
    // given here nowhere.
    unsafe { BufferArg::from_raw_parts(buffer, bytes) }
}

/// The first `bytes` bytes of `buffer`; all of it where that is none, because no binding is empty.
///
/// # Panics
/// Where the buffer holds fewer.
pub(crate) fn first(buffer: Handle, bytes: usize) -> Handle {
    match check(&buffer, bytes) {
        rest if rest > 0 && bytes > 0 => buffer.offset_end(rest),
        _ => buffer,
    }
}

/// `buffer` without so many bytes at its ends.
///
/// # Panics
/// Where the buffer holds fewer.
pub(crate) fn part(buffer: Handle, [before, after]: [usize; 2]) -> Handle {
    check(&buffer, before + after);
    buffer.offset_start(before as u64).offset_end(after as u64)
}

/// A buffer of `len` u32s or f32s, one where that is none; contents undefined.
pub(crate) fn empty_words(client: &Client, len: usize) -> Handle {
    client.empty(4 * len.max(1))
}

/// Bytes that the buffer holds beside those that are planned.
fn check(buffer: &Handle, planned: usize) -> u64 {
    let held = buffer.size_in_used();
    assert!(
        planned as u64 <= held,
        "expected a buffer of at least {planned} bytes, as planned, got {held}"
    );
    held - planned as u64
}
