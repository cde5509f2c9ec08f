//! Where an engine may be: what the user set, then the usual sockets.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// Which engine to talk to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Endpoint {
    /// What the docker command would use, then Podman's sockets: `DOCKER_HOST`,
    /// `DOCKER_CONTEXT` or the current Docker context, `CONTAINER_HOST`, and, only
    /// where none of these is set, the usual sockets.
    #[default]
    Auto,
    /// A Unix socket.
    Socket(PathBuf),
    /// A plain TCP address, `host:port`. Mounts are paths of that machine.
    Tcp(String),
}

impl Endpoint {
    /// [`Endpoint::Auto`].
    #[must_use]
    pub fn auto() -> Self {
        Self::Auto
    }

    /// Reads `unix:///path`, `tcp://host:port`, `http://host:port` or a bare
    /// absolute path.
    pub fn parse(text: &str) -> Result<Self> {
        Address::parse(text, text).map(|address| match address {
            Address::Socket(path) => Self::Socket(path),
            Address::Tcp(host) => Self::Tcp(host),
        })
    }

    pub(crate) fn candidates(&self) -> Result<Vec<Candidate>> {
        let given = |address| {
            vec![Candidate {
                address,
                origin: "given".to_owned(),
            }]
        };
        match self {
            Self::Auto => discover(&Surroundings::here()),
            Self::Socket(path) => Ok(given(Address::Socket(path.clone()))),
            Self::Tcp(host) => Ok(given(Address::Tcp(host.clone()))),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Socket(PathBuf),
    Tcp(String),
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Socket(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp(host) => write!(f, "tcp://{host}"),
        }
    }
}

impl Address {
    fn parse(text: &str, origin: &str) -> Result<Self> {
        let unusable = |reason: &str, next: &str| Error::Endpoint {
            origin: origin.to_owned(),
            reason: reason.to_owned(),
            next: next.to_owned(),
        };
        let text = text.trim();
        if let Some(path) = text
            .strip_prefix("unix://")
            .or(text.starts_with('/').then_some(text))
        {
            return if path.starts_with('/') {
                Ok(Self::Socket(PathBuf::from(path)))
            } else {
                Err(unusable(
                    "the socket's path is not absolute",
                    "write unix:///path/to/socket",
                ))
            };
        }
        if let Some(host) = text
            .strip_prefix("tcp://")
            .or_else(|| text.strip_prefix("http://"))
        {
            let host = host.trim_end_matches('/');
            let port = host
                .rsplit_once(':')
                .and_then(|(_, port)| port.parse::<u16>().ok());
            return if port.is_some() {
                Ok(Self::Tcp(host.to_owned()))
            } else {
                Err(unusable(
                    "there is no port in the address",
                    "write tcp://host:2375",
                ))
            };
        }
        if text.starts_with("ssh://") || text.starts_with("https://") {
            return Err(unusable(
                "only unix:// and tcp:// are supported, because files of this machine are \
                 mounted into the containers",
                "run on the engine's machine itself",
            ));
        }
        Err(unusable(
            "not an address of an engine",
            "write unix:///path or tcp://host:port",
        ))
    }
}

/// An address and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) address: Address,
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
    let one = |address, origin| Ok(vec![Candidate { address, origin }]);
    if let Some(host) = (here.variable)("DOCKER_HOST") {
        let origin = format!("DOCKER_HOST={host}");
        let address = Address::parse(&host, &origin)?;
        if matches!(address, Address::Tcp(_)) && (here.variable)("DOCKER_TLS_VERIFY").is_some() {
            return Err(no_tls(origin, "DOCKER_TLS_VERIFY"));
        }
        return one(address, origin);
    }
    if let Some((name, origin)) = chosen_context(here)
        && name != "default"
    {
        let (host, has_tls) = context_host(here, &name, &origin)?;
        let address = Address::parse(&host, &origin)?;
        if matches!(address, Address::Tcp(_)) && has_tls {
            return Err(no_tls(origin, "the context"));
        }
        return one(address, origin);
    }
    if let Some(host) = (here.variable)("CONTAINER_HOST") {
        let origin = format!("CONTAINER_HOST={host}");
        return one(Address::parse(&host, &origin)?, origin);
    }
    let runtime_folder = (here.variable)("XDG_RUNTIME_DIR").map_or_else(
        || PathBuf::from(format!("/run/user/{}", here.user_id)),
        PathBuf::from,
    );
    let usual = [
        (PathBuf::from("/var/run/docker.sock"), "Docker"),
        (runtime_folder.join("docker.sock"), "rootless Docker"),
        (runtime_folder.join("podman/podman.sock"), "rootless Podman"),
        (PathBuf::from("/run/podman/podman.sock"), "Podman"),
    ];
    Ok(usual
        .into_iter()
        .map(|(path, product)| Candidate {
            address: Address::Socket(path),
            origin: format!("default of {product}"),
        })
        .collect())
}

