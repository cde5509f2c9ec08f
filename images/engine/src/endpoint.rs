//! Where an engine may be: what the user set, then the usual sockets.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// Where Docker listens.
const DOCKER_SOCKET: &str = "/var/run/docker.sock";

/// Which engine to talk to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Endpoint {
    /// What the docker command would use, then Podman's sockets: `DOCKER_HOST`,
    /// `DOCKER_CONTEXT` or the current Docker context, `CONTAINER_HOST`, and, only
    /// where none of these is set, the usual sockets.
    #[default]
    Auto,
    /// One address.
    At(Address),
}

impl Endpoint {
    /// A Unix socket.
    #[must_use]
    pub fn socket(path: impl Into<PathBuf>) -> Self {
        Self::At(Address::Socket(path.into()))
    }

    /// [`Endpoint::Auto`].
    #[must_use]
    pub fn auto() -> Self {
        Self::Auto
    }

    /// Reads `unix:///path`, `tcp://host:port`, `http://host:port`, `ssh://user@host` or a bare
    /// absolute path.
    pub fn parse(text: &str) -> Result<Self> {
        Address::parse(text, text, None).map(Self::At)
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
            Self::At(address) => Ok(given(address.clone())),
        }
    }
}

/// How an engine is spoken to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket.
    Socket(PathBuf),
    /// `host:port`, without TLS.
    Tcp(String),
    /// `host:port` by TLS, with `ca.pem`, `cert.pem` and `key.pem` in a folder.
    Tls {
        /// `host:port`.
        host: String,
        /// Where the certificates are.
        certificates: PathBuf,
    },
    /// A socket of another machine, through that machine's SSH server.
    Ssh {
        /// `host` or `user@host`, as the `ssh` command takes it.
        destination: String,
        /// Unless it is SSH's own, or what the user's configuration says.
        port: Option<u16>,
        /// The engine's socket there.
        socket: PathBuf,
    },
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Socket(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp(host) | Self::Tls { host, .. } => write!(f, "tcp://{host}"),
            Self::Ssh {
                destination, port, ..
            } => {
                let port = port.map(|port| format!(":{port}")).unwrap_or_default();
                write!(f, "ssh://{destination}{port}")
            }
        }
    }
}

impl Address {
    /// Reads an address. By TCP, TLS is spoken where there is a folder of certificates for it.
    fn parse(text: &str, origin: &str, certificates: Option<PathBuf>) -> Result<Self> {
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
        if let Some(rest) = text.strip_prefix("ssh://") {
            return Self::parse_ssh(rest).ok_or_else(|| {
                unusable(
                    "not an address for SSH",
                    "write ssh://user@host, with :PORT and the socket's /path where they are others",
                )
            });
        }
        let by_https = text.strip_prefix("https://");
        if let Some(host) = text
            .strip_prefix("tcp://")
            .or_else(|| text.strip_prefix("http://"))
            .or(by_https)
        {
            let host = host.trim_end_matches('/');
            let port = host
                .rsplit_once(':')
                .and_then(|(_, port)| port.parse::<u16>().ok());
            if port.is_none() {
                return Err(unusable(
                    "there is no port in the address",
                    "write tcp://host:2375, or tcp://host:2376 with DOCKER_TLS_VERIFY=1",
                ));
            }
            let host = host.to_owned();
            return match certificates {
                Some(certificates) => Ok(Self::Tls { host, certificates }),
                None if by_https.is_some() => Err(unusable(
                    "there are no certificates for it",
                    "set DOCKER_TLS_VERIFY=1, and DOCKER_CERT_PATH to the folder that has them",
                )),
                None => Ok(Self::Tcp(host)),
            };
        }
        Err(unusable(
            "not an address of an engine",
            "write unix:///path, tcp://host:port or ssh://user@host",
        ))
    }

