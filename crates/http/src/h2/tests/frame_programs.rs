//! Random programs that build frames: what the fuzzer does with guidance.

use proptest::prelude::*;

use crate::fuzz::fuzz_h2_frames;

/// Steps of a program that mean something, so that most programs get somewhere.
fn step() -> impl Strategy<Value = Vec<u8>> {
    let words: &[&[u8]] = &[
        &[0, 4, 0, 0, 0],
        &[0, 0, 0, 0, 0],
        &[2, 0, 11, 50],
        &[2, 1, 11, 50],
        &[4, 1, 4, 0, 0],
        &[4, 1, 4, 8, 0],
        &[5],
        &[6, 7, 5],
        &[6, 11, 5],
        &[7, 11, 8],
        &[8, 0],
        &[14, 255],
        &[17, 1, 0],
        &[17, 7, 0],
        &[17, 4],
        &[17, 68],
        &[17, 10, 0],
        &[17, 13, 0],
        &[17, 65, 0],
    ];
    prop_oneof![
        3 => prop::sample::select(words.to_vec()).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 1..6),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn what_is_heard_and_written_agrees_with_an_account_of_it(
        choice in any::<u8>(),
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let mut program = vec![choice];
        program.extend(steps.concat());
        fuzz_h2_frames(&program);
    }
}

#[test]
fn seeds_of_the_fuzzer_run() {
    let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/h2_frames");
    let seeds = std::fs::read_dir(seeds).expect("seeds are committed");
    let mut count = 0;
    for seed in seeds {
        let path = seed.expect("a directory").path();
        fuzz_h2_frames(&std::fs::read(path).expect("a file"));
        count += 1;
    }
    assert!(count >= 3);
}
