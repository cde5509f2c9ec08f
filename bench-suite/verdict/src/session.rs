//! Everything that one session compares.

use std::collections::BTreeSet;

use record::{Record, Session, SidesCompared};

use crate::{CompareError, Options, Side, SideError, Verdicts, compare};

/// Why a session's comparisons cannot be judged.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error(transparent)]
    Side(#[from] SideError),
    #[error(transparent)]
    Compare(#[from] CompareError),
}

/// Every comparison that a session makes: what it was to decide on, or else every image against
/// its first one. Images without a run are left out; one image alone compares nothing.
pub fn compare_session(
    session: &Session,
    records: &[Record],
    options: &Options,
) -> Result<Vec<Verdicts>, SessionError> {
    let ran: BTreeSet<&str> = records.iter().map(|run| run.image.as_str()).collect();
    let images: Vec<&str> = session
        .images
        .iter()
        .map(|image| image.name.as_str())
        .filter(|image| ran.contains(image))
        .collect();
    let side = |image| Side::pick(session, records, Some(image));
    let sides = session.deciding.as_ref().map(|deciding| &deciding.sides);
    if let Some(SidesCompared::Axis { axis, base, head }) = sides {
        let mut all = Vec::new();
        for image in images {
            let whole = side(image)?;
            let (base, head) = (whole.along(axis, base)?, whole.along(axis, head)?);
            all.push(compare(&base, &head, options)?);
        }
        return Ok(all);
    }
    let base = match sides {
        Some(SidesCompared::Images { base }) => Some(base.as_str()),
        _ => images.first().copied(),
    };
    let Some(base) = base.filter(|base| ran.contains(base)) else {
        return Ok(Vec::new());
    };
    let base_side = side(base)?;
    images
        .into_iter()
        .filter(|image| *image != base)
        .map(|image| Ok(compare(&base_side, &side(image)?, options)?))
        .collect()
}
