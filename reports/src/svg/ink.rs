//! The colours by their role, and what the roles look like in light and in dark.
//!
//! A drawing names roles; the style sheet gives each its colour. The series colours follow Okabe
//! and Ito (*Color Universal Design*, 2008), darkened or lightened until they stand out on their
//! background; readers with any of the common kinds of colour blindness tell them apart, and marks
//! differ in shape as well.

use std::fmt::Write as _;

use plotters::style::Color;
use plotters_backend::BackendColor;

/// What a stroke, an area or a text is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ink {
    Text,
    /// Text that explains.
    Muted,
    /// Text over lines and marks, with a rim in the colour of the paper.
    Label,
    /// The paper itself: rims and hollow marks.
    Paper,
    Grid,
    Axis,
    /// Background of a plotting area or of every other row.
    Band,
    Danger,
    /// A line that limits, or a Pareto front.
    Rule,
    /// One of several series: an image, or an image in a session. Repeats after eight.
    Series(u8),
    /// One of the parts that add up to a bar. Repeats after eight.
    Part(u8),
}

const FIXED: [Ink; 9] = [
    Ink::Text,
    Ink::Muted,
    Ink::Label,
    Ink::Paper,
    Ink::Grid,
    Ink::Axis,
    Ink::Band,
    Ink::Danger,
    Ink::Rule,
];
const FIRST_SERIES: u8 = 9;
const FIRST_PART: u8 = 17;
/// Colours of series and of parts, before they repeat.
const EACH: u8 = 8;

/// Name, light, dark: [`FIXED`], then the series, then the parts.
const COLOURS: [(&str, &str, &str); 25] = [
    ("text", "#1b1f24", "#e8eaed"),
    ("muted", "#59636e", "#a3acb6"),
    ("label", "#1b1f24", "#e8eaed"),
    ("paper", "#ffffff", "#15181c"),
    ("grid", "#dfe3e8", "#30363d"),
    ("axis", "#8c959f", "#6b747e"),
    ("band", "#f5f7f9", "#1c2127"),
    ("danger", "#b3261e", "#ff8a80"),
    ("rule", "#59636e", "#a3acb6"),
    ("series-0", "#0067a5", "#58b0f0"),
    ("series-1", "#b84f00", "#ff9248"),
    ("series-2", "#007a58", "#35cfa0"),
    ("series-3", "#a8467f", "#ec9ac9"),
    ("series-4", "#8a6d00", "#e8c94a"),
    ("series-5", "#3f51b5", "#a6b1ff"),
    ("series-6", "#5f6b76", "#b9c2cb"),
    ("series-7", "#7a4a21", "#d3a27a"),
    ("part-0", "#0b4f7d", "#2f80b8"),
    ("part-1", "#56b4e9", "#8fd3ff"),
    ("part-2", "#e69f00", "#f0b93a"),
    ("part-3", "#9aa4ae", "#7b8691"),
    ("part-4", "#009e73", "#39c79b"),
    ("part-5", "#cc79a7", "#e2a0c6"),
    ("part-6", "#d55e00", "#f2843c"),
    ("part-7", "#c9b300", "#f0e16a"),
];

impl Ink {
    pub(crate) fn series(place: usize) -> Self {
        Self::Series(u8::try_from(place % usize::from(EACH)).unwrap_or(0))
    }

    fn index(self) -> u8 {
        match self {
            Self::Series(place) => FIRST_SERIES + place % EACH,
            Self::Part(place) => FIRST_PART + place % EACH,
            fixed => (0..)
                .zip(FIXED)
                .find(|(_, ink)| *ink == fixed)
                .map_or(0, |(index, _)| index),
        }
    }

