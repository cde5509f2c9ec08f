//! The images of a session: what each is made of, and what two of them differ in.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One image, as it was run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImageFacts {
    /// Its name, or `local`.
    pub name: String,
    /// The reference in the engine.
    pub reference: Option<String>,
    /// The ID in the engine.
    pub id: Option<String>,
    /// libtorch's version.
    pub libtorch_version: String,
    /// Which build of it, such as `2.11.0+cu130`.
    pub flavour: String,
    /// What the image stands on.
    pub base: Option<String>,
    /// Bytes of all layers.
    pub size_bytes: Option<u64>,
    /// How long the engine took to load or pull it for this session; `None` where the engine had it
    /// already, or nothing was loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_seconds: Option<f64>,
    /// Bytes of the layers that were sent for that, less than the image's where the engine had some
    /// of them; `None` where the engine pulled it by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loaded_bytes: Option<u64>,
    /// Compressed bytes of all layers, where the engine pulled all of them for this session and
    /// reports them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_bytes: Option<u64>,
    /// Layers from the bottom up: what it holds, and its bytes.
    #[serde(default)]
    pub layers: Vec<(String, u64)>,
    /// SHA-256 of the `scenario` binary.
    pub scenario_sha256: Option<String>,
    /// How it stands to its lock; `None` where no image was made, or where nothing was kept of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<ImageLock>,
    /// What it is made of below the `scenario` binary; `None` where no image was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<ImageParts>,
}

impl ImageFacts {
    /// Whether more than its name is known: whoever looked at it says.
    pub fn is_known(&self) -> bool {
        self.id.is_some() || self.scenario_sha256.is_some() || !self.flavour.is_empty()
    }
}

/// How an image stands to its lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum ImageLock {
    /// It is the locked image, bit for bit.
    Matches,
    /// Base and libtorch are the locked ones. The `scenario` binary is another.
    OtherScenario {
        /// Why it is.
        cause: String,
    },
    /// It is not the locked image.
    Differs {
        /// What differs.
        cause: String,
    },
    /// There is no lock.
    Unlocked,
}

impl fmt::Display for ImageLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Matches => f.write_str("the locked image, bit for bit"),
            Self::OtherScenario { cause } => write!(
                f,
                "as locked below the scenario binary, which is another: {cause}"
            ),
            Self::Differs { cause } => write!(f, "differs from its lock: {cause}"),
            Self::Unlocked => f.write_str("no lock"),
        }
    }
}

/// What an image is made of below the `scenario` binary, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImageParts {
    /// Versions that the libraries state themselves: torch, CUDA, cuDNN, NCCL, glibc.
    pub versions: BTreeMap<String, String>,
    /// Packages of the base and wheels, by version.
    pub packages: BTreeMap<String, String>,
    /// The image's environment.
    pub environment: BTreeMap<String, String>,
    /// libtorch's libraries, in bytes.
    pub libraries: BTreeMap<String, u64>,
    /// The GPU architectures that they have code for: `all`, `none`, or names such as `sm_90`;
    /// `None` in sessions from before it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_code: Option<String>,
}

/// What of an image differs.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// A version that a library states itself.
    Version,
    /// A Debian package or a wheel.
    Package,
    /// A variable of the image's environment.
    Environment,
    /// A layer, or several that hold the same kind of thing.
    Layer,
    /// One of libtorch's libraries.
    Library,
    /// The GPU architectures that the libraries have code for.
    GpuCode,
    /// The `scenario` binary.
    Workload,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Version => "version",
            Self::Package => "package",
            Self::Environment => "environment",
            Self::Layer => "layer",
            Self::Library => "library",
            Self::GpuCode => "GPU code",
            Self::Workload => "workload",
        })
    }
}

/// A value of something that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum PartValue {
    /// A size.
    Bytes(u64),
    /// A version, or a text.
    Text(String),
}

/// One thing that two images differ in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImageChange {
    /// Which kind of thing.
    pub part: Part,
    /// Its name.
    pub name: String,
    /// In the first image; `None` where that has none.
    pub base: Option<PartValue>,
    /// In the second image; `None` where that has none.
    pub head: Option<PartValue>,
}

