//! Image specs: what an image is made of, as people write it in `images/*.yaml`.

pub(crate) mod flavour;
pub(crate) mod gpu;
pub(crate) mod reserved;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use strict_yaml::{Document, YamlError};

use crate::{
    Digest, Flavour,
    spec::{flavour::tch_for, gpu::GpuArchitecture},
};

/// The newest version of the format that this crate reads.
const SPEC_VERSION: u32 = 2;

/// Stands for keys that are missing or wrong while further mistakes are looked for.
const STAND_INS: [(&str, &str); 4] = [
    ("version", "1"),
    ("description", "\"\""),
    ("base", "{\"archive\": \"\"}"),
    ("libtorch", "{\"installed\": \"auto\"}"),
];

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Torchgauge image spec")]
pub struct Spec {
    /// The format's version: 1 or 2.
    #[schemars(range(min = 1, max = 2))]
    pub version: u32,
    /// One line for people.
    pub description: String,
    /// What the image stands on.
    pub base: Base,
    pub libtorch: LibtorchSpec,
    /// Environment of everything that runs in it, besides what libtorch needs.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Labels, besides Torchgauge's own.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Variables of the base, and `/etc/ld.so.preload`, that may change what runs measure.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub allow: BTreeSet<String>,
    /// GPUs whose code libtorch's libraries keep, such as `sm_90`; the code of all others is
    /// left out. All of it stays where none is named.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub gpu_architectures: BTreeSet<GpuArchitecture>,
}

/// What an image stands on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Base {
    /// A few packages of this machine's own Debian or Ubuntu, by apt and dpkg.
    Debian,
    /// A local archive: the tar of a root file system, or of an image. Relative to the spec.
    Archive(PathBuf),
    /// An image that the engine has or can pull, by digest: `REFERENCE@sha256:…`, with the digest
    /// of its manifest, or the ID of one that was loaded.
    Image(String),
}

/// Where the libtorch comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
#[schemars(rename = "Libtorch")]
pub enum LibtorchSpec {
    Wheels {
        /// torch's version, such as `2.11.0`.
        version: String,
        /// With or without CUDA.
        flavour: Flavour,
        from: WheelIndex,
    },
    /// Out of a PyTorch that is installed on this machine.
    Installed {
        /// `auto`, or a site-packages folder.
        // `None` is the one that `python3` would import.
        #[serde(rename = "installed", serialize_with = "or_auto")]
        #[schemars(with = "String")]
        folder: Option<PathBuf>,
        /// With or without CUDA; with it by default.
        #[schemars(with = "Option<Flavour>")]
        flavour: Flavour,
    },
    /// The one that the base holds.
    Inside {
        /// `auto`, or a site-packages folder in the base.
        // `None` is the only one that has torch in it.
        #[serde(rename = "inside", serialize_with = "or_auto")]
        #[schemars(with = "String")]
        folder: Option<String>,
        /// With or without CUDA; with it by default.
        #[schemars(with = "Option<Flavour>")]
        flavour: Flavour,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "From")]
pub enum WheelIndex {
    /// The wheels of PyPI, through pip.
    Wheels,
}

#[expect(clippy::ref_option, reason = "serde passes references")]
fn or_auto<S: Serializer>(folder: &Option<impl AsRef<Path>>, to: S) -> Result<S::Ok, S::Error> {
    match folder.as_ref().map(AsRef::as_ref) {
        None => to.serialize_str("auto"),
        // A folder of that name at the base's root.
        Some(folder) if folder == Path::new("auto") => to.serialize_str("/auto"),
        Some(folder) => folder.serialize(to),
    }
}

/// `libtorch` as it is written; which keys go together is checked afterwards.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenLibtorch {
    version: Option<String>,
    flavour: Option<Flavour>,
    from: Option<WheelIndex>,
    installed: Option<PathBuf>,
    inside: Option<String>,
}

impl<'de> Deserialize<'de> for LibtorchSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = WrittenLibtorch::deserialize(deserializer)?;
        written.try_into().map_err(D::Error::custom)
    }
}

impl TryFrom<WrittenLibtorch> for LibtorchSpec {
    type Error = String;

    fn try_from(written: WrittenLibtorch) -> Result<Self, String> {
        const FORMS: &str = "expected {version: …, flavour: cpu or cuda, from: wheels}, \
                             {installed: auto or a site-packages folder} or {inside: auto or a \
                             site-packages folder of the base}";
        let none = (None, None);
        let flavour = written.flavour.unwrap_or(Flavour::Cuda);
        match (written.installed, written.inside) {
            (None, None) => match (written.version, written.flavour, written.from) {
                (Some(version), Some(flavour), Some(from)) => Ok(Self::Wheels {
                    version,
                    flavour,
                    from,
                }),
                _ => Err(format!(
                    "`version`, `flavour` or `from` is missing; {FORMS}"
                )),
            },
            (Some(_), Some(_)) => Err(format!(
                "`installed` is of this machine and `inside` of the base; {FORMS}"
            )),
            _ if (written.version, written.from) != none => Err(format!(
                "an installed PyTorch brings its own version: `version` and `from` do not go with \
                 `installed` and `inside`; {FORMS}"
            )),
            (Some(folder), None) => Ok(Self::Installed {
                folder: (folder != Path::new("auto")).then_some(folder),
                flavour,
            }),
            (None, Some(folder)) => Ok(Self::Inside {
                folder: (folder != "auto").then(|| folder.trim_matches('/').to_owned()),
                flavour,
            }),
        }
    }
}

