//! Runs in an image's unpacked root where there is no runtime either: by Linux's own namespaces.
//!
//! `unshare` gives this program the namespaces, in which it does with a bundle what a runtime would, and
//! waits for the command as its first process: the kernel ends all others with it.

use std::{
    env,
    ffi::OsString,
    fs::{self, File},
    io,
    os::unix::{
        ffi::{OsStrExt as _, OsStringExt as _},
        fs::symlink,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use rustix::{
    fs::{StatVfsMountFlags, statvfs},
    mount::{MountFlags, UnmountFlags, mount, mount_bind_recursive, mount_remount, unmount},
    process::{WaitOptions, pivot_root, wait},
    system::sethostname,
    thread::{CapabilitiesSecureBits, set_capabilities_secure_bits, set_no_new_privs},
};
use serde::Deserialize;

use crate::{
    apptainer::PASSED_ON,
    bundle::{CONFIG, ROOT, write_bundle},
    error::{Error, Result},
    images::ImageFacts,
    spec::{ContainerSpec, Ipc},
};

const PROGRAM: &str = "unshare";
/// `/proc` shows the processes of its own namespace, and the first of them is no program of the user's:
/// it would be ended by no signal of its own.
const NAMESPACES: [&str; 6] = [
    "--user",
    "--map-root-user",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
];
/// What a run's variable is called outside. Not in the bundle, which lies on a disk.
const INSIDE: &str = "TORCHGAUGE_INSIDE_";
/// What the machine gives of its `/dev`, and the links there. Who has its terminal could type there.
const DEVICES: [&str; 5] = ["full", "null", "random", "urandom", "zero"];
const DEVICE_LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("ptmx", "pts/ptmx"),
    ("stderr", "/proc/self/fd/2"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
];

/// The command that runs what `spec` says, with its bundle in `scratch`. It has no standard input;
/// output and process group are the caller's.
pub(crate) fn command(image: &ImageFacts, spec: &ContainerSpec, scratch: &Path) -> Result<Command> {
    let bundle = scratch.join("bundle");
    let mut open = ContainerSpec {
        environment: [].into(),
        ..spec.clone()
    };
    // As engines have it.
    open.limits.shm_bytes.get_or_insert(64 << 20);
    write_bundle(&bundle, image, &open)?;
    let own = env::current_exe();
    let own = own.map_err(|error| Error::Unpacked(format!("cannot find this program: {error}")))?;
    let mut command = Command::new(PROGRAM);
    command
        .env_clear()
        .envs(env::vars_os().filter(|(name, _)| PASSED_ON.iter().any(|known| name == known)))
        .args(NAMESPACES)
        .args((spec.ipc == Ipc::Private).then_some("--ipc"))
        .args(spec.hostname.is_some().then_some("--uts"))
        .arg(own)
        .args(["pod", "enter"])
        .arg(bundle)
        .stdin(Stdio::null());
    for (name, value) in &spec.environment {
        command.env(format!("{INSIDE}{name}"), value);
    }
    Ok(command)
}

/// Whether this machine lets the caller make the namespaces.
///
/// # Errors
/// [`Error::Unpacked`] with what stands in the way.
pub(crate) fn find() -> Result<()> {
    let tried = Command::new(PROGRAM)
        .args(NAMESPACES)
        .args(["--mount-proc", "true"])
        .stdin(Stdio::null())
        .output();
    let why = match tried {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => format!("`{PROGRAM}`: {error}"),
    };
    Err(Error::Unpacked(format!(
        "no process may have an image's root as its own here: {why}; it needs `{PROGRAM}` of \
         util-linux, and user namespaces (`sysctl user.max_user_namespaces` above 0, and nothing that \
         forbids them)"
    )))
}

#[derive(Deserialize)]
struct Config {
    hostname: Option<String>,
    process: Process,
    root: Root,
    mounts: Vec<Mounted>,
    linux: Linux,
}

#[derive(Deserialize)]
struct Process {
    args: Vec<String>,
    env: Vec<String>,
    cwd: PathBuf,
}

#[derive(Deserialize)]
struct Root {
    readonly: bool,
}

#[derive(Deserialize)]
struct Mounted {
    destination: PathBuf,
    r#type: String,
    source: PathBuf,
    options: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Linux {
    masked_paths: Vec<PathBuf>,
    readonly_paths: Vec<PathBuf>,
}

/// Carries a bundle out in the namespaces that [`command`] gave this process: its root, its mounts, its
/// variables, no capabilities. Gives the command's exit status as shells do: 128 and the signal's number
/// where it was ended by one.
///
/// # Errors
/// [`Error::Unpacked`] where the command does not start, in Apptainer's form.
pub fn enter(bundle: &Path) -> Result<i32> {
    let failed = |why: String| Error::Unpacked(format!("container creation failed: {why}"));
    // It would take the machine's own root from it.
    if std::process::id() != 1 {
        return Err(failed("not the first process of its namespace".to_owned()));
    }
    let file = bundle.join(CONFIG);
    let config = fs::read(&file).map_err(|error| failed(at(&file)(error)))?;
    let config: Config = serde_json::from_slice(&config)
        .map_err(|error| failed(format!("{}: {error}", file.display())))?;
    make(&bundle.join(ROOT), &config).map_err(failed)?;
    let process = &config.process;
    let no_command = || failed(format!("{}: no command", file.display()));
    let (program, words) = process.args.split_first().ok_or_else(no_command)?;
    let not_started = |error: io::Error| Error::Unpacked(format!("{program}: {error}"));
    env::set_current_dir(&process.cwd).map_err(|error| Error::Unpacked(at(&process.cwd)(error)))?;
    let declared = process.env.iter().filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        Some((OsString::from(name), OsString::from(value)))
    });
    let own = env::vars_os().filter_map(|(name, value)| {
        let name = name.as_bytes().strip_prefix(INSIDE.as_bytes())?;
        Some((OsString::from_vec(name.to_vec()), value))
    });
    let mut command = Command::new(program);
    command.env_clear().envs(declared).envs(own).args(words);
    let child = command.spawn().map_err(not_started)?;
    loop {
        // Orphans, too: nobody else is there for them.
        let ended = wait(WaitOptions::empty()).map_err(|error| not_started(error.into()))?;
        if let Some((pid, status)) = ended
            && pid.as_raw_pid().cast_unsigned() == child.id()
        {
            let signal = status.terminating_signal().map(|signal| 128 + signal);
            return Ok(status.exit_status().or(signal).unwrap_or(255));
        }
    }
}

fn make(rootfs: &Path, config: &Config) -> Result<(), String> {
    // Before the machine's root is gone: links lead nowhere then.
    let sources = config.mounts.iter().map(|mounted| {
        let is_bound = mounted.r#type == "bind";
        let source =
            is_bound.then(|| fs::canonicalize(&mounted.source).map_err(at(&mounted.source)));
        source.transpose()
    });
    let sources: Vec<Option<PathBuf>> = sources.collect::<Result<_, String>>()?;
    let mut all = config.mounts.iter().zip(&sources).peekable();
    match all.next_if(|(mounted, _)| mounted.destination == Path::new("/")) {
        Some((over, _)) => over.overlay(rootfs)?,
        None => mount_bind_recursive(rootfs, rootfs).map_err(at_kernel(rootfs))?,
    }
    // Where the machine's root is until everything is mounted: no image knows this name.
    let old = tempfile::Builder::new()
        .prefix(".torchgauge-")
        .tempdir_in(rootfs);
    let old = old.map_err(at(rootfs))?.keep();
    env::set_current_dir(rootfs).map_err(at(rootfs))?;
    pivot_root(".", &old).map_err(at_kernel(rootfs))?;
    env::set_current_dir("/").map_err(at(rootfs))?;
    let root = Old(Path::new("/").join(old.file_name().unwrap_or_default()));
    for (mounted, source) in all {
        mounted.mount(&root, source.as_deref())?;
        // At once: what is mounted afterwards may hide them.
        let is_in = |path: &&PathBuf| path.starts_with(&mounted.destination) && path.exists();
        if !matches!(mounted.destination.to_str(), Some("/proc" | "/sys")) {
            continue;
        }
        for path in config.linux.readonly_paths.iter().filter(is_in) {
            root.bind(path, path, MountFlags::RDONLY)?;
        }
        for path in config.linux.masked_paths.iter().filter(is_in) {
            if path.is_dir() {
                new(path, "tmpfs", "tmpfs", MountFlags::RDONLY, "")?;
            } else {
                root.bind(&root.of(Path::new("/dev/null")), path, MountFlags::empty())?;
            }
        }
    }
    unmount(&root.0, UnmountFlags::DETACH).map_err(at_kernel(&root.0))?;
    fs::remove_dir(&root.0).map_err(at(&root.0))?;
    if config.root.readonly {
        restrict(Path::new("/"), MountFlags::RDONLY)?;
    }
    if let Some(name) = &config.hostname {
        sethostname(name.as_bytes()).map_err(|error| format!("hostname {name}: {error}"))?;
    }
    // Root of the namespace is root by number alone once it becomes the command.
    let no_root = CapabilitiesSecureBits::NO_ROOT | CapabilitiesSecureBits::NO_ROOT_LOCKED;
    let dropped = set_capabilities_secure_bits(no_root).and_then(|()| set_no_new_privs(true));
    dropped.map_err(|error| format!("cannot give up privileges: {error}"))
}

impl Mounted {
    /// The flags of its options, and what the file system itself is to know.
    fn options(&self) -> (MountFlags, String) {
        let mut flags = MountFlags::empty();
        let mut data = Vec::new();
        for option in &self.options {
            match &**option {
                "ro" => flags |= MountFlags::RDONLY,
                "nosuid" => flags |= MountFlags::NOSUID,
                "nodev" => flags |= MountFlags::NODEV,
                "noexec" => flags |= MountFlags::NOEXEC,
                "rw" | "bind" | "rbind" => {}
                other => data.push(other),
            }
        }
        (flags, data.join(","))
    }

    fn overlay(&self, rootfs: &Path) -> Result<(), String> {
        let (flags, mut data) = self.options();
        if !data.contains("userxattr") {
            data.push_str(",userxattr");
        }
        new(rootfs, "overlay", "overlay", flags, &data)
    }

    /// Mounts it in the new root.
    fn mount(&self, old: &Old, source: Option<&Path>) -> Result<(), String> {
        let (target, (flags, data)) = (&*self.destination, self.options());
        let source = source.map(|source| old.of(source));
        if fs::metadata(target).is_err() {
            let is_folder = source.as_deref().is_none_or(Path::is_dir);
            let folder = if is_folder {
                Some(target)
            } else {
                target.parent()
            };
            fs::create_dir_all(folder.unwrap_or(target)).map_err(at(target))?;
            if !is_folder {
                File::create_new(target).map_err(at(target))?;
            }
        }
        if let Some(source) = source {
            return old.bind(&source, target, flags);
        }
        let name = self.source.display().to_string();
        new(target, &self.r#type, &name, flags, &data)?;
        if target == Path::new("/dev") {
            for name in DEVICES {
                let to = target.join(name);
                File::create_new(&to).map_err(at(&to))?;
                old.bind(&old.of(&to), &to, MountFlags::NOEXEC)?;
            }
            for (name, to) in DEVICE_LINKS {
                symlink(to, target.join(name)).map_err(at(target))?;
            }
        }
        Ok(())
    }
}

fn new(
    target: &Path,
    kind: &str,
    source: &str,
    flags: MountFlags,
    data: &str,
) -> Result<(), String> {
    let data = std::ffi::CString::new(data).map_err(|error| error.to_string())?;
    mount(source, target, kind, flags, Some(&*data)).map_err(at_kernel(target))
}

/// The machine's root in the new one.
struct Old(PathBuf);

impl Old {
    /// Where a file of the machine's is.
    fn of(&self, path: &Path) -> PathBuf {
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Mounts a file or folder with all that is mounted below it, each with these rights at most.
    fn bind(&self, source: &Path, target: &Path, flags: MountFlags) -> Result<(), String> {
        mount_bind_recursive(source, target).map_err(at_kernel(target))?;
        if flags.is_empty() {
            return Ok(());
        }
        // A target may be in what the user mounts, which has links of its own.
        let real = fs::canonicalize(target).map_err(at(target))?;
        let all = self.mounted_below(&real)?;
        all.iter().try_for_each(|place| restrict(place, flags))
    }

    /// What is mounted at a place and below it, as this process sees it.
    fn mounted_below(&self, place: &Path) -> Result<Vec<PathBuf>, String> {
        let file = self.of(Path::new("/proc/self/mountinfo"));
        let all = fs::read(&file).map_err(at(&file))?;
        let places = all.split(|&byte| byte == b'\n').filter_map(|line| {
            let escaped = line.split(|&byte| byte == b' ').nth(4)?;
            Some(PathBuf::from(OsString::from_vec(unescaped(escaped))))
        });
        Ok(places.filter(|one| one.starts_with(place)).collect())
    }
}

/// The kernel writes spaces, tabs, line breaks and backslashes as `\040` and the like.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|_| byte == b'\\');
        let octal = octal.and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(escaped) = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            plain.push(escaped);
            rest = &after[3..];
        } else {
            plain.push(byte);
            rest = after;
        }
    }
    plain
}

