//! What a session asks Slurm for.

use std::{path::Path, time::Duration};

use serde::{Deserialize, Deserializer};
use strict_yaml::{Document, KeyPath, YamlError};

use super::super::nodes::inside::Steps;

/// A profile's file: the words go to `sbatch` as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Profile {
    /// Version of this format: 1.
    version: u32,
    pub(super) partition: Option<String>,
    pub(super) account: Option<String>,
    pub(super) qos: Option<String>,
    pub(super) gres: Option<String>,
    pub(super) constraint: Option<String>,
    /// How long a block may take, as Slurm writes it.
    #[serde(default, deserialize_with = "time")]
    pub(super) time: Option<String>,
    /// Further options of `sbatch`.
    #[serde(default)]
    pub(super) extra: Vec<String>,
    /// What nodes run a block with: what the cluster has, unless it is given; by `auto` nodes choose.
    pub(super) engine: Option<String>,
    /// This program, as nodes find it.
    pub(super) program: Option<String>,
}

/// A number alone is minutes, and a number to YAML.
fn time<'de, D: Deserializer<'de>>(text: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Time {
        Minutes(u32),
        Text(String),
    }
    Ok(Some(match Time::deserialize(text)? {
        Time::Minutes(minutes) => minutes.to_string(),
        Time::Text(text) => text,
    }))
}

/// What this program sets itself, for it could not find its jobs again otherwise.
const TAKEN: [&str; 8] = [
    "--array",
    "--job-name",
    "--output",
    "--error",
    "--signal",
    "--requeue",
    "--parsable",
    "--wait",
];

impl Profile {
    pub(super) fn read(path: &Path) -> Result<Self, YamlError> {
        Self::of(&Document::read(path)?)
    }

    fn of(document: &Document) -> Result<Self, YamlError> {
        let profile: Self = document.parse()?;
        let wrong = |key: &str, message: String| {
            Err(document.error_at(&KeyPath::root().key(key), message, None))
        };
        if profile.version != 1 {
            let found = profile.version;
            return wrong("version", format!("{found} is unknown; expected 1"));
        }
        if let Some(time) = &profile.time
            && seconds(time).is_none_or(|time| time.is_zero())
        {
            let message = format!(
                "`{time}` is no time limit of Slurm; expected such as 90 (minutes), 01:30:00 or 1-12"
            );
            return wrong("time", message);
        }
        for word in &profile.extra {
            let option = word.split('=').next().unwrap_or(word);
            if !word.starts_with("--") || TAKEN.contains(&option) {
                let message = format!(
                    "`{word}`: expected an option of sbatch with its value, such as \
                     `--mem=64G`, and none of {}",
                    TAKEN.join(", ")
                );
                return wrong("extra", message);
            }
        }
        Ok(profile)
    }

    /// What nodes run a block with, in the profile's word.
    pub(super) fn engine(&self) -> &str {
        self.engine.as_deref().unwrap_or("auto")
    }

    /// What makes the containers, where each run is a step of Slurm's.
    pub(super) fn steps(&self) -> Option<Steps> {
        Steps::of(self.engine())
    }

    /// GPUs of a node that it asks for: `gpu:2`, `gpu:h100:2`, `gpu`.
    pub(super) fn gpus(&self) -> u32 {
        let all = self.gres.iter().flat_map(|gres| gres.split(','));
        let of_gpu = all.filter_map(|one| one.strip_prefix("gpu"));
        let count = |rest: &str| {
            let last = rest.rsplit(':').next().unwrap_or_default();
            last.parse().unwrap_or(1)
        };
        of_gpu.map(count).sum()
    }

    /// The options that it makes, as far as Slurm is to choose by them.
    pub(super) fn options(&self) -> Vec<String> {
        let named = [
            ("partition", &self.partition),
            ("account", &self.account),
            ("qos", &self.qos),
            ("gres", &self.gres),
            ("constraint", &self.constraint),
            ("time", &self.time),
        ];
        let given = |(name, value): (&str, &Option<String>)| {
            value.as_ref().map(|value| format!("--{name}={value}"))
        };
        let named = named.into_iter().filter_map(given);
        named.chain(self.extra.iter().cloned()).collect()
    }

