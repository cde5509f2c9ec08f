//! An image's unpacked root as a runtime starts it: an OCI bundle.

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{StatVfsMountFlags, statvfs},
    process::{getegid, geteuid},
};
use serde_json::{Value, json};

use crate::{
    error::{Error, Result},
    images::ImageFacts,
    spec::{ContainerSpec, Ipc, Mount},
};

/// The bundle's description, and its root.
pub(crate) const CONFIG: &str = "config.json";
pub(crate) const ROOT: &str = "rootfs";
/// What the kernel alone is to show in a container.
const KERNELS: [&str; 3] = ["/proc", "/sys", "/dev"];
/// What lies over the image where a run may write to it.
pub(crate) const OVERLAY: &str = "overlay";

/// Writes the bundle of a run into a folder that is not there. Limits, the user and the network are
/// whoever starts it to see to.
///
/// # Errors
/// Where the image is not unpacked or has no command, or a file cannot be written.
pub fn write_bundle(folder: &Path, image: &ImageFacts, spec: &ContainerSpec) -> Result<()> {
    let command = spec.command_in(image)?;
    let root = image.root.as_deref();
    let root = root.ok_or_else(|| Error::Unpacked(format!("{} is not unpacked", image.id)))?;
    let written = write(folder, root, image, spec, &command);
    written.map_err(|error| Error::Bundle {
        folder: folder.to_owned(),
        error,
    })
}

fn write(
    folder: &Path,
    root: &Path,
    image: &ImageFacts,
    spec: &ContainerSpec,
    command: &[String],
) -> io::Result<()> {
    let (user, group) = (geteuid(), getegid());
    let own = mounts(root, spec, user.is_root())?;
    let rootfs = folder.join(ROOT);
    fs::create_dir_all(&rootfs)?;
    let workdir = spec.workdir.as_deref().unwrap_or(&image.workdir);
    let workdir = if workdir.is_empty() { "/" } else { workdir };
    let mut all = if spec.is_root_writable {
        vec![overlay(folder, root, user.is_root())?]
    } else {
        let targets: Vec<&Path> = own.iter().map(destination).collect();
        let inside = |target: &Path| target.strip_prefix("/").map(Path::to_owned).ok();
        let missing = targets.iter().filter_map(|target| inside(target));
        let missing = missing.chain(inside(&resolved(root, workdir)?));
        let missing: Vec<PathBuf> = missing.filter(|place| !root.join(place).exists()).collect();
        let mut all = lay(root, &rootfs, Path::new(""), &missing)?;
        // The kernel's own file systems are mounted on nothing but a folder.
        let is_hidden = |mount: &Value| {
            let mut targets = targets.iter();
            targets.any(|target| destination(mount).starts_with(target))
        };
        all.retain(|mount| !is_hidden(mount));
        all
    };
    all.extend(own);
    let mut config = json!({
        "ociVersion": "1.0.2",
        "process": {
            "terminal": false,
            "user": {"uid": 0, "gid": 0},
            "args": command,
            "env": environment(image, spec),
            "cwd": workdir,
            "capabilities": {},
            "noNewPrivileges": true,
        },
        "root": {"path": ROOT, "readonly": !spec.is_root_writable},
        "mounts": all,
        "linux": linux(spec, user.as_raw(), group.as_raw()),
    });
    if let Some(name) = &spec.hostname {
        config["hostname"] = json!(name);
    }
    fs::write(folder.join(CONFIG), config.to_string())
}

fn destination(mount: &Value) -> &Path {
    Path::new(mount["destination"].as_str().unwrap_or_default())
}