impl LibtorchSpec {
    /// torch's version, where the spec gives it.
    pub fn version(&self) -> Option<&str> {
        match self {
            Self::Wheels { version, .. } => Some(version),
            _ => None,
        }
    }

    pub fn flavour(&self) -> Flavour {
        match self {
            Self::Wheels { flavour, .. }
            | Self::Installed { flavour, .. }
            | Self::Inside { flavour, .. } => *flavour,
        }
    }
}

impl Spec {
    /// Reads and checks a spec. `folder` is what relative paths in it start from.
    pub(crate) fn read(document: &Document, folder: &Path) -> Result<Self, YamlError> {
        let found = document.value()["version"].as_u64();
        if let Some(found) = found.filter(|found| !(1..=u64::from(SPEC_VERSION)).contains(found)) {
            let message = format!("version {found} of the image format is not known");
            let help = "this build of Torchgauge reads versions 1 and 2".to_owned();
            return Err(document.top().key("version").error(message, Some(help)));
        }
        let mut spec = document.read_whole(&STAND_INS, |document| {
            let spec: Self = document.parse()?;
            spec.check(document)?;
            Ok(spec)
        })?;
        if let Base::Archive(file) = &mut spec.base {
            *file = folder.join(&*file);
        }
        if let LibtorchSpec::Installed {
            folder: Some(packages),
            ..
        } = &mut spec.libtorch
        {
            *packages = folder.join(&*packages);
        }
        Ok(spec)
    }

    fn check(&self, document: &Document) -> Result<(), YamlError> {
        let top = document.top();
        let refuse = |key: &str, message: &str, help: &str| {
            Err(top.key(key).error(message, Some(help.to_owned())))
        };
        if self.description.contains(char::is_control) {
            let message = "the description holds line ends or other control characters";
            return refuse("description", message, "one line of text");
        }
        if let LibtorchSpec::Wheels { version, .. } = &self.libtorch
            && let Err(error) = tch_for(version)
        {
            let at = top.key("libtorch").key("version");
            return Err(at.error(error.to_string(), None));
        }
        if self.base == Base::Debian && matches!(self.libtorch, LibtorchSpec::Inside { .. }) {
            let help = "`inside` goes with `base: {image: …}` or `base: {archive: …}`";
            return refuse("libtorch", "the Debian base holds no libtorch", help);
        }
        let is_inside = matches!(self.libtorch, LibtorchSpec::Inside { .. });
        let has_gpu_code = self.libtorch.flavour() == Flavour::Cuda && !is_inside;
        if !self.gpu_architectures.is_empty() && !has_gpu_code {
            let expected = "goes with a CUDA libtorch out of wheels or an installed PyTorch";
            let help = Some("the libraries that a base holds stay as they are".to_owned());
            let at = top.key("gpu_architectures").on_key();
            return Err(at.expecting("there is no GPU code to empty", expected, help));
        }
        for (name, value) in &self.environment {
            let fits = !name.is_empty()
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
                && !name.starts_with(|c: char| c.is_ascii_digit());
            let at = top.key("environment").key(name);
            if !fits {
                let message = format!("`{name}` is no name of an environment variable");
                let help = "letters, digits and `_`, not starting with a digit".to_owned();
                return Err(at.error(message, Some(help)));
            }
            if value.contains('\0') {
                let message = format!("the value of `{name}` holds a NUL character");
                return Err(at.error(message, Some("no environment variable can".to_owned())));
            }
        }
        self.check_pinned(document)?;
        reserved::check(self, document)
    }

    /// Refuses a base image without a digest.
    fn check_pinned(&self, document: &Document) -> Result<(), YamlError> {
        let Base::Image(reference) = &self.base else {
            return Ok(());
        };
        if reference
            .split_once('@')
            .is_some_and(|(_, digest)| digest.parse::<Digest>().is_ok())
        {
            return Ok(());
        }
        let what = if reference.contains('@') {
            "has a digest that is none: expected 64 hexadecimal digits after `@sha256:`"
        } else {
            "names no digest, so it may be another image tomorrow"
        };
        let help = "write REFERENCE@sha256:…; `docker image inspect REFERENCE` shows the digest \
                    under RepoDigests, and of an image that was never pushed its Id serves";
        let at = document.top().key("base").key("image");
        Err(at.error(format!("`{reference}` {what}"), Some(help.to_owned())))
    }

    /// A digest of what the spec means: comments, order and spelling do not count.
    pub fn digest(&self) -> Digest {
        Digest::of(crate::canonical::json(self).as_bytes())
    }

    pub fn json_schema() -> serde_json::Value {
        schemars::schema_for!(Spec).to_value()
    }
}