    /// How long before its time limit a block is told to end, to clean up: two minutes, or a quarter
    /// of a shorter limit.
    pub(super) fn notice_seconds(&self) -> u64 {
        let limit = self.time.as_deref().and_then(seconds);
        limit.map_or(120, |limit| (limit.as_secs() / 4).min(120))
    }
}

/// A time as Slurm writes it: `MINUTES`, `MINUTES:SECONDS`, `HOURS:MINUTES:SECONDS`, and days and a
/// hyphen before hours.
pub(super) fn seconds(text: &str) -> Option<Duration> {
    let numbers = |text: &str| -> Option<Vec<u64>> {
        let parts = text
            .split(':')
            .map(|part| part.parse().ok().filter(|part| *part < 1 << 32));
        parts.collect()
    };
    let seconds = match text.split_once('-') {
        Some((days, rest)) => {
            let rest = numbers(rest)?;
            let [hours, minutes, seconds] = match rest[..] {
                [hours] => [hours, 0, 0],
                [hours, minutes] => [hours, minutes, 0],
                [hours, minutes, seconds] => [hours, minutes, seconds],
                _ => return None,
            };
            numbers(days)?[0] * 86_400 + hours * 3600 + minutes * 60 + seconds
        }
        None => match numbers(text)?[..] {
            [minutes] => minutes * 60,
            [minutes, seconds] => minutes * 60 + seconds,
            [hours, minutes, seconds] => hours * 3600 + minutes * 60 + seconds,
            _ => return None,
        },
    };
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_slurm_writes_them() {
        for (text, expected) in [
            ("90", Some(5400)),
            ("1:30", Some(90)),
            ("02:00:01", Some(7201)),
            ("1-12", Some(129_600)),
            ("1-00:00:30", Some(86_430)),
            ("UNLIMITED", None),
            ("2h", None),
            ("1-", None),
            ("1:2:3:4", None),
        ] {
            let found = seconds(text).map(|time| time.as_secs());
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn profiles_are_read_strictly() {
        let read = |text: &str| {
            Profile::of(&Document::from_text("p.yaml", text).unwrap()).map_err(|e| e.to_string())
        };
        let profile = read(
            "version: 1\npartition: gpu\ngres: 'gpu:h100:2'\ntime: '04:00'\nextra: [--mem=8G]\n",
        )
        .unwrap();
        let options = [
            "--partition=gpu",
            "--gres=gpu:h100:2",
            "--time=04:00",
            "--mem=8G",
        ];
        assert_eq!(profile.options(), options);
        assert_eq!((profile.gpus(), profile.notice_seconds()), (2, 60));
        assert_eq!(read("version: 1\n").unwrap().gpus(), 0);
        let minutes = read("version: 1\ntime: 90\n").unwrap();
        assert_eq!(minutes.options(), ["--time=90"]);
        let refusals = [
            "version: 2\n",
            "version: 1\npartitoin: a\n",
            "version: 1\ntime: 0\n",
            "version: 1\ntime: 2h\n",
            "version: 1\nextra: [--array=1-9]\n",
            "version: 1\nextra: ['; rm -rf']\n",
        ]
        .map(|text| read(text).unwrap_err());
        insta::assert_snapshot!(refusals.join("\n"), @r"
        p.yaml:1:10: version: 2 is unknown; expected 1
        p.yaml:2:1: partitoin: unknown key `partitoin`; expected one of version, partition, account, qos, gres, constraint, time, extra, engine, program; did you mean `partition`?
        p.yaml:2:7: time: `0` is no time limit of Slurm; expected such as 90 (minutes), 01:30:00 or 1-12
        p.yaml:2:7: time: `2h` is no time limit of Slurm; expected such as 90 (minutes), 01:30:00 or 1-12
        p.yaml:2:8: extra: `--array=1-9`: expected an option of sbatch with its value, such as `--mem=64G`, and none of --array, --job-name, --output, --error, --signal, --requeue, --parsable, --wait
        p.yaml:2:8: extra: `; rm -rf`: expected an option of sbatch with its value, such as `--mem=64G`, and none of --array, --job-name, --output, --error, --signal, --requeue, --parsable, --wait
        ");
    }
}
