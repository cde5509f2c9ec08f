//! Text from outside is shown and does nothing.

use serde_json::json;

use crate::{
    chromium::Browser,
    support::{EVIL, Page, hostile},
};

#[test]
fn text_from_outside_stays_text() {
    let source = hostile();
    let page = Page::of(std::slice::from_ref(&source));
    let mut browser = Browser::start(1400, 900);
    browser.open(
        &page.file,
        "#scenario=%3Cimg+src%3Dx+onerror%3Dalert(1)%3E&model=%22%3E%3Csvg%3E",
    );
    // Whatever hides in an attribute gets its chance.
    for selector in [
        "#results .tools button:nth-child(2)",
        "#results .tool",
        "#results th button",
    ] {
        browser.click(selector);
    }
    browser.evaluate("new Promise(done => setTimeout(done, 300))");
    assert_eq!(browser.evaluate("window.pwned ?? null"), json!(null));
    assert_eq!(browser.evaluate("document.scripts.length"), json!(1));
    let strange =
        "document.querySelectorAll('img,iframe,object,embed,link,base,svg[onload]').length";
    assert_eq!(browser.evaluate(strange), json!(0));
    let handlers = "[...document.querySelectorAll('*')].flatMap(element =>
        element.getAttributeNames().filter(name => name.startsWith('on') || name === 'style')).length";
    assert_eq!(browser.evaluate(handlers), json!(0));
    // It is there, as text, in every place that it came through.
    let count = "document.body.textContent.split('<img src=x onerror=\"window.pwned=1\">').length";
    assert!(browser.evaluate(count).as_u64().unwrap() > 30);
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn copies_of_hostile_text_do_nothing_where_they_are_pasted() {
    let page = Page::of(&[hostile()]);
    let mut browser = Browser::start(1400, 900);
    browser.open(&page.file, "");
    let permissions = json!({"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]});
    browser.call("Browser.grantPermissions", &permissions);
    let paste = "navigator.clipboard.readText()";

    browser.evaluate(
        "document.querySelector('details:has(#failures), #failures details').open = true",
    );
    browser.click("#failures .tools button:nth-child(2)");
    let markdown = browser.text(paste);
    for line in markdown.lines() {
        assert!(line.starts_with("| ") || line.starts_with("|-"), "{line}");
        let bars = line.replace("\\|", "").matches('|').count();
        assert_eq!(bars, 6, "{line}");
    }
    for forbidden in ["<", ">", "@user", " #1", "\u{1b}", "\u{202e}"] {
        assert!(!markdown.contains(forbidden), "{forbidden:?} in {markdown}");
    }
    assert!(markdown.contains("\\`code\\`"), "{markdown}");

    browser.click("#failures .tools button:nth-child(1)");
    let csv = browser.text(paste);
    assert_eq!(csv.lines().count(), 2, "{csv}");
    assert!(
        !csv.contains('\u{1b}') && !csv.contains("\n::error"),
        "{csv}"
    );

    browser.click("#results .tool");
    let command = browser.text(paste);
    // What acts on a terminal is escaped in it, as bash and zsh read it.
    assert!(!command.contains(char::is_control), "{command:?}");
    let words = std::process::Command::new("bash")
        .args(["-c", &format!("printf '%s\\n' {command}")])
        .output()
        .unwrap();
    let words = String::from_utf8(words.stdout).unwrap();
    let words: Vec<&str> = words.lines().collect();
    let cell = words.iter().position(|word| *word == "--cell").unwrap() + 1;
    assert!(words[cell].starts_with(&EVIL[..40]), "{words:?}");
    assert_eq!(words.len(), 15, "{words:?}");
}
