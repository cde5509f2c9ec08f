//! A folder of samples, made out of a seed, and read as training reads a data set.
//!
//! Images are JPEGs in a folder for each class, as torchvision's `ImageFolder` wants them:
//! `0007/00012.jpg` is sample 12, of class 7. Sequences lie in one file, `tokens.bin`, one after the
//! other, a token in two bytes or in four, little-endian. A step's samples, and how images are cut,
//! depend on the seed and the step's number, and not on how many workers there are.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Read as _, Write as _},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    thread,
};

use protocol::{PageCache, RunFile};
use rustix::fs::{Advice, fadvise, fstatfs, syncfs};
use tch::{Device, Kind, Tensor};

use super::{
    Batch, Source, picture,
    random::{Purpose, Stream},
    some_positions,
};
use crate::{Error, models::Vocabulary};

/// `statfs` of what lies in memory: `TMPFS_MAGIC` of `linux/magic.h`.
const TMPFS: i64 = 0x0102_1994;
const TOKENS: &str = "tokens.bin";

/// A data set in a folder.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    source: Source,
    samples: usize,
    is_cold: bool,
    /// Of the epoch that was read last, its number and its order.
    epoch: Option<(u64, Vec<usize>)>,
}

impl Folder {
    /// The folder of a run, there or to be written.
    pub fn at(path: &Path, file: &RunFile) -> Self {
        Self {
            path: path.to_owned(),
            source: Source::new(file.model, &file.variant, file.seed).of_worker(),
            samples: file.variant.folder_samples() as usize,
            is_cold: file.variant.page_cache == Some(PageCache::Cold),
            epoch: None,
        }
    }

    /// Writes all files, on all CPUs. Returns how many bytes they have.
    pub fn write(&self) -> Result<u64, Error> {
        let bytes = match self.source.vocabulary {
            Vocabulary::Classes(_) | Vocabulary::Voxels => self.write_images(),
            Vocabulary::Tokens { .. } => self.write_tokens(),
        }?;
        if self.is_cold {
            self.on_disk()?;
        }
        Ok(bytes)
    }

    fn write_images(&self) -> Result<u64, Error> {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let share = &|thread: usize| -> Result<u64, Error> {
            let samples = (thread..self.samples).step_by(threads);
            samples.map(|sample| self.write_image(sample)).sum()
        };
        thread::scope(|scope| {
            let all: Vec<_> = (0..threads)
                .map(|thread| scope.spawn(move || share(thread)))
                .collect();
            all.into_iter()
                .map(|one| one.join().expect("nothing in it panics"))
                .sum()
        })
    }

    fn write_image(&self, sample: usize) -> Result<u64, Error> {
        let path = self.image(sample);
        let mut draw = Stream::new(self.source.seed, Purpose::Pictures, sample as u64);
        picture::draw(&mut draw)
            .map_err(io::Error::other)
            .and_then(|file| {
                fs::create_dir_all(path.parent().unwrap_or(&self.path))?;
                fs::write(&path, &file)?;
                Ok(file.len() as u64)
            })
            .map_err(|source| failed("cannot write", &path, source))
    }

    fn write_tokens(&self) -> Result<u64, Error> {
        let path = self.path.join(TOKENS);
        let write = || {
            let mut file = BufWriter::new(File::create(&path)?);
            for sample in 0..self.samples {
                for token in self.source.tokens(sample as u64) {
                    file.write_all(&token.to_le_bytes()[..self.token_bytes()])?;
                }
            }
            file.flush()?;
            file.get_ref().metadata()
        };
        let written = write().map_err(|source| failed("cannot write", &path, source))?;
        Ok(written.len())
    }

    /// What lies on a disk alone can be read from there: brings it there.
    fn on_disk(&self) -> Result<(), Error> {
        let look = || {
            let folder = File::open(&self.path)?;
            syncfs(&folder)?;
            Ok(fstatfs(&folder)?.f_type == TMPFS)
        };
        if look().map_err(|source| failed("cannot open", &self.path, source))? {
            let folder = self.path.display().to_string();
            return Err(Error::PageCache { folder });
        }
        Ok(())
    }

