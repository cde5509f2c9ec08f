//! The part of a model that one rank of a pipeline has.

use std::ops::Range;

/// Consecutive blocks: of `n` ranks each has an `n`-th, the first one what lies before all blocks as
/// well, and the last one what comes after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stage {
    pub rank: usize,
    pub world: usize,
    /// Those of the model.
    pub all_blocks: usize,
}

impl Stage {
    pub fn is_first(self) -> bool {
        self.rank == 0
    }

    pub fn is_last(self) -> bool {
        self.rank + 1 == self.world
    }

    pub fn blocks(self) -> Range<usize> {
        let begin = |rank: usize| rank * self.all_blocks / self.world;
        begin(self.rank)..begin(self.rank + 1)
    }
}

/// The name of the block that a parameter is of, such as `bert.encoder.layer.3`.
pub fn block_of(name: &str) -> Option<&str> {
    let mut end = 0;
    for part in name.split('.') {
        end += part.len();
        if part.bytes().all(|letter| letter.is_ascii_digit()) {
            return Some(&name[..end]);
        }
        end += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_has_one_rank() {
        for (all_blocks, world) in [(2, 2), (16, 3), (24, 8), (5, 4)] {
            let stages = (0..world).map(|rank| Stage {
                rank,
                world,
                all_blocks,
            });
            let blocks: Vec<usize> = stages.clone().flat_map(Stage::blocks).collect();
            assert!(blocks.into_iter().eq(0..all_blocks));
            assert!(stages.clone().all(|stage| !stage.blocks().is_empty()));
            assert_eq!(stages.filter(|stage| stage.is_last()).count(), 1);
        }
    }

    #[test]
    fn blocks_are_known_by_their_names() {
        for (name, block) in [
            (
                "bert.encoder.layer.11.output.dense.weight",
                Some("bert.encoder.layer.11"),
            ),
            ("layer1.0.downsample.0.weight", Some("layer1.0")),
            ("blocks.3.norm1.bias", Some("blocks.3")),
            ("patch_embed.proj.weight", None),
            ("cls.predictions.bias", None),
        ] {
            assert_eq!(block_of(name), block);
        }
    }
}
