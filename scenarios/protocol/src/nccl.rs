//! NCCL's environment variables, as one axis.

use std::{borrow::Cow, collections::BTreeMap, fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use crate::ParseError;

/// One choice on the NCCL axis: variables and their values, written as `default` or as settings
/// joined by `+`, such as `ALGO:Ring+PROTO:Simple`. NCCL reads them when ranks meet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nccl(BTreeMap<String, String>);

impl Nccl {
    /// What the names of all variables begin with.
    pub const PREFIX: &'static str = "NCCL_";

    /// Settings that need no `NCCL_` before their names (NVIDIA's NCCL documentation, «Environment
    /// Variables»): those that choose how GPUs reach each other. A name that is none of them is more
    /// likely misspelt than new.
    const NAMES: [&'static str; 16] = [
        "ALGO",
        "BUFFSIZE",
        "CUMEM_ENABLE",
        "IB_DISABLE",
        "IB_HCA",
        "MAX_CTAS",
        "MAX_NCHANNELS",
        "MIN_CTAS",
        "MIN_NCHANNELS",
        "NET_GDR_LEVEL",
        "NVLS_ENABLE",
        "P2P_DISABLE",
        "P2P_LEVEL",
        "PROTO",
        "SHM_DISABLE",
        "SOCKET_IFNAME",
    ];

    /// Whether nothing is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The environment variables, with their values.
    pub fn variables(&self) -> impl Iterator<Item = (String, String)> {
        let all = self.0.iter();
        all.map(|(name, value)| (format!("{}{name}", Self::PREFIX), value.clone()))
    }

    fn add(&mut self, name: &str, value: &str) -> Result<(), ParseError> {
        let short = name.strip_prefix(Self::PREFIX).unwrap_or(name);
        let is_letter = |letter: u8| letter.is_ascii_uppercase() || letter.is_ascii_digit();
        let is_name = !short.is_empty() && short.bytes().all(|one| is_letter(one) || one == b'_');
        if !is_name || (short == name && !Self::NAMES.contains(&short)) {
            return Err(ParseError(format!(
                "unknown NCCL setting `{name}`; expected {}, or the whole name of a variable, such \
                 as NCCL_{}",
                Self::NAMES.join(", "),
                if is_name { name } else { "NTHREADS" }
            )));
        }
        let is_fit = |one: u8| one.is_ascii_alphanumeric() || b"_-.,:;/^=@".contains(&one);
        if value.is_empty() || value.len() > 100 || !value.bytes().all(is_fit) {
            return Err(ParseError(format!(
                "NCCL setting `{name}` takes up to 100 letters, digits and _-.,:;/^=@, such as \
                 {name}:1, got `{value}`"
            )));
        }
        match self.0.insert(short.to_owned(), value.to_owned()) {
            None => Ok(()),
            Some(_) => Err(ParseError(format!("NCCL setting `{short}` is given twice"))),
        }
    }
}

impl FromStr for Nccl {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut settings = Self::default();
        if text != "default" {
            for part in text.split('+') {
                let (name, value) = part.split_once(':').unwrap_or((part, ""));
                settings.add(name.trim(), value.trim())?;
            }
        }
        Ok(settings)
    }
}

impl fmt::Display for Nccl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let written = |(name, value): (&String, &String)| {
            let is_short = Self::NAMES.contains(&name.as_str());
            let prefix = if is_short { "" } else { Self::PREFIX };
            format!("{prefix}{name}:{value}")
        };
        match self.0.iter().map(written).collect::<Vec<_>>() {
            settings if settings.is_empty() => f.write_str("default"),
            settings => f.write_str(&settings.join("+")),
        }
    }
}

impl Serialize for Nccl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// As a suite may write it.
#[derive(Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected settings such as ALGO:Ring, or a map of them"
)]
enum Form {
    /// Such as `ALGO:Ring`.
    Text(String),
    /// Such as `{ALGO: Ring}`.
    Map(BTreeMap<String, Setting>),
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum Setting {
    Number(i64),
    Text(String),
}

impl<'de> Deserialize<'de> for Nccl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let settings = match Form::deserialize(deserializer)? {
            Form::Text(text) => return text.parse().map_err(D::Error::custom),
            Form::Map(settings) => settings,
        };
        let mut all = Self::default();
        for (name, value) in settings {
            let value = match value {
                Setting::Number(number) => number.to_string(),
                Setting::Text(text) => text,
            };
            all.add(&name, &value).map_err(D::Error::custom)?;
        }
        Ok(all)
    }
}

impl JsonSchema for Nccl {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Nccl".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Form::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Nccl, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn settings_read_and_write() {
        for (json, text) in [
            (r#""default""#, "default"),
            ("{}", "default"),
            (r#""PROTO:Simple+ALGO:Ring""#, "ALGO:Ring+PROTO:Simple"),
            (
                r#"{"ALGO": "^Tree,NVLS", "NCCL_NTHREADS": 256}"#,
                "ALGO:^Tree,NVLS+NCCL_NTHREADS:256",
            ),
            (r#""NCCL_ALGO:allreduce:tree""#, "ALGO:allreduce:tree"),
        ] {
            let settings = read(json).unwrap();
            assert_eq!(settings.to_string(), text);
            assert_eq!(text.parse::<Nccl>().unwrap(), settings);
            let variables = settings.variables();
            assert!(
                variables
                    .into_iter()
                    .all(|(name, _)| name.starts_with("NCCL_"))
            );
        }
    }

    #[test]
    fn nonsense_is_refused_with_what_was_expected() {
        let unknown = |name, example| {
            format!(
                "unknown NCCL setting `{name}`; expected ALGO, BUFFSIZE, CUMEM_ENABLE, IB_DISABLE, \
                 IB_HCA, MAX_CTAS, MAX_NCHANNELS, MIN_CTAS, MIN_NCHANNELS, NET_GDR_LEVEL, \
                 NVLS_ENABLE, P2P_DISABLE, P2P_LEVEL, PROTO, SHM_DISABLE, SOCKET_IFNAME, or the \
                 whole name of a variable, such as NCCL_{example}"
            )
        };
        let takes = |got| {
            format!(
                "NCCL setting `ALGO` takes up to 100 letters, digits and _-.,:;/^=@, such as \
                 ALGO:1, got `{got}`"
            )
        };
        for (json, expect) in [
            (r#""ALG:Ring""#, unknown("ALG", "ALG")),
            (r#""algo:Ring""#, unknown("algo", "NTHREADS")),
            (r#"{"NCCL_": 1}"#, unknown("NCCL_", "NTHREADS")),
            (r#""ALGO""#, takes("")),
            (r#"{"ALGO": "a b"}"#, takes("a b")),
            (
                r#""ALGO:Ring+NCCL_ALGO:Tree""#,
                "NCCL setting `ALGO` is given twice".to_owned(),
            ),
        ] {
            assert_eq!(read(json), Err(expect));
        }
        let expect = "expected settings such as ALGO:Ring, or a map of them";
        assert_eq!(read("[1]"), Err(expect.to_owned()));
    }
}
