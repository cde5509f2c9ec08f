//! Documents in their forms.

mod columns;
pub(crate) mod html;
pub mod json;
pub(crate) mod markdown;
pub(crate) mod text;