    /// Micro-batch number `index` of the run, on the CPU.
    pub fn micro_batch(&mut self, index: usize) -> Result<Batch, Error> {
        let batch = self.source.batch;
        let places = self.samples_of(index);
        let numbered = ((index * batch) as u64..).zip(places);
        if let Vocabulary::Tokens { .. } = self.source.vocabulary {
            let read = numbered.map(|(number, sample)| Ok((number, self.sequence(sample)?)));
            return self.source.sequences(read);
        }
        let size = i64::from(self.source.size);
        let shape = [i64::try_from(batch).unwrap_or_default(), 3, size, size];
        let input = Tensor::f_empty(shape, (Kind::Float, Device::Cpu))?;
        let mut labels = Vec::with_capacity(batch);
        for (place, (number, sample)) in (0..).zip(numbered) {
            let mut draw = Stream::new(self.source.seed, Purpose::Crops, number);
            let path = self.image(sample);
            let file = self.contents(&path)?;
            picture::read(&file, &mut draw, &mut input.f_select(0, place)?)
                .map_err(|cause| failed("cannot decode", &path, io::Error::other(cause)))?;
            labels.push(self.source.label(sample as u64));
        }
        let labels = Tensor::f_from_slice(&labels)?;
        Ok(Batch { input, labels })
    }

    /// The samples of a micro-batch: each once in an epoch, but for those that are left over.
    fn samples_of(&mut self, index: usize) -> Vec<usize> {
        let batch = self.source.batch;
        let in_epoch = (self.samples / batch).max(1);
        let number = (index / in_epoch) as u64;
        if self
            .epoch
            .as_ref()
            .is_none_or(|(known, _)| *known != number)
        {
            let mut draw = Stream::new(self.source.seed, Purpose::Order, number);
            let order = some_positions(&mut draw, 0..self.samples, self.samples);
            self.epoch = Some((number, order));
        }
        let order = self.epoch.iter().flat_map(|(_, order)| order);
        let first = (index % in_epoch) * batch;
        order.skip(first).take(batch).copied().collect()
    }

    fn image(&self, sample: usize) -> PathBuf {
        let label = self.source.label(sample as u64);
        self.path.join(format!("{label:04}/{sample:05}.jpg"))
    }

    /// Opens a file, after the kernel has forgotten what it holds of it where it is to be cold.
    fn open(&self, path: &Path) -> io::Result<File> {
        let file = File::open(path)?;
        if self.is_cold {
            fadvise(&file, 0, None, Advice::DontNeed)?;
        }
        Ok(file)
    }

    fn contents(&self, path: &Path) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        self.open(path)
            .and_then(|mut file| file.read_to_end(&mut bytes))
            .map_err(|source| failed("cannot read", path, source))?;
        Ok(bytes)
    }

    fn sequence(&self, sample: usize) -> Result<Vec<i64>, Error> {
        let width = self.token_bytes();
        let path = self.path.join(TOKENS);
        let mut bytes = vec![0; self.source.tokens_of_a_sample() * width];
        let offset = (sample * bytes.len()) as u64;
        self.open(&path)
            .and_then(|file| file.read_exact_at(&mut bytes, offset))
            .map_err(|source| failed("cannot read", &path, source))?;
        let token = |bytes: &[u8]| {
            let mut whole = [0; 8];
            whole[..width].copy_from_slice(bytes);
            i64::from_le_bytes(whole)
        };
        Ok(bytes.chunks_exact(width).map(token).collect())
    }

    fn token_bytes(&self) -> usize {
        match self.source.vocabulary {
            Vocabulary::Tokens { count, .. } if count > 1 << 16 => 4,
            _ => 2,
        }
    }
}

fn failed(doing: &'static str, path: &Path, source: io::Error) -> Error {
    Error::Folder {
        doing,
        path: path.display().to_string(),
        source,
    }
}
