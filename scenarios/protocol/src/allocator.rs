//! Settings of the CUDA caching allocator, as one axis.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{ParseError, text::text_form};

/// Which allocator libtorch takes device memory with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum AllocatorBackend {
    /// libtorch's own caching allocator.
    #[default]
    Native,
    /// The driver's stream-ordered pool, `cudaMallocAsync`.
    CudaMallocAsync,
}

impl AllocatorBackend {
    /// The name that libtorch gives the backend, in its settings and when asked.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::CudaMallocAsync => "cudaMallocAsync",
        }
    }
}

/// One choice on the allocator axis.
///
/// Written as `native`, `cudaMallocAsync`, `managed`, or settings of the native allocator
/// joined by `+`: `expandable_segments+max_split_size_mb:128`. The settings act
/// only when they stand in the environment before CUDA starts:
/// [`Allocator::configuration`] gives the value for [`Allocator::VARIABLES`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Allocator {
    /// Which allocator.
    pub backend: AllocatorBackend,
    /// Segments are unified memory, which the driver moves between GPU and host; of the built-in
    /// workload alone.
    pub managed: bool,
    /// Grow segments in place through the driver's virtual memory API.
    pub expandable_segments: bool,
    /// Blocks above this size (MiB) are never split. libtorch takes more than 20.
    pub max_split_size_mb: Option<u64>,
    /// Share of the memory limit above which cached blocks are given back; in (0, 1).
    pub garbage_collection_threshold: Option<f64>,
    /// Sizes are rounded up to this many steps between powers of two; a power of two.
    pub roundup_power2_divisions: Option<u64>,
}

impl Allocator {
    /// The environment variables that libtorch reads: the newer name, and the older
    /// one that versions up to 2.8 know.
    pub const VARIABLES: [&'static str; 2] = ["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"];

    /// The value for the environment variables, in libtorch's own syntax; `None` for the default.
    pub fn configuration(&self) -> Option<String> {
        let settings: Vec<String> = self
            .settings()
            .into_iter()
            .filter(|(name, _)| *name != "managed")
            .map(|(name, value)| match value {
                Some(value) => format!("{name}:{value}"),
                None if name == "expandable_segments" => format!("{name}:True"),
                None => format!("backend:{name}"),
            })
            .collect();
        (!settings.is_empty()).then(|| settings.join(","))
    }

    /// What differs from the default: a name, and a value where it takes one.
    fn settings(&self) -> Vec<(&'static str, Option<String>)> {
        let backend = self.backend.name();
        let text = |value: Option<u64>| value.map(|value| Some(value.to_string()));
        let share = self.garbage_collection_threshold;
        [
            (backend, (backend != "native").then_some(None)),
            ("managed", self.managed.then_some(None)),
            (
                "expandable_segments",
                self.expandable_segments.then_some(None),
            ),
            ("max_split_size_mb", text(self.max_split_size_mb)),
            (
                "garbage_collection_threshold",
                share.map(|share| Some(share.to_string())),
            ),
            (
                "roundup_power2_divisions",
                text(self.roundup_power2_divisions),
            ),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
    }

    fn set(&mut self, part: &str) -> Result<(), ParseError> {
        let (name, value) = match part.split_once(':') {
            Some((name, value)) => (name.trim(), Some(value.trim())),
            None => (part, None),
        };
        match name {
            "native" if value.is_none() => {}
            "cudaMallocAsync" if value.is_none() => {
                self.backend = AllocatorBackend::CudaMallocAsync;
            }
            "managed" if value.is_none() => self.managed = true,
            "expandable_segments" => match value {
                None | Some("True" | "true") => self.expandable_segments = true,
                Some(other) => return Err(value_error(name, "no value", other)),
            },
            "max_split_size_mb" => {
                let expected = "a whole number of MiB above 20";
                let fits = |mib: &u64| *mib > 20 && *mib < 1 << 40;
                self.max_split_size_mb = Some(number(name, expected, value, fits)?);
            }
            "garbage_collection_threshold" => {
                let expected = "a share between 0 and 1";
                let fits = |share: &f64| *share > 0.0 && *share < 1.0;
                self.garbage_collection_threshold = Some(number(name, expected, value, fits)?);
            }
            "roundup_power2_divisions" => {
                let expected = "a power of two from 1 to 64";
                let fits = |n: &u64| n.is_power_of_two() && *n <= 64;
                self.roundup_power2_divisions = Some(number(name, expected, value, fits)?);
            }
            _ => {
                return Err(ParseError(format!(
                    "unknown allocator setting `{part}`; expected native, cudaMallocAsync, \
                     managed, expandable_segments, max_split_size_mb:N, garbage_collection_threshold:X, \
                     roundup_power2_divisions:N, or several joined by +"
                )));
            }
        }
        Ok(())
    }
}

fn number<T: FromStr>(
    setting: &str,
    expected: &str,
    value: Option<&str>,
    fits: impl Fn(&T) -> bool,
) -> Result<T, ParseError> {
    let text = value.unwrap_or_default();
    text.parse()
        .ok()
        .filter(fits)
        .ok_or_else(|| value_error(setting, expected, text))
}

fn value_error(setting: &str, expected: &str, got: &str) -> ParseError {
    ParseError(format!(
        "allocator setting `{setting}` takes {expected}, got `{got}`"
    ))
}

impl FromStr for Allocator {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut allocator = Self::default();
        let mut seen: Vec<&str> = Vec::new();
        for part in text.split(['+', ',']).map(str::trim) {
            let name = part.split(':').next().unwrap_or(part);
            if seen.contains(&name) {
                return Err(ParseError(format!(
                    "allocator setting `{name}` is given twice"
                )));
            }
            seen.push(name);
            allocator.set(part)?;
        }
        if allocator.backend == AllocatorBackend::CudaMallocAsync
            && let Some(other) = seen.iter().find(|name| **name != "cudaMallocAsync")
        {
            return Err(ParseError(format!(
                "`cudaMallocAsync` ignores the native allocator's settings; drop `{other}`"
            )));
        }
        if allocator.managed && allocator.expandable_segments {
            return Err(ParseError(
                "`expandable_segments` and `managed` exclude each other; drop one of them".into(),
            ));
        }
        Ok(allocator)
    }
}

impl fmt::Display for Allocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings: Vec<String> = self
            .settings()
            .into_iter()
            .map(|(name, value)| match value {
                Some(value) => format!("{name}:{value}"),
                None => name.to_owned(),
            })
            .collect();
        match settings.as_slice() {
            [] => f.write_str("native"),
            settings => f.write_str(&settings.join("+")),
        }
    }
}

