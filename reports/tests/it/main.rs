//! Reports through their public face: a session in, a page, a table or a file out.

mod answers;
mod comparison;
mod forms;
mod gallery;
mod inside;
mod pages;
mod plots;
mod site;
mod support;
mod trend;
mod workloads;