/// What two images differ in: the explanation that stands beside a comparison of theirs. What is
/// not known of both is left out.
pub fn image_changes(base: &ImageFacts, head: &ImageFacts) -> Vec<ImageChange> {
    let (base, head) = (values(base, head), values(head, base));
    let names: BTreeSet<&(Part, String)> = base.keys().chain(head.keys()).collect();
    let names = names.into_iter();
    let differ = names.filter(|name| base.get(*name) != head.get(*name));
    let change = |name: &(Part, String)| ImageChange {
        part: name.0,
        name: name.1.clone(),
        base: base.get(name).cloned(),
        head: head.get(name).cloned(),
    };
    differ.map(change).collect()
}

/// What an image is made of, as far as that is known of the other one too.
fn values(image: &ImageFacts, other: &ImageFacts) -> BTreeMap<(Part, String), PartValue> {
    let mut all = BTreeMap::new();
    let mut text = |part, name: &str, value: &str| {
        all.insert((part, name.to_owned()), PartValue::Text(value.to_owned()));
    };
    let mut sizes: BTreeMap<(Part, String), u64> = BTreeMap::new();
    let parts = image.parts.as_ref().zip(other.parts.as_ref());
    if let Some((parts, others)) = parts {
        let texts = [
            (Part::Version, &parts.versions),
            (Part::Package, &parts.packages),
            (Part::Environment, &parts.environment),
        ];
        // One image may list packages and the other the versions that it finds in libraries: what
        // is in both is then what both name.
        let is_alike = parts.packages.is_empty() == others.packages.is_empty();
        for (part, values) in texts {
            let is_known = |name: &String| match part {
                Part::Package => is_alike,
                Part::Version => is_alike || others.versions.contains_key(name),
                _ => true,
            };
            for (name, value) in values.iter().filter(|(name, _)| is_known(name)) {
                text(part, name, value);
            }
        }
        if let (Some(code), Some(_)) = (&parts.gpu_code, &others.gpu_code) {
            text(Part::GpuCode, "architectures", code);
        }
        let libraries = parts.libraries.iter();
        sizes.extend(libraries.map(|(name, bytes)| ((Part::Library, name.clone()), *bytes)));
    } else {
        text(Part::Version, "torch", &image.libtorch_version);
    }
    if let (Some(digest), Some(_)) = (&image.scenario_sha256, &other.scenario_sha256) {
        let short = digest.get(..12).unwrap_or(digest);
        text(Part::Workload, "scenario binary", short);
    }
    // A base may have several layers; of a kind they count together.
    let layers = image.layers.iter().filter(|_| !other.layers.is_empty());
    for (name, bytes) in layers {
        let size = sizes.entry((Part::Layer, name.clone())).or_default();
        *size = size.saturating_add(*bytes);
    }
    let sizes = sizes.into_iter();
    all.extend(sizes.map(|(name, bytes)| (name, PartValue::Bytes(bytes))));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(torch: &str, nccl: Option<&str>, libtorch_bytes: u64) -> ImageFacts {
        let mut versions = BTreeMap::from([("torch".to_owned(), torch.to_owned())]);
        versions.extend(nccl.map(|version| ("NCCL".to_owned(), version.to_owned())));
        ImageFacts {
            name: torch.to_owned(),
            libtorch_version: torch.to_owned(),
            layers: vec![
                ("base".to_owned(), 5),
                ("base".to_owned(), 3),
                ("libtorch".to_owned(), libtorch_bytes),
            ],
            scenario_sha256: Some("5feceb66ffc86f38d952".to_owned()),
            parts: Some(ImageParts {
                versions,
                libraries: BTreeMap::from([("libc10.so".to_owned(), libtorch_bytes)]),
                ..ImageParts::default()
            }),
            ..ImageFacts::default()
        }
    }

    #[test]
    fn gpu_code_that_one_side_left_out_is_named_where_both_are_known() {
        let of = |code: Option<&str>| {
            let mut image = image("2.11.0", None, 4);
            let parts = image.parts.as_mut().unwrap();
            parts.gpu_code = code.map(str::to_owned);
            image
        };
        let told = ["GPU code architectures: all → sm_90"];
        check(&of(Some("all")), &of(Some("sm_90")), &told);
        check(&of(Some("sm_90")), &of(Some("sm_90")), &[]);
        check(&of(None), &of(Some("sm_90")), &[]);
    }

    #[test]
    fn versions_and_packages_are_no_differences_of_each_other() {
        let installed = image("2.11.0", Some("2.28.9"), 4);
        let mut built = image("2.15.0", None, 4);
        let parts = built.parts.as_mut().unwrap();
        parts.packages = BTreeMap::from([("nvidia-nccl".to_owned(), "2.29.1".to_owned())]);
        check(&installed, &built, &["version torch: 2.11.0 → 2.15.0"]);
        built.layers.clear();
        check(&installed, &built, &["version torch: 2.11.0 → 2.15.0"]);
    }

    #[test]
    fn a_session_from_before_locks_were_kept_is_read_and_written_as_it_was() {
        let old = serde_json::json!({
            "name": "x", "reference": null, "id": null, "libtorch_version": "2.11.0",
            "flavour": "cpu", "base": null, "size_bytes": null, "layers": [],
            "scenario_sha256": null
        });
        let read: ImageFacts = serde_json::from_value(old.clone()).unwrap();
        assert_eq!(read.lock, None);
        assert_eq!(serde_json::to_value(&read).unwrap(), old);
    }

    #[test]
    fn the_state_of_a_lock_is_kept_with_its_cause() {
        let cause = || "the base is another".to_owned();
        for (lock, json, words) in [
            (
                ImageLock::Matches,
                serde_json::json!({"state": "matches"}),
                "the locked image, bit for bit",
            ),
            (
                ImageLock::OtherScenario { cause: cause() },
                serde_json::json!({"state": "other-scenario", "cause": cause()}),
                "as locked below the scenario binary, which is another: the base is another",
            ),
            (
                ImageLock::Differs { cause: cause() },
                serde_json::json!({"state": "differs", "cause": cause()}),
                "differs from its lock: the base is another",
            ),
            (
                ImageLock::Unlocked,
                serde_json::json!({"state": "unlocked"}),
                "no lock",
            ),
        ] {
            assert_eq!(serde_json::to_value(&lock).unwrap(), json);
            assert_eq!(lock.to_string(), words);
            assert_eq!(serde_json::from_value::<ImageLock>(json).unwrap(), lock);
        }
    }

    #[track_caller]
    fn check(base: &ImageFacts, head: &ImageFacts, expect: &[&str]) {
        let value = |value: &Option<PartValue>| match value {
            None => "–".to_owned(),
            Some(PartValue::Bytes(bytes)) => format!("{bytes} B"),
            Some(PartValue::Text(text)) => text.clone(),
        };
        let found: Vec<String> = image_changes(base, head)
            .iter()
            .map(|change| {
                let (base, head) = (value(&change.base), value(&change.head));
                format!("{} {}: {base} → {head}", change.part, change.name)
            })
            .collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn only_what_differs_is_named_and_what_one_side_lacks() {
        let old = image("2.6.0", None, 4);
        let mut new = image("2.11.0", Some("2.28.9"), 6);
        new.scenario_sha256 = Some("0123456789abcdef".to_owned());
        check(&old, &old, &[]);
        check(
            &old,
            &new,
            &[
                "version NCCL: – → 2.28.9",
                "version torch: 2.6.0 → 2.11.0",
                "layer libtorch: 4 B → 6 B",
                "library libc10.so: 4 B → 6 B",
                "workload scenario binary: 5feceb66ffc8 → 0123456789ab",
            ],
        );
    }

    #[test]
    fn what_is_not_known_of_both_is_no_difference() {
        let mut old = image("2.6.0", Some("2.21.5"), 4);
        (old.parts, old.scenario_sha256) = (None, None);
        let new = image("2.11.0", Some("2.28.9"), 4);
        check(&old, &new, &["version torch: 2.6.0 → 2.11.0"]);
    }
}
