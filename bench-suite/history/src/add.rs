//! Adding a session.

use std::collections::BTreeMap;

use record::{Labels, Records, Session, SessionFolder};

use crate::{
    History, HistoryError,
    disk::{remove, write_json},
    error::{check_name, refused},
    file::SessionFile,
    of_records::{self, images, session_file},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Added {
    pub session: String,
    /// Whether the history did not know the session before.
    pub new: bool,
    /// Runs that were added, failed ones too.
    pub runs: usize,
    pub failed: usize,
    pub points: usize,
    /// What was left out of the records, or not kept, a sentence each.
    pub left_out: Vec<String>,
    /// Whether the history was like this before, down to the labels.
    pub unchanged: bool,
    /// Images that are followed under their own names, since two or more would be of one track.
    pub side_by_side: Vec<String>,
}

impl History {
    /// The image of a track in [`Labels::tracks`] that is given to the session's only image.
    pub const ONLY_IMAGE: &str = "*";

    /// Adds a session, or the runs by which it has grown since. Adding it again changes nothing.
    /// Labels are kept in the session's folder as well.
    pub fn add(&self, folder: &SessionFolder, labels: &Labels) -> Result<Added, HistoryError> {
        let (session, mut records) = (folder.read_session()?, folder.read_records()?);
        metrics::across_runs(&mut records.records);
        if let Err(why) = of_records::check(&session, &records.records) {
            let path = folder.path().display();
            return refused(format!("the session in {path} cannot be added: {why}"));
        }
        let given = with_images(&session, &records, labels)?;
        let name = &session.session;
        let known = self.find(name);
        let mut labels = merged(name, &session.labels, &given)?;
        for file in &known {
            same(name, "start", &file.started, &session.started_at)?;
            same(
                name,
                "machine",
                &file.machine.name,
                &session.machine_names(),
            )?;
            labels = merged(name, &file.labels, &labels)?;
        }
        let file = session_file(&session, &records.records, &labels);
        let before = known.iter().max_by_key(|file| progress(file));
        let [runs, failed, points] = file.counts();
        let [known_runs, known_failed, known_points] = before.map_or([0; 3], SessionFile::counts);
        // A copy of the folder from before the end does not undo the end.
        let is_old = before.is_some_and(|before| progress(before) > progress(&file));
        let mut added = Added {
            session: name.clone(),
            new: known.is_empty(),
            runs: runs.saturating_sub(known_runs),
            failed: failed.saturating_sub(known_failed),
            points: points.saturating_sub(known_points),
            left_out: records.left_out(),
            unchanged: is_old || known == [file.clone()],
            side_by_side: side_by_side(&file),
        };
        if added.unchanged {
            return Ok(added);
        }
        write_json(&self.results().join(file.place()), &file)?;
        for other in known.iter().filter(|other| other.place() != file.place()) {
            remove(&self.results().join(other.place()))?;
        }
        if session.labels != labels {
            let session = Session { labels, ..session };
            if let Err(error) = folder.write_session(&session) {
                let note = format!("the labels are kept in the history alone: {error}");
                added.left_out.push(note);
            }
        }
        Ok(added)
    }
}

fn progress(file: &SessionFile) -> (usize, bool) {
    (file.counts()[0], file.complete)
}

/// Refuses what the history has otherwise under the same name.
fn same<T: PartialEq + ToString>(
    session: &str,
    what: &'static str,
    there: &T,
    here: &T,
) -> Result<(), HistoryError> {
    if there == here {
        return Ok(());
    }
    let (there, here) = (there.to_string(), here.to_string());
    refused(format!(
        "session {session} is already in the history with a different {what}: {there}, not {here}; \
         `history remove {session}` removes the old one"
    ))
}

fn side_by_side(file: &SessionFile) -> Vec<String> {
    let own = file.images.iter().filter(|(image, facts)| {
        **image == facts.track
            && !file.labels.tracks.contains_key(*image)
            && record::usual_track(image) != facts.track
    });
    own.map(|(image, _)| image.clone()).collect()
}

/// The labels with the names of the images that tracks are for.
fn with_images(
    session: &Session,
    records: &Records,
    labels: &Labels,
) -> Result<Labels, HistoryError> {
    let images = images(session, &records.records);
    let mut tracks = BTreeMap::new();
    for (image, track) in &labels.tracks {
        check_name("track", track)?;
        let image = match images.first() {
            Some(only) if image == History::ONLY_IMAGE && images.len() == 1 => only,
            _ => image.as_str(),
        };
        let earlier = tracks.insert(image.to_owned(), track.clone());
        let taken = tracks.values().filter(|other| *other == track).count() > 1;
        if !images.contains(image) || earlier.is_some() || taken {
            let images: Vec<&str> = images.into_iter().collect();
            return refused(format!(
                "track {track} is not that of one image of session {}, which has {}; name one, as \
                 in `--track IMAGE={track}`",
                session.session,
                images.join(", ")
            ));
        }
    }
    Ok(Labels {
        tracks,
        ..labels.clone()
    })
}

/// The labels of a session, of which there may be one of each kind.
fn merged(session: &str, there: &Labels, here: &Labels) -> Result<Labels, HistoryError> {
    let one = |what, there: Option<&String>, here: Option<&String>| match (there, here) {
        (Some(there), Some(here)) if there != here => refused(format!(
            "session {session} has the {what} {there} already, not {here}; to change it, `history \
             remove {session}`, edit `labels` in its session.json, and add it again"
        )),
        (Some(label), _) | (None, Some(label)) => {
            check_name(what, label)?;
            Ok(Some(label.clone()))
        }
        (None, None) => Ok(None),
    };
    let mut tracks = there.tracks.clone();
    for (image, track) in &here.tracks {
        let track = one("track", there.tracks.get(image), Some(track))?;
        tracks.extend(track.map(|track| (image.clone(), track)));
    }
    Ok(Labels {
        branch: one("branch", there.branch.as_ref(), here.branch.as_ref())?,
        revision: one("revision", there.revision.as_ref(), here.revision.as_ref())?,
        tracks,
    })
}
