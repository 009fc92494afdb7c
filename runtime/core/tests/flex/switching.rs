//! The choice of experts that lose their places, compiled here once more: a layer doesn't tell its waves.

#[path = "../../src/moe/switching/residents.rs"]
mod residents;

use residents::Residents;
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Assigns waves to places as a cache of experts does, without a device.
fn run(residents: &mut Residents, needed: &[usize]) -> Vec<Vec<usize>> {
    let waves = residents.waves(needed);
    for wave in &waves {
        let places: Vec<_> = wave.iter().map(|e| (*e, residents.place_of(*e))).collect();
        for (_, place) in &places {
            if let Some(place) = place {
                residents.touch(*place);
            }
        }
        for (expert, _) in places.iter().filter(|(_, place)| place.is_none()) {
            let Ok(()) = residents.replace(*expert, |_, _| Ok::<_, Infallible>(()));
        }
        let all = wave.iter().all(|e| residents.place_of(*e).is_some());
        assert!(all, "{wave:?} in {residents:?}");
    }
    waves
}

#[test]
fn the_least_recently_used_goes_first() {
    let mut residents = Residents::new(3);
    run(&mut residents, &[0, 1, 2]);
    run(&mut residents, &[0]);
    assert_eq!(run(&mut residents, &[3, 4]), [[3, 4]]);
    assert_eq!(residents.experts, [Some(0), Some(3), Some(4)]);
    run(&mut residents, &[1]);
    assert_eq!(residents.experts, [Some(1), Some(3), Some(4)]);
}

#[test]
fn what_is_there_is_used_before_it_goes() {
    let mut residents = Residents::new(2);
    run(&mut residents, &[4, 5]);
    let waves = run(&mut residents, &[0, 1, 2, 4, 5]);
    assert_eq!(waves, [vec![4, 5], vec![0, 1], vec![2]]);
    let mut one = Residents::new(1);
    assert_eq!(run(&mut one, &[7, 8, 9]), [[7], [8], [9]]);
    assert_eq!(run(&mut one, &[]), Vec::<Vec<usize>>::new());
}

#[test]
fn a_place_whose_expert_could_not_be_moved_is_empty() {
    let mut residents = Residents::new(2);
    run(&mut residents, &[0, 1]);
    let failed = residents.replace(2, |place, old| {
        assert_eq!((place, old), (0, Some(0)));
        Err("the device has failed")
    });
    assert_eq!(failed, Err("the device has failed"));
    assert_eq!(residents.experts, [None, Some(1)]);
    assert_eq!((residents.place_of(0), residents.place_of(2)), (None, None));
    // A panic leaves the place as a failure does.
    let panics = AssertUnwindSafe(|| residents.replace(2, |_, _| -> Result<(), ()> { panic!() }));
    assert!(catch_unwind(panics).is_err());
    assert_eq!(residents.experts, [None, Some(1)]);
    // Whatever comes next takes the empty place, and no other expert loses its own.
    assert_eq!(run(&mut residents, &[1, 3]), [[1, 3]]);
    assert_eq!(residents.experts, [Some(3), Some(1)]);
}
