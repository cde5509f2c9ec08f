//! Documents in their forms.

pub(crate) mod html;
pub mod json;
pub(crate) mod markdown;
pub(crate) mod text;
