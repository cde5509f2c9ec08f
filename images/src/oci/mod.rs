//! Layers that come out the same anywhere, and the documents and the archive around them.

pub(crate) mod archive;
pub(crate) mod layer;
pub(crate) mod part;
