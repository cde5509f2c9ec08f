//! What a run may use.

use std::{collections::BTreeMap, fmt, time::Duration};

use record::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strict_yaml::{Document, KeyPath, YamlError, most_similar};

use super::units::{Bytes, Time};

/// What a run may use. `None`: no limit, or the engine's default.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Wall time of the whole run.
    pub time: Duration,
    /// Longest silence of the workload before the run counts as hanging; `None`: not watched.
    pub silence: Option<Duration>,
    /// Host memory; containers only.
    pub memory_bytes: Option<u64>,
    /// Memory of the GPU that the process may hold, context and libraries included; on a GPU only.
    pub gpu_memory_bytes: Option<u64>,
    /// Memory of the GPU that the allocator may hold; on a GPU only.
    pub allocator_memory_bytes: Option<u64>,
    /// CPUs' worth of time; containers only.
    pub cpus: Option<f64>,
    /// CPUs by number, such as `0-3,8`; containers only.
    pub cpuset: Option<String>,
    /// Size of `/dev/shm`; containers only.
    pub shm_bytes: Option<u64>,
    /// Whose shared memory it sees; containers only.
    pub ipc: Ipc,
    /// Processes and threads; containers only.
    pub pids: Option<u32>,
    /// Resource limits by name; containers only, best effort.
    pub ulimits: BTreeMap<String, Ulimit>,
    /// Size of the memory file system on `/tmp`; containers only.
    pub tmp_bytes: u64,
    /// What the run may write to its results file.
    pub results_bytes: u64,
    /// What the run may write to its log.
    pub log_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Duration::from_mins(10),
            silence: None,
            memory_bytes: None,
            gpu_memory_bytes: None,
            allocator_memory_bytes: None,
            cpus: None,
            cpuset: None,
            shm_bytes: None,
            ipc: Ipc::Private,
            pids: None,
            ulimits: BTreeMap::new(),
            tmp_bytes: 1 << 30,
            results_bytes: 64 << 20,
            log_bytes: 16 << 20,
        }
    }
}

/// Whose shared memory a container sees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ipc {
    /// Its own.
    #[default]
    Private,
    /// The host's: `/dev/shm` is the host's, whatever `shm` says.
    Host,
}

/// One resource limit; -1 is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ulimit {
    /// Soft limit.
    #[schemars(range(min = -1))]
    pub soft: i64,
    /// Hard limit.
    #[schemars(range(min = -1))]
    pub hard: i64,
}

/// `limits:` as it stands in a file; keys that are missing are taken from the defaults.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct LimitsFile {
    /// Wall time of the whole run; 10min unless said otherwise.
    pub(super) time: Option<Time>,
    /// Longest silence of the workload before the run counts as hanging; not watched unless said.
    pub(super) silence: Option<Time>,
    /// Host memory; containers only, 90 % of the machine's unless said otherwise.
    pub(super) memory: Option<Bytes>,
    /// Memory of the GPU that the process may hold, context and libraries included; on a GPU only.
    pub(super) gpu_memory: Option<Bytes>,
    /// Memory of the GPU that the allocator may hold, context and libraries not included; on a GPU
    /// only.
    #[serde(alias = "card_memory")]
    pub(super) allocator_memory: Option<Bytes>,
    /// CPUs' worth of time, such as 1.5; containers only.
    #[schemars(range(min = 0.01, max = 65536))]
    pub(super) cpus: Option<f64>,
    /// CPUs by number, such as `0-3,8`; containers only.
    #[schemars(regex(pattern = r"^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$"))]
    pub(super) cpuset: Option<String>,
    /// Size of `/dev/shm`; containers only, the engine's 64 MiB unless said otherwise.
    pub(super) shm: Option<Bytes>,
    /// Whose shared memory it sees; containers only, `private` unless said otherwise.
    pub(super) ipc: Option<Ipc>,
    /// Processes and threads; containers only.
    #[schemars(range(min = 1))]
    pub(super) pids: Option<u32>,
    /// Resource limits by name, such as `memlock: {soft: -1, hard: -1}`; containers only, best effort.
    pub(super) ulimits: BTreeMap<String, Ulimit>,
    /// Size of the memory file system on `/tmp`; containers only, 1GiB unless said otherwise.
    pub(super) tmp: Option<Bytes>,
    /// What the run may write to its results file, or it is ended (`flooded`); 64MiB unless said
    /// otherwise.
    pub(super) results: Option<Bytes>,
    /// What the run may write to its log, or it is ended (`flooded`); 16MiB unless said otherwise.
    pub(super) log: Option<Bytes>,
}

