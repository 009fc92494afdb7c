//! The records of the PJRT C API, as the header of API 0.81 declares them. A plugin refuses a record that is smaller
//! than the one it knows and accepts a larger one; each record here is at least as large as API 0.116 expects.

use std::ffi::{c_char, c_int, c_void};
use std::marker::PhantomData;

/// A function of the plugin's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The function's index in `PJRT_Api`. The order is the ABI: that of the header of API 0.81, to which later
    /// versions only append.
    pub(crate) place: usize,
    /// The function's C name, for error messages.
    pub(crate) name: &'static str,
}

macro_rules! opaque {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[repr(C)]
        pub(crate) struct $name {
            _bytes: [u8; 0],
            // Neither `Send`, `Sync` nor `Unpin`: the plugin owns the object behind the pointer.
            _marker: PhantomData<(*mut u8, std::marker::PhantomPinned)>,
        }
    )*};
}

opaque! {
    /// `PJRT_Error`.
    ErrorObject
    /// `PJRT_Event`.
    EventObject
    /// `PJRT_Client`.
    ClientObject
    /// `PJRT_Device`.
    DeviceObject
    /// `PJRT_DeviceDescription`.
    DescriptionObject
    /// `PJRT_TopologyDescription`.
    TopologyObject
    /// `PJRT_Executable`.
    ExecutableObject
    /// `PJRT_LoadedExecutable`.
    LoadedObject
    /// `PJRT_Buffer`.
    BufferObject
    /// `PJRT_SerializedExecutable`.
    SerializedObject
}

/// A function of the table. Each takes one record and returns null or an error, except two of `PJRT_Error` that return
/// nothing.
pub(crate) type Function = unsafe extern "C" fn(*mut c_void) -> *mut ErrorObject;

/// The start of `PJRT_Api`, before the function pointers.
#[repr(C)]
pub(crate) struct ApiHeader {
    pub(crate) struct_size: usize,
    pub(crate) extensions: *const ExtensionHeader,
    pub(crate) version_size: usize,
    pub(crate) version_extensions: *const ExtensionHeader,
    pub(crate) major: c_int,
    pub(crate) minor: c_int,
}

/// `PJRT_Extension_Base`.
#[repr(C)]
pub(crate) struct ExtensionHeader {
    pub(crate) struct_size: usize,
    pub(crate) kind: c_int,
    pub(crate) next: *const ExtensionHeader,
}

/// The record that one function of the table takes.
///
/// # Safety
///
/// The type is `#[repr(C)]` and has the layout of the record that `ENTRY` takes, up to its own `struct_size`.
pub(crate) unsafe trait Arguments {
    /// The function that takes the record.
    const ENTRY: Entry;
}

macro_rules! records {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[repr(C)]
        pub(crate) struct $name {
            struct_size: usize,
            extensions: *const ExtensionHeader,
            $(pub(crate) $field: $type,)*
        }

        impl $name {
            /// The record's size, which the header calls `STRUCT_SIZE`: the end of the last field, without padding
            /// after it.
            pub(crate) const SIZE: usize = {
                let ends = [
                    2 * size_of::<usize>(),
                    $(std::mem::offset_of!($name, $field) + size_of::<$type>()),*
                ];
                ends[ends.len() - 1]
            };

            /// A record whose fields are all zero, null or false.
            pub(crate) fn new() -> Self {
                // SAFETY: every field is an integer, a float, a bool, a raw pointer, an optional function pointer or a
                // record or union of these, and all-zero bytes are a value of each.
                let mut record: Self = unsafe { std::mem::zeroed() };
                record.struct_size = Self::SIZE;
                record
            }
        }

        #[cfg(test)]
        impl $name {
            /// Describes the record, for the comparison with the header.
            fn described(entry: Option<Entry>) -> tests::Description {
                tests::Description {
                    entry,
                    name: stringify!($name),
                    bytes: Self::SIZE,
                    fields: vec![$((
                        stringify!($field),
                        std::mem::offset_of!(Self, $field) + size_of::<$type>(),
                    )),*],
                }
            }
        }
    )*};
}

