//! `history export`: what names of others do to a terminal, and what a file has of them.

use protocol::Precision;

use crate::support::{Home, records, session};

const MACHINE: &str = "::error::a\u{1b}[2Jr\u{1b}]0;x\u{7}\n::error::forged\u{202e}";

fn home() -> Home {
    let home = Home::new();
    let mut hostile = session("hostile");
    hostile.hosts = [(MACHINE.into(), record::Machine::default())].into();
    let all = records("hostile", "img", Precision::Fp32, 100.0);
    home.write("hostile", &hostile, &all);
    home.check(&["history", "add", "sessions/hostile"], 0, "runs added");
    home
}

#[test]
fn names_in_an_export_act_on_no_terminal_and_no_ci() {
    let home = home();
    let said = home.check(&["history", "export"], 0, "hostile");
    let acts = |letter: char| letter != '\n' && letter.is_control() || letter == '\u{202e}';
    assert!(!said.contains(acts), "{said:?}");
    assert!(
        !said.lines().any(|line| line.trim_start().starts_with("::")),
        "{said}"
    );
    assert!(
        said.contains("\\u{1b}]0;x\\u{7}\n\\::error::forged"),
        "{said}"
    );
}

#[test]
fn a_file_has_names_as_they_are() {
    let home = home();
    home.check(&["history", "export", "--to", "all.csv"], 0, "points of");
    let text = std::fs::read_to_string(home.path("all.csv")).expect("the export");
    assert!(text.contains(MACHINE), "{text:?}");
}
