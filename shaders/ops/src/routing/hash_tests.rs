use super::*;

fn choose(experts: usize, top_k: usize, mask: Option<&[bool]>) -> Vec<u32> {
    let routing = Problem::new(4096, experts, top_k).unwrap();
    let problem = HashProblem::new(routing, HashKey::Position { sequence: 4096 }).unwrap();
    hash_reference(&problem, 7, &[], mask).0
}

#[test]
fn choices_are_distinct_available_and_even() {
    let mask: Vec<bool> = (0..10).map(|e| e % 5 != 3).collect();
    let indices = choose(10, 3, Some(&mask));
    let mut load = [0; 10];
    for row in indices.chunks(3) {
        assert!(row[0] != row[1] && row[0] != row[2] && row[1] != row[2]);
        row.iter().for_each(|e| load[*e as usize] += 1);
    }
    for (load, available) in load.iter().zip(&mask) {
        // The count is binomial with mean 1536 and standard deviation 31.
        let range = if *available {
            1536 - 155..1536 + 155
        } else {
            0..1
        };
        assert!(range.contains(load), "{load}");
    }
}

#[test]
fn too_few_experts_leave_slots_empty() {
    let indices = choose(4, 3, Some(&[false, true, false, true]));
    for row in indices.chunks(3) {
        assert!(row[0] != row[1] && row[0] % 2 == 1 && row[1] % 2 == 1);
        assert_eq!(row[2], 4);
    }
}

#[test]
fn equal_numbers_hash_alike_and_places_matter() {
    let key = |row: &[f32]| content_key_host(row);
    assert_eq!(key(&[1.0, 0.0, f32::NAN]), key(&[1.0, -0.0, -f32::NAN]));
    assert_ne!(key(&[1.0, 2.0]), key(&[2.0, 1.0]));
    assert_ne!(key(&[1.0]), key(&[-1.0]));
}

#[test]
fn sizes_are_checked() {
    let routing = Problem::new(4, 4, 1).unwrap();
    assert!(HashProblem::new(routing, HashKey::Position { sequence: 0 }).is_err());
    let content = |hidden| HashKey::Content {
        hidden,
        element: Element::F32,
    };
    assert!(HashProblem::new(routing, content(0)).is_err());
    assert!(HashProblem::new(routing, content(1 << 30)).is_err());
}
