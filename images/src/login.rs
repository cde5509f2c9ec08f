//! As whom the docker command is logged in at a registry.

use std::path::{Path, PathBuf};

use docker_credential::{CredentialRetrievalError as Failure, DockerCredential};
use engine::Login;

use crate::{Error, Result};

/// By the docker command's settings and its credential helpers; `None` where it is not logged in.
///
/// # Errors
/// [`Error::Registry`]: settings that cannot be read, or a helper that fails.
pub(crate) fn login(registry: &str) -> Result<Option<Login>> {
    let server = match registry {
        "docker.io" | "registry-1.docker.io" | "index.docker.io" => "https://index.docker.io/v1/",
        other => other,
    };
    let failed = |why: &str| {
        Err(Error::Registry {
            registry: registry.to_owned(),
            cause: format!("its credentials: {why}"),
        })
    };
    match docker_credential::get_credential(server) {
        Ok(DockerCredential::UsernamePassword(user, password)) => {
            Ok(Some(Login { user, password }))
        }
        Ok(DockerCredential::IdentityToken(_)) => failed(
            "an identity token, which the docker command alone can use; log in with a user and a \
             password or access token",
        ),
        Err(Failure::NoCredentialConfigured | Failure::ConfigNotFound) => Ok(None),
        // The crate does not tell a file that is missing from one that cannot be read.
        Err(Failure::ConfigReadError) if !has_settings() => Ok(None),
        Err(Failure::ConfigReadError) => failed("the docker command's config.json cannot be read"),
        Err(Failure::HelperFailure { stdout, .. }) if stdout.contains("credentials not found") => {
            Ok(None)
        }
        // The words of a helper may hold what is secret.
        Err(Failure::HelperFailure { helper, .. }) => {
            failed(&format!("docker-credential-{helper} failed"))
        }
        Err(error) => failed(&error.to_string()),
    }
}

/// The registry of an image's name, as engines read it.
pub(crate) fn registry_of(reference: &str) -> &str {
    match reference.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => host,
        _ => "docker.io",
    }
}

/// Whether the docker command has a settings file.
fn has_settings() -> bool {
    let folder = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from);
    let folder = folder.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".docker")));
    folder.is_some_and(|folder| folder.join("config.json").exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_host_is_of_the_public_registry() {
        for (reference, host) in [
            ("python:3.12", "docker.io"),
            ("team/image@sha256:00", "docker.io"),
            (
                "registry.example:5000/team/image:1",
                "registry.example:5000",
            ),
            ("localhost/x", "localhost"),
        ] {
            assert_eq!(registry_of(reference), host);
        }
    }
}
