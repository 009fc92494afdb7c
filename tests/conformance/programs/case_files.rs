//! The case files in `tests/cases/`.

fn main() {
    moebius_conformance::run(moebius_conformance::CASE_FILES);
}
