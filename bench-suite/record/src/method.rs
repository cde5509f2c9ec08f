//! How a run was measured, besides what it measured.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings that metrics depend on: key to value, `none` where nothing is set. A key that is
/// missing is not known. Keys are those of suites (`limits.cpus`, `steps.measured`), and `engine`
/// and `isolation`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Method(BTreeMap<String, String>);

/// A setting in which two methods differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MethodDifference {
    /// Its key.
    pub key: String,
    /// Its value on the base side.
    pub base: String,
    /// Its value on the head side.
    pub head: String,
}

/// A setting of the method that may differ: `method.limits.cpus`; or all below a key:
/// `method.limits`, `method`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MethodKey(String);

impl Method {
    /// Every key. Those of resource limits have the limit's name behind them, one of
    /// [`Self::ULIMITS`].
    pub const KEYS: [&str; 28] = [
        "engine",
        "isolation",
        "limits.allocator_memory",
        "limits.cpus",
        "limits.cpuset",
        "limits.gpu_memory",
        "limits.ipc",
        "limits.memory",
        "limits.pids",
        "limits.shm",
        "limits.ulimits",
        "program.hook",
        "program.launcher",
        "program.network",
        "program.samples_per_step",
        "program.until",
        "program.user",
        "program.writable",
        "ranks",
        "seed",
        "steps.calibrate",
        "steps.measured",
        "steps.parts",
        "steps.profiled",
        "steps.warmup",
        "steps.warmup_seconds",
        "threads",
        "trace",
    ];
    /// The resource limits that engines take, from `getrlimit(2)`.
    pub const ULIMITS: [&str; 15] = [
        "core",
        "cpu",
        "data",
        "fsize",
        "locks",
        "memlock",
        "msgqueue",
        "nice",
        "nofile",
        "nproc",
        "rss",
        "rtprio",
        "rttime",
        "sigpending",
        "stack",
    ];
    /// The value of what is not set.
    pub const NONE: &str = "none";

    /// The value of a key; `None` where it is not set or not known.
    pub fn get(&self, key: &str) -> Option<&str> {
        let value = self.0.get(key).map(String::as_str);
        value.filter(|value| *value != Self::NONE)
    }

    /// The bytes that a key gives as sessions write them: `8.0 GiB` or `7864320000 B`.
    pub fn bytes(&self, key: &str) -> Option<f64> {
        let (number, unit) = self.get(key)?.split_once(' ')?;
        let units = ["B", "KiB", "MiB", "GiB", "TiB"];
        let (_, power) = units.into_iter().zip(0..).find(|(name, _)| *name == unit)?;
        Some(number.parse::<f64>().ok()? * 1024_f64.powi(power))
    }

    /// Sets a key.
    pub fn set(&mut self, key: &str, value: impl fmt::Display) {
        self.0.insert(key.to_owned(), value.to_string());
    }

    /// Sets a key to a value or to none.
    pub fn set_or_none(&mut self, key: &str, value: Option<impl fmt::Display>) {
        match value {
            Some(value) => self.set(key, value),
            None => self.set(key, Self::NONE),
        }
    }

    /// Sets the keys of the steps.
    pub fn set_steps(&mut self, steps: protocol::Steps) {
        self.set("steps.warmup", steps.warmup);
        self.set("steps.warmup_seconds", steps.warmup_seconds);
        self.set("steps.measured", steps.measured);
        self.set("steps.parts", steps.parts);
        self.set("steps.calibrate", steps.calibrate);
    }

    /// What is known of both and differs, by key.
    pub fn differences(&self, head: &Self) -> Vec<MethodDifference> {
        // A resource limit that is not set has no key.
        let value = |of: &Self, key: &str| match of.0.get(key) {
            None if key.starts_with("limits.ulimits.") && of.0.contains_key("limits.ipc") => {
                Some(Self::NONE.to_owned())
            }
            value => value.cloned(),
        };
        let keys: BTreeSet<&String> = self.0.keys().chain(head.0.keys()).collect();
        keys.into_iter()
            .filter_map(|key| {
                let (base, head) = (value(self, key)?, value(head, key)?);
                let key = key.clone();
                (base != head).then_some(MethodDifference { key, base, head })
            })
            .collect()
    }

