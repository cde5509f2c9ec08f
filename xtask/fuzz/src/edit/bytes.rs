//! Edits of anything: bytes that are lost, doubled, turned.

use rand::Rng as _;
use rand_chacha::ChaCha8Rng;

/// Edits bytes that may be of any form.
pub fn edit(bytes: &mut Vec<u8>, random: &mut ChaCha8Rng) {
    if bytes.is_empty() {
        bytes.push(random.random());
        return;
    }
    let at = random.random_range(0..bytes.len());
    let end = (at + random.random_range(1..=64)).min(bytes.len());
    match random.random_range(0..8) {
        0 => bytes.truncate(at),
        1 => bytes[at] ^= 1 << random.random_range(0..8),
        2 => bytes[at] = random.random(),
        3 => drop(bytes.drain(at..end)),
        4 => {
            let piece = bytes[at..end].to_vec();
            let to = random.random_range(0..=bytes.len());
            bytes.splice(to..to, piece);
        }
        5 => {
            let noise: Vec<u8> = (0..random.random_range(1..16))
                .map(|_| random.random())
                .collect();
            bytes.splice(at..at, noise);
        }
        6 => bytes[at..end].fill(random.random()),
        _ => {
            let other = random.random_range(0..bytes.len());
            bytes.swap(at, other);
        }
    }
}
