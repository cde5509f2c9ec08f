//! Apptainer: no engine that answers, but a program that runs a command in the unpacked root of an
//! image.

use std::{
    env,
    ffi::OsStr,
    fs, io,
    path::Path,
    process::{Command, Stdio},
};

use crate::{
    error::{Error, Result},
    images::ImageFacts,
    spec::{ContainerSpec, Ipc, Mount, Network},
};

const PROGRAM: &str = "apptainer";
/// What a variable of the container's is called outside. Not on the command line, which everybody
/// on the machine may read.
const INSIDE: &str = "APPTAINERENV_";
/// Nothing but these of the caller's: what a site sets for its users, such as `APPTAINER_BIND`, would
/// change what is measured.
pub(crate) const PASSED_ON: [&str; 7] = [
    "APPTAINER_TMPDIR",
    "HOME",
    "LANG",
    "LOGNAME",
    "PATH",
    "TMPDIR",
    "USER",
];

/// Apptainer on this machine, as it works for this user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Apptainer {
    pub version: String,
    /// Whether it takes the network away from a run.
    pub takes_network: bool,
}

impl Apptainer {
    /// Finds `apptainer` in `PATH`, and tries whether it starts anything.
    ///
    /// # Errors
    /// [`Error::Unpacked`] where there is none, and where it can make no container, in its own words.
    pub fn find() -> Result<Self> {
        let said = Command::new(PROGRAM).arg("--version").output();
        let said = said.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::Unpacked(
                "no `apptainer` in PATH; install it, or load its module (`module load apptainer`)"
                    .to_owned(),
            ),
            _ => Error::Unpacked(format!("`apptainer` cannot be started: {error}")),
        })?;
        let words = String::from_utf8_lossy(&said.stdout);
        let version = words.split_whitespace().last().unwrap_or_default();
        let mut found = Self {
            version: version.to_owned(),
            takes_network: true,
        };
        // A site may forbid networks alone.
        if let Err(said) = found.probe() {
            found.takes_network = false;
            found.probe().map_err(|_| {
                Error::Unpacked(format!(
                    "Apptainer {version} makes no container here: {said}; it needs user namespaces \
                     (`sysctl user.max_user_namespaces` above 0, and nothing that forbids them), or \
                     its setuid starter (the package `apptainer-suid`)"
                ))
            })?;
        }
        Ok(found)
    }

    pub fn describe(&self) -> String {
        format!("Apptainer {}", self.version)
    }

    /// Has it make a container of nothing: that its command is not there is all that may be wrong.
    fn probe(&self) -> Result<(), String> {
        const ABSENT: &str = "/torchgauge-probe";
        let root = tempfile::tempdir().map_err(|error| format!("no folder to try it: {error}"))?;
        for folder in ["dev", "etc", "proc", "root", "sys", "tmp", "var/tmp"] {
            let made = fs::create_dir_all(root.path().join(folder));
            made.map_err(|error| format!("no folder to try it: {error}"))?;
        }
        let image = ImageFacts {
            root: Some(root.path().to_owned()),
            ..ImageFacts::default()
        };
        let spec = ContainerSpec {
            entrypoint: Some(vec![ABSENT.to_owned()]),
            ..ContainerSpec::default()
        };
        let command = self.command(&image, &spec, root.path(), false);
        let mut command = command.map_err(|error| error.to_string())?;
        let output = command.output().map_err(|error| error.to_string())?;
        // Its starter colours what it says, whoever reads it.
        let colours = ["\u{1b}[91m", "\u{1b}[0m"].iter();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let said = colours.fold(said, |said, colour| said.replace(colour, ""));
        let said = said.trim().to_owned();
        if said.contains(ABSENT) {
            return Ok(());
        }
        Err(said)
    }

    /// The command that runs what `spec` says in an image with a root, with `scratch` for what it
    /// writes to `/tmp`. It has no standard input; output and process group are the caller's. What
    /// Apptainer cannot limit or separate of the spec, it does not: the user, memory,
    /// CPUs, processes, the sizes of `/tmp` and `/dev/shm`.
    ///
    /// # Errors
    /// [`Error::Mount`] for a path that cannot be told, [`Error::Unpacked`] where neither image nor
    /// spec say what to start.
    pub fn command(
        &self,
        image: &ImageFacts,
        spec: &ContainerSpec,
        scratch: &Path,
        has_gpus: bool,
    ) -> Result<Command> {
        spec.check()?;
        let started = spec.command_in(image)?;
        let Some(root) = &image.root else {
            return Err(Error::Unpacked(format!("{} is not unpacked", image.id)));
        };
        let mut environment = image.environment.clone();
        environment.extend(spec.environment.clone());
        let mut command = Command::new(PROGRAM);
        command
            .env_clear()
            .envs(env::vars_os().filter(|(name, _)| PASSED_ON.iter().any(|known| name == known)))
            .args([
                "--silent",
                "exec",
                "--containall",
                "--no-home",
                "--cleanenv",
            ])
            .args(["--pid", "--no-eval", "--no-privs"])
            .arg("--workdir")
            .arg(scratch);
        let shared = Mount {
            source: "/dev/shm".into(),
            target: "/dev/shm".to_owned(),
            read_only: false,
        };
        let mounts = match spec.ipc {
            Ipc::Private => spec.mounts.iter().chain(None),
            Ipc::Host => spec.mounts.iter().chain(Some(&shared)),
        };
        command.args(mounts.map(bind));
        command.args((spec.ipc == Ipc::Private).then_some("--ipc"));
        if spec.network == Network::None && self.takes_network {
            command.args(["--net", "--network=none"]);
        }
        command.args(has_gpus.then_some("--nv"));
        command.args(spec.is_root_writable.then_some("--writable-tmpfs"));
        command.args(
            spec.hostname
                .iter()
                .map(|name| format!("--hostname={name}")),
        );
        command.args(spec.shadowed.iter().map(|path| format!("--scratch={path}")));
        // The one variable that Apptainer takes from an option alone.
        command.args(
            environment
                .remove("HOME")
                .map(|home| format!("--home={home}")),
        );
        let workdir = spec.workdir.as_deref().unwrap_or(&image.workdir);
        let workdir = if workdir.is_empty() { "/" } else { workdir };
        command.arg(format!("--pwd={workdir}"));
        for (name, value) in environment {
            command.env(format!("{INSIDE}{name}"), value);
        }
        command.arg(root).args(started).stdin(Stdio::null());
        Ok(command)
    }

    /// Unpacks an image, as Apptainer names it (`docker-archive:FILE`, `docker://REFERENCE`), into a
    /// folder that is not there, by way of the folder `aside`, where its configuration stays as
    /// [`Self::BLOBS`].
    pub fn unpacking(source: &OsStr, to: &Path, aside: &Path) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            // What only its owner may not remove could never be removed again.
            .args(["--silent", "build", "--fix-perms", "--sandbox"])
            .args([to.as_os_str(), source])
            .env("APPTAINER_CACHEDIR", aside)
            .env("APPTAINER_TMPDIR", aside);
        command
    }

    /// The OCI layout that [`Self::unpacking`] leaves, in the folder aside.
    pub const BLOBS: &str = "cache/blob";
}