    /// The role's name in classes and variables.
    pub(crate) fn name(self) -> &'static str {
        COLOURS[usize::from(self.index())].0
    }

    /// The role that plotters was given as a colour.
    pub(super) fn of((_, _, index): (u8, u8, u8)) -> Self {
        match index {
            FIRST_PART.. => Self::Part(index - FIRST_PART),
            FIRST_SERIES.. => Self::Series(index - FIRST_SERIES),
            fixed => FIXED[usize::from(fixed)],
        }
    }
}

/// plotters hands colours through to its backend, where the last byte says which role it is.
impl Color for Ink {
    fn to_backend_color(&self) -> BackendColor {
        BackendColor {
            alpha: 1.0,
            rgb: (0, 0, self.index()),
        }
    }
}

/// The style sheet of a drawing that stands alone: the roles that it has.
pub(super) fn style_of(body: &str) -> String {
    let is_used = |name: &str| {
        let has = |kind: &str| body.contains(&format!("\"{kind}-{name}\""));
        ["paper", "band"].contains(&name) || has("f") || has("s")
    };
    sheet(|name| is_used(name))
}

/// The style sheet that gives every role its colour: variables for light and dark, and a class
/// each for filling (`f-…`), for stroking (`s-…`) and for the signs of legends (`key-…`).
pub(crate) fn style_sheet() -> String {
    sheet(|_| true)
}

fn sheet(is_wanted: impl Fn(&str) -> bool) -> String {
    let (mut light, mut dark, mut classes) = (String::new(), String::new(), String::new());
    let wanted = COLOURS.into_iter().filter(|(name, ..)| is_wanted(name));
    for (name, on_light, on_dark) in wanted {
        // Writing to a string cannot fail.
        let _ = write!(light, "--{name}:{on_light};");
        let _ = write!(dark, "--{name}:{on_dark};");
        let _ = writeln!(
            classes,
            ".f-{name}{{fill:var(--{name})}}.s-{name}{{stroke:var(--{name})}}\
             .key-{name}{{color:var(--{name})}}"
        );
    }
    format!(
        ":root{{color-scheme:light dark;{light}}}\n\
         @media (prefers-color-scheme: dark){{:root{{{dark}}}}}\n\
         @media print{{:root{{color-scheme:light;{light}}}}}\n{classes}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_comes_back_from_plotters() {
        let all = FIXED
            .into_iter()
            .chain((0..EACH).map(Ink::Series))
            .chain((0..EACH).map(Ink::Part));
        for (ink, (name, ..)) in all.zip(COLOURS) {
            assert_eq!((Ink::of(ink.rgb()), ink.name()), (ink, name));
        }
    }

    /// Contrast by WCAG 2.2: (lighter + 0.05) / (darker + 0.05) of relative luminances.
    #[test]
    fn texts_and_series_stand_out_on_their_paper() {
        fn luminance(colour: &str) -> f64 {
            let number = u32::from_str_radix(&colour[1..], 16).unwrap();
            let [_, r, g, b] = number.to_be_bytes();
            let linear = |c: u8| {
                let c = f64::from(c) / 255.0;
                if c <= 0.04045 {
                    c / 12.92
                } else {
                    ((c + 0.055) / 1.055).powf(2.4)
                }
            };
            0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b)
        }
        fn contrast(a: &str, b: &str) -> f64 {
            let (a, b) = (luminance(a), luminance(b));
            (a.max(b) + 0.05) / (a.min(b) + 0.05)
        }
        // Series are also the colours of words, such as the names of traces and verdicts.
        let is_text = |name: &str| {
            matches!(name, "text" | "muted" | "label" | "danger") || name.starts_with("series")
        };
        for behind in [Ink::Paper, Ink::Band] {
            let (_, light_paper, dark_paper) = COLOURS[usize::from(behind.index())];
            for (name, light, dark) in COLOURS.into_iter().filter(|(name, ..)| is_text(name)) {
                assert!(contrast(light, light_paper) >= 4.5, "{name} in light");
                assert!(contrast(dark, dark_paper) >= 4.5, "{name} in dark");
            }
        }
    }
}
