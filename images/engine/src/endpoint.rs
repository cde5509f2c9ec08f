//! Where an engine may be: what the user set, then the usual sockets.

use std::path::{Path, PathBuf};

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

const DOCKER_SOCKET: &str = "/var/run/docker.sock";

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Endpoint {
    /// What the docker command would use, then Podman's sockets: `DOCKER_HOST`,
    /// `DOCKER_CONTEXT` or the current Docker context, `CONTAINER_HOST`, and, only
    /// where none of these is set, the usual sockets.
    #[default]
    Auto,
    At(PathBuf),
}

impl Endpoint {
    /// Reads `unix:///path` or a bare absolute path.
    pub fn parse(text: &str) -> Result<Self> {
        socket(text, text).map(Self::At)
    }

    pub(crate) fn candidates(&self) -> Result<Vec<Candidate>> {
        match self {
            Self::Auto => discover(&Surroundings::here()),
            Self::At(socket) => Ok(vec![Candidate {
                socket: socket.clone(),
                origin: "given".to_owned(),
            }]),
        }
    }
}

/// Reads an address. Containers mount files of this machine and are watched from it, so that an
/// engine on another one, by TCP or SSH, is of no use.
fn socket(text: &str, origin: &str) -> Result<PathBuf> {
    let text = text.trim();
    let path = text.strip_prefix("unix://").unwrap_or(text);
    if path.starts_with('/') {
        return Ok(PathBuf::from(path));
    }
    let is_remote = text.contains("://") && path == text;
    let (reason, next) = if is_remote {
        (
            "only Unix sockets are supported",
            "run torchgauge on the engine's machine, and bring images there with `images push` or \
             `images export`",
        )
    } else {
        (
            "not the absolute path of a Unix socket",
            "write unix:///path/to/socket",
        )
    };
    Err(Error::Endpoint {
        origin: origin.to_owned(),
        reason: reason.to_owned(),
        next: next.to_owned(),
    })
}

/// A socket and where its path comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) socket: PathBuf,
    pub(crate) origin: String,
}

/// What discovery reads from the process, so that tests can give their own.
struct Surroundings<'a> {
    variable: &'a dyn Fn(&str) -> Option<String>,
    user_id: u32,
}

impl Surroundings<'_> {
    fn here() -> Self {
        use std::os::unix::fs::MetadataExt as _;
        Self {
            variable: &|name| std::env::var(name).ok().filter(|value| !value.is_empty()),
            // The owner of /proc/self is the effective user; no libc needed.
            user_id: std::fs::metadata("/proc/self").map_or(0, |metadata| metadata.uid()),
        }
    }

    fn docker_config_folder(&self) -> Option<PathBuf> {
        (self.variable)("DOCKER_CONFIG")
            .map(PathBuf::from)
            .or_else(|| (self.variable)("HOME").map(|home| Path::new(&home).join(".docker")))
    }
}

/// A setting that names one engine is obeyed or fails: falling through to
/// another engine would measure on the wrong one.
fn discover(here: &Surroundings<'_>) -> Result<Vec<Candidate>> {
    let one = |address: &str, origin: String| {
        let socket = socket(address, &origin)?;
        Ok(vec![Candidate { socket, origin }])
    };
    if let Some(host) = (here.variable)("DOCKER_HOST") {
        return one(&host, format!("DOCKER_HOST={host}"));
    }
    if let Some((name, origin)) = chosen_context(here)
        && name != "default"
    {
        return one(&context_host(here, &name, &origin)?, origin);
    }
    if let Some(host) = (here.variable)("CONTAINER_HOST") {
        return one(&host, format!("CONTAINER_HOST={host}"));
    }
    let runtime_folder = (here.variable)("XDG_RUNTIME_DIR").map_or_else(
        || PathBuf::from(format!("/run/user/{}", here.user_id)),
        PathBuf::from,
    );
    let usual = [
        (PathBuf::from(DOCKER_SOCKET), "Docker"),
        (runtime_folder.join("docker.sock"), "rootless Docker"),
        (runtime_folder.join("podman/podman.sock"), "rootless Podman"),
        (PathBuf::from("/run/podman/podman.sock"), "Podman"),
    ];
    Ok(usual
        .into_iter()
        .map(|(socket, product)| Candidate {
            socket,
            origin: format!("default of {product}"),
        })
        .collect())
}

fn chosen_context(here: &Surroundings<'_>) -> Option<(String, String)> {
    if let Some(name) = (here.variable)("DOCKER_CONTEXT") {
        let origin = format!("DOCKER_CONTEXT={name}");
        return Some((name, origin));
    }
    let text = std::fs::read_to_string(here.docker_config_folder()?.join("config.json")).ok()?;
    let config: Value = serde_json::from_str(&text).ok()?;
    let name = config["currentContext"].as_str()?;
    (!name.is_empty()).then(|| (name.to_owned(), format!("Docker context {name}")))
}