macro_rules! arguments {
    ($($place:literal $function:literal $name:ident {
        $($first:ident: $first_type:ty $(, $field:ident: $type:ty)*)? $(,)?
    })*) => {
        records! {$(
            #[doc = concat!("What `", $function, "` takes.")]
            $name { $($first: $first_type $(, $field: $type)*)? }
        )*}
        $(
            // SAFETY: the record follows the header; the test beside this file compares the two field by field.
            unsafe impl Arguments for $name {
                const ENTRY: Entry = Entry { place: $place, name: $function };
            }

            $(impl $name {
                /// A record with its first field set, and all others zero, null or false.
                #[allow(dead_code, reason = "not every record begins with an object")]
                pub(crate) fn of($first: $first_type) -> Self {
                    Self { $first, ..Self::new() }
                }
            })?
        )*

        /// Describes every record that a function takes, for the comparison with the header.
        #[cfg(test)]
        fn described() -> Vec<tests::Description> {
            vec![$($name::described(Some($name::ENTRY))),*]
        }
    };
}

/// The value of a `PJRT_NamedValue`; its `kind` says which field of the union is set.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union NamedPayload {
    pub(crate) text: *const c_char,
    pub(crate) int: i64,
    pub(crate) ints: *const i64,
    pub(crate) float: f32,
    pub(crate) truth: bool,
}

records! {
    /// `PJRT_NamedValue`.
    NamedValue {
        name: *const c_char,
        name_size: usize,
        kind: c_int,
        value: NamedPayload,
        value_size: usize,
    }

    /// `PJRT_Program`.
    ProgramCode {
        code: *mut c_char,
        code_size: usize,
        format: *const c_char,
        format_size: usize,
    }

    /// `PJRT_ExecuteOptions`.
    ExecuteOptions {
        send_callbacks: *mut c_void,
        recv_callbacks: *mut c_void,
        num_send_ops: usize,
        num_recv_ops: usize,
        launch_id: c_int,
        non_donatable_input_indices: *const i64,
        num_non_donatable_input_indices: usize,
        context: *mut c_void,
        call_location: *const c_char,
        num_tasks: usize,
        task_ids: *mut c_int,
        incarnation_ids: *mut i64,
    }

    /// `PJRT_Buffer_MemoryLayout_Tiled`.
    TiledLayout {
        minor_to_major: *const i64,
        minor_to_major_size: usize,
        tile_dims: *const i64,
        tile_dim_sizes: *const usize,
        num_tiles: usize,
    }

    /// `PJRT_Buffer_MemoryLayout`, always of the tiled kind, whose number is 0.
    MemoryLayout {
        tiled: TiledLayout,
        kind: c_int,
    }
}

/// A list of objects that the plugin owns.
pub(crate) type List<T> = *const *mut T;

