//! As whom the docker command is logged in at a registry.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use docker_credential::{
    CredentialRetrievalError as Failure, DockerCredential, get_credential_from_reader,
};
use engine::Login;

use crate::{Error, Result, error::at};

/// By the docker command's settings and its credential helpers; `None` where it is not logged in.
pub(crate) fn login(registry: &str) -> Result<Option<Login>> {
    match settings() {
        Some(file) => login_by(&file, registry),
        None => Ok(None),
    }
}

fn login_by(file: &Path, registry: &str) -> Result<Option<Login>> {
    let server = match registry {
        "docker.io" | "registry-1.docker.io" | "index.docker.io" => "https://index.docker.io/v1/",
        other => other,
    };
    let settings = match fs::read(file) {
        Ok(settings) => settings,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(at(file)(error)),
    };
    let failure = match get_credential_from_reader(settings.as_slice(), server) {
        Ok(DockerCredential::UsernamePassword(name, password)) => {
            return Ok(Some(Login {
                username: Some(name),
                password: Some(password),
                ..Login::default()
            }));
        }
        Ok(DockerCredential::IdentityToken(token)) => {
            return Ok(Some(Login {
                identitytoken: Some(token),
                ..Login::default()
            }));
        }
        Err(Failure::NoCredentialConfigured) => return Ok(None),
        Err(Failure::HelperFailure { stdout, .. }) if stdout.contains("credentials not found") => {
            return Ok(None);
        }
        Err(failure) => failure,
    };
    let file = file.display();
    let helper = helper(&settings, server);
    let cause = match failure {
        Failure::HelperCommunicationError => format!(
            "{helper}, which {file} names, cannot be run; install it, or remove it from there and \
             run `docker login`"
        ),
        // The words of a helper may hold what is secret.
        Failure::HelperFailure { .. } | Failure::MalformedHelperResponse => format!(
            "{helper}, which {file} names, failed or gave no user and secret; `echo {server} | \
             {helper} get` shows why, and `docker login` logs in anew"
        ),
        Failure::ConfigReadError => {
            format!("{file} is not the JSON that the docker command writes; correct it")
        }
        other => format!("{other}, in {file}; run `docker login` again"),
    };
    let cause = format!("its credentials: {cause}");
    Err(Error::of_registry(registry, cause))
}

/// The program that settings name for a registry's credentials.
fn helper(settings: &[u8], server: &str) -> String {
    let settings: serde_json::Value = serde_json::from_slice(settings).unwrap_or_default();
    let own = settings["credHelpers"][server].as_str();
    let name = own.filter(|name| !name.is_empty());
    let name = name.or_else(|| settings["credsStore"].as_str());
    format!("docker-credential-{}", name.unwrap_or_default())
}

/// The registry of an image's name, as engines read it.
pub(crate) fn registry_of(reference: &str) -> &str {
    match reference.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => host,
        _ => "docker.io",
    }
}

fn settings() -> Option<PathBuf> {
    let folder = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from);
    let folder = folder.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".docker")));
    Some(folder?.join("config.json"))
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

    #[test]
    fn settings_say_who_is_logged_in() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.json");
        let with = |settings: &str| {
            fs::write(&file, settings).unwrap();
            login_by(&file, "r.example")
        };
        // As `az acr login` writes it.
        let azure = r#"{"auths": {"r.example": {"auth": "eDo=", "identitytoken": "long"}}}"#;
        assert!(
            matches!(with(azure), Ok(Some(login)) if login.identitytoken.as_deref() == Some("long")),
            "an engine can use it"
        );
        let password = r#"{"auths": {"r.example": {"auth": "eDp5"}}}"#;
        assert!(matches!(
            with(password),
            Ok(Some(login)) if (login.username.as_deref(), login.password.as_deref()) == (Some("x"), Some("y"))
        ));
        assert!(matches!(with("{}"), Ok(None)));
        assert!(matches!(
            login_by(&folder.path().join("none"), "r.example"),
            Ok(None)
        ));
        let place = file.display().to_string();
        let without_place = |error: Error| error.to_string().replace(&place, "/settings");
        let mut refusals = Vec::new();
        for settings in [
            r#"{"credsStore": "not-here"}"#,
            r#"{"credsStore": "other", "credHelpers": {"r.example": "not-here"}}"#,
        ] {
            refusals.push(without_place(with(settings).err().unwrap()));
        }
        refusals.push(without_place(with("{").err().unwrap()));
        insta::assert_snapshot!(refusals.join("\n"), @r"
        r.example: its credentials: docker-credential-not-here, which /settings names, cannot be run; install it, or remove it from there and run `docker login`
        r.example: its credentials: docker-credential-not-here, which /settings names, cannot be run; install it, or remove it from there and run `docker login`
        r.example: its credentials: /settings is not the JSON that the docker command writes; correct it
        ");
    }
}
