use super::*;
use moebius_profiles as profiles;

fn plan(tokens: usize, experts: usize) -> LogitsPlan {
    let problem = Problem::new(tokens, experts, 1).unwrap();
    plan_logits(problem, 64, Element::F32, &profiles::webgpu_default()).unwrap()
}

#[test]
fn cubes_stay_inside_the_default_limits() {
    for experts in [1, 4, 5, 16, 17, 256] {
        for tokens in [1, 4, 100_000] {
            let LogitsPlan {
                tile,
                grid,
                variant,
                ..
            } = plan(tokens, experts);
            let Variant::Split(tiles) = variant else {
                unreachable!("the device is no CPU");
            };
            assert!(grid.units[0] * grid.units[1] <= 256);
            assert!(shared_len(tile, tiles) * 4 <= 16 * 1024);
            let covered = grid.cubes[0] as usize * grid.cubes[1] as usize;
            let across = experts.div_ceil(tile.experts * tiles);
            assert!(covered >= across * tokens.div_ceil(tile.tokens));
        }
    }
}
