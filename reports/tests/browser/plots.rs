//! Plots along time: values under the pointer and by key, zoom, and drawings as files.

use std::{fs, time::Duration};

use roxmltree::Document;
use serde_json::json;

use crate::{
    chromium::Browser,
    support::{Page, two_images},
};

/// The first run of the monitors, and its first panel.
const PAPER: &str = "#monitor-1 .paper";

fn open() -> (Browser, Page) {
    let page = Page::of(&[two_images()]);
    let mut browser = Browser::start(1400, 900);
    browser.open(&page.file, "");
    browser.evaluate("document.querySelectorAll('details:not(figure details)').forEach(one => { one.open = true; })");
    (browser, page)
}

/// Where a share of the lower axis of the panel of this name is in the window.
fn place(browser: &mut Browser, panel: &str, share: f64) -> (f64, f64) {
    browser.middle(PAPER);
    let place = browser.evaluate(&format!(
        "(() => {{ const g = document.querySelector('{PAPER} [data-panel={}]'); \
         const [left, right] = g.dataset.along.split(' ').map(Number); \
         const [top, bottom] = g.dataset.paper.split(' ').map(Number); \
         const p = new DOMPoint(left + {share} * (right - left), (top + bottom) / 2); \
         const {{ x, y }} = p.matrixTransform(g.getScreenCTM()); return [x, y]; }})()",
        json!(panel)
    ));
    (place[0].as_f64().unwrap(), place[1].as_f64().unwrap())
}

const READ: &str = "document.querySelector('.readout').textContent";

#[test]
fn values_of_all_panels_are_read_out_under_the_pointer() {
    let source = two_images();
    let (mut browser, _page) = open();
    let (x, y) = place(&mut browser, "GPU power", 0.5);
    browser.mouse("mouseMoved", x, y);
    let read = browser.text(READ);
    for panel in [
        "GPU utilization",
        "GPU memory",
        "GPU power",
        "CPUs",
        "Memory of the run",
    ] {
        assert!(read.contains(panel), "{panel} in {read}");
    }
    let crosshairs = format!("document.querySelectorAll('{PAPER} .cursor line').length");
    let panels =
        format!("document.querySelector('{PAPER}').querySelectorAll('[data-panel]').length");
    assert_eq!(browser.evaluate(&crosshairs), browser.evaluate(&panels));
    // What is read is what was measured at that time.
    let subtitle =
        browser.text("document.querySelector('#monitor-1 figcaption .muted').textContent");
    let run = subtitle.split_whitespace().nth(2).unwrap();
    let record = source
        .records
        .records
        .iter()
        .find(|record| record.run == run);
    let power = &record
        .unwrap()
        .monitor
        .get(record::Sampled::GpuPowerWatts)
        .unwrap();
    let number = |text: &str| -> f64 {
        let end = text.find(' ').unwrap();
        text[..end].parse().unwrap()
    };
    let at = number(&read);
    let (_, told) = read.split_once("GPU power ").unwrap();
    let after = power
        .samples
        .iter()
        .position(|sample| sample.0 >= at)
        .unwrap();
    let near = &power.samples[after.saturating_sub(2)..(after + 2).min(power.samples.len())];
    let values = || near.iter().map(|sample| sample.1);
    let (least, most) = (
        values().fold(f64::MAX, f64::min),
        values().fold(0.0, f64::max),
    );
    let slack = power.maximum * 0.01;
    assert!(
        (least - slack..=most + slack).contains(&number(told)),
        "{read}: {near:?} of {run}"
    );
    browser.mouse("mouseMoved", 5.0, 5.0);
    assert_eq!(
        browser.evaluate("document.querySelector('.readout').hidden"),
        json!(true)
    );
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn a_stretch_of_time_fills_the_panels() {
    let (mut browser, _page) = open();
    let (left, y) = place(&mut browser, "GPU power", 0.25);
    let (right, _) = place(&mut browser, "GPU power", 0.5);
    let lines = format!(
        "[...document.querySelectorAll('{PAPER} [data-series] polyline')]
            .map(line => line.getAttribute('points'))"
    );
    let before = browser.evaluate(&lines);
    browser.mouse("mousePressed", left, y);
    browser.mouse("mouseMoved", right, y);
    browser.mouse("mouseReleased", right, y);
    assert_ne!(browser.evaluate(&lines), before);
    // Both ends of the axis of time are those of the stretch.
    let range = format!(
        "document.querySelector('{PAPER} [data-panel]').dataset.along.split(' ').map(Number)"
    );
    let seconds = browser.evaluate(&range)[3].as_f64().unwrap();
    let ends = format!(
        "[...document.querySelectorAll('{PAPER} .ends')].map(e => parseFloat(e.textContent))"
    );
    let ends: Vec<f64> = serde_json::from_value(browser.evaluate(&ends)).unwrap();
    let is_end = |share: f64| ends.iter().any(|end| (end / seconds - share).abs() < 0.02);
    assert!(is_end(0.25) && is_end(0.5), "{ends:?} of {seconds}");
    // All lines stay within their panel.
    let outside = format!(
        "[...document.querySelectorAll('{PAPER} [data-panel]')].some(g => {{
            const [left, right] = g.dataset.along.split(' ').map(Number);
            return [...g.querySelectorAll('polyline')].filter(p => !p.closest('[data-fixed]'))
                .some(p => p.getAttribute('points').split(' ').filter(Boolean)
                    .some(pair => parseFloat(pair) < left - 1 || parseFloat(pair) > right + 1)); }})"
    );
    assert_eq!(browser.evaluate(&outside), json!(false));
    let (x, y) = place(&mut browser, "GPU power", 0.5);
    browser.mouse("mouseMoved", x, y);
    let read = browser.text(READ);
    let at: f64 = read.split(' ').next().unwrap().parse().unwrap();
    assert!((at / seconds - 0.375).abs() < 0.02, "{read} of {seconds}");
    browser.click("#monitor-1 .tools button:nth-child(2)");
    assert_eq!(browser.evaluate(&lines), before);
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn keys_read_values_and_zoom() {
    let (mut browser, _page) = open();
    browser.evaluate(&format!("document.querySelector('{PAPER}').focus()"));
    browser.press("ArrowRight");
    let first = browser.text(READ);
    browser.press("ArrowRight");
    let second = browser.text(READ);
    assert!(
        first.contains("GPU power") && first != second,
        "{first} {second}"
    );
    let role = "document.querySelector('.readout').getAttribute('role')";
    assert_eq!(browser.text(role), "status");
    browser.press("+");
    let enlarged = format!("document.querySelector('{PAPER} svg').classList.contains('enlarged')");
    assert_eq!(browser.evaluate(&enlarged), json!(true));
    browser.press("Escape");
    assert_eq!(browser.evaluate(&enlarged), json!(false));
    browser.press("Tab");
    assert_eq!(
        browser.evaluate("document.querySelector('.readout').hidden"),
        json!(true)
    );
}