arguments! {
    0 "PJRT_Error_Destroy" ErrorDestroy { error: *mut ErrorObject }
    1 "PJRT_Error_Message" ErrorMessage { error: *const ErrorObject, message: *const c_char, message_size: usize }
    2 "PJRT_Error_GetCode" ErrorGetCode { error: *const ErrorObject, code: c_int }

    3 "PJRT_Plugin_Initialize" PluginInitialize {}
    4 "PJRT_Plugin_Attributes" PluginAttributes { attributes: *const NamedValue, num_attributes: usize }

    5 "PJRT_Event_Destroy" EventDestroy { event: *mut EventObject }
    6 "PJRT_Event_IsReady" EventIsReady { event: *mut EventObject, is_ready: bool }
    8 "PJRT_Event_Await" EventAwait { event: *mut EventObject }

    10 "PJRT_Client_Create" ClientCreate {
        create_options: *const NamedValue,
        num_options: usize,
        kv_get_callback: *mut c_void,
        kv_get_user_arg: *mut c_void,
        kv_put_callback: *mut c_void,
        kv_put_user_arg: *mut c_void,
        client: *mut ClientObject,
        kv_try_get_callback: *mut c_void,
        kv_try_get_user_arg: *mut c_void,
    }
    11 "PJRT_Client_Destroy" ClientDestroy { client: *mut ClientObject }
    12 "PJRT_Client_PlatformName" ClientPlatformName {
        client: *mut ClientObject, platform_name: *const c_char, platform_name_size: usize
    }
    14 "PJRT_Client_PlatformVersion" ClientPlatformVersion {
        client: *mut ClientObject, platform_version: *const c_char, platform_version_size: usize
    }
    13 "PJRT_Client_ProcessIndex" ClientProcessIndex { client: *mut ClientObject, process_index: c_int }
    16 "PJRT_Client_AddressableDevices" ClientAddressableDevices {
        client: *mut ClientObject, addressable_devices: List<DeviceObject>, num_addressable_devices: usize
    }
    20 "PJRT_Client_Compile" ClientCompile {
        client: *mut ClientObject,
        program: *const ProgramCode,
        compile_options: *const c_char,
        compile_options_size: usize,
        executable: *mut LoadedObject,
    }
    22 "PJRT_Client_BufferFromHostBuffer" ClientBufferFromHostBuffer {
        client: *mut ClientObject,
        data: *const c_void,
        r#type: c_int,
        dims: *const i64,
        num_dims: usize,
        byte_strides: *const i64,
        num_byte_strides: usize,
        host_buffer_semantics: c_int,
        device: *mut DeviceObject,
        memory: *mut c_void,
        device_layout: *mut MemoryLayout,
        done_with_host_buffer: *mut EventObject,
        buffer: *mut BufferObject,
    }

    23 "PJRT_DeviceDescription_Id" DeviceDescriptionId { device_description: *mut DescriptionObject, id: c_int }
    24 "PJRT_DeviceDescription_ProcessIndex" DeviceDescriptionProcessIndex { device_description: *mut DescriptionObject, process_index: c_int }
    25 "PJRT_DeviceDescription_Attributes" DeviceDescriptionAttributes {
        device_description: *mut DescriptionObject, num_attributes: usize, attributes: *const NamedValue
    }
    26 "PJRT_DeviceDescription_Kind" DeviceDescriptionKind {
        device_description: *mut DescriptionObject, device_kind: *const c_char, device_kind_size: usize
    }
    28 "PJRT_DeviceDescription_ToString" DeviceDescriptionToString {
        device_description: *mut DescriptionObject, to_string: *const c_char, to_string_size: usize
    }
    29 "PJRT_Device_GetDescription" DeviceGetDescription { device: *mut DeviceObject, device_description: *mut DescriptionObject }

    40 "PJRT_Executable_Destroy" ExecutableDestroy { executable: *mut ExecutableObject }
    41 "PJRT_Executable_Name" ExecutableName {
        executable: *mut ExecutableObject, executable_name: *const c_char, executable_name_size: usize
    }
    44 "PJRT_Executable_NumOutputs" ExecutableNumOutputs { executable: *mut ExecutableObject, num_outputs: usize }
    46 "PJRT_Executable_GetCostAnalysis" ExecutableGetCostAnalysis {
        executable: *mut ExecutableObject, num_properties: usize, properties: *const NamedValue
    }
    48 "PJRT_Executable_OptimizedProgram" ExecutableOptimizedProgram { executable: *mut ExecutableObject, program: *mut ProgramCode }
    49 "PJRT_Executable_Serialize" ExecutableSerialize {
        executable: *const ExecutableObject,
        serialized_bytes: *const c_char,
        serialized_bytes_size: usize,
        serialized_executable: *mut SerializedObject,
        serialized_executable_deleter: Option<unsafe extern "C" fn(*mut SerializedObject)>,
    }
    56 "PJRT_Executable_DeserializeAndLoad" ExecutableDeserializeAndLoad {
        client: *mut ClientObject,
        serialized_executable: *const c_char,
        serialized_executable_size: usize,
        loaded_executable: *mut LoadedObject,
        overridden_serialized_compile_options: *const c_char,
        overridden_serialized_compile_options_size: usize,
    }
    94 "PJRT_Executable_Fingerprint" ExecutableFingerprint {
        executable: *mut ExecutableObject,
        executable_fingerprint: *const c_char,
        executable_fingerprint_size: usize,
    }
    90 "PJRT_Executable_OutputElementTypes" ExecutableOutputElementTypes {
        executable: *mut ExecutableObject, output_types: *const c_int, num_output_types: usize
    }
    91 "PJRT_Executable_OutputDimensions" ExecutableOutputDimensions {
        executable: *mut ExecutableObject, num_outputs: usize, dims: *const i64, dim_sizes: *const usize
    }
    96 "PJRT_Executable_GetCompiledMemoryStats" ExecutableGetCompiledMemoryStats {
        executable: *mut ExecutableObject,
        generated_code_size_in_bytes: i64,
        argument_size_in_bytes: i64,
        output_size_in_bytes: i64,
        alias_size_in_bytes: i64,
        temp_size_in_bytes: i64,
        host_generated_code_size_in_bytes: i64,
        host_argument_size_in_bytes: i64,
        host_output_size_in_bytes: i64,
        host_alias_size_in_bytes: i64,
        host_temp_size_in_bytes: i64,
        peak_memory_in_bytes: i64,
        total_size_in_bytes: i64,
        total_allocation_bytes: i64,
        indefinite_allocations: i64,
        peak_unpadded_heap_bytes: i64,
    }

    50 "PJRT_LoadedExecutable_Destroy" LoadedExecutableDestroy { executable: *mut LoadedObject }
    51 "PJRT_LoadedExecutable_GetExecutable" LoadedExecutableGetExecutable {
        loaded_executable: *mut LoadedObject, executable: *mut ExecutableObject
    }
    52 "PJRT_LoadedExecutable_AddressableDevices" LoadedExecutableAddressableDevices {
        executable: *mut LoadedObject, addressable_devices: List<DeviceObject>, num_addressable_devices: usize
    }
    55 "PJRT_LoadedExecutable_Execute" LoadedExecutableExecute {
        executable: *mut LoadedObject,
        options: *mut ExecuteOptions,
        argument_lists: *const *const *mut BufferObject,
        num_devices: usize,
        num_args: usize,
        output_lists: *const *mut *mut BufferObject,
        device_complete_events: *mut *mut EventObject,
        execute_device: *mut DeviceObject,
    }

    58 "PJRT_Buffer_Destroy" BufferDestroy { buffer: *mut BufferObject }
    64 "PJRT_Buffer_OnDeviceSizeInBytes" BufferOnDeviceSizeInBytes { buffer: *mut BufferObject, on_device_size_in_bytes: usize }
    68 "PJRT_Buffer_IsDeleted" BufferIsDeleted { buffer: *mut BufferObject, is_deleted: bool }
    69 "PJRT_Buffer_CopyToDevice" BufferCopyToDevice {
        buffer: *mut BufferObject, dst_device: *mut DeviceObject, dst_buffer: *mut BufferObject
    }
    70 "PJRT_Buffer_ToHostBuffer" BufferToHostBuffer {
        src: *mut BufferObject,
        host_layout: *mut MemoryLayout,
        dst: *mut c_void,
        dst_size: usize,
        event: *mut EventObject,
    }
    72 "PJRT_Buffer_ReadyEvent" BufferReadyEvent { buffer: *mut BufferObject, event: *mut EventObject }
    73 "PJRT_Buffer_UnsafePointer" BufferUnsafePointer { buffer: *mut BufferObject, buffer_pointer: usize }

    82 "PJRT_TopologyDescription_Create" TopologyDescriptionCreate {
        topology_name: *const c_char,
        topology_name_size: usize,
        create_options: *const NamedValue,
        num_options: usize,
        topology: *mut TopologyObject,
    }
    83 "PJRT_TopologyDescription_Destroy" TopologyDescriptionDestroy { topology: *mut TopologyObject }
    84 "PJRT_TopologyDescription_PlatformName" TopologyDescriptionPlatformName {
        topology: *const TopologyObject, platform_name: *const c_char, platform_name_size: usize
    }
    85 "PJRT_TopologyDescription_PlatformVersion" TopologyDescriptionPlatformVersion {
        topology: *mut TopologyObject, platform_version: *const c_char, platform_version_size: usize
    }
    86 "PJRT_TopologyDescription_GetDeviceDescriptions" TopologyDescriptionGetDeviceDescriptions {
        topology: *const TopologyObject, descriptions: List<DescriptionObject>, num_descriptions: usize
    }
    89 "PJRT_Compile" Compile {
        topology: *const TopologyObject,
        program: *const ProgramCode,
        compile_options: *const c_char,
        compile_options_size: usize,
        client: *mut ClientObject,
        executable: *mut ExecutableObject,
    }
}

#[cfg(test)]
#[path = "ffi_tests.rs"]
mod tests;