fn no_tls(origin: String, who: &str) -> Error {
    Error::Endpoint {
        origin,
        reason: format!("{who} asks for TLS, which is not supported"),
        next: "forward the engine's socket (`ssh -N -L /tmp/docker.sock:/var/run/docker.sock \
               HOST`) and set DOCKER_HOST=unix:///tmp/docker.sock"
            .to_owned(),
    }
}

fn chosen_context(here: &Surroundings<'_>) -> Option<(String, String)> {
    #[derive(Deserialize)]
    struct Config {
        #[serde(rename = "currentContext")]
        current_context: Option<String>,
    }
    if let Some(name) = (here.variable)("DOCKER_CONTEXT") {
        let origin = format!("DOCKER_CONTEXT={name}");
        return Some((name, origin));
    }
    let text = std::fs::read_to_string(here.docker_config_folder()?.join("config.json")).ok()?;
    let name = serde_json::from_str::<Config>(&text)
        .ok()?
        .current_context?;
    (!name.is_empty()).then(|| {
        let origin = format!("Docker context {name}");
        (name, origin)
    })
}

/// The address of a context, and whether it is spoken to by TLS. The docker command keeps a context
/// in `contexts/meta/<sha256 of its name>/meta.json`, and its certificates in `contexts/tls/`.
fn context_host(here: &Surroundings<'_>, name: &str, origin: &str) -> Result<(String, bool)> {
    #[derive(Deserialize)]
    struct Meta {
        #[serde(rename = "Endpoints")]
        endpoints: Endpoints,
    }
    #[derive(Deserialize)]
    struct Endpoints {
        docker: DockerEndpoint,
    }
    #[derive(Deserialize)]
    struct DockerEndpoint {
        #[serde(rename = "Host")]
        host: String,
        #[serde(rename = "SkipTLSVerify", default)]
        skips_verification: bool,
    }
    let digest = Sha256::digest(name.as_bytes());
    let folder = digest
        .iter()
        .fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    let unusable = |reason: String| Error::Endpoint {
        origin: origin.to_owned(),
        reason,
        next: "see `docker context ls`, or unset it (`docker context use default`)".to_owned(),
    };
    let contexts = here
        .docker_config_folder()
        .ok_or_else(|| unusable("neither DOCKER_CONFIG nor HOME is set".to_owned()))?
        .join("contexts");
    let path = contexts.join("meta").join(&folder).join("meta.json");
    let has_certificates = contexts.join("tls").join(folder).exists();
    let text = std::fs::read_to_string(&path)
        .map_err(|error| unusable(format!("cannot read {}: {error}", path.display())))?;
    serde_json::from_str::<Meta>(&text)
        .map(|meta| meta.endpoints.docker)
        .map(|docker| (docker.host, has_certificates || docker.skips_verification))
        .map_err(|error| {
            unusable(format!(
                "{} has no docker endpoint: {error}",
                path.display()
            ))
        })
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
                .map(|one| format!("{} ({})", one.address, one.origin))
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
                "unix:///var/run/docker.sock (default of Docker)",
                "unix:///run/user/1000/docker.sock (default of rootless Docker)",
                "unix:///run/user/1000/podman/podman.sock (default of rootless Podman)",
                "unix:///run/podman/podman.sock (default of Podman)",
            ],
        );
        check(
            &[("XDG_RUNTIME_DIR", "/xdg")],
            &[
                "unix:///var/run/docker.sock (default of Docker)",
                "unix:///xdg/docker.sock (default of rootless Docker)",
                "unix:///xdg/podman/podman.sock (default of rootless Podman)",
                "unix:///run/podman/podman.sock (default of Podman)",
            ],
        );
    }

    #[test]
    fn tls_is_refused_with_what_works_in_its_place() {
        let settings = [("DOCKER_HOST", "tcp://h:2376"), ("DOCKER_TLS_VERIFY", "1")];
        let variable = |name: &str| {
            let found = settings.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let here = Surroundings {
            variable: &variable,
            user_id: 1000,
        };
        let error = discover(&here).unwrap_err().to_string();
        for part in ["DOCKER_HOST=tcp://h:2376", "TLS", "ssh -N -L"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_setting_is_the_only_candidate() {
        check(
            &[("DOCKER_HOST", "unix:///x.sock")],
            &["unix:///x.sock (DOCKER_HOST=unix:///x.sock)"],
        );
        check(
            &[("DOCKER_HOST", "tcp://h:2375")],
            &["tcp://h:2375 (DOCKER_HOST=tcp://h:2375)"],
        );
        check(
            &[("CONTAINER_HOST", "unix:///p.sock")],
            &["unix:///p.sock (CONTAINER_HOST=unix:///p.sock)"],
        );
        check(
            &[
                ("CONTAINER_HOST", "unix:///p.sock"),
                ("DOCKER_HOST", "unix:///x.sock"),
            ],
            &["unix:///x.sock (DOCKER_HOST=unix:///x.sock)"],
        );
    }

    #[test]
    fn settings_that_cannot_be_used_say_so() {
        for (host, expect) in [
            ("ssh://host", "only unix:// and tcp:// are supported"),
            ("tcp://host", "there is no port"),
            ("unix://relative", "not absolute"),
            ("nonsense", "not an address of an engine"),
        ] {
            let error = Endpoint::parse(host).unwrap_err().to_string();
            assert!(error.contains(expect), "{host}: {error}");
        }
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
        let digest = Sha256::digest(b"lab");
        let name = digest
            .iter()
            .fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        let meta = folder.path().join("contexts/meta").join(&name);
        std::fs::create_dir_all(&meta).unwrap();
        std::fs::write(
            meta.join("meta.json"),
            r#"{"Name":"lab","Metadata":{},"Endpoints":{"docker":{"Host":"unix:///lab.sock","SkipTLSVerify":false}}}"#,
        )
        .unwrap();
        check(
            &[("DOCKER_CONFIG", config)],
            &["unix:///lab.sock (Docker context lab)"],
        );
        check(
            &[("DOCKER_CONFIG", config), ("DOCKER_HOST", "unix:///x.sock")],
            &["unix:///x.sock (DOCKER_HOST=unix:///x.sock)"],
        );
        let here = Surroundings {
            variable: &|key| match key {
                "DOCKER_CONFIG" => Some(config.to_owned()),
                "DOCKER_CONTEXT" => Some("gone".to_owned()),
                _ => None,
            },
            user_id: 0,
        };
        let error = discover(&here).unwrap_err().to_string();
        // By TCP a context with certificates is not spoken to without them.
        let set_host = |more: &str| {
            let text = format!(r#"{{"Endpoints":{{"docker":{{"Host":"tcp://lab:2376"{more}}}}}}}"#);
            std::fs::write(meta.join("meta.json"), text).unwrap();
        };
        set_host("");
        let plain = "tcp://lab:2376 (Docker context lab)";
        check(&[("DOCKER_CONFIG", config)], &[plain]);
        let refused = || {
            let here = Surroundings {
                variable: &|key| (key == "DOCKER_CONFIG").then(|| config.to_owned()),
                user_id: 0,
            };
            let error = discover(&here).unwrap_err().to_string();
            for part in ["Docker context lab", "TLS", "ssh -N -L"] {
                assert!(error.contains(part), "{error}");
            }
        };
        set_host(r#","SkipTLSVerify":true"#);
        refused();
        set_host("");
        std::fs::create_dir_all(folder.path().join("contexts/tls").join(&name)).unwrap();
        refused();
        assert!(
            error.contains("DOCKER_CONTEXT=gone") && error.contains("docker context ls"),
            "{error}"
        );
    }
}
