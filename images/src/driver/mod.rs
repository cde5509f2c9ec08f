//! Whether an image would start on a version of the NVIDIA driver, by what lies in its layers.

mod outcomes;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, fmt, io, path::Path, str::FromStr};

use outcomes::{compatible, started, with_code};

use crate::{
    GpuArchitecture, Result,
    base::{archive::archive, filesystem::Filesystem},
    elf::is_library,
    error::at,
    slim::{self, GpuCode},
    store::Cache,
};

/// A version with as many parts as are known: `12.4`, `570`, `570.86.10`. Two are compared in the
/// parts that both have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version(Vec<u32>);

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Option<Vec<u32>> = text.split('.').map(|part| part.parse().ok()).collect();
        let wrong = || format!("`{text}` is no version; expected one such as 570 or 570.86.10");
        parts.map(Self).ok_or_else(wrong)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.0.iter().map(u32::to_string).collect();
        f.write_str(&parts.join("."))
    }
}

impl Version {
    fn is_at_least(&self, other: &[u32]) -> bool {
        let known = self.0.len().min(other.len());
        self.0[..known] >= other[..known]
    }

    /// The CUDA of `12.4.127`: 12.4.
    fn cuda(text: &str) -> Option<Self> {
        let mut version: Self = text.parse().ok()?;
        version.0.truncate(2);
        Some(version)
    }

    /// The newest CUDA that this driver has; `None` before CUDA 11.
    fn newest_cuda(&self) -> Option<Self> {
        let mut known = DRIVERS.iter();
        let found = known.find(|(_, driver)| self.is_at_least(driver))?;
        Some(Self(found.0.into()))
    }
}

/// CUDA and the driver that comes with it on Linux, newest first: *CUDA Toolkit and Corresponding
/// Driver Versions* in NVIDIA's CUDA release notes.
const DRIVERS: [([u32; 2], [u32; 2]); 22] = [
    ([13, 3], [610, 43]),
    ([13, 2], [595, 45]),
    ([13, 1], [590, 44]),
    ([13, 0], [580, 65]),
    ([12, 9], [575, 51]),
    ([12, 8], [570, 26]),
    ([12, 6], [560, 28]),
    ([12, 5], [555, 42]),
    ([12, 4], [550, 54]),
    ([12, 3], [545, 23]),
    ([12, 2], [535, 54]),
    ([12, 1], [530, 30]),
    ([12, 0], [525, 60]),
    ([11, 8], [520, 61]),
    ([11, 7], [515, 43]),
    ([11, 6], [510, 39]),
    ([11, 5], [495, 29]),
    ([11, 4], [470, 42]),
    ([11, 3], [465, 19]),
    ([11, 2], [460, 27]),
    ([11, 1], [455, 23]),
    ([11, 0], [450, 36]),
];

/// The oldest driver that starts any CUDA of a major version: *Minor Version Compatibility* in
/// NVIDIA's CUDA Compatibility.
const OLDEST: [(u32, [u32; 2]); 3] = [(13, [580, 65]), (12, [525, 60]), (11, [450, 80])];

/// What one look at an image came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverCheck {
    /// What was looked at, such as `compat libraries`.
    pub what: &'static str,
    /// Whether the image starts, as far as this is concerned.
    pub starts: bool,
    /// What was found, what happens, and what to do.
    pub found: String,
}

impl DriverCheck {
    fn of(what: &'static str, starts: bool, found: impl Into<String>) -> Self {
        let found = found.into();
        Self {
            what,
            starts,
            found,
        }
    }
}

/// What would happen to an image, an archive as `docker save` writes it, on a driver, and on a GPU
/// where one is named. Nothing of it is run; of a library no more is read than its code for GPUs.
///
/// # Errors
/// [`crate::Error::Input`] for what is no archive of an image.
pub fn check_driver(
    file: &Path,
    driver: &Version,
    gpu: Option<GpuArchitecture>,
    cache: &Cache,
) -> Result<Vec<DriverCheck>> {
    let ready = archive(file, cache)?;
    let layers = Layers {
        files: ready.filesystem()?,
        environment: ready.environment,
    };
    layers.check(driver, gpu).map_err(at(file))
}

