//! Whether the kernel ended processes for lack of memory.

/// The kernel's counter of processes that it ended for lack of memory, of containers and of the
/// whole machine, as it stood at some moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct OomKills(Option<i64>);

impl OomKills {
    pub(super) fn now() -> Self {
        let counters = procfs::vmstat().ok();
        Self(counters.and_then(|all| all.get("oom_kill").copied()))
    }

    /// Whether it has ended one since; false where it does not count them.
    pub(super) fn have_risen(self) -> bool {
        self.0
            .zip(Self::now().0)
            .is_some_and(|(before, after)| after > before)
    }
}
