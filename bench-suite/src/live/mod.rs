//! A session as it goes on, for whoever looks: `OpenMetrics` over HTTP.

mod exposition;
mod readings;
mod server;

pub use exposition::Exposition;
pub(crate) use readings::LiveRun;
pub use readings::{Live, Reading};
pub use server::{ListenError, Server, address};
