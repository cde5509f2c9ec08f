//! Loading an image archive, and believing the engine only so far.

use std::{io, time::Duration};

use bollard::{models::BuildInfo, query_parameters::ImportImageOptions};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _};

use crate::{
    connect::Engine,
    error::{Cause, Result},
};

/// bollard counts its time-out until the response headers, which come after the
/// last byte was sent and, on some engines, after everything was unpacked.
const LOAD_LIMIT: Duration = Duration::from_hours(2);

impl Engine {
    /// Loads an archive (docker-archive or OCI layout, as one tar), and checks the
    /// engine's answer for errors that come with status 200. `progress` hears how many bytes were
    /// handed to the engine.
    ///
    /// Success means that the engine reported none. It does not mean that the
    /// image is whole: containerd's store reports success where layers that the
    /// archive leaves out are missing. Look at [`Engine::image`] afterwards.
    pub async fn load<S, P>(&self, archive: S, mut progress: P) -> Result<()>
    where
        S: Stream<Item = io::Result<Bytes>> + Send + 'static,
        P: FnMut(u64) + Send + 'static,
    {
        let mut bytes = 0;
        let body = archive.inspect_ok(move |chunk| {
            bytes += chunk.len() as u64;
            progress(bytes);
        });
        let client = self.docker().clone().with_timeout(LOAD_LIMIT);
        let mut answer =
            Box::pin(client.import_image_stream(ImportImageOptions::default(), body, None));
        loop {
            let cause = match tokio::time::timeout(LOAD_LIMIT, answer.next()).await {
                Err(_) => Cause::TimedOut,
                Ok(None) => return Ok(()),
                Ok(Some(Ok(line))) => {
                    let Some(words) = complaint(&line) else {
                        continue;
                    };
                    Cause::Reported(words)
                }
                Ok(Some(Err(error))) => error.into(),
            };
            return Err(self.failed("load image archive into", "", cause));
        }
    }
}

/// An error inside a 200 answer. containerd's store writes `Error unpacking image …`
/// as an ordinary line.
fn complaint(line: &BuildInfo) -> Option<String> {
    if let Some(detail) = &line.error_detail {
        let words = detail.message.as_deref();
        return Some(words.unwrap_or("an error without words").to_owned());
    }
    [&line.stream, &line.status]
        .into_iter()
        .flatten()
        .find(|text| text.to_lowercase().contains("error unpacking"))
        .cloned()
}
