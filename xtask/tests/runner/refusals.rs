//! What is refused before anything is made ready, and a terminal that goes away.

use std::fs;

use rustix::process::Signal;

use crate::support::{Home, outcomes};

#[test]
fn folders_that_cannot_hold_a_session_are_refused_at_once() {
    let home = Home::new();
    fs::write(home.path("file"), "precious").expect("a file");
    for (name, why) in [("a,b", "a comma"), ("file", "is a file")] {
        let text = home.bench(name, "", &["--device=cpu"]).ends_with(2);
        assert!(text.contains(why), "{text}");
        assert!(
            !text.contains("runs execute"),
            "nothing was made ready: {text}"
        );
    }
    assert!(!home.path("a,b").exists());
    assert_eq!(fs::read_to_string(home.path("file")).unwrap(), "precious");
}

#[test]
fn a_metrics_address_that_is_none_is_refused_under_a_dry_run_too() {
    let home = Home::new();
    let listen = "--metrics-listen=abc";
    for words in [
        vec!["--device=cpu", listen],
        vec!["--device=cpu", "--dry-run", listen],
    ] {
        let text = home.bench("s", "", &words).ends_with(2);
        assert!(text.contains("`abc` is no address"), "{text}");
        assert!(!home.path("s").exists());
    }
}

#[test]
fn a_connection_that_is_lost_cleans_up_as_ctrl_c_does() {
    let home = Home::new();
    let running = home.bench("s", "0001=sleep:60000", &["--device=cpu"]);
    running.until_records(1);
    running.until_it_runs();
    running.signal(Signal::HUP);
    running.ends_with(3);
    let (session, records) = home.read("s");
    assert!(!session.complete && session.ended_at.is_some());
    let ends: Vec<_> = outcomes(&records)
        .into_iter()
        .map(|(.., end)| end)
        .collect();
    assert_eq!(ends, ["ok", "interrupted"]);
    assert!(!home.path("s/work").exists(), "a run's folder was left");
}
