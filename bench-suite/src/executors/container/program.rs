//! Programs of the user's in containers.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use engine::{ContainerSpec, Exit, ImageFacts, User};
use protocol::{EVENTS_VARIABLE, RUN_VARIABLE};

use super::{FOLDER, spec::mount};
use crate::{
    executors::{Order, mounts::copy_to, order},
    hook,
    suite::{Network, Program},
};

/// Where a container finds the hook, and where that lies in the run's folder.
const HOOK_FOLDER: &str = "/run/torchgauge/python";
const HOOK: &str = "python";
/// Between two looks at what a program reported.
const PAUSE: Duration = Duration::from_millis(50);
/// How long a program that has reported all may take to end by itself, and then by SIGTERM.
pub(in crate::executors) const BY_ITSELF: Duration = Duration::from_secs(1);
pub(in crate::executors) const BY_SIGTERM: Duration = Duration::from_secs(5);
/// The same of one that took no steps: it reports when its interpreter begins to end, and how long it
/// was there is what it is compared by.
const LAST_MOMENTS: Duration = Duration::from_secs(10);

/// How a program that has reported all was ended.
pub(in crate::executors) const ENDED: &str =
    "the program went on after all was measured and was ended by SIGTERM";
pub(in crate::executors) const KILLED: &str =
    "the program went on after all was measured, ignored SIGTERM, and was ended by SIGKILL";

/// A container that runs a program in place of the built-in workload: as its image says, where the
/// program says nothing else.
pub(super) fn change(
    mut spec: ContainerSpec,
    program: &Program,
    order: &Order,
    image: &ImageFacts,
) -> io::Result<ContainerSpec> {
    let folder = Path::new(FOLDER);
    start(&mut spec, &command(folder, program, order));
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
    // A home that can be written to, where the image's own cannot.
    if program.file.writable && !order.environment.contains_key("HOME") {
        spec.environment.remove("HOME");
        spec.environment.remove("XDG_CACHE_HOME");
    }
    set_environment(&mut spec.environment, folder, program, &image.environment)?;
    if program.file.network == Network::None {
        name_host(&mut spec, order)?;
    }
    if program.file.hook || order.launches_ranks() {
        let hook = write_hook(order)?;
        spec.mounts.push(mount(hook, HOOK_FOLDER, true));
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

/// What is started: the program's command, or what starts it once for each rank. `folder`: where the
/// program finds what it is to do, and writes what it did.
pub(in crate::executors) fn command(
    folder: &Path,
    program: &Program,
    order: &Order,
) -> Vec<String> {
    let own = &program.file.command;
    if order.launches_ranks() {
        let (hook, results) = (folder.join(HOOK), folder.join(order::RESULTS_FILE));
        return hook::of_ranks(&hook, &results, order.ranks(), own);
    }
    own.clone()
}

/// Adds the program's variables to those that go over what its image declares.
pub(in crate::executors) fn set_environment(
    environment: &mut BTreeMap<String, String>,
    folder: &Path,
    program: &Program,
    declared: &BTreeMap<String, String>,
) -> io::Result<()> {
    // Where the image has no line for the user's number, Python's getpass finds no name otherwise, and
    // with it neither does torch.compile.
    if !declared.contains_key("USER") {
        let user = environment.entry("USER".to_owned());
        user.or_insert_with(|| "torchgauge".to_owned());
    }
    environment.extend(program.secrets()?);
    let path = |name: &str| folder.join(name).display().to_string();
    environment.insert(EVENTS_VARIABLE.to_owned(), path(order::RESULTS_FILE));
    environment.insert(RUN_VARIABLE.to_owned(), path(order::RUN_FILE));
    if program.file.hook {
        // First on the path that Python looks for modules on.
        const VARIABLE: &str = "PYTHONPATH";
        let before = environment.get(VARIABLE).or(declared.get(VARIABLE));
        let all = hook::python_path(path(HOOK).into(), before.map(Into::into));
        environment.insert(VARIABLE.to_owned(), all.to_string_lossy().into_owned());
    }
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

/// The hook's files in the run's folder.
pub(in crate::executors) fn write_hook(order: &Order) -> io::Result<PathBuf> {
    let folder = order.folder.join(HOOK);
    fs::create_dir(&folder)?;
    hook::write(&folder)?;
    Ok(folder)
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
            if results.finished() && results.first().steps.is_empty() {
                tokio::time::sleep(LAST_MOMENTS).await;
            }
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
}
