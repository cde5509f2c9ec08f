//! Text from outside, made fit for terminals, logs and CI.

use std::{borrow::Cow, fmt::Write as _};

use serde::Serialize;

/// The word of an enum's value in files.
pub fn word_of(value: impl Serialize) -> String {
    let word = serde_json::to_value(value).ok();
    let word = word.as_ref().and_then(|word| word.as_str());
    word.unwrap_or("unknown").to_owned()
}

/// The text with everything escaped that acts on whoever shows it: control characters but line
/// ends and tabs (`\u{1b}` for ESC), marks that turn the direction of writing, invisible and line
/// separators, and what CI reads as a command (`::error` at the start of a line, `##[` and
/// `##vso[` anywhere). Given twice, it changes nothing more.
///
/// For whatever an image, a workload, a file of others or another process says.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(acts) && !text.contains("::") && !text.contains("##") {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut at_line_start = true;
    let mut heading = None;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let next = letters.peek();
        match letter {
            '\r' if next == Some(&'\n') => {}
            ':' if at_line_start && next == Some(&':') => out.push_str("\\:"),
            '#' if next == Some(&'#') => {
                // Before a space they are a heading of Markdown's. Looked for once in a row of them.
                let is_heading = *heading.get_or_insert_with(|| {
                    letters.clone().find(|letter| *letter != '#') == Some(' ')
                });
                out.push_str(if is_heading { "#" } else { "#\\" });
            }
            letter if acts(letter) => {
                // A String takes everything.
                let _ = write!(out, "{}", letter.escape_unicode());
            }
            letter => out.push(letter),
        }
        if letter != '#' {
            heading = None;
        }
        // CI trims a line before it looks for a command.
        at_line_start = letter == '\n' || at_line_start && letter.is_whitespace();
    }
    Cow::Owned(out)
}

/// A command line that a shell reads back as these words, and that [`printable`] leaves as it is. Where
/// a word has characters that act on whoever shows it, that shell is bash or zsh.
pub fn command_line(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    let quoted = words.iter().map(|word| {
        if word.contains(|letter: char| letter.is_control() || acts(letter)) {
            escaped(word)
        } else if !word.is_empty() && word.chars().all(plain) && !word.starts_with("::") {
            word.clone()
        } else {
            // Two `#` in a row may be a command of CI's.
            let word = word.replace('\'', r"'\''").replace("##", "#''#");
            format!("'{}'", word.replace("##", "#''#"))
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// `$'…'` with nothing in it that acts. Bytes rather than `\u`, which shells write by their locale.
fn escaped(word: &str) -> String {
    let mut out = "$'".to_owned();
    for letter in word.chars() {
        match letter {
            '\'' | '\\' => out.extend(['\\', letter]),
            letter if letter == '#' || letter.is_control() || acts(letter) => {
                for byte in letter.encode_utf8(&mut [0; 4]).bytes() {
                    // A String takes everything.
                    let _ = write!(out, "\\x{byte:02x}");
                }
            }
            letter => out.push(letter),
        }
    }
    out + "'"
}

/// Whether a letter does something rather than show something.
fn acts(letter: char) -> bool {
    match letter {
        '\n' | '\t' => false,
        // Direction, invisible separators, line and paragraph separators, tags, byte order marks.
        '\u{61c}'
        | '\u{200b}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}'
        | '\u{e0000}'..='\u{e007f}' => true,
        letter => letter.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Add as _;

    use super::*;

    fn check(text: &str, expect: &str) {
        assert_eq!(printable(text), expect);
        assert_eq!(printable(expect), expect, "twice is as once");
    }

    #[test]
    fn what_acts_is_escaped_and_what_shows_is_kept() {
        check("tried to allocate 2 GiB", "tried to allocate 2 GiB");
        check("a\tb\nc → é 模型 👍🏽", "a\tb\nc → é 模型 👍🏽");
        check("a\r\nb", "a\nb");
        check(
            "\u{1b}]0;title\u{7}\u{1b}[2J",
            "\\u{1b}]0;title\\u{7}\\u{1b}[2J",
        );
        check("10 %\rdone\u{8}", "10 %\\u{d}done\\u{8}");
        check("\u{9b}31m\u{7f}", "\\u{9b}31m\\u{7f}");
        check("ab\u{202e}gpj.exe\u{2066}", "ab\\u{202e}gpj.exe\\u{2066}");
        check("one\u{2028}::error::two", "one\\u{2028}::error::two");
    }

    #[test]
    fn words_come_back_from_a_shell_whatever_shows_them() {
        let check = |words: &[&str], expect: &str| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let line = command_line(&words);
            assert_eq!(line, expect);
            assert_eq!(printable(&line), line);
            let output = std::process::Command::new("bash")
                .args(["-c", &format!("printf '%s\\0' {line}")])
                .output()
                .expect("bash runs");
            let read = String::from_utf8(output.stdout).expect("text");
            let read: Vec<&str> = read.trim_end_matches('\0').split('\0').collect();
            assert_eq!(read, words);
        };
        check(
            &["cargo", "a b", "it's", "", "<x>"],
            r"cargo 'a b' 'it'\''s' '' '<x>'",
        );
        check(&["out##b", "###[", "a#b"], "'out#''#b' '#''#''#[' 'a#b'");
        check(&["::error::x", "at::Tensor"], "'::error::x' at::Tensor");
        check(
            &["it's\n##[x]\\\u{1b}[2J", "\u{85}\u{202e}é"],
            r"$'it\'s\x0a\x23\x23[x]\\\x1b[2J' $'\xc2\x85\xe2\x80\xaeé'",
        );
    }

    #[test]
    fn what_ci_reads_as_a_command_is_none() {
        check("::error::x", "\\::error::x");
        check("a\n  ::add-mask::b", "a\n  \\::add-mask::b");
        check("at::Tensor, c10::Error", "at::Tensor, c10::Error");
        check("x ##vso[task.complete]", "x #\\#vso[task.complete]");
        check("###[error]", "#\\#\\#[error]");
        check("step #1: # and #", "step #1: # and #");
        check("## a heading\n### x", "## a heading\n### x");
        check("## x ##[error]", "## x #\\#[error]");
        // As long as a log may be: in no time.
        check(&"#".repeat(1 << 20), &"#\\".repeat((1 << 20) - 1).add("#"));
    }
}