/// An image as its layers show it.
struct Layers {
    files: Filesystem,
    environment: Vec<String>,
}

/// The user's part of a driver that an image brings.
struct Compat {
    version: Version,
    /// The folder, or what has the loader find it first.
    from: String,
    is_first: bool,
}

impl Layers {
    fn check(
        &self,
        driver: &Version,
        gpu: Option<GpuArchitecture>,
    ) -> io::Result<Vec<DriverCheck>> {
        let Some((cuda, from)) = self.cuda() else {
            let none = "none in the image, which starts on any driver, on the CPU";
            return Ok(vec![DriverCheck::of("CUDA", true, none)]);
        };
        let compat = self.compat();
        let first = compat.as_ref().filter(|compat| compat.is_first);
        let newest = driver.newest_cuda();
        // Compat libraries bring a compiler of PTX that is as new as their CUDA.
        let compiles = newest.is_some_and(|newest| newest.is_at_least(&cuda.0)) || first.is_some();
        let mut checks = vec![started(&cuda, from, driver, first)];
        checks.extend(compat.map(|compat| compatible(driver, &compat)));
        checks.extend(self.required(driver));
        checks.push(with_code(&self.gpu_code()?, gpu, compiles));
        Ok(checks)
    }

    fn variable(&self, name: &str) -> Option<&str> {
        let mut values = self.environment.iter().rev();
        values.find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }

    fn text(&self, path: &str) -> Option<String> {
        self.files.file(path)?.small_text()
    }

    /// The image's CUDA, and what says so. PyTorch's word counts first: an image may have a second
    /// CUDA.
    fn cuda(&self) -> Option<(Version, &'static str)> {
        let of_torch = || {
            let mut paths = self.files.paths();
            let text = self.text(paths.find(|path| path.ends_with("/torch/version.py"))?)?;
            let line = text.lines().find(|line| line.starts_with("cuda"))?;
            Version::cuda(line.split(['\'', '"']).nth(1)?)
        };
        let of_package = || {
            self.files.paths().find_map(|path| {
                let (_, rest) = path.split_once("/nvidia_cuda_runtime")?;
                Version::cuda(rest.split_once('-')?.1.split_once(".dist-info")?.0)
            })
        };
        let of_library = || {
            let names = self.files.paths().map(|path| path.rsplit('/').next());
            let names = names.flatten().filter(|name| name.starts_with("libcudart"));
            let versions = names.filter_map(|name| Version::cuda(name.split_once(".so.")?.1));
            versions.max_by(|one, other| one.0.cmp(&other.0))
        };
        let of_variable = || Version::cuda(self.variable("CUDA_VERSION")?);
        let found = of_torch().map(|found| (found, "PyTorch"));
        let found = found.or_else(|| Some((of_package()?, "package of libcudart")));
        let found = found.or_else(|| Some((of_variable()?, "CUDA_VERSION")));
        found.or_else(|| Some((of_library()?, "libcudart")))
    }

    /// The image's compat libraries, best those that the loader finds before the driver's.
    fn compat(&self) -> Option<Compat> {
        let version_in = |folder: &str| {
            let names = self.files.names_in(folder)?.into_iter();
            let mut versions = names.filter_map(|name| {
                let version: Version = name.strip_prefix("libcuda.so.")?.parse().ok()?;
                (version.0.len() > 1).then_some(version)
            });
            versions.next()
        };
        let first = self.folders().into_iter().find_map(|(folder, from)| {
            Some(Compat {
                version: version_in(&folder)?,
                from,
                is_first: true,
            })
        });
        first.or_else(|| {
            self.files.paths().find_map(|path| {
                let (folder, _) = path.split_once("/compat/libcuda.so.")?;
                let folder = format!("/{folder}/compat");
                Some(Compat {
                    version: version_in(&folder)?,
                    from: folder,
                    is_first: false,
                })
            })
        })
    }

