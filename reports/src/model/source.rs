//! A session, as read from its folder.

use std::collections::BTreeMap;

use record::{FolderError, Reason, Records, Session, SessionFolder};

/// One session, as read from its folder.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// The plan and the facts.
    pub session: Session,
    pub records: Records,
}

impl Source {
    /// Reads a session's folder. Attempts that were cut off or failed by the engine, and came to
    /// something later, are left out.
    pub fn read(folder: &SessionFolder) -> Result<Self, FolderError> {
        let mut records = folder.read_records()?;
        let mut last = BTreeMap::new();
        for record in &records.records {
            last.insert(record.run.clone(), record.attempt);
        }
        records.records.retain(|record| {
            let is_open = matches!(
                record.outcome.reason(),
                Some(Reason::Interrupted | Reason::Engine | Reason::GpuLost)
            );
            !is_open || last.get(&record.run) == Some(&record.attempt)
        });
        metrics::across_runs(&mut records.records);
        Ok(Self {
            session: folder.read_session()?,
            records,
        })
    }
}