text_form!(
    Allocator,
    "Settings of the CUDA caching allocator",
    r"^[A-Za-z0-9_:.+, ]+$"
);

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, canonical: &str, configuration: Option<&str>) {
        let allocator: Allocator = text.parse().unwrap();
        assert_eq!(allocator.to_string(), canonical);
        assert_eq!(allocator.configuration().as_deref(), configuration);
        assert_eq!(canonical.parse::<Allocator>().unwrap(), allocator);
    }

    #[test]
    fn settings_read_and_write() {
        check("native", "native", None);
        check(
            "cudaMallocAsync",
            "cudaMallocAsync",
            Some("backend:cudaMallocAsync"),
        );
        check(
            "expandable_segments",
            "expandable_segments",
            Some("expandable_segments:True"),
        );
        check(
            "max_split_size_mb:128",
            "max_split_size_mb:128",
            Some("max_split_size_mb:128"),
        );
        check(
            "garbage_collection_threshold:0.8, expandable_segments",
            "expandable_segments+garbage_collection_threshold:0.8",
            Some("expandable_segments:True,garbage_collection_threshold:0.8"),
        );
        check("managed", "managed", None);
        check(
            "max_split_size_mb:64+managed",
            "managed+max_split_size_mb:64",
            Some("max_split_size_mb:64"),
        );
        check(
            "roundup_power2_divisions:8",
            "roundup_power2_divisions:8",
            Some("roundup_power2_divisions:8"),
        );
    }

    #[test]
    fn nonsense_is_refused_with_what_was_expected() {
        let unknown = |text| {
            format!(
                "unknown allocator setting `{text}`; expected native, cudaMallocAsync, managed, \
                 expandable_segments, max_split_size_mb:N, garbage_collection_threshold:X, \
                 roundup_power2_divisions:N, or several joined by +"
            )
        };
        let takes =
            |name, what, got| format!("allocator setting `{name}` takes {what}, got `{got}`");
        let split = |got| takes("max_split_size_mb", "a whole number of MiB above 20", got);
        let threshold = |got| {
            let name = "garbage_collection_threshold";
            takes(name, "a share between 0 and 1", got)
        };
        let power = "a power of two from 1 to 64";
        let ignores = "`cudaMallocAsync` ignores the native allocator's settings";
        for (text, expect) in [
            ("expandable", unknown("expandable")),
            ("", unknown("")),
            ("max_split_size_mb", split("")),
            ("max_split_size_mb:-1", split("-1")),
            ("max_split_size_mb:20", split("20")),
            ("garbage_collection_threshold:1.5", threshold("1.5")),
            ("garbage_collection_threshold:NaN", threshold("NaN")),
            (
                "roundup_power2_divisions:3",
                takes("roundup_power2_divisions", power, "3"),
            ),
            (
                "expandable_segments+expandable_segments",
                "allocator setting `expandable_segments` is given twice".to_owned(),
            ),
            (
                "managed+expandable_segments",
                "`expandable_segments` and `managed` exclude each other; drop one of them"
                    .to_owned(),
            ),
            (
                "managed+cudaMallocAsync",
                format!("{ignores}; drop `managed`"),
            ),
            (
                "cudaMallocAsync+max_split_size_mb:64",
                format!("{ignores}; drop `max_split_size_mb`"),
            ),
        ] {
            let error = text.parse::<Allocator>().unwrap_err();
            assert_eq!(error.to_string(), expect);
        }
    }
}
