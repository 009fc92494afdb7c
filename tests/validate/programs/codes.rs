//! Validates the kernels of FP8 codes, and the tools themselves.

fn main() -> std::io::Result<()> {
    moebius_validate::run(moebius_validate::codes, moebius_validate::trials_of_tools)
}
