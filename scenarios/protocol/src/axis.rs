//! What an axis is. [`axes!`] makes [`Variant`] and [`Axis::ALL`] of one declaration.

use crate::{Device, Variant, validity::Combination};

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
    /// Environment variables that belong to it: no image and no shell of the user's sets them.
    pub variables: &'static [&'static str],
    /// Their value for a run; `None` where they are not set, or where the executor knows it.
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
}

impl Axis {
    /// An axis with a name alone; declarations say what differs.
    pub(crate) const fn plain(name: &'static str) -> Self {
        Self {
            name,
            always: false,
            label: "{axis}={value}",
            needs: &[],
            variables: &[],
            value: |_, _| None,
            rule: |_| Ok(()),
        }
    }

    /// All axes in the order in which they are named.
    pub fn in_names() -> impl Iterator<Item = &'static Self> {
        let of = |always| Self::ALL.iter().filter(move |axis| axis.always == always);
        of(true).chain(of(false))
    }

    /// This value of the axis in as few letters as leave no doubt.
    #[must_use]
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