/// What is mounted into the image, the kernel's own first and folders before what is in them, each where
/// its target leads: no link of the image's is left for whoever mounts it.
fn mounts(root: &Path, spec: &ContainerSpec, is_root: bool) -> io::Result<Vec<Value>> {
    let mut all = own_mounts(spec, is_root);
    let devices = spec.gpus.iter().flat_map(|gpu| &gpu.devices);
    all.extend(devices.map(|file| device(file)));
    let first_given = all.len();
    let libraries = spec.gpus.iter().flat_map(|gpu| &gpu.mounts);
    all.extend(spec.shadowed.iter().map(|path| empty(path)));
    all.extend(libraries.chain(&spec.mounts).map(bind));
    for (place, mount) in all.iter_mut().enumerate() {
        let target = resolved(root, destination(mount))?;
        let is_at = |own: &&str| target == Path::new(*own);
        let is_kernels = |own: &&str| destination(mount) == Path::new(*own);
        let problem = if KERNELS.iter().any(|own| is_kernels(own) && !is_at(own)) {
            "the image has a link there; expected a folder, or nothing"
        } else if place >= first_given
            && (KERNELS.iter().any(is_at)
                || target.starts_with("/proc")
                || target.starts_with("/sys"))
        {
            "it is the kernel's; expected another target"
        } else {
            mount["destination"] = json!(target.display().to_string());
            continue;
        };
        let target = destination(mount).display();
        return Err(io::Error::other(format!(
            "nothing can be mounted at {target}: {problem}"
        )));
    }
    all[first_given..].sort_by_key(|mount| destination(mount).components().count());
    Ok(all)
}

/// The same in an image's root on a disk.
fn resolved(root: &Path, path: impl AsRef<Path>) -> io::Result<PathBuf> {
    let path = path.as_ref();
    let found = resolve(path, |place| fs::read_link(root.join(place)).ok());
    let round = || io::Error::other(format!("{}: its links form a loop", path.display()));
    found
        .map(|found| Path::new("/").join(found))
        .ok_or_else(round)
}

/// Where a path leads in an image once every link in it was followed, which `link` reads: one that leads
/// out of the root starts there again, as in a container. Nothing need be there. Neither paths that `link`
/// gets nor the result have a leading slash; `None` where the links form a loop.
pub fn resolve(path: &Path, link: impl Fn(&Path) -> Option<PathBuf>) -> Option<PathBuf> {
    /// As many as Linux follows.
    const LINKS_MAX: usize = 40;
    let parts = |path: &Path| -> Vec<PathBuf> {
        let parts = path.components().rev();
        parts.map(|part| part.as_os_str().into()).collect()
    };
    let (mut todo, mut found) = (parts(path), PathBuf::new());
    let mut links = 0;
    while let Some(part) = todo.pop() {
        match part.to_str() {
            Some(".") => continue,
            Some("..") => {
                found.pop();
                continue;
            }
            Some("/") => {
                found = PathBuf::new();
                continue;
            }
            _ => found.push(&part),
        }
        let Some(target) = link(&found) else {
            continue;
        };
        links += 1;
        if links > LINKS_MAX {
            return None;
        }
        found.pop();
        todo.extend(parts(&target));
    }
    Some(found)
}

/// What the container has of its own. Without privileges a runtime needs those of a namespace, whose
/// root is who submits.
fn linux(spec: &ContainerSpec, user: u32, group: u32) -> Value {
    let kinds = ["mount", "pid", "ipc", "uts", "user"].into_iter();
    let is_made = |kind: &&str| match *kind {
        "ipc" => spec.ipc == Ipc::Private,
        "uts" => spec.hostname.is_some(),
        "user" => user != 0,
        _ => true,
    };
    let kinds: Vec<Value> = kinds
        .filter(is_made)
        .map(|kind| json!({"type": kind}))
        .collect();
    let mut all = json!({
        "namespaces": kinds,
        "maskedPaths": ["/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/scsi", "/sys/firmware"],
        "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
    });
    if user != 0 {
        let of = |id: u32| json!([{"containerID": 0, "hostID": id, "size": 1}]);
        all["uidMappings"] = of(user);
        all["gidMappings"] = of(group);
    }
    all
}

/// The image's root as it is, with room for what is missing, which runtimes make: what is in a folder of
/// it is mounted, one by one where something is missing below. Every runtime and kernel takes that.
fn lay(root: &Path, rootfs: &Path, place: &Path, missing: &[PathBuf]) -> io::Result<Vec<Value>> {
    let mut mounts = Vec::new();
    for entry in fs::read_dir(root.join(place))? {
        let (from, kind) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))?;
        let place = place.join(from.file_name().unwrap_or_default());
        let to = rootfs.join(&place);
        if kind.is_symlink() {
            symlink(fs::read_link(&from)?, to)?;
            continue;
        }
        if kind.is_dir() {
            fs::create_dir(to)?;
            if missing.iter().any(|one| one.starts_with(&place)) {
                mounts.extend(lay(root, rootfs, &place, missing)?);
                continue;
            }
        } else {
            fs::write(to, "")?;
        }
        mounts.push(bind(&Mount {
            source: from,
            target: Path::new("/").join(place).display().to_string(),
            read_only: true,
        }));
    }
    Ok(mounts)
}

