//! Buffers of a launch by the names that operation descriptions ([`moebius_ops::Operation`]) give tensors. A binding is as long
//! as its buffer: [`crate::Kernels::launch`] cuts an operation's buffers to the description, and a launch function makes its own
//! buffers as long as it needs them.

use cubecl::client::Client;
use cubecl::prelude::BufferArg;
use cubecl::server::Handle;

/// A source of named buffers.
pub trait Lookup {
    /// The buffer called `name`, if there is one.
    fn find(&self, name: &str) -> Option<Handle>;

    /// The strides, in elements, of every dimension but the last, if the tensor is a view that isn't contiguous.
    fn strides(&self, _: &str) -> Option<[usize; 3]> {
        None
    }

    /// Collects the buffers that a launch takes.
    ///
    /// # Panics
    /// If a buffer is missing that isn't optional.
    fn fill<B: FromNames>(&self) -> B
    where
        Self: Sized,
    {
        B::from_names(self, &[])
    }
}

/// A source of buffers with one more buffer.
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

/// A value built from named buffers.
pub trait FromNames: Sized {
    /// Takes the first of `names` that exists; a structure of buffers takes the names of its fields instead.
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

/// Declares the buffers of a launch, each with its shape and whether it is read or written. A field takes the tensor of its own
/// name, unless it gives names: `w: Handle = "Wg"` takes the tensor Wg, and of several names the first that exists. An optional
/// structure is present if one of its names exists.
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

/// Binds all of `buffer`.
pub(crate) fn bind(buffer: Handle) -> BufferArg {
    let bytes = buffer.size_in_used() as usize;
    // SAFETY: CubeCL 0.11.3 divides a buffer's bytes by the size of what a kernel reads it as, and reads the number that it is
    // given here nowhere.
    unsafe { BufferArg::from_raw_parts(buffer, bytes) }
}

/// The first `bytes` bytes of `buffer`; all of it if `bytes` is 0, because no binding may be empty.
///
/// # Panics
/// If the buffer holds fewer bytes.
pub(crate) fn first(buffer: Handle, bytes: usize) -> Handle {
    match check(&buffer, bytes) {
        rest if rest > 0 && bytes > 0 => buffer.offset_end(rest),
        _ => buffer,
    }
}

/// `buffer` without `before` bytes at its start and `after` bytes at its end.
///
/// # Panics
/// If the buffer holds fewer bytes.
pub(crate) fn part(buffer: Handle, [before, after]: [usize; 2]) -> Handle {
    check(&buffer, before + after);
    buffer.offset_start(before as u64).offset_end(after as u64)
}

/// A buffer of `len` u32s or f32s, at least one, with undefined contents.
pub(crate) fn empty_words(client: &Client, len: usize) -> Handle {
    client.empty(4 * len.max(1))
}

/// The number of bytes that the buffer holds beyond the planned ones; panics if it holds fewer.
fn check(buffer: &Handle, planned: usize) -> u64 {
    let held = buffer.size_in_used();
    assert!(
        planned as u64 <= held,
        "expected a buffer of at least {planned} bytes, as planned, got {held}"
    );
    held - planned as u64
}
