//! Which experts a token goes to.

fn main() {
    moebius_conformance::run(moebius_conformance::ROUTING);
}