/// The image's root, which stays as it is: what a run writes lies over it.
fn overlay(folder: &Path, root: &Path, is_root: bool) -> io::Result<Value> {
    let over = folder.join(OVERLAY);
    let (upper, work) = (over.join("upper"), over.join("work"));
    let mut options = Vec::new();
    for (name, path) in [("lower", root), ("upper", &upper), ("work", &work)] {
        let text = path.display().to_string();
        if text.contains([':', ',', '\\']) {
            return Err(io::Error::other(format!(
                "{text} is in the way of a writable root; expected a cache (XDG_CACHE_HOME) and a \
                 folder for the run (--out, or TMPDIR for a step) whose paths have none of : , \\"
            )));
        }
        fs::create_dir_all(path)?;
        options.push(format!("{name}dir={text}"));
    }
    options.extend((!is_root).then(|| "userxattr".to_owned()));
    Ok(mount("/", "overlay", "overlay", &options.join(",")))
}

/// What every container has.
fn own_mounts(spec: &ContainerSpec, is_root: bool) -> Vec<Value> {
    // In a user's namespace the kernel shows /sys with everything below it, or not at all.
    let sys = if is_root { "bind" } else { "rbind" };
    let sys = format!("{sys},nosuid,nodev,noexec,ro");
    let pts = "nosuid,noexec,newinstance,ptmxmode=0666,mode=0620";
    let sized = |options: &str, bytes: Option<u64>| match bytes {
        Some(bytes) => format!("{options},size={bytes}"),
        None => options.to_owned(),
    };
    let tmp = sized("nosuid,nodev,mode=1777", spec.limits.tmp_bytes);
    let shm = sized("nosuid,nodev,noexec,mode=1777", spec.limits.shm_bytes);
    let shm = match spec.ipc {
        Ipc::Private => mount("/dev/shm", "tmpfs", "shm", &shm),
        Ipc::Host => mount("/dev/shm", "bind", "/dev/shm", "rbind,rw,nosuid,nodev"),
    };
    let own = [
        mount("/proc", "proc", "proc", "nosuid,nodev,noexec"),
        mount("/dev", "tmpfs", "tmpfs", "nosuid,mode=755,size=65536k"),
        mount("/dev/pts", "devpts", "devpts", pts),
        shm,
        mount("/sys", "bind", "/sys", &sys),
        mount("/tmp", "tmpfs", "tmpfs", &tmp),
    ];
    // The network is the node's, and so are its names.
    let names = ["/etc/resolv.conf", "/etc/hosts"].into_iter();
    let names = names.filter(|file| Path::new(file).is_file());
    let names = names.map(|file| {
        bind(&Mount {
            source: file.into(),
            target: file.to_owned(),
            read_only: true,
        })
    });
    own.into_iter().chain(names).collect()
}

fn empty(path: &str) -> Value {
    mount(path, "tmpfs", "tmpfs", "nosuid,nodev,mode=1777")
}

fn device(file: &Path) -> Value {
    let path = file.display().to_string();
    mount(&path, "bind", &path, "bind,rw,nosuid,noexec")
}

fn mount(target: &str, kind: &str, source: &str, options: &str) -> Value {
    let options: Vec<&str> = options.split(',').collect();
    json!({"destination": target, "type": kind, "source": source, "options": options})
}

/// In a user's namespace the kernel mounts nothing with more rights than its source has.
fn bind(of: &Mount) -> Value {
    let flags = statvfs(&of.source).map(|facts| facts.f_flag);
    let is_noexec = flags.is_ok_and(|flags| flags.contains(StatVfsMountFlags::NOEXEC));
    let noexec = if is_noexec { ",noexec" } else { "" };
    let access = if of.read_only { "ro" } else { "rw" };
    mount(
        &of.target,
        "bind",
        &of.source.display().to_string(),
        &format!("rbind,{access},nosuid,nodev{noexec}"),
    )
}