    /// The value of a key as it is shown: `none` where it is not set, `unknown` where it is not
    /// known.
    pub fn shown(&self, key: &str) -> &str {
        match self.0.get(key) {
            Some(value) => value,
            // A resource limit that is not set has no key.
            None if key.starts_with("limits.ulimits.") => Self::NONE,
            None => "unknown",
        }
    }

    /// In what two methods of different fingerprints differ, by key: what is not set or not known
    /// of one counts as a value of its own.
    pub fn told_apart(&self, head: &Self) -> Vec<MethodDifference> {
        let keys: BTreeSet<&String> = self.0.keys().chain(head.0.keys()).collect();
        keys.into_iter()
            .filter(|key| self.get(key) != head.get(key))
            .map(|key| MethodDifference {
                key: key.clone(),
                base: self.shown(key).to_owned(),
                head: head.shown(key).to_owned(),
            })
            .collect()
    }

    /// The method without these settings.
    #[must_use]
    pub fn without(mut self, ignore: &[MethodKey]) -> Self {
        self.0.retain(|key, _| !MethodKey::any_covers(ignore, key));
        self
    }

    /// A short text that is the same for the same method, on every machine and in every version;
    /// empty where nothing is known.
    pub fn fingerprint(&self) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        // FNV-1a. What is not set is left out, so that a key that is added later changes nothing.
        let set = self.0.iter().filter(|(_, value)| *value != Self::NONE);
        let lines: Vec<String> = set.map(|(key, value)| format!("{key}={value}\n")).collect();
        let lines = lines.concat();
        let hash = lines.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        format!("{:012x}", hash >> 16)
    }
}

impl MethodKey {
    /// Whether it is this setting, or one below it.
    pub fn covers(&self, key: &str) -> bool {
        is_below(key, &self.0)
    }

    /// Whether one of several does.
    pub fn any_covers(all: &[Self], key: &str) -> bool {
        all.iter().any(|one| one.covers(key))
    }

    /// Whether one of several is the whole method, known or not.
    pub fn any_is_whole(all: &[Self]) -> bool {
        all.iter().any(|one| one.0.is_empty())
    }
}

/// Whether a key is this one, or one below it.
fn is_below(key: &str, upper: &str) -> bool {
    let rest = key.strip_prefix(upper);
    upper.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn expected(keys: &[&str], below: &str) -> String {
    let keys = keys.iter().map(|key| format!("method.{below}{key}"));
    let keys: Vec<String> = keys.collect();
    format!("expected method, or one of {}", keys.join(", "))
}

impl FromStr for MethodKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const ULIMIT: &str = "limits.ulimits.";
        let key = match text.strip_prefix("method") {
            Some("") => Some(""),
            Some(rest) => rest.strip_prefix('.').filter(|key| !key.is_empty()),
            None => None,
        };
        let Some(key) = key else {
            return Err(expected(&Method::KEYS, ""));
        };
        match key.strip_prefix(ULIMIT) {
            Some(name) if !Method::ULIMITS.contains(&name) => {
                return Err(expected(&Method::ULIMITS, ULIMIT));
            }
            Some(_) => {}
            None if Method::KEYS.iter().any(|one| is_below(one, key)) => {}
            None => return Err(expected(&Method::KEYS, "")),
        }
        Ok(Self(key.to_owned()))
    }
}

impl MethodDifference {
    /// What `--ignore` is given for these to be taken all the same.
    pub fn ignoring(all: &[Self]) -> String {
        match all {
            [only] => format!("--ignore method.{}", only.key),
            _ => "--ignore method".to_owned(),
        }
    }
}

