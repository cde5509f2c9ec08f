//! Questions about images: what they are made of, whether they come out the same again, whether
//! their locks are outdated.

pub(crate) mod outdated;
pub(crate) mod parts;
pub(crate) mod sbom;
pub(crate) mod verify;
