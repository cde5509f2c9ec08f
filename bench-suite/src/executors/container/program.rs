//! Programs of the user's in containers.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    time::Duration,
};

use engine::{ContainerSpec, Exit, ImageFacts, User};
use protocol::{EVENTS_VARIABLE, RUN_VARIABLE};
use record::SessionFolder;

use super::{RESULTS_FILE, RUN_FILE, spec::mount};
use crate::{
    executors::Order,
    hook,
    suite::{Network, Program},
};

/// Where a container finds the hook.
const HOOK_FOLDER: &str = "/run/torchgauge/python";
/// Between two looks at what a program reported.
const PAUSE: Duration = Duration::from_millis(50);
/// How long a program that has reported all may take to end by itself, and then by SIGTERM.
pub(in crate::executors) const BY_ITSELF: Duration = Duration::from_secs(1);
pub(in crate::executors) const BY_SIGTERM: Duration = Duration::from_secs(5);

/// How a program that has reported all was ended.
pub(in crate::executors) const ENDED: &str =
    "the program went on after its measured steps and was ended by SIGTERM";
pub(in crate::executors) const KILLED: &str =
    "the program went on after its measured steps, ignored SIGTERM, and was ended by SIGKILL";

/// A container that runs a program in place of the built-in workload: as its image says, where the
/// program says nothing else.
pub(super) fn change(
    mut spec: ContainerSpec,
    program: &Program,
    order: &Order,
    image: &ImageFacts,
) -> io::Result<ContainerSpec> {
    if order.launches_ranks() {
        let (folder, events) = (Path::new(HOOK_FOLDER), Path::new(RESULTS_FILE));
        let command = hook::of_ranks(folder, events, order.ranks(), &program.file.command);
        start(&mut spec, &command);
    } else {
        start(&mut spec, &program.file.command);
    }
    spec.user = match &program.file.user {
        Some(user) => User::Named(user.clone()),
        None => User::OfImage,
    };
    spec.workdir.clone_from(&program.file.workdir);
    spec.network = program.file.network;
    spec.is_root_writable = program.file.writable;
    // Triton and torch.compile load what they compiled from there.
    spec.is_tmp_executable = true;
    spec.shadowed.clone_from(&image.volumes);
    set_environment(&mut spec.environment, program, order, image)?;
    if program.file.network == Network::None {
        name_host(&mut spec, order)?;
    }
    if program.file.hook || order.launches_ranks() {
        mount_hook(&mut spec, order)?;
    }
    if program.file.hook {
        add_hook(&mut spec.environment, image);
    }
    for (number, wanted) in program.mounts.iter().enumerate() {
        let mut source = wanted.source.clone();
        if wanted.is_scratch {
            source = order.folder.join(format!("mount-{number}"));
            copy_to(&wanted.source, &source)?;
        }
        let mount = mount(source, &wanted.target, !wanted.is_scratch);
        spec.mounts.push(mount);
    }
    Ok(spec)
}

/// Has the container start this: through the entry point of the user's image, but not through that
/// of an image which Torchgauge made, for it starts the built-in workload.
fn start(spec: &mut ContainerSpec, command: &[String]) {
    spec.command = command.to_vec();
    if spec.entrypoint.take().is_some() && !command.is_empty() {
        spec.entrypoint = Some(vec![spec.command.remove(0)]);
    }
}

fn set_environment(
    environment: &mut BTreeMap<String, String>,
    program: &Program,
    order: &Order,
    image: &ImageFacts,
) -> io::Result<()> {
    // A home that can be written to, where the image's own cannot.
    if program.file.writable && !order.environment.contains_key("HOME") {
        environment.remove("HOME");
        environment.remove("XDG_CACHE_HOME");
    }
    // Where the image has no line for the user's number, Python's getpass finds no name otherwise, and
    // with it neither does torch.compile.
    if !image.environment.contains_key("USER") {
        let user = environment.entry("USER".to_owned());
        user.or_insert_with(|| "torchgauge".to_owned());
    }
    environment.extend(program.secrets()?);
    environment.insert(EVENTS_VARIABLE.to_owned(), RESULTS_FILE.to_owned());
    environment.insert(RUN_VARIABLE.to_owned(), RUN_FILE.to_owned());
    Ok(())
}

/// Without a network no engine writes `/etc/hosts`, and processes that look each other up by their
/// machine's name, as torchrun's do, wait for ever.
fn name_host(spec: &mut ContainerSpec, order: &Order) -> io::Result<()> {
    const NAME: &str = "torchgauge";
    let hosts = order.folder.join("hosts");
    let lines = format!("127.0.0.1 localhost {NAME}\n::1 localhost\n");
    fs::write(&hosts, lines)?;
    fs::set_permissions(&hosts, fs::Permissions::from_mode(0o644))?;
    spec.mounts.push(mount(hosts, "/etc/hosts", true));
    spec.hostname = Some(NAME.to_owned());
    Ok(())
}