/// What is set: `engine docker, limits.cpus 1, seed 1`.
impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = self.0.iter().filter(|(_, value)| *value != Self::NONE);
        let words: Vec<String> = set.map(|(key, value)| format!("{key} {value}")).collect();
        f.write_str(&words.join(", "))
    }
}

/// `limits.cpus: 1 in the base, 0.4 in the head`.
impl fmt::Display for MethodDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, base, head } = self;
        write!(f, "{key}: {base} in the base, {head} in the head")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn method(settings: &[(&str, &str)]) -> Method {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        Method(settings.iter().map(owned).collect())
    }

    #[test]
    fn only_what_is_known_of_both_differs() {
        let base = method(&[("limits.cpus", "1"), ("seed", "1"), ("threads", "none")]);
        let head = method(&[("limits.cpus", "0.4"), ("seed", "1"), ("engine", "docker")]);
        let found: Vec<String> = base
            .differences(&head)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(found, ["limits.cpus: 1 in the base, 0.4 in the head"]);
        assert_eq!(base.differences(&Method::default()), []);
    }

    #[test]
    fn a_resource_limit_on_one_side_is_a_difference() {
        let base = method(&[("limits.ipc", "private"), ("limits.ulimits.core", "0:0")]);
        let head = method(&[("limits.ipc", "private")]);
        let found = &base.differences(&head)[0];
        assert_eq!((found.base.as_str(), found.head.as_str()), ("0:0", "none"));
    }

    #[test]
    fn only_what_a_method_can_have_may_differ() {
        let key = |text: &str| text.parse::<MethodKey>();
        for known in [
            "method",
            "method.limits",
            "method.limits.ulimits",
            "method.limits.ulimits.nofile",
            "method.steps.warmup",
        ] {
            assert!(key(known).is_ok(), "{known}");
        }
        let ulimit = "method.limits.ulimits.nofile, method.limits.ulimits.nproc";
        let other = "one of method.engine, method.isolation";
        for (unknown, expected) in [
            ("method.limits.ulimits.nofil", ulimit),
            ("method.limits.ulimits.", ulimit),
            ("method.limits.ulimits.nofile.soft", ulimit),
            ("method.limits.cpu", other),
            ("method.", other),
            ("limits.cpus", other),
        ] {
            let error = key(unknown).unwrap_err();
            assert!(error.contains(expected), "{unknown}: {error}");
        }
    }

    #[test]
    fn what_fingerprints_tell_apart_is_named() {
        let one = method(&[("engine", "docker"), ("seed", "1"), ("threads", "none")]);
        let other = method(&[("seed", "2"), ("threads", "4"), ("limits.shm", "none")]);
        let told: Vec<_> = one.told_apart(&other);
        let told = told.iter().map(|one| [&*one.key, &*one.base, &*one.head]);
        let expect = [
            ["engine", "docker", "unknown"],
            ["seed", "1", "2"],
            ["threads", "none", "4"],
        ];
        assert_eq!(told.collect::<Vec<_>>(), expect);
        let keys = ["method.engine", "method.seed", "method.threads"];
        let keys: Vec<MethodKey> = keys.map(|key| key.parse().unwrap()).into();
        assert_eq!(other.clone().without(&keys[..1]), other);
        let rest = [one, other].map(|method| method.without(&keys).to_string());
        assert_eq!(rest[0], rest[1]);
    }

    #[test]
    fn fingerprints_stay_what_they_were() {
        let method = |cpus| method(&[("engine", "docker"), ("limits.cpus", cpus)]);
        // Recorded once; histories have them in their series.
        assert_eq!(method("1").fingerprint(), "80fe5927f6cf");
        assert_ne!(method("1").fingerprint(), method("2").fingerprint());
        let mut more = method("1");
        more.set_or_none("limits.new", None::<u32>);
        assert_eq!(more.fingerprint(), method("1").fingerprint());
        assert_eq!(Method::default().fingerprint(), "");
    }
}
