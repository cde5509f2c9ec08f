//! A libtorch in a folder: which libraries programs load out of it, and which version it is.

use std::{
    collections::BTreeMap,
    fs,
    io::Read as _,
    path::{Path, PathBuf},
};

use crate::{
    Digest, Error, Flavour, Result,
    error::at,
    libtorch::{
        Library, Libtorch, Origin,
        linkage::{libraries_in, linkage, roots},
        versions::packages_in,
    },
    store::{Cache, forget, publish},
};

/// A libtorch in a folder that the user gave (`--libtorch`, `LIBTORCH`): an unpacked libtorch
/// distribution, or `site-packages/torch`.
pub(crate) fn from_folder(folder: &Path, flavour: Flavour, cache: &Cache) -> Result<Libtorch> {
    let folder =
        fs::canonicalize(folder).map_err(|error| Error::no_libtorch(folder, &error.to_string()))?;
    let mut search = vec![folder.join("lib")];
    if let Some(packages) = folder.parent() {
        search.extend(nvidia_folders(packages));
    }
    assemble(&folder, &search, flavour, cache)
}

/// The `lib` folders of NVIDIA's packages in a site-packages folder, sorted.
pub(crate) fn nvidia_folders(packages: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(packages.join("nvidia")) else {
        return Vec::new();
    };
    let mut folders: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path().join("lib"))
        .filter(|lib| lib.is_dir())
        .collect();
    folders.sort();
    folders
}

/// A libtorch out of the `torch` folder and the folders that its libraries lie in.
pub(crate) fn assemble(
    torch: &Path,
    search: &[PathBuf],
    flavour: Flavour,
    cache: &Cache,
) -> Result<Libtorch> {
    let known = libraries_in(search);
    let found = linkage(flavour, &known, |_, path| Ok(path.clone()))?;
    check_roots(torch, flavour, &found)?;
    let no = |cause: &str| Error::no_libtorch(torch, cause);
    let version = version_of(|name| read_small(&torch.join(name)), flavour, &found);
    let (version, name) = version.ok_or_else(|| no("its version is nowhere in it"))?;
    let libraries = found
        .iter()
        .map(|(name, path)| {
            // What a link names is what counts: images hold files.
            let path = fs::canonicalize(path).map_err(at(path))?;
            Ok(Library {
                name: name.clone(),
                size_bytes: fs::metadata(&path).map_err(at(&path))?.len(),
                path,
            })
        })
        .collect::<Result<Vec<_>>>()?;
    let mut libtorch = Libtorch {
        cxx11_abi: abi_is_cxx11(&torch.join("lib/libc10.so"))?,
        version,
        flavour,
        name,
        build_folder: None,
        libraries,
        packages: torch.parent().map(packages_in).unwrap_or_default(),
        origin: Origin::Here,
    };
    if torch.join("include").is_dir() {
        libtorch.build_folder = Some(build_view(&libtorch, torch, cache)?);
    }
    Ok(libtorch)
}

fn check_roots(torch: &Path, flavour: Flavour, found: &BTreeMap<String, PathBuf>) -> Result<()> {
    for root in roots(flavour) {
        if !found.contains_key(*root) {
            return Err(if roots(Flavour::Cpu).contains(root) {
                Error::no_libtorch(torch, &format!("lib/{root} is missing"))
            } else {
                Error::Input(format!(
                    "{} holds no CUDA libtorch (lib/libtorch_cuda.so is missing); use the cpu \
                     flavour, or another libtorch",
                    torch.display()
                ))
            });
        }
    }
    Ok(())
}

/// A folder of links with the shape that torch-sys wants: an installed PyTorch has no
/// `build-version`, its NVIDIA libraries lie elsewhere, and a CPU-only view of a CUDA libtorch
/// must not show the CUDA half.
fn build_view(libtorch: &Libtorch, torch: &Path, cache: &Cache) -> Result<PathBuf> {
    let key = format!("{}\n{}", torch.display(), libtorch.name);
    let name = format!(
        "view-{}-{}",
        libtorch.name,
        Digest::of(key.as_bytes()).short()
    );
    let place = cache.folder("libtorch").join(&name);
    let _lock = cache.lock(&name)?;
    let scratch = cache.scratch()?;
    let lib = scratch.path().join("lib");
    fs::create_dir(&lib).map_err(at(&lib))?;
    let link = |from: &Path, to: &Path| std::os::unix::fs::symlink(from, to).map_err(at(to));
    for library in &libtorch.libraries {
        link(&library.path, &lib.join(&library.name))?;
    }
    let write = |path: PathBuf, text: &str| fs::write(&path, text).map_err(at(&path));
    write_stand_in(&lib, libtorch.flavour)?;
    write(
        scratch.path().join("build-version"),
        &format!("{}\n", libtorch.version),
    )?;
    link(&torch.join("include"), &scratch.path().join("include"))?;
    publish(scratch, &place)?;
    Ok(place)
}

/// Writes what torch-sys links as `-ltorch`: PyTorch's own needs the CUDA half, and a linker script
/// serves.
pub(crate) fn write_stand_in(lib: &Path, flavour: Flavour) -> Result<()> {
    let script = match flavour {
        Flavour::Cpu => "INPUT ( libtorch_cpu.so libc10.so )\n",
        Flavour::Cuda => "INPUT ( libtorch_cpu.so libtorch_cuda.so libc10_cuda.so libc10.so )\n",
    };
    let place = lib.join("libtorch.so");
    // A library may have this name, and another name elsewhere.
    forget(&place)?;
    fs::write(&place, script).map_err(at(&place))
}

