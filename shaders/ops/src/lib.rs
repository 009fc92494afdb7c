//! The operations of Moebius, each described once and without a device: its sizes, checked by the constructor of its problem, its
//! formula and source, and its reference in plain Rust and f64.
//!
//! Other crates compute the operations: `moebius-shaders` in CubeCL, `moebius-xla` in StableHLO, and `moebius-host` in plain Rust
//! for processors.
//!
//! | module | operations |
//! |---|---|
//! | [`routing`] | router logits, the choice of experts, hashes, loads, and their gradients |
//! | [`permute`] | slots sorted by expert, capacities, rows of tokens in and out of the order of their experts |
//! | [`grouped_gemm`] | a product per expert, dense ones too, with weights in floats, FP8 or 2:4 sparse |
//! | [`expert_activation`] | the activation of sorted rows and its gradient |
//! | [`experts`] | feed-forward experts as a whole |
//! | [`attention`] | attention of queries to keys under score rules |
//! | [`kv_cache`] | keys and values kept in pages, and attention over them |
//! | [`segment_attention`] | attention among the rows of one expert and one sequence |
//! | [`fp8`], [`scaling`], [`quantize`] | the FP8 codec, its scales, codes and scales of matrices |
//! | [`blocks`] | weights as blocks of codes with scales, as GGUF files have them |
//! | [`fp8_mma`] | codes times codes |
//! | [`exact`] | what a decoder's forward pass computes, with the same bits on every device |
//!
//! [`Operation`] describes any of them with its operands and results, for devices that take a description instead of a launch,
//! and for devices that compute later.

/// Defines a getter for each field of a structure whose constructor checks the fields. Given the whole structure, it defines that
/// too, and for each field marked `=> name` a method `name` that returns a copy with another value.
macro_rules! getters {
    ($(#[$of_all:meta])* pub struct $of:ident {
        $($(#[$documented:meta])* $field:ident: $type:ty $(=> $setter:ident)?,)*
    }) => {
        $(#[$of_all])*
        pub struct $of { $($field: $type,)* }

        impl $of {
            $($(
                #[doc = concat!("A copy with another [`Self::", stringify!($field), "`].")]
                pub fn $setter(self, $field: $type) -> Self { Self { $field, ..self } }
            )?)*
        }

        getters! { $of: $($(#[$documented])* $field: $type,)* }
    };
    ($of:ident: $($(#[$documented:meta])* $field:ident: $type:ty,)*) => {
        impl $of {
            $($(#[$documented])* pub fn $field(&self) -> $type { self.$field })*
        }
    };
}

/// Defines an enumeration of named values, with a list of all values, their names, and `Display` by name.
#[macro_export]
macro_rules! named {
    ($(#[$of_all:meta])* pub enum $of:ident {
        $($(#[$documented:meta])* $value:ident = $name:literal,)*
    }) => {
        $(#[$of_all])*
        pub enum $of { $($(#[$documented])* $value,)* }

        impl $of {
            /// All values, in order.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$value),*];

            /// The value's name in reports, kernel names and files.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)*
                }
            }
        }

        impl ::std::fmt::Display for $of {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

pub mod attention;
pub mod blocks;
mod distance;
mod element;
mod error;
pub mod exact;
pub mod expert_activation;
pub mod experts;
pub mod fp8;
pub mod fp8_mma;
pub mod grouped_gemm;
pub mod kv_cache;
mod operation;
mod pattern;
pub mod permute;
pub mod quantize;
pub mod routing;
pub mod scaling;
pub mod segment_attention;

pub use distance::{distance, distance_over};
pub use element::Element;
pub use error::{Fault, Mismatch};
pub use operation::{
    Attention, AttentionPass, Exact, Experts, Gradient, GroupedGemm, HostTensor, KvCache,
    Operation, Permute, Quantize, Routing, Scalar, SegmentAttention, Signature, TableGradients,
    TensorInfo,
};
pub use pattern::matches_pattern;
