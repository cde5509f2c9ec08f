//! How long it takes to make an image, beside how long its bytes alone take.

use std::{
    fs::{self, File},
    io::BufWriter,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::{
    Action, Assembly, Error, Image, Meter, Progress, Result, Sources,
    assembly::assemble,
    digest::HashingWriter,
    error::at,
    inspect::verify::{fresh_cache, verify},
    libtorch::{Parts, wheels},
    lock::LibtorchLock,
    store::{Cache, library_store as unpacked},
};

/// What making an image took, in seconds. The scenario binary is compiled already, and but for
/// [`Self::download`] packages are there: both take what the compiler and the network take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// Writing the image's bytes to the disk and hashing them once: no build does less.
    pub floor_seconds: f64,
    /// The first build, with nothing in the cache but downloads, which were hashed as they came in:
    /// they are unpacked, and what comes out is hashed.
    pub build_seconds: f64,
    /// The first build with the libraries in the cache as well, as where they were unpacked for
    /// another image, by compiling the workload or by locking.
    pub unpacked_build_seconds: f64,
    /// The first build with nothing in the cache at all, where that was asked for.
    pub download: Option<WithDownloads>,
    /// The same build again, with nothing changed.
    pub rebuild_seconds: f64,
    /// Building a second time from scratch, and comparing.
    pub verify_seconds: f64,
}

/// A first build that fetches its packages, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WithDownloads {
    /// Packages were being downloaded, and what had come in was unpacked meanwhile.
    pub downloading_seconds: f64,
    /// What the build took beyond that.
    pub beyond_seconds: f64,
}

/// Builds an image that was built before in a cache of its own, and measures. A second build that
/// differs is an error. With `downloads`, all its packages are fetched once more, to measure that.
pub fn measure(
    image: &Image,
    built: &Assembly,
    sources: &Sources,
    cache: &Cache,
    downloads: bool,
    progress: &dyn Progress,
) -> Result<Measured> {
    let scratch = cache.scratch()?;
    let mut sources = sources.clone();
    sources.scenario_binary = Some(built.scenario.clone());

    let download = if downloads {
        let empty = Cache::at(&scratch.path().join("empty"))?;
        Some(with_downloads(image, &sources, &empty, progress)?)
    } else {
        None
    };
    let folder = scratch.path().join("packages");
    let packages = with_packages(cache, &folder, progress)?;
    let (_, build_seconds) = timed(|| assemble(image, &sources, &packages, progress))?;
    drop(packages);
    fs::remove_dir_all(&folder).map_err(at(&folder))?;
    let own = with_packages(cache, &scratch.path().join("cache"), progress)?;
    take_libraries(built, cache, &own)?;
    let (first, unpacked_build_seconds) = timed(|| assemble(image, &sources, &own, progress))?;
    let (_, rebuild_seconds) = timed(|| assemble(image, &sources, &own, progress))?;
    let file = scratch.path().join("bytes");
    let ((), floor_seconds) = timed(|| write_and_hash(&first, &file))?;
    fs::remove_file(&file).map_err(at(&file))?;
    let (second, verify_seconds) = timed(|| verify(image, &first, &sources, &own, progress))?;
    if !second.is_identical() || first.config_id != built.config_id {
        return Err(Error::LockDiffers {
            image: image.name.clone(),
            cause: "a second build of it gave another image; `cargo xtask images verify` says \
                    where they differ"
                .to_owned(),
        });
    }
    Ok(Measured {
        floor_seconds,
        build_seconds,
        unpacked_build_seconds,
        download,
        rebuild_seconds,
        verify_seconds,
    })
}

/// A cache with packages, hashed as they are when they come in.
fn with_packages(cache: &Cache, root: &Path, progress: &dyn Progress) -> Result<Cache> {
    let own = fresh_cache(cache, root)?;
    for folder in ["wheels", "debs"] {
        own.take_digests(cache, folder, progress)?;
    }
    Ok(own)
}

