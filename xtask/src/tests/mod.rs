//! What only the program itself can check of its command line: the pages that follow from it, and the
//! commands that reports give.

mod again;
mod reference;
