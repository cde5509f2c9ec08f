//! What an engine says about itself.

use bollard::{
    Docker,
    models::{SystemInfo, SystemVersion},
};
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

const KERNEL_RELEASE: &str = "/proc/sys/kernel/osrelease";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Product {
    Docker,
    /// Podman through `podman system service`.
    Podman,
}

impl std::fmt::Display for Product {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Docker => "Docker",
            Self::Podman => "Podman",
        })
    }
}

/// What an engine says about itself, as read when connecting. `None` where the
/// engine does not say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineFacts {
    pub product: Product,
    /// The engine's version, such as `20.10.24+dfsg1`.
    pub version: String,
    /// Address that answered, such as `unix:///var/run/docker.sock`.
    pub endpoint: String,
    /// Storage driver, such as `overlay2`.
    pub storage_driver: Option<String>,
    /// OCI runtimes by name, such as `runc`, `nvidia`.
    pub runtimes: Vec<String>,
    /// Folders where the engine looks for CDI specs; empty where CDI is off.
    pub cdi_spec_folders: Vec<String>,
    /// Folder where the engine keeps images and containers.
    pub data_folder: Option<String>,
    /// Name of the machine that the engine runs on.
    pub machine: Option<String>,
    /// Release of that machine's kernel, such as `6.1.0-13-amd64`.
    pub kernel: Option<String>,
}

impl EngineFacts {
    /// `Docker 20.10.24 at unix:///var/run/docker.sock`, for messages.
    pub fn describe(&self) -> String {
        let version = match &*self.version {
            "" => String::new(),
            version => format!(" {version}"),
        };
        format!("{}{version} at {}", self.product, self.endpoint)
    }

    /// Whether the engine is on this machine: under this kernel.
    pub fn check_here(&self) -> Result<()> {
        let kernel = std::fs::read_to_string(KERNEL_RELEASE).unwrap_or_default();
        self.check(kernel.trim())
    }

    /// What is not known tells nothing apart.
    fn check(&self, here: &str) -> Result<()> {
        match &self.kernel {
            Some(there) if !here.is_empty() && there != here => {
                let machine = self.machine.as_deref().unwrap_or("without a name");
                Err(Error::Endpoint {
                    origin: self.describe(),
                    reason: format!(
                        "it runs on another machine, {machine} (kernel {there}; here {here}), and runs \
                         need local mounts and monitoring"
                    ),
                    next: format!(
                        "run torchgauge on {machine} itself (`images build`, `load` and `pull` work \
                         from here)"
                    ),
                })
            }
            _ => Ok(()),
        }
    }

    /// Major and minor version, for what depends on it; `(0, 0)` where unreadable.
    pub fn version_numbers(&self) -> (u32, u32) {
        let mut numbers = self
            .version
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|digits| digits.parse().ok());
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }

    /// Whether `oom_killed` means something: Podman before 5 leaves it false
    /// whatever happened.
    pub fn reports_oom(&self) -> bool {
        self.product == Product::Docker || self.version_numbers().0 >= 5
    }

    pub(crate) async fn read(
        docker: &Docker,
        endpoint: String,
    ) -> Result<Self, bollard::errors::Error> {
        let version = docker.version().await?;
        let info = docker.info().await?;
        Ok(Self::assemble(version, info, endpoint))
    }

    fn assemble(version: SystemVersion, info: SystemInfo, endpoint: String) -> Self {
        let mut components = version.components.iter().flatten();
        let product = if components.any(|component| component.name.contains("Podman")) {
            Product::Podman
        } else {
            Product::Docker
        };
        let mut runtimes: Vec<String> = info.runtimes.unwrap_or_default().into_keys().collect();
        runtimes.sort();
        Self {
            product,
            version: version.version.or(info.server_version).unwrap_or_default(),
            endpoint,
            storage_driver: info.driver.filter(|driver| !driver.is_empty()),
            runtimes,
            cdi_spec_folders: info.cdi_spec_dirs.unwrap_or_default(),
            data_folder: info.docker_root_dir.filter(|folder| !folder.is_empty()),
            machine: info.name.filter(|name| !name.is_empty()),
            kernel: info.kernel_version.filter(|release| !release.is_empty()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_under_another_kernel_is_on_another_machine() {
        let info = SystemInfo {
            name: Some("node-7".to_owned()),
            kernel_version: Some("6.1.0-13-amd64".to_owned()),
            ..SystemInfo::default()
        };
        let endpoint = "unix:///forwarded.sock".to_owned();
        let mut facts = EngineFacts::assemble(SystemVersion::default(), info, endpoint);
        assert!(facts.check("6.1.0-13-amd64").is_ok());
        assert!(facts.check("").is_ok());
        let error = facts.check("6.12.0").unwrap_err();
        assert!(matches!(error, Error::Endpoint { .. }), "{error:?}");
        insta::assert_snapshot!(error, @"cannot use Docker at unix:///forwarded.sock: it runs on another machine, node-7 (kernel 6.1.0-13-amd64; here 6.12.0), and runs need local mounts and monitoring; run torchgauge on node-7 itself (`images build`, `load` and `pull` work from here)");
        facts.kernel = None;
        assert!(facts.check("6.12.0").is_ok());
    }
}
