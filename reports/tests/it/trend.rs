//! Series over time, as a page and as text.

use std::sync::Arc;

use judge::{
    compare::Direction,
    trend::{Point, TrendOptions, change_points, news, staleness},
};
use reports::{
    format::Quantity,
    text::Style,
    trend::{
        AttributeChange, Entry, Failure, MethodChange, MethodChanges, Series, Standing,
        annotations, failures, html, markdown, text,
    },
};

const DAY: f64 = 86_400.0;

/// Daily results around `level`, with a scatter of half a percent that repeats no time soon.
pub(crate) fn points(count: u32, level: impl Fn(u32) -> f64) -> Vec<Point> {
    let scatter = |i: u32| f64::from((i * 7919 + 13) % 101) / 101.0 - 0.5;
    (0..count)
        .map(|i| Point {
            timestamp: 1_700_000_000.0 + f64::from(i) * DAY,
            revision: format!("r{i}"),
            value: level(i) * (1.0 + 0.01 * scatter(i)),
        })
        .collect()
}

pub(crate) fn series(title: &str, points: Vec<Point>) -> Series {
    let found = change_points(&points, &TrendOptions::default()).unwrap();
    Series {
        title: title.to_owned(),
        subtitle: "throughput · torch · this machine".to_owned(),
        quantity: Quantity::Throughput,
        direction: Some(Direction::HigherIsBetter),
        news: news(&points, &found, &TrendOptions::default()).unwrap(),
        found,
        attribute_changes: Vec::new(),
        methods: MethodChanges::default(),
        staleness: None,
        gated: true,
        fails: Vec::new(),
        entries: Vec::new(),
        threshold: 0.0,
        points,
    }
}

fn all() -> Vec<Series> {
    let last = 1_700_000_000.0 + 59.0 * DAY;
    let mut stale = series("stopped", points(60, |_| 10.0));
    let times: Vec<f64> = stale.points.iter().map(|point| point.timestamp).collect();
    stale.staleness = staleness(&times, last + 5.0 * DAY, None);
    vec![
        series("steady", points(60, |_| 500.0)),
        series(
            "fell long ago",
            points(60, |i| if i < 30 { 1000.0 } else { 900.0 }),
        ),
        stale,
        series(
            "fell with the last run",
            points(60, |i| if i < 59 { 1000.0 } else { 900.0 }),
        ),
    ]
}

/// Every drawing of a page, each of them sound XML.
fn drawings(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = page;
    while let Some(start) = rest.find("<svg") {
        let end = rest[start..].find("</svg>").unwrap() + start + "</svg>".len();
        roxmltree::Document::parse(&rest[start..end]).unwrap();
        found.push(rest[start..end].to_owned());
        rest = &rest[end..];
    }
    found
}

#[test]
fn what_calls_for_somebody_comes_first() {
    let page = html(&all(), &[], "history.sqlite", "2026-11-20 10:00 UTC").unwrap();
    let place = |words: &str| page.find(&format!("<h3>{words}")).expect(words);
    let order = [
        "fell with the last run",
        "stopped",
        "fell long ago",
        "steady",
    ];
    assert!(order.windows(2).all(|pair| place(pair[0]) < place(pair[1])));
    assert_eq!(drawings(&page).len(), 4);
    for words in [
        "no result for 5.0 days; usually every 1.0 days",
        "regressed, new",
        "-10.",
        "4 series, 2 without a change.",
    ] {
        assert!(page.contains(words), "no `{words}`");
    }
}