impl LimitsFile {
    /// Checks what types cannot.
    pub(super) fn check(&self, document: &Document, path: &KeyPath) -> Result<(), YamlError> {
        let wrong = |key: &str, got: &dyn fmt::Display, expected: &str| {
            Err(document.error_expecting(
                &path.clone().key(key),
                format!("a value out of range: {got}"),
                format!("expected {expected}"),
                None,
            ))
        };
        if let Some(cpus) = self.cpus
            && !(0.01..=65536.0).contains(&cpus)
        {
            return wrong("cpus", &cpus, "a number from 0.01 to 65536");
        }
        if self.pids == Some(0) {
            return wrong("pids", &0, "a whole number above 0");
        }
        if let Some(Bytes(bytes)) = self.memory
            && bytes < 6 << 20
        {
            return wrong("memory", &format!("{bytes} bytes"), "at least 6MiB");
        }
        let sizes = [
            ("tmp", self.tmp),
            ("results", self.results),
            ("log", self.log),
        ];
        for (key, size) in sizes {
            if let Some(Bytes(bytes)) = size
                && bytes < 4 << 10
            {
                return wrong(key, &format!("{bytes} bytes"), "at least 4KiB");
            }
        }
        if let Some(set) = &self.cpuset
            && !is_cpuset(set)
        {
            return wrong("cpuset", set, "CPUs by number, such as 0-3,8");
        }
        for (name, limit) in &self.ulimits {
            let at = path.clone().key("ulimits").key(name.as_str());
            if !Method::ULIMITS.contains(&name.as_str()) {
                let meant = most_similar(name, Method::ULIMITS);
                return Err(document.error_at_key(
                    &at,
                    format!("unknown resource limit `{name}`"),
                    format!("expected one of {}", Method::ULIMITS.join(", ")),
                    meant.map(|meant| format!("did you mean `{meant}`?")),
                ));
            }
            let out_of_range = limit.soft < -1 || limit.hard < -1;
            if out_of_range || limit.hard != -1 && (limit.soft == -1 || limit.soft > limit.hard) {
                return Err(document.error_expecting(
                    &at,
                    format!("soft {} with hard {}", limit.soft, limit.hard),
                    "expected -1 (unlimited) or more, soft at most hard",
                    None,
                ));
            }
        }
        Ok(())
    }

    /// These, and `others` where these say nothing.
    pub(super) fn or(&self, others: &Self) -> Self {
        let mut ulimits = others.ulimits.clone();
        ulimits.extend(self.ulimits.clone());
        Self {
            time: self.time.or(others.time),
            silence: self.silence.or(others.silence),
            memory: self.memory.or(others.memory),
            gpu_memory: self.gpu_memory.or(others.gpu_memory),
            allocator_memory: self.allocator_memory.or(others.allocator_memory),
            cpus: self.cpus.or(others.cpus),
            cpuset: self.cpuset.clone().or_else(|| others.cpuset.clone()),
            shm: self.shm.or(others.shm),
            ipc: self.ipc.or(others.ipc),
            pids: self.pids.or(others.pids),
            ulimits,
            tmp: self.tmp.or(others.tmp),
            results: self.results.or(others.results),
            log: self.log.or(others.log),
        }
    }
}

impl From<LimitsFile> for Limits {
    fn from(file: LimitsFile) -> Self {
        let unless_said = Self::default();
        Self {
            time: file.time.map_or(unless_said.time, |time| time.0),
            silence: file.silence.map(|time| time.0),
            memory_bytes: file.memory.map(|bytes| bytes.0),
            gpu_memory_bytes: file.gpu_memory.map(|bytes| bytes.0),
            allocator_memory_bytes: file.allocator_memory.map(|bytes| bytes.0),
            cpus: file.cpus,
            cpuset: file.cpuset,
            shm_bytes: file.shm.map(|bytes| bytes.0),
            ipc: file.ipc.unwrap_or_default(),
            pids: file.pids,
            ulimits: file.ulimits,
            tmp_bytes: file.tmp.map_or(unless_said.tmp_bytes, |bytes| bytes.0),
            results_bytes: file
                .results
                .map_or(unless_said.results_bytes, |bytes| bytes.0),
            log_bytes: file.log.map_or(unless_said.log_bytes, |bytes| bytes.0),
        }
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
