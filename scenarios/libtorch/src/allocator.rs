//! What the CUDA allocator says about its own settings.

use crate::{Result, cuda::text, ffi};

/// The settings in effect, read back from libtorch: a setting that did not take shows here.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// `native` or `cudaMallocAsync`.
    pub backend: String,
    /// Whether segments grow in place.
    pub expandable_segments: bool,
    /// Blocks above this size are never split; `None` where there is no limit.
    pub max_split_size_bytes: Option<u64>,
    /// Share of the memory limit above which cached blocks are given back; `None` for never.
    pub garbage_collection_threshold: Option<f64>,
    /// Steps between powers of two that sizes are rounded up to, for each of libtorch's size
    /// intervals, smallest first; 0 where sizes are not rounded so.
    pub roundup_power2_divisions: Vec<u64>,
}

impl Settings {
    /// The number of steps where all size intervals have the same one; `None` where no size
    /// is rounded.
    pub fn uniform_roundup_power2_divisions(&self) -> Option<u64> {
        let first = *self.roundup_power2_divisions.first()?;
        let uniform = self.roundup_power2_divisions.iter().all(|&n| n == first);
        (uniform && first != 0).then_some(first)
    }
}

pub fn effective() -> Result<Settings> {
    let mut raw = ffi::AllocatorSettings {
        backend: [0; 64],
        expandable_segments: false,
        max_split_size_bytes: 0,
        garbage_collection_threshold: 0.0,
        roundup_power2_divisions: [0; 16],
        roundup_power2_divisions_length: 0,
    };
    // SAFETY: both pointers are valid for the call.
    unsafe { ffi::cuda_allocator(&raw mut raw)? };
    let intervals = usize::try_from(raw.roundup_power2_divisions_length).unwrap_or_default();
    Ok(Settings {
        backend: text(&raw.backend),
        expandable_segments: raw.expandable_segments,
        max_split_size_bytes: (raw.max_split_size_bytes != u64::MAX)
            .then_some(raw.max_split_size_bytes),
        garbage_collection_threshold: (raw.garbage_collection_threshold > 0.0)
            .then_some(raw.garbage_collection_threshold),
        roundup_power2_divisions: raw
            .roundup_power2_divisions
            .into_iter()
            .take(intervals)
            .collect(),
    })
}