/// torch's version without what follows a `+`, and its full name: `2.11.0+cpu`, or `2.11.0+cu130` by
/// PyTorch's version.py, else by the runtime's file name. `read` gives the texts beside its libraries.
pub(crate) fn version_of(
    read: impl Fn(&str) -> Option<String>,
    flavour: Flavour,
    found: &BTreeMap<String, PathBuf>,
) -> Option<(String, String)> {
    let plain = |text: &str| {
        let version = text.trim().split('+').next().unwrap_or_default();
        let fits = version.split('.').count() >= 3
            && version.split('.').take(2).all(|n| n.parse::<u32>().is_ok());
        fits.then(|| version.to_owned())
    };
    let python = read("version.py").unwrap_or_default();
    let from_build = || plain(&read("build-version")?);
    let from_python = || plain(&quoted(&python, "__version__")?);
    let version = from_build().or_else(from_python)?;
    let by_runtime = || {
        let mut names = found.keys();
        let runtime = names.find_map(|name| name.strip_prefix("libcudart.so."))?;
        Some(format!("cu{runtime}"))
    };
    let build = match flavour {
        Flavour::Cpu => Some("cpu".to_owned()),
        Flavour::Cuda => cuda_in(&python).or_else(by_runtime),
    };
    let name = format!("{version}+{}", build.as_deref().unwrap_or("cuda"));
    Some((version, name))
}

/// `cu130`, out of `cuda = '13.0'` in the text of PyTorch's version.py.
pub(crate) fn cuda_in(text: &str) -> Option<String> {
    let cuda = quoted(text, "cuda")?;
    Some(format!("cu{}", cuda.replace('.', "")))
}

/// A small text, where there is one.
fn read_small(path: &Path) -> Option<String> {
    let mut text = String::new();
    let mut file = regular_file::open(path).ok()?.take(1 << 20);
    file.read_to_string(&mut text).ok()?;
    Some(text)
}

/// The text in quotes in the line of Python that assigns `name`.
pub(super) fn quoted(python: &str, name: &str) -> Option<String> {
    python.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?;
        if !rest.starts_with([' ', '=', ':']) {
            return None;
        }
        rest.split(['\'', '"']).nth(1).map(str::to_owned)
    })
}

/// Whether a libtorch is built with the C++11 strings of libstdc++: `std::__cxx11::basic_string`
/// stands in the mangled names of c10's own functions. Parts of libstdc++ that are linked in say
/// nothing. Wheels for old glibc, up to 2.6, are built without.
pub(crate) fn abi_is_cxx11(libc10: &Path) -> Result<bool> {
    let bytes = fs::read(libc10).map_err(at(libc10))?;
    let marker = b"NSt7__cxx1112basic_string";
    Ok(bytes
        .split(|byte| *byte == 0)
        .filter(|name| name.starts_with(b"_ZN3c10"))
        .any(|name| name.windows(marker.len()).any(|window| window == marker)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_where_they_stand() {
        let python = "__version__ = '2.11.0+cu130'\ndebug = False\ncuda: Optional[str] = '13.0'\n";
        assert_eq!(
            quoted(python, "__version__").as_deref(),
            Some("2.11.0+cu130")
        );
        assert_eq!(quoted(python, "cuda").as_deref(), Some("13.0"));
        assert_eq!(quoted(python, "hip"), None);

        let folder = tempfile::tempdir().unwrap();
        let version = || {
            let read = |name: &str| read_small(&folder.path().join(name));
            Some(version_of(read, Flavour::Cuda, &BTreeMap::new())?.1)
        };
        assert_eq!(version(), None);
        fs::write(folder.path().join("version.py"), python).unwrap();
        assert_eq!(version().as_deref(), Some("2.11.0+cu130"));
        fs::write(folder.path().join("build-version"), "2.8.0\n").unwrap();
        assert_eq!(version().as_deref(), Some("2.8.0+cu130"));
    }

    #[test]
    fn a_folder_without_libtorch_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(&folder.path().join("cache")).unwrap();
        let look = |path: &Path| {
            let error = from_folder(path, Flavour::Cpu, &cache).unwrap_err();
            assert!(matches!(error, Error::Input(_)), "{error:?}");
            let text = error.to_string();
            text.replace(folder.path().to_str().unwrap(), "/folder")
        };
        insta::assert_snapshot!(look(folder.path()), @"/folder is no libtorch folder: lib/libtorch_cpu.so is missing; expected lib/libtorch_cpu.so and lib/libc10.so in it");
        insta::assert_snapshot!(look(&folder.path().join("absent")), @"/folder/absent is no libtorch folder: No such file or directory (os error 2); expected lib/libtorch_cpu.so and lib/libc10.so in it");
    }

    #[test]
    fn the_string_abi_is_that_of_c10s_own_functions() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("libc10.so");
        let check = |symbols: &[u8], expect: bool| {
            fs::write(&file, symbols).unwrap();
            assert_eq!(abi_is_cxx11(&file).unwrap(), expect);
        };
        check(b"\0_ZN3c105ErrorC1ENSt7__cxx1112basic_stringIcEE\0", true);
        // libstdc++'s own, linked into an older libtorch.
        check(
            b"\0_ZN3c105ErrorC1ESs\0_ZNSt11logic_errorC1ERKNSt7__cxx1112basic_stringIcEE\0",
            false,
        );
    }
}