#[test]
fn a_change_within_the_threshold_is_told_and_calls_for_nobody() {
    let mut small = series("small", points(60, |i| if i < 59 { 1000.0 } else { 900.0 }));
    let told = text(std::slice::from_ref(&small), &[], Style::Plain);
    insta::assert_snapshot!(told, @r"
    small · throughput · torch · this machine: 60 points, 1 change
     point  time              revision  range              before            after    change
     59     2024-01-12 22:13  r59       r58..r59  999.9 samples/s  896.2 samples/s  -10.37 %

     point  time                 95 % interval       p  verdict
     59     2024-01-12 22:13  -11.05 … -9.69 %  4.0e-6  regressed, new

    1 series, 0 without a change.
    ");
    small.threshold = 0.2;
    let told = markdown(std::slice::from_ref(&small), &[]);
    insta::assert_snapshot!(told, @r"
    #### small · throughput · torch · this machine: 60 points, 1 change

    | point | time | revision | range | before | after | change | 95 % interval | p | verdict |
    |---|---|---|---|---:|---:|---:|---:|---:|---|
    | 59 | 2024-01-12 22:13 | r59 | r58..r59 | 999.9 samples/s | 896.2 samples/s | -10.37 % | -11.05 … -9.69 % | 4.0e-6 | regressed within the noise threshold, new |

    1 series, 0 without a change.
    ");
    let page = html(&[small], &[], "", "").unwrap();
    assert!(page.contains("Changed with the last run"));
    assert!(!page.contains("Regressed with the last run"));
}

#[test]
fn a_change_says_what_it_came_with_in_every_form() {
    let mut fell = series("fell", points(60, |i| if i < 59 { 1000.0 } else { 900.0 }));
    let with = |attribute: &str, before: &str, after: &str| AttributeChange {
        index: 59,
        attribute: attribute.to_owned(),
        before: before.to_owned(),
        after: after.to_owned(),
    };
    let digest = |letter: &str| format!("sha256:{}", letter.repeat(64));
    fell.attribute_changes = vec![
        with("driver", "570.86", "580.12"),
        with("image_id", &digest("a"), &digest("b")),
    ];
    let all = [fell];
    // Text for a terminal has the same in a narrow column.
    insta::assert_snapshot!(text(&all, &[], Style::Plain), @r"
    fell · throughput · torch · this machine: 60 points, 1 change; -10.37 % from driver 570.86 to 580.12, image ID aaaaaaaaaaaa to bbbbbbbbbbbb
     point  time              revision  range              before            after    change
     59     2024-01-12 22:13  r59       r58..r59  999.9 samples/s  896.2 samples/s  -10.37 %

     point  time                 95 % interval       p  verdict
     59     2024-01-12 22:13  -11.05 … -9.69 %  4.0e-6  regressed, new, with another driver and image
                                                        ID

    1 series, 0 without a change.
    ");
    for told in [markdown(&all, &[]), html(&all, &[], "", "").unwrap()] {
        let verdict = "regressed, new, with another driver and image ID";
        assert!(told.contains(verdict), "{told}");
        let remark = "% from driver 570.86 to 580.12, image ID aaaaaaaaaaaa to bbbbbbbbbbbb";
        assert!(told.contains(remark), "{told}");
    }
}

#[test]
fn a_gate_names_what_failed_in_every_form() {
    let mut all = all();
    all[2].fails = vec![Failure::NoNewResult];
    all[3].fails = vec![Failure::Regressed];
    all.push(series("young", points(7, |_| 1.0)));
    let lines = failures(&all, &[]);
    insta::assert_snapshot!(lines.join("\n"), @r"
    stopped · throughput · torch · this machine: no result for 5.0 days; usually every 1.0 days
    fell with the last run · throughput · torch · this machine: regressed by -10.37 %, 999.9 samples/s to 896.2 samples/s; last good r58, first bad r59
    ");
    let told = [
        text(&all, &[], Style::Plain),
        markdown(&all, &[]),
        annotations(&all, &[]),
    ];
    insta::assert_snapshot!("trend_gate_failed", told.join("\n\n"));
}

#[test]
fn drift_and_noise_are_told_and_drawn() {
    let ramp = points(100, |i| 1000.0 - f64::from(i));
    let drifting = series("drifting", ramp);
    assert!(
        drifting.found.change_points[0].gradual,
        "{:?}",
        drifting.found
    );
    let all = [drifting];
    for told in [
        text(&all, &[], Style::Plain),
        html(&all, &[], "", "").unwrap(),
    ] {
        assert!(
            told.contains("over 100 points, gradual: no single revision accounts for it"),
            "{told}"
        );
    }
}

#[test]
fn a_page_needs_no_network() {
    let page = html(&all(), &[], "history.sqlite", "now").unwrap();
    assert_eq!(page.matches("<script").count(), 1, "its own");
    for outside in ["http://", "https://", "src=", "<link", "<img", "url("] {
        let named = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!named.contains(outside), "{outside}");
    }
    assert!(page.contains("prefers-color-scheme: dark"));
}

#[test]
fn names_from_anywhere_stay_names() {
    let mut one = series(
        "<script>alert(1)</script>",
        points(40, |i| if i < 20 { 1.0 } else { 2.0 }),
    );
    one.subtitle = "a & \"b\" | *c*\u{1b}[31m".into();
    one.staleness = staleness(&[0.0, 1.0, 2.0], 100.0, None);
    for point in &mut one.points {
        point.revision = "</title><script>\u{0}".into();
    }
    for change in &mut one.found.change_points {
        change.revision = "</text>|@everyone\n".into();
    }
    let page = html(&[one.clone()], &[], "<i>", "now").unwrap();
    assert_eq!(page.matches("<script").count(), 1, "a tag came through");
    assert!(!page.contains('\u{1b}') && !page.contains('\u{0}'));
    assert_eq!(drawings(&page).len(), 1);
    let told = markdown(&[one], &[]);
    assert!(
        !told.contains("<script") && !told.contains("@everyone"),
        "{told}"
    );
}

#[test]
fn any_series_can_be_drawn() {
    let at = |timestamp: f64, value: f64| Point {
        timestamp,
        revision: String::new(),
        value,
    };
    for points in [
        vec![],
        vec![at(0.0, 0.0)],
        vec![at(5.0, 1.0); 30],
        vec![at(-1e300, -1e300), at(1e300, 1e300)],
        vec![at(1e150, 1.0), at(1e151, 2.0)],
        vec![at(f64::MAX, 1.0); 3],
        (0..3000)
            .map(|i| at(f64::from(i), f64::from(i % 7)))
            .collect(),
        (0..40)
            .map(|i| at(f64::from(i) * 1e7, if i < 20 { -3.0 } else { 3.0 }))
            .collect(),
    ] {
        let page = html(&[series("odd", points.clone())], &[], "", "").unwrap();
        assert_eq!(drawings(&page).len(), 1, "{} points", points.len());
    }
}

/// However long a series is, its page stays small.
#[test]
fn many_points_are_thinned() {
    let page = html(&[series("long", points(5000, |_| 1.0))], &[], "", "").unwrap();
    assert!(page.len() < 100_000, "{} bytes", page.len());
}

#[test]
fn beyond_two_hundred_series_are_named_and_not_drawn() {
    let many = vec![series("steady", points(12, |_| 1.0)); 230];
    let page = html(&many, &[], "", "").unwrap();
    assert_eq!(drawings(&page).len(), 200);
    assert!(page.contains("30 more series are not drawn"));
}

#[test]
fn text_and_markdown() {
    insta::assert_snapshot!("trend_text", text(&all(), &[], Style::Plain));
    insta::assert_snapshot!("trend_markdown", markdown(&all(), &[]));
}

fn entry(id: &str, standing: Standing) -> Entry {
    let moved = |scenario: &str, after: f64| history::Change {
        key: history::SeriesKey {
            machine: "gpu-1".to_owned(),
            track: "torch".to_owned(),
            suite: "nightly".to_owned(),
            scenario: scenario.to_owned(),
            metric: "throughput_samples_per_second".to_owned(),
            ..history::SeriesKey::default()
        },
        before: Some(100.0),
        after: Some(after),
        interval: Some([after / 101.0, after / 99.0]),
        fixed: None,
    };
    let place = |night: u32, driver: &str| history::Place {
        time: history::moment(1_700_000_000.0 + f64::from(night) * DAY),
        revision: format!("r{night}"),
        attributes: Arc::new([("driver".to_owned(), driver.to_owned())].into()),
    };
    let (last_good, first_bad) = (place(58, "570.86"), place(59, "580.12"));
    Entry {
        standing,
        now: history::moment(1_700_000_000.0 + 63.0 * DAY),
        kept: history::Entry {
            id: id.to_owned(),
            what: history::Kind::Regressed,
            points: history::PointFilter::default(),
            failed: first_bad.time,
            machine: None,
            last_good,
            first_bad: Some(first_bad),
            series: vec![moved("a", 90.0), moved("b", 95.0)],
            accepted: Vec::new(),
            fixed: None,
        },
    }
}

#[test]
fn an_entry_is_a_line_however_many_series_it_has() {
    let mut both = entry("R1", Standing::Failing);
    let line = "R1 2 series regressed by -10.00 % to -5.00 %: a · throughput -10.00 %, b · throughput \
        -5.00 %; on torch · nightly · gpu-1; last good r58, first bad r59; from driver 570.86 to 580.12";
    assert_eq!(both.line(), line);
    both.kept.series.truncate(1);
    assert!(both.line().starts_with(
        "R1 a · throughput · torch · nightly · gpu-1: regressed by -10.00 %, 100.0 samples/s to 90.00"
    ));
    let mut silent = both;
    silent.kept.what = history::Kind::NoNewResult;
    silent.kept.machine = Some("gpu-1".to_owned());
    silent.kept.first_bad = None;
    silent.kept.series.clear();
    let line =
        "R1 gpu-1: no result for 5.0 days from any of its series; last result 2024-01-11 22:13";
    assert_eq!(silent.line(), line);
}

#[test]
fn a_gate_with_a_ledger_fails_on_new_entries_reminds_of_open_ones_and_is_quiet_on_others() {
    let mut all = all();
    all[3].fails = vec![Failure::Regressed];
    all[3].entries = vec!["R1".to_owned()];
    let mut accepted = entry("R3", Standing::Accepted);
    accepted.kept.accepted = vec![history::Acceptance {
        by: "ada".to_owned(),
        why: "it <pays>".to_owned(),
        until: None,
        cells: Vec::new(),
        metrics: Vec::new(),
    }];
    let entries = [
        entry("R1", Standing::Failing),
        entry("R2", Standing::Open),
        accepted,
        entry("R4", Standing::JustFixed),
        entry("R5", Standing::Fixed),
    ];
    let lines = failures(&all, &entries);
    insta::assert_snapshot!(lines.join("\n"), @"R1 2 series regressed by -10.00 % to -5.00 %: a · throughput -10.00 %, b · throughput -5.00 %; on torch · nightly · gpu-1; last good r58, first bad r59; from driver 570.86 to 580.12");
    let told = markdown(&all, &entries);
    assert!(!told.contains("R3") && !told.contains("R5"), "{told}");
    let told = format!("{told}\n\n{}", annotations(&all, &entries));
    insta::assert_snapshot!("trend_gate_with_ledger", told);
    let page = html(&all, &entries, "", "").unwrap();
    let place = |words: &str| page.find(words).unwrap_or_else(|| panic!("no `{words}`"));
    assert!(place(">R1<") < place(">R2<") && place(">R2<") < place(">R3<"));
    place("Ledger (5 entries)");
    place("accepted by ada: it &#60;pays&#62;");
    place("in the ledger: R1");
}

#[test]
fn a_series_that_begins_with_another_method_says_what_changed() {
    let change = MethodChange {
        differences: vec![record::MethodDifference {
            key: "limits.memory".into(),
            base: "8.0 GiB".into(),
            head: "16.0 GiB".into(),
        }],
    };
    let mut new = series("new", points(20, |_| 10.0));
    new.methods.before = Some(change.clone());
    let mut old = series("old", points(20, |_| 10.0));
    old.methods.after = Some(change);
    let all = [old.clone(), new.clone(), new];
    insta::assert_snapshot!(markdown(&all, &[]), @r"
    - 2 series begin where another method ended; method: limits.memory 8.0 GiB → 16.0 GiB; --ignore method.limits.memory follows both as one

    3 series, 3 without a change.
    ");
    let page = html(&all, &[], "history", "now").unwrap();
    assert!(page.contains("2 series begin where another method ended"));
    let times: Vec<f64> = old.points.iter().map(|point| point.timestamp).collect();
    old.staleness = staleness(&times, times[19] + 50.0 * DAY, None);
    let stale = markdown(&[old], &[]);
    insta::assert_snapshot!(stale, @r"
    #### old · throughput · torch · this machine: 20 points, no change; no result for 50.0 days; usually every 1.0 days; goes on as another series; method: limits.memory 8.0 GiB → 16.0 GiB; --ignore method.limits.memory follows both as one

    1 series, 1 without a change.
    ");
    let mut unknown = series("new", points(20, |_| 10.0));
    unknown.methods = MethodChanges {
        before: Some(MethodChange {
            differences: Vec::new(),
        }),
        ..MethodChanges::default()
    };
    insta::assert_snapshot!(markdown(&[unknown], &[]), @r"
    - 1 series begins where another method ended; method: another, with settings that are not in the history; --ignore method follows both as one

    1 series, 1 without a change.
    ");
}