/// The image's variables and the run's.
fn environment(image: &ImageFacts, spec: &ContainerSpec) -> Vec<String> {
    const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let mut all = image.environment.clone();
    all.entry("PATH".to_owned())
        .or_insert_with(|| PATH.to_owned());
    all.extend(spec.environment.clone());
    all.iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An image with `/opt`, `/usr/lib`, and the link `/lib` into it.
    fn image(home: &Path) -> ImageFacts {
        let root = home.join("root");
        for folder in ["opt", "proc", "usr/lib"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        symlink("usr/lib", root.join("lib")).unwrap();
        ImageFacts {
            root: Some(root),
            entrypoint: vec!["/entry".to_owned()],
            workdir: "/opt/new".to_owned(),
            environment: [("A", "1"), ("HOME", "/root")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ..ImageFacts::default()
        }
    }

    fn config(folder: &Path) -> Value {
        serde_json::from_slice(&fs::read(folder.join(CONFIG)).unwrap()).unwrap()
    }

    #[test]
    fn a_bundle_is_the_image_with_what_is_mounted_and_no_more() {
        let home = tempfile::tempdir().unwrap();
        let (image, folder) = (image(home.path()), home.path().join("b"));
        let file = home.path().join("a");
        fs::write(&file, "").unwrap();
        let mount = |source: &Path, target: &str, read_only| Mount {
            source: source.to_owned(),
            target: target.to_owned(),
            read_only,
        };
        let spec = ContainerSpec {
            mounts: vec![
                mount(&file, "/usr/x/file", true),
                mount(Path::new("/"), "/s", false),
            ],
            environment: [("HOME".to_owned(), "/tmp".to_owned())].into(),
            ..ContainerSpec::default()
        };
        write_bundle(&folder, &image, &spec).unwrap();
        let found = config(&folder);
        let process = &found["process"];
        assert_eq!(process["cwd"], "/opt/new");
        assert_eq!(process["args"], json!(["/entry"]));
        assert_eq!(process["capabilities"], json!({}));
        let env = process["env"].as_array().unwrap();
        assert!(
            env.contains(&json!("A=1")) && env.contains(&json!("HOME=/tmp")),
            "{env:?}"
        );
        assert_eq!(found["root"], json!({"path": "rootfs", "readonly": true}));
        let all = found["mounts"].as_array().unwrap();
        let root = image.root.as_deref().unwrap();
        let lib = root.join("usr/lib").display().to_string();
        for (target, kind, source, access) in [
            ("/usr/lib", "bind", &*lib, "ro"),
            ("/usr/x/file", "bind", file.to_str().unwrap(), "ro"),
            ("/s", "bind", "/", "rw"),
            ("/proc", "proc", "proc", "nodev"),
        ] {
            let mut of = all.iter().filter(|mount| mount["destination"] == target);
            let found = of.next().unwrap();
            let told = ["type", "source"].map(|key| found[key].as_str().unwrap());
            assert_eq!(told, [kind, source]);
            assert_eq!((&found["options"][1], of.next()), (&json!(access), None));
        }
        // The image has nothing new, and there is room beside what it has.
        assert!(!root.join("usr/x").exists());
        assert!(all.iter().all(|mount| mount["destination"] != "/usr"));
        let rootfs = folder.join(ROOT);
        assert!(rootfs.join("usr/lib").is_dir());
        assert_eq!(
            fs::read_link(rootfs.join("lib")).unwrap(),
            Path::new("usr/lib")
        );
    }

    #[test]
    fn a_target_is_where_the_image_s_links_lead_and_never_the_kernel_s() {
        let home = tempfile::tempdir().unwrap();
        let image = image(home.path());
        let root = image.root.clone().unwrap();
        fs::create_dir(root.join("etc")).unwrap();
        symlink("../run/stub/resolv.conf", root.join("etc/resolv.conf")).unwrap();
        symlink("/usr", root.join("away")).unwrap();
        symlink("about", root.join("round")).unwrap();
        symlink("./round", root.join("about")).unwrap();
        let written = |targets: &[&str]| {
            let folder = tempfile::tempdir().unwrap();
            let mounts = targets.iter().map(|target| Mount {
                source: home.path().to_owned(),
                target: (*target).to_owned(),
                read_only: true,
            });
            let spec = ContainerSpec {
                mounts: mounts.collect(),
                ..ContainerSpec::default()
            };
            let folder = folder.path().join("b");
            write_bundle(&folder, &image, &spec).map_err(|error| {
                assert!(matches!(error, Error::Bundle { .. }), "{error:?}");
                error
                    .to_string()
                    .replace(folder.to_str().unwrap(), "/folder")
            })?;
            let all = config(&folder)["mounts"].as_array().unwrap().clone();
            let rest = all.iter().map(|mount| destination(mount).to_owned());
            Ok::<Vec<PathBuf>, String>(rest.collect())
        };
        let found = written(&["/away/x/y", "/opt/a", "/opt", "/lib/../../z"]).unwrap();
        let found: Vec<&str> = found.iter().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(
            found[found.len() - 4..],
            ["/opt", "/z", "/opt/a", "/usr/x/y"]
        );
        assert!(found.contains(&"/run/stub/resolv.conf"), "{found:?}");
        let refusals = ["/round", "/proc/x", "/away/../sys", "/dev"]
            .map(|target| written(&[target]).unwrap_err());
        insta::assert_snapshot!(refusals.join("\n"), @r"
        cannot write /folder: /round: its links form a loop
        cannot write /folder: nothing can be mounted at /proc/x: it is the kernel's; expected another target
        cannot write /folder: nothing can be mounted at /away/../sys: it is the kernel's; expected another target
        cannot write /folder: nothing can be mounted at /dev: it is the kernel's; expected another target
        ");
        fs::remove_dir(root.join("proc")).unwrap();
        symlink("/opt", root.join("proc")).unwrap();
        insta::assert_snapshot!(written(&[]).unwrap_err(), @"cannot write /folder: nothing can be mounted at /proc: the image has a link there; expected a folder, or nothing");
    }

    #[test]
    fn who_is_not_root_is_it_in_a_namespace_alone() {
        let user = json!({"type": "user"});
        let has = |all: &Value| all["namespaces"].as_array().unwrap().contains(&user);
        let spec = ContainerSpec::default();
        let (root, other) = (linux(&spec, 0, 0), linux(&spec, 1000, 100));
        assert!(!has(&root) && root["uidMappings"].is_null());
        assert!(has(&other));
        let of = |id: u32| json!([{"containerID": 0, "hostID": id, "size": 1}]);
        assert_eq!(
            (&other["uidMappings"], &other["gidMappings"]),
            (&of(1000), &of(100))
        );
    }

    #[test]
    fn a_writable_root_keeps_the_image_as_it_is() {
        let home = tempfile::tempdir().unwrap();
        let (image, folder) = (image(home.path()), home.path().join("b"));
        let spec = ContainerSpec {
            is_root_writable: true,
            workdir: Some("/".to_owned()),
            ..ContainerSpec::default()
        };
        write_bundle(&folder, &image, &spec).unwrap();
        let found = config(&folder);
        assert_eq!(found["root"]["readonly"], false);
        assert_eq!(found["process"]["cwd"], "/");
        let options = found["mounts"][0]["options"].as_array().unwrap();
        let upper = format!("upperdir={}/overlay/upper", folder.display());
        assert!(options.contains(&json!(upper)), "{options:?}");
        let named = home.path().join("a,b");
        let error = write_bundle(&named, &image, &spec).unwrap_err();
        assert!(matches!(error, Error::Bundle { .. }), "{error:?}");
        let error = error.to_string();
        let error = error.replace(home.path().to_str().unwrap(), "/home");
        insta::assert_snapshot!(error, @r"cannot write /home/a,b: /home/a,b/overlay/upper is in the way of a writable root; expected a cache (XDG_CACHE_HOME) and a folder for the run (--out, or TMPDIR for a step) whose paths have none of : , \");
    }
}
