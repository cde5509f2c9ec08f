//! The same targets under libFuzzer, which prefers inputs that reach new code. The target is the one
//! that `TORCHGAUGE_FUZZ_TARGET` names; half of the inputs are edited as the driver edits them, the
//! others as libFuzzer likes.

#![no_main]

use std::sync::OnceLock;

use fuzz::{Inputs, Scratch, Target, check, named};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

struct Room {
    target: &'static Target,
    inputs: Inputs,
    scratch: Scratch,
}

fn room() -> &'static Room {
    static ROOM: OnceLock<Room> = OnceLock::new();
    ROOM.get_or_init(|| {
        let name = std::env::var("TORCHGAUGE_FUZZ_TARGET").unwrap_or_default();
        let target = named(&name).expect("TORCHGAUGE_FUZZ_TARGET names a target");
        Room {
            target,
            inputs: Inputs::new(target, 0),
            scratch: Scratch::new().expect("a scratch folder"),
        }
    })
}

fuzz_target!(|input: &[u8]| {
    let Room {
        target, scratch, ..
    } = room();
    if let Err(finding) = check(target, input, scratch) {
        panic!("{finding}");
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, most: usize, seed: u32| {
    let mut random = ChaCha8Rng::seed_from_u64(u64::from(seed));
    if random.random_bool(0.5) {
        return fuzzer_mutate(data, size, most);
    }
    let inputs = &room().inputs;
    // An empty start is how libFuzzer begins without a corpus.
    let seeds = inputs.seeds();
    let start = if size < 2 {
        seeds[random.random_range(0..seeds.len())].clone()
    } else {
        data[..size].to_vec()
    };
    let edited = inputs.edited(&start, &mut random);
    let length = edited.len().min(most).min(data.len());
    data[..length].copy_from_slice(&edited[..length]);
    length
});