    /// The folders in which the loader looks before that of the system, where containers find the
    /// driver's libraries; each with what names it.
    fn folders(&self) -> Vec<(String, String)> {
        const VARIABLE: &str = "LD_LIBRARY_PATH";
        let named = |folder: &str, from: &str| (folder.trim().to_owned(), from.to_owned());
        let path = self.variable(VARIABLE).unwrap_or_default();
        let path = path.split([':', ';']);
        let mut found: Vec<_> = path.map(|folder| named(folder, VARIABLE)).collect();
        // The loader's cache has them in the order of the files' names.
        let files = self.files.names_in("etc/ld.so.conf.d").unwrap_or_default();
        let is_read = |name: &&String| Path::new(name).extension().is_some_and(|end| end == "conf");
        for name in files.iter().filter(is_read) {
            let file = format!("/etc/ld.so.conf.d/{name}");
            let text = self.text(&file).unwrap_or_default();
            found.extend(text.lines().map(|line| named(line, &file)));
        }
        let is_system = |folder: &str| {
            folder.ends_with("/lib/x86_64-linux-gnu") || ["/usr/lib64", "/lib64"].contains(&folder)
        };
        let own = found.into_iter();
        let own = own.take_while(|(folder, _)| !is_system(folder));
        own.filter(|(folder, _)| folder.starts_with('/')).collect()
    }

    /// What `NVIDIA_REQUIRE_CUDA` asks for, without which the NVIDIA runtime starts no container:
    /// alternatives with blanks between them, of conditions with commas between them.
    fn required(&self, driver: &Version) -> Option<DriverCheck> {
        let asked = self.variable("NVIDIA_REQUIRE_CUDA")?;
        let off = self.variable("NVIDIA_DISABLE_REQUIRE").unwrap_or_default();
        if asked.trim().is_empty() || ["1", "true"].contains(&off) {
            return None;
        }
        let holds = |condition: &str| {
            let end = condition
                .find(['<', '>', '=', '!'])
                .unwrap_or(condition.len());
            let (name, rest) = condition.split_at(end);
            let own = match name {
                "cuda" => driver.newest_cuda(),
                "driver" => Some(driver.clone()),
                // Of the GPU, which nobody knows here.
                _ => return true,
            };
            let bound = rest.trim_start_matches(['<', '>', '=', '!']);
            let operator = &rest[..rest.len() - bound.len()];
            let bound = bound.parse::<Version>().ok();
            own.zip(bound).is_some_and(|(own, bound)| {
                let (least, most) = (own.is_at_least(&bound.0), bound.is_at_least(&own.0));
                match operator {
                    ">=" => least,
                    "<=" => most,
                    ">" => !most,
                    "<" => !least,
                    "!=" => !(least && most),
                    _ => least && most,
                }
            })
        };
        let of_any = |group: &&str| !group.split(',').any(|one| one.starts_with("brand"));
        let (any, some): (Vec<&str>, Vec<&str>) = asked
            .split_whitespace()
            .filter(|group| group.split(',').all(holds))
            .partition(of_any);
        let found = match (any.first(), some.is_empty()) {
            (Some(met), _) => format!("`{met}` is met"),
            (None, false) => format!("met on some brands of GPUs alone: `{}`", some.join(" ")),
            (None, true) => format!(
                "not met: `{asked}`; the NVIDIA runtime does not start the container. Where the driver \
                 does otherwise, set NVIDIA_DISABLE_REQUIRE=1; else upgrade the driver"
            ),
        };
        let starts = !any.is_empty() || !some.is_empty();
        Some(DriverCheck::of("NVIDIA_REQUIRE_CUDA", starts, found))
    }

    /// The code for GPUs in PyTorch's own libraries.
    fn gpu_code(&self) -> io::Result<BTreeSet<GpuCode>> {
        let is_torch = |path: &&str| {
            let name = path.rsplit('/').next().unwrap_or_default();
            name.starts_with("libtorch_cuda") && is_library(name)
        };
        let mut found = BTreeSet::new();
        for path in self.files.paths().filter(is_torch) {
            if let Some(place) = self.files.file(path) {
                found.extend(slim::gpu_code(&place.open()?, place.size_bytes)?);
            }
        }
        Ok(found)
    }
}
