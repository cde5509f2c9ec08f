//! What `xtask/fuzz` checks reading and writing of imported series with.

use judge::trend::Point;

use crate::sources;

/// The points as they come back once a history has kept them.
pub fn kept(points: &[Point]) -> Result<Vec<Point>, String> {
    let mut bytes = Vec::new();
    sources::write_points(&mut bytes, points).map_err(|error| error.to_string())?;
    sources::read_points(bytes.as_slice()).map_err(|error| error.to_string())
}
