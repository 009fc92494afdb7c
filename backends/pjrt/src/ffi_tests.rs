//! Tests of the declarations against the header in the CPU plugin's package.

use std::collections::BTreeMap;

use super::*;
use crate::locate::{Environment, Platform, locate};

/// A declared record: its function, its fields and the offsets at which they end.
pub(crate) struct Description {
    pub(crate) entry: Option<Entry>,
    pub(crate) name: &'static str,
    pub(crate) bytes: usize,
    pub(crate) fields: Vec<(&'static str, usize)>,
}

/// The text of `include/pjrt_c_api.h` beside the plugin, without comments.
fn header() -> String {
    let plugin = locate(Platform::Cpu, &Environment::from_process());
    let plugin = plugin.unwrap_or_else(|error| panic!("{error}"));
    let header = plugin.with_file_name("include/pjrt_c_api.h");
    let text = std::fs::read_to_string(header).unwrap();
    let code = |line: &str| line.split("//").next().unwrap_or_default().to_owned();
    text.lines().map(code).collect::<Vec<_>>().join("\n")
}

/// The size of a C type on a 64-bit machine, which is its alignment too.
fn size(kind: &str, name: &str, records: &BTreeMap<String, Vec<(String, usize)>>) -> usize {
    if name.contains('*') || kind.contains('*') {
        return size_of::<usize>();
    }
    match kind.trim_start_matches("const ").trim() {
        "bool" => 1,
        "int"
        | "float"
        | "PJRT_Buffer_Type"
        | "PJRT_Error_Code"
        | "PJRT_NamedValue_Type"
        | "PJRT_HostBufferSemantics"
        | "PJRT_Buffer_MemoryLayout_Type" => 4,
        "PJRT_Event_OnReadyCallback"
        | "PJRT_KeyValueGetCallback"
        | "PJRT_KeyValuePutCallback"
        | "PJRT_KeyValueTryGetCallback" => 8,
        "size_t" | "int64_t" | "uint64_t" | "uintptr_t" | "intptr_t" => 8,
        record => records
            .get(record)
            .map_or(0, |fields| fields.last().unwrap().1),
    }
}

/// Parses the structs of the header: the fields of each, and the offsets at which they end.
fn records(header: &str) -> BTreeMap<String, Vec<(String, usize)>> {
    let mut records = BTreeMap::new();
    for part in header.split("\nstruct ").skip(1) {
        let Some((name, rest)) = part.split_once(" {\n") else {
            continue;
        };
        let body = rest.split("\n};").next().unwrap();
        // A union is as large as its largest member. The unions in use hold a pointer, or a record and nothing larger.
        let body = match body.split_once("union {") {
            Some((before, union)) => {
                let (members, after) = union.split_once('}').unwrap();
                let first = members.split(';').next().unwrap();
                format!("{before} {first}{after}")
            }
            None => body.to_owned(),
        };
        let (mut fields, mut end) = (Vec::new(), 0_usize);
        for field in body.split(';') {
            let field = field.split_whitespace().collect::<Vec<_>>().join(" ");
            if field.is_empty() {
                continue;
            }
            if let Some((_, callback)) = field.split_once("(*") {
                end = end.next_multiple_of(8) + 8;
                fields.push((callback.split(')').next().unwrap().to_owned(), end));
                continue;
            }
            let (kind, name) = field.rsplit_once(' ').unwrap();
            let bytes = size(kind, name, &records);
            // A record inside a record is aligned as a pointer.
            end = end.next_multiple_of(bytes.clamp(1, 8)) + bytes;
            fields.push((name.trim_start_matches('*').to_owned(), end));
        }
        records.insert(name.to_owned(), fields);
    }
    records
}

#[test]
fn functions_have_the_headers_places_and_names() {
    let header = header();
    let table = header.split("typedef struct PJRT_Api {").nth(1).unwrap();
    let names: Vec<&str> = table
        .split("_PJRT_API_STRUCT_FIELD(")
        .skip(1)
        .map(|rest| rest.split(')').next().unwrap())
        .collect();
    for record in described() {
        let Entry { place, name } = record.entry.unwrap();
        assert_eq!(names.get(place), Some(&name));
    }
}

#[test]
fn every_record_has_the_headers_fields_in_its_places() {
    let records = records(&header());
    let mut ours: Vec<(String, Description)> = described()
        .into_iter()
        .map(|record| (format!("{}_Args", record.entry.unwrap().name), record))
        .collect();
    let others = [
        ("PJRT_NamedValue", NamedValue::described(None)),
        ("PJRT_Program", ProgramCode::described(None)),
        ("PJRT_ExecuteOptions", ExecuteOptions::described(None)),
        (
            "PJRT_Buffer_MemoryLayout_Tiled",
            TiledLayout::described(None),
        ),
        ("PJRT_Buffer_MemoryLayout", MemoryLayout::described(None)),
    ];
    ours.extend(others.map(|(name, record)| (name.to_owned(), record)));
    assert!(ours.len() > 45);
    for (name, record) in ours {
        let theirs = records
            .get(&name)
            .unwrap_or_else(|| panic!("{name} is not in the header"));
        let theirs = theirs.get(2..).unwrap();
        let names = |list: Vec<&str>| list.join(" ");
        let their_names = names(theirs.iter().map(|(name, _)| name.as_str()).collect());
        let our_names = names(
            record
                .fields
                .iter()
                .map(|(name, ..)| name.trim_start_matches("r#"))
                .collect(),
        );
        let whole = record.bytes;
        if record.name == "ExecutableGetCompiledMemoryStats" {
            // API 0.116 appends four numbers, and older plugins accept them.
            assert!(our_names.starts_with(&their_names), "{our_names}");
            assert_eq!(whole, theirs.last().unwrap().1 + 4 * 8);
            continue;
        }
        if !["NamedValue", "MemoryLayout"].contains(&record.name) {
            assert_eq!(our_names, their_names, "{name}");
        }
        let our_ends: Vec<usize> = record.fields.iter().map(|&(_, end)| end).collect();
        let their_ends: Vec<usize> = theirs.iter().map(|(_, end)| *end).collect();
        assert_eq!(our_ends, their_ends, "{name}");
        assert_eq!(whole, their_ends.last().copied().unwrap_or(16), "{name}");
    }
}
