//! From what plotters writes to what belongs in a page.
//!
//! plotters' SVG has literal colours, a font and a fixed size in pixels. A page wants classes that
//! follow light and dark, its own font, a size that follows the window, a name for screen readers,
//! and a hint under the pointer. plotters writes flat elements and escapes `<` and `>` in every
//! text and attribute, so walking from one `<` to the next `>` reads all of it.

use super::ink::Ink;

/// Text drawn at this size is no text: it opens or closes a group (see [`GROUP_CLOSES`]).
pub(super) const GROUP_MARK: &str = "font-size=\"1\"";
/// The text of a mark that closes a group. Any other text opens one and names it.
pub(super) const GROUP_CLOSES: &str = "\u{e000}";

/// What the finished drawing is called.
#[derive(Debug, Clone, Copy)]
pub(super) struct Names<'a> {
    /// Unique in the page.
    pub(super) id: &'a str,
    /// What it shows, in few words.
    pub(super) title: &'a str,
    /// What it shows, for those who cannot see it.
    pub(super) description: &'a str,
}

/// Turns plotters' SVG into one for a page. `units` is how many of plotters' pixels make one.
pub(super) fn dress(svg: &str, size: (f64, f64), units: f64, names: Names) -> String {
    let mut out = String::with_capacity(svg.len());
    let mut rest = svg;
    while let Some(open) = rest.find('<') {
        let (before, tag_on) = rest.split_at(open);
        out.push_str(before.trim());
        let Some(close) = tag_on.find('>') else { break };
        let (tag, after) = tag_on.split_at(close + 1);
        rest = after;
        if tag.starts_with("<svg") {
            out.push_str(&head(size, units, names));
        } else if tag.starts_with("<text") && tag.contains(GROUP_MARK) {
            let end = rest.find("</text>").unwrap_or(rest.len());
            let text = rest[..end].trim();
            if text == GROUP_CLOSES {
                out.push_str("</g>\n");
            } else {
                out.push_str(&format!("<g><title>{text}</title>"));
            }
            rest = rest[end..].strip_prefix("</text>").unwrap_or("");
        } else if tag.starts_with("</") {
            out.push_str(tag);
            out.push('\n');
        } else {
            out.push_str(&element(tag));
        }
    }
    out
}

fn head((width, height): (f64, f64), units: f64, names: Names) -> String {
    let Names {
        id,
        title,
        description,
    } = names;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" class=\"plot\" role=\"img\" \
         aria-labelledby=\"{id}-title {id}-description\">\n\
         <title id=\"{id}-title\">{}</title>\n<desc id=\"{id}-description\">{}</desc>\n",
        width * units,
        height * units,
        escape(title),
        escape(description),
    )
}

/// One element with its colours as classes and without what says nothing.
fn element(tag: &str) -> String {
    let inner = tag.trim_start_matches('<').trim_end_matches('>');
    let (inner, slash) = inner
        .strip_suffix('/')
        .map_or((inner, ""), |inner| (inner, "/"));
    let (name, attributes) = inner.split_once(' ').unwrap_or((inner, ""));
    let mut classes = Vec::new();
    let mut kept = String::new();
    for (key, value) in attribute_pairs(attributes) {
        let role = Ink::of_key(value);
        match (key, role) {
            ("fill", Some(ink)) => classes.push(format!("f-{}", ink.name())),
            ("stroke", Some(ink)) => classes.push(format!("s-{}", ink.name())),
            ("opacity", _) if value == "1" => {}
            ("font-family", _) => {}
            // `none` is what the style sheet starts from.
            ("fill" | "stroke", None) if value == "none" => {}
            ("stroke-width", _) if !attributes.contains("stroke=\"#") => {}
            _ => kept += &format!(" {key}=\"{}\"", value.trim_end()),
        }
    }
    let class = if classes.is_empty() {
        String::new()
    } else {
        format!(" class=\"{}\"", classes.join(" "))
    };
    format!("<{name}{class}{kept}{slash}>")
}

fn attribute_pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (key, after) = rest.trim_start().split_once("=\"")?;
        let (value, after) = after.split_once('"')?;
        rest = after;
        Some((key, value))
    })
}

/// For text and attribute values of XML.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: Names = Names {
        id: "x",
        title: "a < b",
        description: "\"d\"",
    };

    #[test]
    fn colours_become_classes_and_the_page_gives_the_rest() {
        let drawn = "<svg width=\"10\" height=\"10\" viewBox=\"0 0 10 10\" xmlns=\"x\">\n\
            <rect x=\"1\" opacity=\"1\" fill=\"#0A7520\" stroke=\"none\"/>\n\
            <text x=\"1\" font-family=\"sans-serif\" font-size=\"12\" opacity=\"0.5\" \
            fill=\"#0A7500\">\na &lt; b\n</text>\n</svg>\n";
        let dressed = dress(drawn, (1.0, 1.0), 10.0, NAMES);
        assert!(dressed.contains("viewBox=\"0 0 10 10\""), "{dressed}");
        assert!(
            dressed.contains("<rect class=\"f-series-0\" x=\"1\"/>"),
            "{dressed}"
        );
        assert!(
            dressed.contains(
                "<text class=\"f-text\" x=\"1\" font-size=\"12\" opacity=\"0.5\">a &lt; b</text>"
            ),
            "{dressed}"
        );
        assert!(
            dressed.contains("<title id=\"x-title\">a &lt; b</title>"),
            "{dressed}"
        );
        roxmltree::Document::parse(&dressed).unwrap();
    }

    #[test]
    fn marks_become_groups_with_a_hint() {
        let drawn = format!(
            "<svg>\n<text {GROUP_MARK} fill=\"#0A7500\">\nrun &lt;1&gt;\n</text>\n<circle r=\"1\"/>\n\
             <text {GROUP_MARK}>\n{GROUP_CLOSES}\n</text>\n</svg>\n"
        );
        let dressed = dress(&drawn, (1.0, 1.0), 1.0, NAMES);
        assert!(
            dressed.contains("<g><title>run &lt;1&gt;</title><circle r=\"1\"/></g>"),
            "{dressed}"
        );
        roxmltree::Document::parse(&dressed).unwrap();
    }
}
