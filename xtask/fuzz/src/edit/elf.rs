//! Edits of ELF files: the numbers in their tables.

use rand::{Rng as _, seq::IndexedRandom as _};
use rand_chacha::ChaCha8Rng;

use super::{Material, bytes};

/// Edits a file.
pub fn edit(file: &[u8], edits: u32, _: &Material, random: &mut ChaCha8Rng) -> Vec<u8> {
    let mut file = file.to_vec();
    for _ in 0..edits {
        if random.random_range(0..4) == 0 {
            bytes::edit(&mut file, random);
        } else {
            edit_number(&mut file, random);
        }
    }
    file
}

/// Sets a number of 2, 4 or 8 bytes, wherever one may lie.
pub(super) fn edit_number(file: &mut [u8], random: &mut ChaCha8Rng) {
    let width = *[2, 4, 8].choose(random).unwrap_or(&4);
    let places = file.len() / width;
    if places == 0 {
        return;
    }
    let at = random.random_range(0..places) * width;
    let mut old = [0; 8];
    old[..width].copy_from_slice(&file[at..at + width]);
    let old = u64::from_le_bytes(old);
    let new = match random.random_range(0..9) {
        0 => 0,
        1 => u64::MAX,
        2 => old.wrapping_add(1),
        3 => old.wrapping_sub(1),
        4 => 1 << random.random_range(0..64),
        5 => (file.len() as u64)
            .wrapping_add(random.random_range(0..3))
            .wrapping_sub(1),
        6 => i64::MAX.cast_unsigned(),
        7 => random.random_range(0..64),
        _ => random.random(),
    };
    file[at..at + width].copy_from_slice(&new.to_le_bytes()[..width]);
}