/// Takes the libraries of an image along.
fn take_libraries(built: &Assembly, cache: &Cache, own: &Cache) -> Result<()> {
    if let LibtorchLock::Wheels(lock) = &built.lock.libtorch {
        let (_, place) = wheels::place_of(lock, Parts::All, cache);
        for library in &lock.libraries {
            let unpacked = place.join("lib").join(&library.name);
            unpacked::keep(&unpacked, library.sha256, own)?;
        }
    }
    Ok(())
}

fn with_downloads(
    image: &Image,
    sources: &Sources,
    empty: &Cache,
    progress: &dyn Progress,
) -> Result<WithDownloads> {
    let watch = DownloadWatch {
        progress,
        downloads: Arc::default(),
    };
    let (_, seconds) = timed(|| assemble(image, sources, empty, &watch))?;
    let downloading_seconds = lock(&watch.downloads).total.as_secs_f64();
    Ok(WithDownloads {
        downloading_seconds,
        beyond_seconds: seconds - downloading_seconds,
    })
}

/// Measures for how long at least one package was being downloaded.
struct DownloadWatch<'a> {
    progress: &'a dyn Progress,
    downloads: Arc<Mutex<Downloads>>,
}

#[derive(Default)]
struct Downloads {
    /// How many are under way, and since when there is one.
    running: u32,
    since: Option<Instant>,
    total: Duration,
}

fn lock(downloads: &Mutex<Downloads>) -> MutexGuard<'_, Downloads> {
    downloads.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Progress for DownloadWatch<'_> {
    fn start(&self, action: Action, object: &str, total: Option<u64>) -> Box<dyn Meter> {
        let meter = self.progress.start(action, object, total);
        if action != Action::Download {
            return meter;
        }
        let mut downloads = lock(&self.downloads);
        downloads.running += 1;
        downloads.since.get_or_insert_with(Instant::now);
        Box::new(Download {
            meter,
            downloads: Arc::clone(&self.downloads),
        })
    }

    fn note(&self, text: &str) {
        self.progress.note(text);
    }
}

/// One download, until it is dropped.
struct Download {
    meter: Box<dyn Meter>,
    downloads: Arc<Mutex<Downloads>>,
}

impl Meter for Download {
    fn advance_to(&mut self, done: u64) {
        self.meter.advance_to(done);
    }

    fn set_total(&mut self, total: u64) {
        self.meter.set_total(total);
    }

    fn message(&mut self, text: &str) {
        self.meter.message(text);
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        let mut downloads = lock(&self.downloads);
        downloads.running -= 1;
        if downloads.running == 0
            && let Some(since) = downloads.since.take()
        {
            downloads.total += since.elapsed();
        }
    }
}

fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    let begun = Instant::now();
    let done = work()?;
    Ok((done, begun.elapsed().as_secs_f64()))
}

fn write_and_hash(assembly: &Assembly, to: &Path) -> Result<()> {
    let file = BufWriter::with_capacity(1 << 20, File::create(to).map_err(at(to))?);
    let mut writer = HashingWriter::new(file);
    for layer in &assembly.layers {
        layer.source.write(layer.id.size_bytes, &mut writer)?;
    }
    let (file, ..) = writer.finish();
    let file = file
        .into_inner()
        .map_err(|error| at(to)(error.into_error()))?;
    file.sync_data().map_err(at(to))
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;

    use super::*;
    use crate::Silent;

    #[test]
    fn downloads_side_by_side_count_once_and_other_steps_not_at_all() {
        let watch = DownloadWatch {
            progress: &Silent,
            downloads: Arc::default(),
        };
        let begun = Instant::now();
        let one = watch.start(Action::Download, "one", None);
        let two = watch.start(Action::Download, "two", None);
        sleep(Duration::from_millis(20));
        drop(one);
        drop(two);
        let at_most = begun.elapsed();
        let hashing = watch.start(Action::Hash, "one", None);
        sleep(Duration::from_millis(20));
        drop(hashing);
        let total = lock(&watch.downloads).total;
        assert!(total >= Duration::from_millis(20) && total <= at_most);
    }
}
