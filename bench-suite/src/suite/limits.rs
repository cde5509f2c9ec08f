//! What a run may use.

use std::{collections::BTreeMap, fmt, time::Duration};

use bytesize::ByteSize;
use engine::{Ipc, Ulimit};
use record::Method;
use schemars::JsonSchema;
use serde::Deserialize;
use strict_yaml::{Spot, YamlError};

use super::units::{Bytes, Time};

/// Declares every limit once: its key in a suite and the form there, what a run holds of it and what
/// it is by default; `in container` where nothing but a container applies it; its value in a
/// run's method, where metrics depend on it.
macro_rules! limits {
    ($($(#[doc = $about:literal])+ $(#[schemars($($form:tt)*)])?
       $key:ident: $file:ty => $field:ident: $held:ty = $usual:expr
       $(, in $container:ident)? $(, method($value:ident) $text:expr)?;)*) => {
        /// What a run may use. `None`: no limit, or the engine's default.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Limits {
            $($(#[doc = $about])+ pub $field: $held,)*
            /// Resource limits by name; containers only, best effort.
            pub ulimits: BTreeMap<String, Ulimit>,
        }

        impl Default for Limits {
            fn default() -> Self {
                Self { $($field: $usual,)* ulimits: BTreeMap::new() }
            }
        }

        impl Limits {
            /// Those that metrics depend on, by their keys in a method; `None` where one is not set.
            pub(crate) fn in_method(&self) -> Vec<(String, Option<String>)> {
                let mut all = Vec::new();
                $($(
                    let $value = &self.$field;
                    all.push((concat!("limits.", stringify!($key)).to_owned(), $text));
                )?)*
                for (name, Ulimit { soft, hard }) in &self.ulimits {
                    all.push((format!("limits.ulimits.{name}"), Some(format!("{soft}:{hard}"))));
                }
                all
            }

            /// Those that are set and that nothing but a container applies, by their keys in a suite.
            pub(crate) fn of_containers(&self) -> Vec<&'static str> {
                let usual = Self::default();
                let mut set = Vec::new();
                $($(if self.$field != usual.$field {
                    set.push(limits!(@key $container $key));
                })?)*
                set.extend((!self.ulimits.is_empty()).then_some("ulimits"));
                set
            }
        }

        /// `limits:` as written in a file; keys that are missing are taken from the defaults.
        #[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub(super) struct LimitsFile {
            $($(#[doc = $about])+ $(#[schemars($($form)*)])? pub(super) $key: Option<$file>,)*
            /// Resource limits by name, such as `memlock: {soft: -1, hard: -1}`; containers only,
            /// best effort.
            pub(super) ulimits: BTreeMap<String, Ulimit>,
        }

        impl LimitsFile {
            /// These, and `others` where these say nothing.
            pub(super) fn or(&self, others: &Self) -> Self {
                let mut ulimits = others.ulimits.clone();
                ulimits.extend(self.ulimits.clone());
                Self { $($key: self.$key.clone().or_else(|| others.$key.clone()),)* ulimits }
            }
        }

        impl From<LimitsFile> for Limits {
            fn from(file: LimitsFile) -> Self {
                Self {
                    $($field: file.$key.map_or_else(|| $usual, Into::into),)*
                    ulimits: file.ulimits,
                }
            }
        }
    };
    (@key container $key:ident) => { stringify!($key) };
}

limits! {
    /// Wall time of the whole run; 10min by default.
    time: Time => time: Duration = Duration::from_mins(10);
    /// Longest silence of the workload before the run counts as hanging; not watched by default.
    silence: Time => silence: Option<Duration> = None;
    /// Host memory; containers only, 90 % of the machine's by default.
    memory: Bytes => memory_bytes: Option<u64> = None, in container, method(bytes) bytes.map(size);
    /// Memory of the GPU that the process may hold, context and libraries included; on a GPU only.
    gpu_memory: Bytes => gpu_memory_bytes: Option<u64> = None, method(bytes) bytes.map(exact);
    /// Memory of the GPU that the allocator may hold, context and libraries not included; on a GPU
    /// only.
    allocator_memory: Bytes => allocator_memory_bytes: Option<u64> = None,
        method(bytes) bytes.map(exact);
    /// CPUs' worth of time, such as 1.5; containers only.
    #[schemars(range(min = 0.01, max = 65536))]
    cpus: f64 => cpus: Option<f64> = None, in container, method(cpus) cpus.map(|of| of.to_string());
    /// CPUs by number, such as `0-3,8`; containers only.
    #[schemars(regex(pattern = r"^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$"))]
    cpuset: String => cpuset: Option<String> = None, in container, method(cpuset) cpuset.clone();
    /// Size of `/dev/shm`; containers only, by default 1 GiB for several ranks and the
    /// engine's 64 MiB for one.
    shm: Bytes => shm_bytes: Option<u64> = None, in container, method(bytes) bytes.map(size);
    /// Whose shared memory it sees; containers only, `private` by default.
    ipc: Ipc => ipc: Ipc = Ipc::Private, in container, method(ipc) Some(ipc.word().to_owned());
    /// Processes and threads; containers only, 8192 a rank by default.
    #[schemars(range(min = 1))]
    pids: u32 => pids: Option<u32> = None, in container, method(pids) pids.map(|of| of.to_string());
    /// Size of the memory file system on `/tmp`; containers only, 1GiB by default.
    tmp: Bytes => tmp_bytes: u64 = 1 << 30;
    /// What the run may write to its results file, or it is ended (`flooded`); 64MiB by
    /// default.
    results: Bytes => results_bytes: u64 = 64 << 20;
    /// What the run may write to its log, or it is ended (`flooded`); 16MiB by default.
    log: Bytes => log_bytes: u64 = 16 << 20;
}

/// A share of the machine's memory unless a suite says more: rounded, so that machines of a kind and
/// their next boot count as the same.
fn size(bytes: u64) -> String {
    ByteSize(bytes).display().iec().to_string()
}

/// What peaks are held against is read back exactly.
fn exact(bytes: u64) -> String {
    match size(bytes) {
        text if text.parse() == Ok(ByteSize(bytes)) => text,
        _ => format!("{bytes} B"),
    }
}

impl LimitsFile {
    pub(super) fn check(&self, at: &Spot<'_>) -> Result<(), YamlError> {
        let wrong = |key: &str, got: &dyn fmt::Display, expected: &str| {
            let message = format!("a value out of range: {got}");
            Err(at
                .key(key)
                .expecting(message, format!("expected {expected}"), None))
        };
        if let Some(cpus) = self.cpus
            && !(0.01..=65536.0).contains(&cpus)
        {
            return wrong("cpus", &cpus, "a number from 0.01 to 65536");
        }
        if self.pids == Some(0) {
            return wrong("pids", &0, "a whole number above 0");
        }
        for (key, given, least, expected) in [
            ("memory", self.memory, 6 << 20, "at least 6MiB"),
            ("tmp", self.tmp, 4 << 10, "at least 4KiB"),
            ("results", self.results, 4 << 10, "at least 4KiB"),
            ("log", self.log, 4 << 10, "at least 4KiB"),
        ] {
            if let Some(Bytes(bytes)) = given
                && bytes < least
            {
                return wrong(key, &format!("{bytes} bytes"), expected);
            }
        }
        if let Some(set) = &self.cpuset
            && !is_cpuset(set)
        {
            return wrong("cpuset", set, "CPUs by number, such as 0-3,8");
        }
        for (name, limit) in &self.ulimits {
            let at = at.key("ulimits").key(name);
            if !Method::ULIMITS.contains(&name.as_str()) {
                let message = format!("unknown resource limit `{name}`");
                let at = at.on_key();
                return Err(at.unknown(message, "expected one of ", name, &Method::ULIMITS));
            }
            let out_of_range = limit.soft < -1 || limit.hard < -1;
            if out_of_range || limit.hard != -1 && (limit.soft == -1 || limit.soft > limit.hard) {
                let message = format!("soft {} with hard {}", limit.soft, limit.hard);
                let expected = "expected -1 (unlimited) or more, soft at most hard";
                return Err(at.expecting(message, expected, None));
            }
        }
        Ok(())
    }
}

fn is_cpuset(text: &str) -> bool {
    let number = |text: &str| text.parse::<u16>().ok().filter(|_| !text.starts_with('+'));
    text.split(',').all(|range| match range.split_once('-') {
        Some((first, last)) => {
            matches!((number(first), number(last)), (Some(first), Some(last)) if first <= last)
        }
        None => number(range).is_some(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_has_a_key_for_every_limit_that_metrics_depend_on() {
        let of_method = Method::KEYS
            .into_iter()
            .filter(|key| key.starts_with("limits."));
        let mut keys: Vec<String> = Limits::default()
            .in_method()
            .into_iter()
            .map(|(key, _)| key)
            .chain(["limits.ulimits".to_owned()])
            .collect();
        keys.sort();
        assert_eq!(keys, of_method.collect::<Vec<_>>());
    }

    #[test]
    fn sets_of_cpus() {
        for good in ["0", "0-3", "0-3,8", "1,3,5"] {
            assert!(is_cpuset(good), "{good}");
        }
        for bad in [
            "", "a", "3-0", "0-", ",", "0,", "-1", "+1", "0-3-5", "0; rm",
        ] {
            assert!(!is_cpuset(bad), "{bad}");
        }
    }
}
