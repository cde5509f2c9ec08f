//! What steps need where Pyxis makes their containers: enroot pulls and unpacks the image for each.

/// Variables by which enroot finds its settings, credentials and registries.
pub(super) const VARIABLES: [&str; 9] = [
    "HOME",
    "XDG_CONFIG_HOME",
    "ENROOT_CONFIG_PATH",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
];

/// What `srun` gets beside them. Folders of who submits, which enroot takes settings from, are not in
/// the container, and Pyxis needs a shell there.
pub(super) const OPTIONS: &str = r#"\
        --no-container-mount-home --no-container-remap-root --no-container-entrypoint \
        "--container-mounts=$mounts" \
        "$@" /bin/sh -c 'unset XDG_CONFIG_HOME; export HOME=/tmp XDG_CACHE_HOME="${XDG_CACHE_HOME:-/tmp/.cache}"; exec "$@"' sh"#;

/// The options of a run's own.
pub(super) fn options(image: &str, is_writable: bool, workdir: Option<&str>) -> Vec<String> {
    let root = if is_writable { "writable" } else { "readonly" };
    let own = [
        format!("--container-image={}", enroot_s(image)),
        format!("--container-{root}"),
    ];
    let workdir = workdir.map(|folder| format!("--container-workdir={folder}"));
    own.into_iter().chain(workdir).collect()
}

/// `registry.example#team/a@sha256:…`: in every version of enroot a registry ends there.
fn enroot_s(image: &str) -> String {
    let of_hub = image.strip_prefix("docker.io/");
    let image = of_hub.unwrap_or(image);
    match image.split_once('/') {
        Some((registry, rest)) if registry.contains(['.', ':']) || registry == "localhost" => {
            format!("{registry}#{rest}")
        }
        _ => image.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_named_as_enroot_does() {
        for (image, expected) in [
            ("team/a@sha256:00", "team/a@sha256:00"),
            ("docker.io/team/a@sha256:00", "team/a@sha256:00"),
            ("localhost/a@sha256:00", "localhost#a@sha256:00"),
        ] {
            assert_eq!(enroot_s(image), expected);
        }
    }
}