/// Takes rights from what is mounted at a place. In a user's namespace it keeps all restrictions that
/// it has, or the kernel refuses.
fn restrict(place: &Path, flags: MountFlags) -> Result<(), String> {
    const KEPT: [(StatVfsMountFlags, MountFlags); 7] = [
        (StatVfsMountFlags::RDONLY, MountFlags::RDONLY),
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ];
    let has = match statvfs(place) {
        Ok(facts) => facts.f_flag,
        // What the caller may not see, the run may not either, and something else may hide it.
        Err(rustix::io::Errno::ACCESS | rustix::io::Errno::NOENT) => return Ok(()),
        Err(error) => return Err(at_kernel(place)(error)),
    };
    let kept = KEPT.iter().filter(|(one, _)| has.contains(*one));
    let all = kept.fold(flags | MountFlags::BIND, |all, (_, flag)| all | *flag);
    mount_remount(place, all, "").map_err(at_kernel(place))
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> String + '_ {
    move |error| format!("{}: {error}", path.display())
}

fn at_kernel(path: &Path) -> impl FnOnce(rustix::io::Errno) -> String + '_ {
    move |error| at(path)(error.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mounted_place_is_read_as_the_kernel_writes_it() {
        for (escaped, plain) in [
            ("/a", "/a"),
            ("/a\\040b\\134", "/a b\\"),
            ("/a\\", "/a\\"),
            ("/a\\9", "/a\\9"),
        ] {
            assert_eq!(unescaped(escaped.as_bytes()), plain.as_bytes());
        }
    }

    #[test]
    fn a_run_s_own_variables_are_in_no_file_and_no_word() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir(&root).unwrap();
        let image = ImageFacts {
            root: Some(root),
            entrypoint: vec!["/entry".to_owned()],
            ..ImageFacts::default()
        };
        let spec = ContainerSpec {
            environment: [("TOKEN".to_owned(), "s3cret".to_owned())].into(),
            hostname: Some("torchgauge".to_owned()),
            ..ContainerSpec::default()
        };
        let command = command(&image, &spec, folder.path()).unwrap();
        let words: Vec<_> = command
            .get_args()
            .map(|word| word.to_string_lossy())
            .collect();
        assert_eq!(words[..6], NAMESPACES);
        assert_eq!(words[6..8], ["--ipc", "--uts"]);
        assert!(!words.iter().any(|word| word.contains("s3cret")));
        let written = fs::read_to_string(folder.path().join("bundle").join(CONFIG)).unwrap();
        assert!(
            written.contains("/entry") && !written.contains("s3cret"),
            "{written}"
        );
        let mut told = command.get_envs();
        assert!(told.any(|(name, value)| name == "TORCHGAUGE_INSIDE_TOKEN"
            && value.is_some_and(|value| value == "s3cret")));
    }
}
