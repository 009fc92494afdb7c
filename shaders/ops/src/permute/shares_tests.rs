use super::{Capacity, capacities_reference};

#[test]
fn masked_experts_leave_their_capacity_to_the_others() {
    // C = ⌈100 · 1.25 / 8⌉ = 16. Two masked experts leave 32 slots to six: 5 each, with a remainder of 2.
    let capacity = Capacity::new(1.25, 4).unwrap();
    let all = capacities_reference(&capacity, 100, 8, None, None);
    assert_eq!(all, [16; 8]);
    let mask = [true, false, true, true, true, true, false, true];
    let some = capacities_reference(&capacity, 100, 8, Some(&mask), None);
    assert_eq!(some, [21, 0, 21, 21, 21, 21, 0, 21]);
    let none = capacities_reference(&capacity, 100, 8, Some(&[false; 8]), None);
    assert_eq!(none, [0; 8]);
}

#[test]
fn every_expert_can_have_a_factor() {
    let capacity = Capacity::new(1.0, 3).unwrap();
    let factors = [0.0, 0.5, 1.1, 100.0];
    // The first capacity is raised to the minimum, the third is 1000 · 1.1 / 4 = 275, and the last is limited to S.
    let own = capacities_reference(&capacity, 1000, 4, None, Some(&factors));
    assert_eq!(own, [3, 125, 275, 1000]);
    let mask = [true, true, true, false];
    let some = capacities_reference(&capacity, 1000, 4, Some(&mask), Some(&factors));
    assert_eq!(some, [336, 458, 608, 0]);
}
