//! The page in Debian's Chromium: what its script does, that it does without script and network,
//! that everybody can use it, and that text from outside stays text.

mod access;
mod chromium;
#[path = "../it/support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "other tests use other sessions")]
mod fakes;
mod hostile;
mod interaction;
mod plots;
mod support;
