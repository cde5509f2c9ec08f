//! `driver compare` on sessions of two drivers.

use protocol::Precision;

use crate::support::{Home, records, session};

/// Sessions of a side at these levels of throughput, each in the boot that is named.
fn write(home: &Home, side: &str, driver: &str, sessions: &[(f64, &str)]) {
    for ((level, boot), number) in sessions.iter().zip(1..) {
        let name = format!("{side}-{number}");
        let mut session = session(&name);
        session.images = vec![record::ImageFacts {
            name: "img".to_owned(),
            ..record::ImageFacts::default()
        }];
        for machine in session.hosts.values_mut() {
            machine.driver_version = Some(driver.to_owned());
            machine.boot_id = Some((*boot).to_owned());
        }
        let records = records(&name, "img", Precision::Fp32, *level);
        home.write(&format!("driver/{side}/{number}"), &session, &records);
    }
}

#[test]
fn drivers_are_compared_by_sessions_and_their_boots_are_counted() {
    let home = Home::new();
    let compare = ["driver", "compare"];
    home.check(&compare, 2, "before has 0 sessions that ended");
    write(
        &home,
        "before",
        "570.86.10",
        &[(100.0, "a"), (100.1, "b"), (99.9, "c")],
    );
    home.check(&compare, 2, "after has 0 sessions that ended");
    write(
        &home,
        "after",
        "580.65.06",
        &[(90.0, "d"), (90.1, "e"), (89.9, "f")],
    );
    let text = home.check(&compare, 1, "the gate failed: 1 metric");
    let sides =
        "driver 580.65.06 (3 sessions in 3 boots) against 570.86.10 (3 sessions in 3 boots)";
    assert!(text.contains(sides), "{text}");
    assert!(
        text.contains("regressed") && text.contains("detectable"),
        "{text}"
    );
    assert!(!text.contains("warning"), "{text}");
    assert!(
        home.path("sessions/driver/comparison/comparison.html")
            .is_file()
    );
}

#[test]
fn sessions_of_one_boot_are_named() {
    let home = Home::new();
    write(&home, "before", "570.86.10", &[(100.0, "a"), (100.1, "a")]);
    write(&home, "after", "580.65.06", &[(100.0, "b"), (100.1, "c")]);
    let text = home.check(&["driver", "compare"], 0, "(2 sessions in 1 boot)");
    assert_eq!(
        text.matches("not each of a boot of its own").count(),
        1,
        "{text}"
    );
}