    /// What follows `ssh://`: `[user@]host[:port][/path/to/socket]`.
    fn parse_ssh(text: &str) -> Option<Self> {
        let (authority, path) = match text.find('/') {
            Some(at) => text.split_at(at),
            None => (text, ""),
        };
        let (destination, port) = match authority.rsplit_once(':') {
            // An IPv6 address in brackets has colons of its own.
            Some((host, port)) if !port.ends_with(']') => (host, Some(port.parse().ok()?)),
            _ => (authority, None),
        };
        // `ssh` takes what begins with a hyphen for an option, and runs some of them.
        let host = destination.rsplit('@').next().unwrap_or_default();
        if host.is_empty() || destination.starts_with('-') || host.starts_with('-') {
            return None;
        }
        let socket = match path {
            "" | "/" => DOCKER_SOCKET,
            path => path,
        };
        Some(Self::Ssh {
            destination: destination.replace(['[', ']'], ""),
            port,
            socket: PathBuf::from(socket),
        })
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
        let certificates = (here.variable)("DOCKER_TLS_VERIFY").and_then(|_| {
            (here.variable)("DOCKER_CERT_PATH")
                .map(PathBuf::from)
                .or_else(|| here.docker_config_folder())
        });
        let address = Address::parse(&host, &origin, certificates)?;
        return one(address, origin);
    }
    if let Some((name, origin)) = chosen_context(here)
        && name != "default"
    {
        let (host, certificates) = context_host(here, &name, &origin)?;
        let address = Address::parse(&host, &origin, certificates)?;
        return one(address, origin);
    }
    if let Some(host) = (here.variable)("CONTAINER_HOST") {
        let origin = format!("CONTAINER_HOST={host}");
        return one(Address::parse(&host, &origin, None)?, origin);
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
        .map(|(path, product)| Candidate {
            address: Address::Socket(path),
            origin: format!("default of {product}"),
        })
        .collect())
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

/// The address of a context, and its certificates where it is spoken to by TLS. The docker command
/// keeps a context in `contexts/meta/<sha256 of its name>/meta.json`, and its certificates in
/// `contexts/tls/<the same>/docker`.
fn context_host(
    here: &Surroundings<'_>,
    name: &str,
    origin: &str,
) -> Result<(String, Option<PathBuf>)> {
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
    let folder = format!("{:x}", Sha256::digest(name.as_bytes()));
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
    let certificates = contexts.join("tls").join(folder).join("docker");
    let text = std::fs::read_to_string(&path)
        .map_err(|error| unusable(format!("cannot read {}: {error}", path.display())))?;
    let docker = serde_json::from_str::<Meta>(&text)
        .map(|meta| meta.endpoints.docker)
        .map_err(|error| {
            unusable(format!(
                "{} has no docker endpoint: {error}",
                path.display()
            ))
        })?;
    if docker.skips_verification {
        return Err(Error::Endpoint {
            origin: origin.to_owned(),
            reason:
                "the context skips TLS verification, so that anybody could answer for the engine"
                    .to_owned(),
            next: format!(
                "give it a CA (`docker context update {name} --docker host=…,ca=…,cert=…,key=…`)"
            ),
        });
    }
    Ok((docker.host, certificates.is_dir().then_some(certificates)))
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
    fn tls_is_spoken_with_the_docker_command_s_certificates() {
        let at = |variables: &[(&str, &str)]| {
            let variable = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            let here = Surroundings {
                variable: &variable,
                user_id: 1000,
            };
            discover(&here).map(|mut found| found.remove(0).address)
        };
        let tls = |certificates: &str| Address::Tls {
            host: "h:2376".to_owned(),
            certificates: certificates.into(),
        };
        let host = ("DOCKER_HOST", "tcp://h:2376");
        let verify = ("DOCKER_TLS_VERIFY", "1");
        let home = ("HOME", "/home/u");
        assert_eq!(at(&[host, verify, home]).unwrap(), tls("/home/u/.docker"));
        let path = ("DOCKER_CERT_PATH", "/certs");
        assert_eq!(at(&[host, verify, home, path]).unwrap(), tls("/certs"));
        assert_eq!(
            at(&[host, home, path]).unwrap(),
            Address::Tcp("h:2376".to_owned())
        );
        let error = at(&[("DOCKER_HOST", "https://h:2376"), home]).unwrap_err();
        assert!(error.to_string().contains("DOCKER_TLS_VERIFY=1"), "{error}");
    }

    #[test]
    fn addresses_for_ssh_are_read() {
        let read = |text: &str| match Address::parse(text, text, None) {
            Ok(Address::Ssh {
                destination,
                port,
                socket,
            }) => format!("{destination} {port:?} {}", socket.display()),
            other => format!("{other:?}"),
        };
        assert_eq!(read("ssh://gpu-1"), "gpu-1 None /var/run/docker.sock");
        assert_eq!(
            read("ssh://ci@gpu-1:2222/run/podman/podman.sock"),
            "ci@gpu-1 Some(2222) /run/podman/podman.sock"
        );
        assert_eq!(
            read("ssh://ci@[fe80::1]:22/"),
            "ci@fe80::1 Some(22) /var/run/docker.sock"
        );
        assert_eq!(read("ssh://[fe80::1]"), "fe80::1 None /var/run/docker.sock");
        for text in [
            "ssh://",
            "ssh:///path",
            "ssh://h:port",
            "ssh://-oProxyCommand=touch",
            "ssh://u@-oProxyCommand=touch",
        ] {
            assert!(read(text).contains("not an address for SSH"), "{text}");
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
            ("ssh://", "not an address for SSH"),
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
        let name = format!("{:x}", Sha256::digest(b"lab"));
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
        // A context's certificates are its own.
        let set_host = |more: &str| {
            let text = format!(r#"{{"Endpoints":{{"docker":{{"Host":"tcp://lab:2376"{more}}}}}}}"#);
            std::fs::write(meta.join("meta.json"), text).unwrap();
        };
        let here = Surroundings {
            variable: &|key| (key == "DOCKER_CONFIG").then(|| config.to_owned()),
            user_id: 0,
        };
        let found = || discover(&here).map(|mut found| found.remove(0).address);
        set_host("");
        assert_eq!(found().unwrap(), Address::Tcp("lab:2376".to_owned()));
        let certificates = folder
            .path()
            .join("contexts/tls")
            .join(&name)
            .join("docker");
        std::fs::create_dir_all(&certificates).unwrap();
        let host = "lab:2376".to_owned();
        assert_eq!(found().unwrap(), Address::Tls { host, certificates });
        set_host(r#","SkipTLSVerify":true"#);
        let skips = found().unwrap_err().to_string();
        for part in [
            "Docker context lab",
            "skips TLS verification",
            "docker context update lab",
        ] {
            assert!(skips.contains(part), "{skips}");
        }
        assert!(
            error.contains("DOCKER_CONTEXT=gone") && error.contains("docker context ls"),
            "{error}"
        );
    }
}
