//! The case files in `tests/cases/`.

mod files;

fn main() {
    moebius_conformance::run(files::CASES);
}
