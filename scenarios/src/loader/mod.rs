//! A data loader with worker processes, as `PyTorch`'s `DataLoader` has them: each worker makes whole
//! micro-batches ahead of need and hands them over as files in `/dev/shm`, which this process maps.
//!
//! Of synthetic data the micro-batches are those that a run without a loader keeps on the device,
//! made anew for every step: the same work and the same losses, and the way of the data besides. Of
//! a folder each is another one. Batches reach a GPU from pageable memory, as with
//! `pin_memory=False`, `PyTorch`'s default, or from pinned memory by a thread of their own.
//!
//! A worker is this program again, started afresh, because a process that has threads cannot be
//! forked in safety. It reads the run file's text from its standard input as the first line, the
//! folder's path as the second, then the number of a micro-batch a line, and answers each with two
//! lines, one for the input and one for the labels, or with one that says why there are none.

mod ahead;
mod shared;
mod worker;
mod workers;

use std::time::Duration;

use libtorch::cuda::{Copier, Event};
use protocol::{Data, MemoryFormat, RunFile};
use serde::Serialize;
use tch::Device;
use tempfile::TempDir;

pub use self::worker::work;
use self::{ahead::Ahead, workers::Workers};
use crate::{
    Error,
    data::{Batch, Folder},
    host,
    nn::{self, in_format},
    training::Feed,
};

/// The argument that makes this program a worker.
pub const WORKER_FLAG: &str = "--loader-worker";

/// As `PyTorch`'s `prefetch_factor`.
const USUAL_PREFETCH: usize = 2;
/// How long the loader of a folder is emptied without training, to see how fast it is.
const ALONE: Duration = Duration::from_secs(2);

/// The workers, the folder that they read, and the way of their batches to the device.
#[derive(Debug)]
pub struct Loader {
    way: Way,
    processes: Vec<u32>,
    _folder: Option<TempDir>,
    figures: Figures,
    /// Where the measured steps began, in CPU seconds of the workers.
    cpu_before: Option<f64>,
    /// Of each input that went to a GPU since then: its bytes, and when that began and ended.
    copies: Option<Vec<(u64, Event, Event)>>,
    memory_format: MemoryFormat,
    device: Device,
}

#[derive(Debug)]
enum Way {
    /// When a step wants them.
    Pageable(Workers),
    /// Ahead of need.
    Pinned(Ahead),
}

/// What a loader took and gave, by the names of the metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Samples a second where nobody trains on them; of a folder only.
    pub loader_samples_per_second: Option<f64>,
    /// CPU time that the workers took during the measured steps.
    pub loader_cpu_seconds: Option<f64>,
    /// Bytes of the inputs over the time that they took to the GPU.
    pub host_to_device_bytes_per_second: Option<f64>,
    /// Bytes of the folder's files.
    pub data_folder_bytes: Option<u64>,
}

/// How many micro-batches each worker makes ahead of need.
fn prefetch(file: &RunFile) -> usize {
    file.variant
        .prefetch_factor
        .map_or(USUAL_PREFETCH, |factor| factor.get() as usize)
}

impl Loader {
    /// Writes the folder, if any, starts the workers and asks them for the first micro-batches, of
    /// which `different` ones take turns within a step where data are synthetic; `None` where the
    /// variant has no loader.
    pub fn of(file: &RunFile, different: usize, device: Device) -> Result<Option<Self>, Error> {
        let variant = &file.variant;
        let Some(count) = variant.loader_workers else {
            return Ok(None);
        };
        let mut figures = Figures::default();
        let is_folder = variant.data == Some(Data::Folder);
        let folder = is_folder.then(make_room).transpose()?;
        if let Some(folder) = &folder {
            figures.data_folder_bytes = Some(Folder::at(folder.path(), file).write()?);
        }
        let accumulation = variant.accumulation.get() as usize;
        let turns = (!is_folder).then_some([accumulation, different]);
        let path = folder.as_ref().map(TempDir::path);
        let mut workers = Workers::start(file, count.get() as usize, path, turns)?;
        if folder.is_some() {
            let rate = workers.rate(ALONE)? * f64::from(variant.batch.get());
            figures.loader_samples_per_second = Some(rate);
        }
        let processes = workers.processes();
        let way = if variant.pin_memory == Some(true) {
            Way::Pinned(Ahead::start(workers, Copier::new()?)?)
        } else {
            Way::Pageable(workers)
        };
        Ok(Some(Self {
            way,
            processes,
            _folder: folder,
            figures,
            cpu_before: None,
            copies: None,
            memory_format: variant.memory_format,
            device,
        }))
    }

    /// The measured steps begin.
    pub fn begin(&mut self) {
        self.copies = Some(Vec::new());
        self.cpu_before = self.cpu_seconds();
    }

    /// What it took and gave; of the measured steps since they began. Waits for the GPU.
    pub fn figures(&self) -> Result<Figures, Error> {
        let (mut bytes, mut seconds) = (0, 0.0);
        for (size, began, ended) in self.copies.iter().flatten() {
            bytes += size;
            seconds += ended.elapsed_since(began)?.as_secs_f64();
        }
        Ok(Figures {
            loader_cpu_seconds: host::between(self.cpu_before, self.cpu_seconds()),
            host_to_device_bytes_per_second: (seconds > 0.0).then(|| bytes as f64 / seconds),
            ..self.figures
        })
    }

    fn cpu_seconds(&self) -> Option<f64> {
        self.processes.iter().map(host::cpu_seconds_of).sum()
    }

    /// The next micro-batch on the device.
    fn next(&mut self) -> Result<Batch, Error> {
        let (batch, began, ended) = match &mut self.way {
            Way::Pinned(ahead) => {
                let [input, labels] = ahead.next()?;
                let batch = Batch {
                    input: input.tensor,
                    labels: labels.tensor,
                };
                (batch, Some(input.began), Some(input.ended))
            }
            Way::Pageable(workers) => {
                let batch = workers.next()?;
                let mark = || self.device.is_cuda().then(Event::marked).transpose();
                let began = mark()?;
                let input = batch.input.f_to_device(self.device)?;
                let ended = mark()?;
                let labels = batch.labels.f_to_device(self.device)?;
                (Batch { input, labels }, began, ended)
            }
        };
        if let (Some(copies), Some(began), Some(ended)) = (&mut self.copies, began, ended) {
            copies.push((nn::bytes(&batch.input), began, ended));
        }
        Ok(batch)
    }
}

/// A folder in the run's scratch space, which goes with the loader.
fn make_room() -> Result<TempDir, Error> {
    let made = tempfile::Builder::new()
        .prefix("torchgauge-data-")
        .tempdir();
    made.map_err(|source| Error::Folder {
        doing: "cannot make a folder in",
        path: std::env::temp_dir().display().to_string(),
        source,
    })
}

impl Feed for Loader {
    fn micro_batch(&mut self, _: usize) -> Result<Batch, Error> {
        let mut batch = self.next()?;
        if self.memory_format == MemoryFormat::ChannelsLast {
            batch.input = in_format(batch.input, self.memory_format)?;
        }
        Ok(batch)
    }
}