fn mount_hook(spec: &mut ContainerSpec, order: &Order) -> io::Result<()> {
    let folder = order.folder.join("python");
    fs::create_dir(&folder)?;
    hook::write(&folder)?;
    spec.mounts.push(mount(folder, HOOK_FOLDER, true));
    Ok(())
}

/// Puts the hook's folder first on the path that Python looks for modules on.
fn add_hook(environment: &mut BTreeMap<String, String>, image: &ImageFacts) {
    const VARIABLE: &str = "PYTHONPATH";
    let before = environment
        .get(VARIABLE)
        .or(image.environment.get(VARIABLE));
    let path = hook::python_path(HOOK_FOLDER.into(), before.map(Into::into));
    let path = path.to_string_lossy().into_owned();
    environment.insert(VARIABLE.to_owned(), path);
}

/// A copy that everybody may write to: who the container's user is, only its image knows. Sessions
/// are left out, for the one under way, whose folder the copy is in, may lie below the source.
fn copy_to(source: &Path, target: &Path) -> io::Result<()> {
    let at = |error: io::Error| {
        let words = format!("copying {}: {error}", source.display());
        io::Error::new(error.kind(), words)
    };
    let facts = fs::symlink_metadata(source).map_err(at)?;
    if facts.is_symlink() {
        return symlink(fs::read_link(source).map_err(at)?, target).map_err(at);
    }
    if facts.is_dir() {
        fs::create_dir(target).map_err(at)?;
        for entry in fs::read_dir(source).map_err(at)? {
            let entry = entry.map_err(at)?;
            let path = entry.path();
            if !path.join(SessionFolder::SESSION).exists() {
                copy_to(&path, &target.join(entry.file_name()))?;
            }
        }
    } else if facts.is_file() {
        fs::copy(source, target).map_err(at)?;
    } else {
        let words = "it is no file, folder or link";
        return Err(at(io::Error::new(io::ErrorKind::InvalidInput, words)));
    }
    let mode = facts.permissions().mode() | if facts.is_dir() { 0o777 } else { 0o666 };
    fs::set_permissions(target, fs::Permissions::from_mode(mode)).map_err(at)
}

/// Comes back when the run is over by what its program reported; never where it is to end by itself.
pub(in crate::executors) async fn reported(order: &Order) {
    if !order.ends_by_report() {
        return std::future::pending().await;
    }
    let path = order.results_file();
    let (mut before, mut known) = (0, 0);
    loop {
        tokio::time::sleep(PAUSE).await;
        let length = fs::metadata(&path).map_or(0, |file| file.len());
        // What is still being written, and what was read already, is not read.
        let is_new = length == before && length != known;
        before = length;
        if is_new {
            known = length;
            let results = order.results();
            if results.finished() || results.failed().is_some() {
                return;
            }
        }
    }
}

/// Ends a program that has reported all that was asked for.
///
/// # Errors
/// How it was ended, in words, where it did not end by itself.
pub(super) async fn end(container: &engine::Container) -> Result<Exit, &'static str> {
    let ended = |patience| tokio::time::timeout(patience, container.wait(Duration::MAX));
    if let Ok(Ok(exit)) = ended(BY_ITSELF).await {
        return Ok(exit);
    }
    if container.terminate().await.is_ok() && ended(BY_SIGTERM).await.is_ok() {
        return Err(ENDED);
    }
    let _ = container.kill().await;
    Err(KILLED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_takes_the_place_of_the_built_in_workload() {
        let command = ["python3", "train.py"].map(str::to_owned);
        for (entrypoint, expected) in [
            (None, (None, &command[..])),
            (
                Some(vec!["/scenario".to_owned()]),
                (Some(vec![command[0].clone()]), &command[1..]),
            ),
        ] {
            let mut spec = ContainerSpec {
                entrypoint,
                ..ContainerSpec::default()
            };
            start(&mut spec, &command);
            assert_eq!((spec.entrypoint, &spec.command[..]), expected);
        }
    }

    #[test]
    fn a_copy_is_the_whole_tree_and_everybody_s_to_write() {
        let home = tempfile::tempdir().unwrap();
        let source = home.path().join("src");
        fs::create_dir_all(source.join("a")).unwrap();
        fs::write(source.join("a/run.sh"), "x").unwrap();
        fs::set_permissions(source.join("a/run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        symlink("a/run.sh", source.join("link")).unwrap();
        let target = home.path().join("copy");
        copy_to(&source, &target).unwrap();
        let mode = |path: &str| {
            fs::metadata(target.join(path))
                .unwrap()
                .permissions()
                .mode()
                & 0o777
        };
        assert_eq!((mode("a"), mode("a/run.sh")), (0o777, 0o777));
        assert_eq!(
            fs::read_link(target.join("link")).unwrap(),
            Path::new("a/run.sh")
        );
        let error = copy_to(&home.path().join("none"), &target.join("x")).unwrap_err();
        assert!(error.to_string().contains("copying"), "{error}");
    }
}
