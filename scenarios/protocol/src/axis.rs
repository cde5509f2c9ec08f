//! What an axis is. [`axes!`] makes [`Variant`] and [`Axis::ALL`] of one declaration.

use std::{collections::BTreeMap, fmt, ops::Deref, sync::LazyLock};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Device, Variant, bad_name, validity::Combination};

/// Axis to value, as text: what one cell chose. Those of a built-in workload are [`Axis::ALL`];
/// a program's parameters are axes as well.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Axes(BTreeMap<String, String>);

/// What a workload chooses where nobody says otherwise.
static USUAL: LazyLock<Axes> = LazyLock::new(|| Variant::default().axes());

impl Axes {
    /// What a workload of ours chooses where nobody says otherwise.
    pub fn usual() -> &'static Self {
        &USUAL
    }

    /// Sets an axis to a value.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "values are numbers and words, written where they are set"
    )]
    pub fn set(&mut self, axis: &str, value: impl ToString) {
        self.0.insert(axis.to_owned(), value.to_string());
    }

    /// The axes that no workload of ours has: a program's parameters.
    pub fn parameters(&self) -> impl Iterator<Item = (&String, &String)> {
        let is_known = |name: &str| Variant::AXES.contains(&name);
        self.iter().filter(move |(name, _)| !is_known(name))
    }

    /// What cannot name a cell: of outside, whoever wrote it.
    pub fn problem(&self) -> Option<String> {
        let is_fit = |value: &String| value.len() <= 200 && !value.chars().any(char::is_control);
        self.iter().find_map(|(axis, value)| match bad_name(axis) {
            Some(why) => Some(format!("the axis `{axis}`: {why}")),
            None if is_fit(value) => None,
            None => Some(format!(
                "the axis {axis}: expected up to 200 letters that print"
            )),
        })
    }

    /// The name, as `Display` writes it, with one axis left out.
    pub fn without(&self, left_out: &str) -> String {
        let known = Axis::in_names().filter_map(|axis| {
            let value = self.get(axis.name).filter(|_| axis.name != left_out)?;
            if axis.always {
                return Some(axis.label(value));
            }
            (USUAL.get(axis.name) != Some(value)).then(|| format!("{}={value}", axis.name))
        });
        let others = self.parameters().filter(|(name, _)| *name != left_out);
        // Two choices never have one name.
        let is_plain = |value: &str| !value.contains([' ', '=', '"']) && !value.is_empty();
        let others = others.map(|(name, value)| {
            if is_plain(value) {
                format!("{name}={value}")
            } else {
                format!("{name}={value:?}")
            }
        });
        known.chain(others).collect::<Vec<_>>().join(" ")
    }
}

impl Deref for Axes {
    type Target = BTreeMap<String, String>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Axes {
    fn from_iter<T: IntoIterator<Item = (K, V)>>(pairs: T) -> Self {
        let pairs = pairs.into_iter();
        Self(
            pairs
                .map(|(axis, value)| (axis.into(), value.into()))
                .collect(),
        )
    }
}

impl fmt::Display for Axes {
    /// Short and complete: precision and batch always, other axes where they differ from the
    /// default, as in `amp-bf16 bs64 checkpointing=blocks`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.without(""))
    }
}

/// One axis of a [`Variant`].
#[derive(Debug, Clone, Copy)]
pub struct Axis {
    /// Its name in suites and records.
    pub name: &'static str,
    /// Whether it is named at its default too, before all others and by its label, as in
    /// `fp32 bs64`.
    pub always: bool,
    /// A value in as few letters as leave no doubt; `{axis}` and `{value}` take their places.
    pub(crate) label: &'static str,
    /// What choices other than the default need.
    pub(crate) needs: &'static [Need],
    /// Whether it shapes what the allocator does without a model, too.
    pub(crate) is_of_allocator: bool,
    /// Environment variables that belong to it: no image and no shell of the user's sets them.
    pub variables: &'static [&'static str],
    /// What the names of others begin with that it sets, each to a value of its own; empty for none.
    pub prefix: &'static str,
    /// The value of `variables` for a run; `None` where they are not set, or where the executor knows it.
    pub(crate) value: fn(&Variant, Device) -> Option<String>,
    /// Why a choice means nothing, and what would be accepted.
    pub(crate) rule: fn(&Combination<'_>) -> Result<(), String>,
}

/// What choices on an axis can need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// A CUDA GPU.
    Cuda,
    /// The task training.
    Training,
    /// A model that reads images.
    Images,
    /// A model that reads tokens.
    Tokens,
    /// A model that generates tokens.
    Decoder,
    /// The task generation, or serving with a decoder.
    Answers,
    /// The task serving.
    Serving,
    /// The task allocation.
    Allocation,
    /// The task collectives.
    Collectives,
    /// The task inference.
    Inference,
    /// Steps that are each of their own, and no replay of one.
    Eager,
}

impl Axis {
    /// An axis with a name alone; declarations say what differs.
    pub(crate) const fn plain(name: &'static str) -> Self {
        Self {
            name,
            always: false,
            label: "{axis}={value}",
            needs: &[],
            is_of_allocator: false,
            variables: &[],
            prefix: "",
            value: |_, _| None,
            rule: |_| Ok(()),
        }
    }

    /// Whether it is carried out by the environment alone, and so works on any program.
    pub fn is_environment(&self) -> bool {
        !self.variables.is_empty() || !self.prefix.is_empty()
    }

    /// All axes in the order in which they are named.
    pub fn in_names() -> impl Iterator<Item = &'static Self> {
        let of = |always| Self::ALL.iter().filter(move |axis| axis.always == always);
        of(true).chain(of(false))
    }

    /// This value of the axis in as few letters as leave no doubt.
    pub fn label(&self, value: &str) -> String {
        self.label
            .replace("{axis}", self.name)
            .replace("{value}", value)
    }
}

/// Declares the axes: documentation, name and type (whose default is the axis's) as of a field,
/// then the properties of [`Axis`] that are not plain. Suites expand axes in this order, the last
/// one fastest.
macro_rules! axes {
    ($($(#[$meta:meta])* $name:ident: $type:ty $({ $($property:ident: $of:expr),* $(,)? })?,)*) => {
        /// One choice on every axis.
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct Variant {
            $($(#[$meta])* pub $name: $type,)*
        }

        impl Variant {
            /// The names of all axes.
            pub const AXES: &'static [&'static str] = &[$(stringify!($name)),*];
        }

        impl Axis {
            /// All axes, in the order in which suites expand them.
            pub const ALL: &'static [Self] = &[$(Self {
                $($($property: $of,)*)?
                ..Self::plain(stringify!($name))
            }),*];
        }
    };
}
pub(crate) use axes;