#[test]
fn a_drawing_is_a_file_of_its_own() {
    let (mut browser, _page) = open();
    let downloads = tempfile::tempdir().unwrap();
    let allow = json!({"behavior": "allow", "downloadPath": downloads.path()});
    browser.call("Browser.setDownloadBehavior", &allow);
    let mut colours = Vec::new();
    for scheme in ["light", "dark"] {
        browser.show_as("screen", scheme);
        browser.click("#throughput .tools button");
        let file = (0..200).find_map(|_| {
            std::thread::sleep(Duration::from_millis(50));
            let found = fs::read_dir(downloads.path()).unwrap().flatten();
            let found = found.map(|entry| entry.path());
            let mut found: Vec<_> = found
                .filter(|path| path.extension().is_some_and(|end| end == "svg"))
                .collect();
            found.sort();
            // Many rows are two drawings.
            (found.len() == 2).then_some(found)
        });
        let both = file.expect("downloads");
        assert_eq!(
            both.iter()
                .map(|file| file.file_name().unwrap())
                .collect::<Vec<_>>(),
            ["throughput-resnet50-2.svg", "throughput-resnet50.svg"]
        );
        let text = fs::read_to_string(&both[1]).unwrap();
        for file in &both {
            fs::remove_file(file).unwrap();
        }
        let document = Document::parse(&text).unwrap();
        let all = || document.descendants().filter(roxmltree::Node::is_element);
        for attribute in ["class", "style", "href"] {
            assert!(
                all().all(|node| !node.has_attribute(attribute)),
                "{attribute}"
            );
        }
        assert!(!text.contains("var("), "colours are those that were seen");
        let words = all().filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "text")));
        let fills: Vec<&str> = words.filter_map(|node| node.attribute("fill")).collect();
        assert!(fills.len() > 5, "{text}");
        colours.push(fills[0].to_owned());
        let root = document.root_element();
        assert_eq!(root.attribute("width"), Some("420"));
    }
    assert_ne!(colours[0], colours[1]);
}
