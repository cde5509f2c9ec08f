//! How wide a text may become in whichever font the reader's system has.
//!
//! No font is asked: the report is drawn here and read elsewhere. The widths are those of
//! `DejaVu Sans`, the widest of the usual interface fonts (Segoe UI, Roboto, San Francisco, Helvetica and
//! Noto are all narrower), so that a text which fits here fits everywhere.

/// Widths of the printable ASCII characters in thousandths of the font size, from U+0020 on.
const ASCII: [u16; 95] = [
    318, 401, 460, 838, 636, 951, 780, 275, 391, 391, 500, 838, 318, 361, 318,
    337, // ' '..'/'
    637, 637, 637, 637, 637, 637, 637, 637, 637, 637, 337, 337, 838, 838, 838,
    531, // '0'..'?'
    1000, 685, 687, 699, 771, 632, 576, 775, 752, 295, 295, 656, 558, 863, 749,
    788, // '@'..'O'
    604, 788, 695, 635, 611, 732, 685, 989, 686, 611, 686, 391, 337, 391, 838,
    500, // 'P'..'_'
    500, 613, 635, 550, 635, 616, 353, 635, 634, 278, 278, 580, 278, 975, 634,
    612, // '`'..'o'
    635, 635, 412, 521, 393, 634, 592, 818, 592, 592, 525, 637, 337, 637, 838, // 'p'..'~'
];

/// How much wider bold is at most.
const BOLD: f64 = 1.16;

/// Width of `text` at `size`, in the unit of `size`.
pub fn width(text: &str, size: f64) -> f64 {
    let thousandths: u32 = text.chars().map(character).sum();
    f64::from(thousandths) / 1000.0 * size
}

pub fn bold_width(text: &str, size: f64) -> f64 {
    width(text, size) * BOLD
}

fn character(c: char) -> u32 {
    match c {
        ' '..='~' => u32::from(ASCII[c as usize - 0x20]),
        '\u{300}'..='\u{36f}' | '\u{200b}'..='\u{200f}' => 0,
        '·' => 318,
        '–' | '…' => 1000,
        '\u{a0}'..='\u{24f}' | '\u{370}'..='\u{52f}' => 850,
        // Full-width scripts are one em wide; pictographs a little more.
        '\u{1f000}'..='\u{1ffff}' => 1400,
        _ => 1100,
    }
}

/// `text` in lines no wider than `limit`. Breaks at spaces where it can, then behind one of
/// `= + : - _ / , ; .`, and in the middle of a word where nothing else is left. Never empty.
pub fn wrap(text: &str, size: f64, limit: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for piece in pieces(text) {
        let joined = format!("{line}{piece}");
        if width(joined.trim_end(), size) <= limit {
            line = joined;
            continue;
        }
        if !line.trim().is_empty() {
            lines.push(std::mem::take(&mut line).trim_end().to_owned());
        }
        line.clear();
        for c in piece.chars() {
            if width(&format!("{line}{c}"), size) > limit && !line.is_empty() {
                lines.push(std::mem::take(&mut line));
            }
            line.push(c);
        }
    }
    if !line.trim().is_empty() || lines.is_empty() {
        lines.push(line.trim_end().to_owned());
    }
    lines
}

/// Splits behind every place at which a line may break: at spaces, and inside words longer than
/// this many characters at marks.
pub(crate) fn pieces(text: &str) -> Vec<String> {
    const LONG: usize = 24;
    let mut found = Vec::new();
    for word in text.split_inclusive(' ') {
        if word.chars().count() <= LONG {
            found.push(word.to_owned());
            continue;
        }
        found.extend(
            word.split_inclusive(['=', '+', ':', '-', '_', '/', ',', ';', '.'])
                .map(str::to_owned),
        );
    }
    found
}

/// `text` cut to `limit`, with an ellipsis where something is gone.
pub fn shorten(text: &str, size: f64, limit: f64) -> String {
    if width(text, size) <= limit {
        return text.to_owned();
    }
    let mut kept = String::new();
    for c in text.chars() {
        if width(&format!("{kept}{c}…"), size) > limit {
            break;
        }
        kept.push(c);
    }
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_and_lose_nothing() {
        let texts = [
            "amp-bf16 bs64 checkpointing=every-3 allocator=expandable_segments+garbage_collection_threshold:0.8",
            "x",
            "",
            "one two three four five six seven eight nine ten",
            "数値計算の長い名前がここにあります",
            "https://example.org/a/very/long/path/without/any/space/at/all/in/it",
        ];
        for text in texts {
            for limit in [40.0, 120.0, 300.0] {
                let lines = wrap(text, 12.0, limit);
                assert!(!lines.is_empty());
                for line in &lines {
                    let one = line.chars().count() == 1;
                    assert!(one || width(line, 12.0) <= limit, "{line:?} in {limit}");
                }
                let glued: String = lines.concat().split_whitespace().collect();
                let whole: String = text.split_whitespace().collect();
                assert_eq!(glued, whole);
            }
        }
    }

    #[test]
    fn a_line_breaks_at_words_first() {
        assert_eq!(
            wrap("alpha beta gamma", 10.0, 65.0),
            ["alpha beta", "gamma"]
        );
    }

    #[test]
    fn what_does_not_fit_is_marked() {
        let short = shorten("a rather long message", 10.0, 60.0);
        assert!(
            short.ends_with('…') && width(&short, 10.0) <= 60.0,
            "{short}"
        );
        assert_eq!(shorten("short", 10.0, 60.0), "short");
    }
}
