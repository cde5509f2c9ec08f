//! The images of a session that are versions of one image.

use record::{ImageFacts, usual_track};

use super::{report::SessionSummary, view::View};
use crate::words::lists::grouped;

/// Fewer versions are a comparison.
const FEWEST: usize = 3;

/// A track of images with the versions of it that one session ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Versions {
    /// The images' name without what tells them apart, such as `torch-cu`.
    pub track: String,
    pub session: String,
    /// From the oldest to the newest; what these are called, and their places among the view's
    /// contenders.
    pub images: Vec<(String, usize)>,
}

/// Every track of which a session ran at least three versions.
pub(crate) fn of(view: &View) -> Vec<Versions> {
    let images = view.contenders.iter().enumerate().map(|(place, one)| {
        let key = (usual_track(&one.image), one.session.clone());
        (key, (one.image.clone(), place))
    });
    let found = grouped(images).into_iter();
    let found = found.map(|((track, session), images)| Versions {
        track,
        session,
        images,
    });
    let mut found: Vec<Versions> = found.collect();
    found.retain(|one| one.images.len() >= FEWEST);
    for versions in &mut found {
        let mut sessions = view.report.sessions.iter();
        if let Some(session) = sessions.find(|session| session.session == versions.session) {
            versions.put_in_order(session);
        }
    }
    found
}

impl Versions {
    pub(crate) fn has(&self, view: &View, image: &str) -> bool {
        let mut places = self.images.iter().map(|(_, place)| *place);
        places.any(|place| view.contenders[place].image == image)
    }

    /// By libtorch's version, where every image has another one; else as the session has them.
    fn put_in_order(&mut self, session: &SessionSummary) {
        let facts = |name: &str| session.images.iter().find(|image| image.name == name);
        let version = |image: &ImageFacts| image.libtorch_version.clone();
        let versions = self.images.iter();
        let versions = versions.filter_map(|(name, _)| facts(name).map(version));
        let versions: Vec<String> = versions.filter(|version| !version.is_empty()).collect();
        let is_repeated = |place: usize| versions[..place].contains(&versions[place]);
        if versions.len() < self.images.len() || (0..versions.len()).any(is_repeated) {
            return;
        }
        for (image, version) in self.images.iter_mut().zip(versions) {
            image.0 = version;
        }
        self.images
            .sort_by(|one, other| (numbers(&one.0), &one.0).cmp(&(numbers(&other.0), &other.0)));
    }
}

/// The numbers of a version: those of 2.11.0 are larger than those of 2.6.0.
fn numbers(version: &str) -> Vec<u64> {
    let version = version.split('+').next().unwrap_or(version);
    let parts = version.split(|letter: char| !letter.is_ascii_digit());
    parts.filter_map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_in_the_order_of_their_numbers() {
        let mut versions = ["2.11.0+cu130", "2.6.0", "2.12.1", "2.6", "2.11.0+cu126"];
        versions.sort_by_key(|version| (numbers(version), *version));
        assert_eq!(
            versions,
            ["2.6", "2.6.0", "2.11.0+cu126", "2.11.0+cu130", "2.12.1"]
        );
    }
}
