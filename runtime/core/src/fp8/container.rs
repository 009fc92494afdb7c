//! Modules by their types, in walks that Burn tells only names.

/// What `#[derive(Module)]` calls a struct when a walk enters it: of a type, so that it can't be
/// renamed without this.
macro_rules! container {
    ($module:ident) => {{
        const _: usize = size_of::<$module>();
        concat!("Struct:", stringify!($module))
    }};
}

/// Holds while the crate compiles that a conversion knows the module by this name.
macro_rules! known_container {
    ($module:ident, $known:ident) => {
        const _: () = assert!(
            $crate::fp8::same_name($crate::fp8::container!($module), $crate::fp8::$known),
            "conversion to FP8 knows this module by another name"
        );
    };
}

pub(crate) use {container, known_container};

/// The container of the expert that every token goes to; its weights are called like the expert.
pub(crate) const SHARED_EXPERT: &str = "Struct:SharedExpert";

/// The container of experts that share one frozen network, which is never converted.
pub(crate) const FROZEN_EXPERTS: &str = "Struct:ParameterEfficientExperts";

/// Whether two names are the same.
pub(crate) const fn same_name(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut same = a.len() == b.len();
    let mut at = 0;
    while same && at < a.len() {
        same = a[at] == b[at];
        at += 1;
    }
    same
}