/// The address of a context. The docker command keeps it in
/// `contexts/meta/<sha256 of its name>/meta.json`.
fn context_host(here: &Surroundings<'_>, name: &str, origin: &str) -> Result<String> {
    let folder = format!("{:x}", Sha256::digest(name.as_bytes()));
    let unusable = |reason: String| Error::Endpoint {
        origin: origin.to_owned(),
        reason,
        next: "see `docker context ls`, or unset it (`docker context use default`)".to_owned(),
    };
    let path = here
        .docker_config_folder()
        .ok_or_else(|| unusable("neither DOCKER_CONFIG nor HOME is set".to_owned()))?
        .join("contexts/meta")
        .join(folder)
        .join("meta.json");
    let text = std::fs::read_to_string(&path)
        .map_err(|error| unusable(format!("cannot read {}: {error}", path.display())))?;
    let meta: Value = serde_json::from_str(&text)
        .map_err(|error| unusable(format!("{}: {error}", path.display())))?;
    let host = meta["Endpoints"]["docker"]["Host"].as_str();
    let none = || unusable(format!("{} has no docker endpoint", path.display()));
    host.map(str::to_owned).ok_or_else(none)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(variables: &[(&str, &str)], expect: &[&str]) {
        let here = Surroundings {
            variable: &|name| {
                variables
                    .iter()
                    .find(|(key, _)| *key == name)
                    .map(|(_, value)| (*value).to_owned())
            },
            user_id: 1000,
        };
        let found = match discover(&here) {
            Ok(found) => found
                .iter()
                .map(|one| format!("{} ({})", one.socket.display(), one.origin))
                .collect(),
            Err(error) => vec![error.to_string()],
        };
        assert_eq!(found, expect);
    }

    #[test]
    fn without_settings_the_usual_sockets_in_order() {
        check(
            &[],
            &[
                "/var/run/docker.sock (default of Docker)",
                "/run/user/1000/docker.sock (default of rootless Docker)",
                "/run/user/1000/podman/podman.sock (default of rootless Podman)",
                "/run/podman/podman.sock (default of Podman)",
            ],
        );
        check(
            &[("XDG_RUNTIME_DIR", "/xdg")],
            &[
                "/var/run/docker.sock (default of Docker)",
                "/xdg/docker.sock (default of rootless Docker)",
                "/xdg/podman/podman.sock (default of rootless Podman)",
                "/run/podman/podman.sock (default of Podman)",
            ],
        );
    }

    #[test]
    fn a_setting_is_the_only_candidate() {
        check(
            &[("DOCKER_HOST", "unix:///x.sock")],
            &["/x.sock (DOCKER_HOST=unix:///x.sock)"],
        );
        check(
            &[("CONTAINER_HOST", "unix:///p.sock")],
            &["/p.sock (CONTAINER_HOST=unix:///p.sock)"],
        );
        check(
            &[
                ("CONTAINER_HOST", "unix:///p.sock"),
                ("DOCKER_HOST", "unix:///x.sock"),
            ],
            &["/x.sock (DOCKER_HOST=unix:///x.sock)"],
        );
    }

    #[test]
    fn what_is_no_socket_of_this_machine_is_refused() {
        let refusals = [
            "ssh://ci@gpu-1",
            "tcp://127.0.0.1:2375",
            "unix://relative",
            "nonsense",
        ]
        .map(|host| {
            let error = Endpoint::parse(host).unwrap_err();
            assert!(matches!(error, Error::Endpoint { .. }), "{error:?}");
            error.to_string()
        });
        insta::assert_snapshot!(refusals.join("\n"), @r"
        cannot use ssh://ci@gpu-1: only Unix sockets are supported; run torchgauge on the engine's machine, and bring images there with `images push` or `images export`
        cannot use tcp://127.0.0.1:2375: only Unix sockets are supported; run torchgauge on the engine's machine, and bring images there with `images push` or `images export`
        cannot use unix://relative: not the absolute path of a Unix socket; write unix:///path/to/socket
        cannot use nonsense: not the absolute path of a Unix socket; write unix:///path/to/socket
        ");
        check(
            &[("DOCKER_HOST", "ssh://gpu-1")],
            &[
                "cannot use DOCKER_HOST=ssh://gpu-1: only Unix sockets are supported; run torchgauge \
               on the engine's machine, and bring images there with `images push` or `images export`",
            ],
        );
    }

    #[test]
    fn the_current_context_is_honoured() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().to_str().unwrap();
        std::fs::write(
            folder.path().join("config.json"),
            r#"{"currentContext": "lab"}"#,
        )
        .unwrap();
        // sha256 of "lab".
        let name = format!("{:x}", Sha256::digest(b"lab"));
        let meta = folder.path().join("contexts/meta").join(&name);
        std::fs::create_dir_all(&meta).unwrap();
        std::fs::write(
            meta.join("meta.json"),
            r#"{"Name":"lab","Metadata":{},"Endpoints":{"docker":{"Host":"unix:///lab.sock"}}}"#,
        )
        .unwrap();
        check(
            &[("DOCKER_CONFIG", config)],
            &["/lab.sock (Docker context lab)"],
        );
        check(
            &[("DOCKER_CONFIG", config), ("DOCKER_HOST", "unix:///x.sock")],
            &["/x.sock (DOCKER_HOST=unix:///x.sock)"],
        );
        let here = Surroundings {
            variable: &|key| match key {
                "DOCKER_CONFIG" => Some(config.to_owned()),
                "DOCKER_CONTEXT" => Some("gone".to_owned()),
                _ => None,
            },
            user_id: 0,
        };
        let error = discover(&here).unwrap_err();
        assert!(matches!(error, Error::Endpoint { .. }), "{error:?}");
        insta::assert_snapshot!(error.to_string().replace(config, "/config"), @"cannot use DOCKER_CONTEXT=gone: cannot read /config/contexts/meta/283bb9deef02e6843abfb538efa1eca70801bd8a701c3f98191e123496339247/meta.json: No such file or directory (os error 2); see `docker context ls`, or unset it (`docker context use default`)");
    }
}