fn bind(mount: &Mount) -> String {
    let (source, target) = (mount.source.display(), &mount.target);
    let read_only = if mount.read_only { ",ro" } else { "" };
    format!("--mount=type=bind,source={source},destination={target}{read_only}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Apptainer = Apptainer {
        version: String::new(),
        takes_network: true,
    };

    fn image() -> ImageFacts {
        ImageFacts {
            root: Some("/cache/root".into()),
            entrypoint: vec!["/entry".to_owned()],
            command: vec!["own".to_owned()],
            workdir: "/opt".to_owned(),
            environment: [("HOME", "/home/of-image"), ("A", "1"), ("B", "1")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ..ImageFacts::default()
        }
    }

    fn words(apptainer: &Apptainer, spec: &ContainerSpec, has_gpus: bool) -> Vec<String> {
        let command = apptainer.command(&image(), spec, Path::new("/run/x"), has_gpus);
        let command = command.unwrap();
        let words = command.get_args().map(|word| word.to_str().unwrap());
        words.map(str::to_owned).collect()
    }

    #[test]
    fn a_container_is_a_command_line() {
        let spec = ContainerSpec {
            command: vec!["a b".to_owned()],
            mounts: vec![
                Mount {
                    source: "/s:1".into(),
                    target: "/t".to_owned(),
                    read_only: true,
                },
                Mount {
                    source: "/out".into(),
                    target: "/out".to_owned(),
                    read_only: false,
                },
            ],
            hostname: Some("torchgauge".to_owned()),
            shadowed: vec!["/data".to_owned()],
            is_root_writable: true,
            ..ContainerSpec::default()
        };
        let expected = "--silent exec --containall --no-home --cleanenv --pid --no-eval --no-privs \
            --workdir /run/x --mount=type=bind,source=/s:1,destination=/t,ro \
            --mount=type=bind,source=/out,destination=/out --ipc --net --network=none --nv \
            --writable-tmpfs --hostname=torchgauge --scratch=/data --home=/home/of-image --pwd=/opt \
            /cache/root /entry";
        let expected: Vec<&str> = expected.split_whitespace().chain(["a b"]).collect();
        assert_eq!(words(&HERE, &spec, true), expected);
    }

    #[test]
    fn what_is_started_is_what_an_engine_would_start() {
        let check = |entrypoint: Option<&str>, command: &[&str], expected: &str| {
            let spec = ContainerSpec {
                entrypoint: entrypoint.map(|word| vec![word.to_owned()]),
                command: command.iter().map(|&word| word.to_owned()).collect(),
                ..ContainerSpec::default()
            };
            let words = words(&HERE, &spec, false).join(" ");
            assert!(words.ends_with(expected), "{words}");
        };
        check(None, &[], "/cache/root /entry own");
        check(None, &["x"], "/cache/root /entry x");
        check(Some("/other"), &["x"], "/cache/root /other x");
        check(Some("/other"), &[], "/cache/root /other");
        let nothing = ImageFacts {
            entrypoint: Vec::new(),
            command: Vec::new(),
            ..image()
        };
        let spec = ContainerSpec::default();
        let error = HERE.command(&nothing, &spec, Path::new("/x"), false);
        insta::assert_snapshot!(error.unwrap_err(), @"the image  has no command to start");
    }

    #[test]
    fn a_network_and_shared_memory_are_the_host_s_where_that_is_said() {
        let spec = ContainerSpec {
            network: Network::Host,
            ipc: Ipc::Host,
            ..ContainerSpec::default()
        };
        let words = words(&HERE, &spec, false).join(" ");
        assert!(!words.contains("--net"), "{words}");
        assert!(!words.contains("--ipc"), "{words}");
        assert!(
            words.contains("source=/dev/shm,destination=/dev/shm"),
            "{words}"
        );
        let forbidden = Apptainer {
            takes_network: false,
            ..HERE
        };
        let words = self::words(&forbidden, &ContainerSpec::default(), false).join(" ");
        assert!(!words.contains("--net"), "{words}");
    }

    #[test]
    fn variables_are_the_image_s_and_the_run_s_alone() {
        let spec = ContainerSpec {
            environment: [("A", "2,$(id)\n"), ("SECRET", "s")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ..ContainerSpec::default()
        };
        let command = HERE
            .command(&image(), &spec, Path::new("/x"), false)
            .unwrap();
        let told = |name: &str| {
            let mut all = command.get_envs();
            let found = all.find(|(known, _)| *known == name);
            found.and_then(|(_, value)| value?.to_str().map(str::to_owned))
        };
        assert_eq!(told("APPTAINERENV_A").as_deref(), Some("2,$(id)\n"));
        assert_eq!(told("APPTAINERENV_B").as_deref(), Some("1"));
        assert_eq!(told("APPTAINERENV_HOME"), None);
        let words: Vec<_> = command.get_args().collect();
        assert!(
            !words
                .iter()
                .any(|word| word.to_string_lossy().contains("SECRET"))
        );
        for (name, _) in command.get_envs() {
            let name = name.to_str().unwrap();
            assert!(
                name.starts_with(INSIDE) || PASSED_ON.contains(&name),
                "{name}"
            );
        }
    }
}
