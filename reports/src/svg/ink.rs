//! The colours by their role, and what the roles look like in light and in dark.
//!
//! plotters writes literal colours. Each role therefore has a colour of its own that no eye ever
//! sees: the module `theme` replaces it by a class, and the style sheet gives the class its
//! colour. The series colours follow Okabe and Ito (*Color Universal Design*, 2008), darkened or
//! lightened until they stand out on their background; readers with any of the common kinds of
//! colour blindness tell them apart, and marks differ in shape as well.

use plotters::style::RGBColor;

/// Colours of series, before they repeat.
pub const SERIES: u8 = 8;
/// Colours of parts of a bar, before they repeat.
pub const PARTS: u8 = 8;

/// What a stroke, an area or a text is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    /// Text to be read.
    Text,
    /// Text that explains.
    Muted,
    /// Text over lines and marks, with a rim in the colour of the paper.
    Label,
    /// The paper itself: rims and hollow marks.
    Paper,
    /// Lines of the grid.
    Grid,
    /// Axes.
    Axis,
    /// Background of a plotting area or of every other row.
    Band,
    /// Failures.
    Danger,
    /// A line that limits or a front.
    Rule,
    /// One of several series: an image, or an image in a session.
    Series(u8),
    /// One of the parts that add up to a bar.
    Part(u8),
}

const FIRST_SERIES: u8 = 0x20;
const FIRST_PART: u8 = 0x40;
/// Red and green of all roles; blue tells which.
const KEY: (u8, u8) = (0x0a, 0x75);

/// Name, light, dark.
const FIXED: [(Ink, &str, &str, &str); 9] = [
    (Ink::Text, "text", "#1b1f24", "#e8eaed"),
    (Ink::Muted, "muted", "#59636e", "#a3acb6"),
    (Ink::Label, "label", "#1b1f24", "#e8eaed"),
    (Ink::Paper, "paper", "#ffffff", "#15181c"),
    (Ink::Grid, "grid", "#dfe3e8", "#30363d"),
    (Ink::Axis, "axis", "#8c959f", "#6b747e"),
    (Ink::Band, "band", "#f5f7f9", "#1c2127"),
    (Ink::Danger, "danger", "#b3261e", "#ff8a80"),
    (Ink::Rule, "rule", "#59636e", "#a3acb6"),
];
const SERIES_COLOURS: [(&str, &str); SERIES as usize] = [
    ("#0067a5", "#58b0f0"),
    ("#d55e00", "#ff9248"),
    ("#00835f", "#35cfa0"),
    ("#a8467f", "#ec9ac9"),
    ("#8a6d00", "#e8c94a"),
    ("#3f51b5", "#a6b1ff"),
    ("#5f6b76", "#b9c2cb"),
    ("#7a4a21", "#d3a27a"),
];
const PART_COLOURS: [(&str, &str); PARTS as usize] = [
    ("#0b4f7d", "#2f80b8"),
    ("#56b4e9", "#8fd3ff"),
    ("#e69f00", "#f0b93a"),
    ("#9aa4ae", "#7b8691"),
    ("#009e73", "#39c79b"),
    ("#cc79a7", "#e2a0c6"),
    ("#d55e00", "#f2843c"),
    ("#c9b300", "#f0e16a"),
];

impl Ink {
    /// The colour under which plotters draws this role.
    #[must_use]
    pub fn key(self) -> RGBColor {
        let blue = match self {
            Self::Series(index) => FIRST_SERIES + index % SERIES,
            Self::Part(index) => FIRST_PART + index % PARTS,
            fixed => FIXED
                .iter()
                .zip(0..)
                .find_map(|((ink, ..), place)| (*ink == fixed).then_some(place))
                .unwrap_or(0),
        };
        RGBColor(KEY.0, KEY.1, blue)
    }

    /// The role's name in classes and variables.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Series(index) => format!("series-{}", index % SERIES),
            Self::Part(index) => format!("part-{}", index % PARTS),
            fixed => FIXED
                .iter()
                .find(|(ink, ..)| *ink == fixed)
                .map_or("text", |(_, name, ..)| name)
                .to_owned(),
        }
    }

    /// The role that plotters drew as `#RRGGBB`, where it is one.
    #[must_use]
    pub fn of_key(colour: &str) -> Option<Self> {
        let number = u32::from_str_radix(colour.strip_prefix('#')?, 16).ok()?;
        let [_, red, green, blue] = number.to_be_bytes();
        if (red, green) != KEY {
            return None;
        }
        if let Some(index) = blue.checked_sub(FIRST_PART) {
            return (index < PARTS).then_some(Self::Part(index));
        }
        if let Some(index) = blue.checked_sub(FIRST_SERIES) {
            return (index < SERIES).then_some(Self::Series(index));
        }
        FIXED.get(usize::from(blue)).map(|(ink, ..)| *ink)
    }

    fn all() -> Vec<(Self, &'static str, &'static str)> {
        let fixed = FIXED
            .iter()
            .map(|(ink, _, light, dark)| (*ink, *light, *dark));
        let series = SERIES_COLOURS.iter().zip(0..);
        let parts = PART_COLOURS.iter().zip(0..);
        fixed
            .chain(series.map(|((light, dark), index)| (Self::Series(index), *light, *dark)))
            .chain(parts.map(|((light, dark), index)| (Self::Part(index), *light, *dark)))
            .collect()
    }
}

/// The style sheet that gives every role its colour: variables for light and dark, and a class
/// each for filling (`f-…`) and for stroking (`s-…`).
#[must_use]
pub fn style_sheet() -> String {
    let mut light = String::new();
    let mut dark = String::new();
    let mut classes = String::new();
    for (ink, on_light, on_dark) in Ink::all() {
        let name = ink.name();
        light += &format!("--{name}:{on_light};");
        dark += &format!("--{name}:{on_dark};");
        classes += &format!(
            ".f-{name}{{fill:var(--{name})}}.s-{name}{{stroke:var(--{name})}}\
             .key-{name}{{color:var(--{name})}}\n"
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
    fn every_role_comes_back_from_its_key() {
        for (ink, ..) in Ink::all() {
            let RGBColor(red, green, blue) = ink.key();
            let written = format!("#{red:02X}{green:02X}{blue:02X}");
            assert_eq!(Ink::of_key(&written), Some(ink), "{written}");
        }
        assert_eq!(Ink::of_key("#FFFFFF"), None);
        assert_eq!(Ink::of_key("#0A751F"), None);
        assert_eq!(Ink::of_key("none"), None);
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
        let all = Ink::all();
        let (_, light_paper, dark_paper) = all.iter().find(|(ink, ..)| *ink == Ink::Paper).unwrap();
        for (ink, light, dark) in &all {
            let least = match ink {
                Ink::Text | Ink::Muted | Ink::Label | Ink::Danger => 4.5,
                Ink::Series(_) => 3.5,
                _ => continue,
            };
            assert!(contrast(light, light_paper) >= least, "{ink:?} in light");
            assert!(contrast(dark, dark_paper) >= least, "{ink:?} in dark");
        }
    }
}
