//! What single pictures show, read back from the page.

use reports::{Past, Source, View, html, markdown};
use roxmltree::Document;

use crate::{
    support::{self, Fake},
    trend,
};

/// The inside of a page's section; `None` where it has none of this name.
fn section(sources: &[Source], id: &str) -> Option<String> {
    let page = html::render(&View::of(sources)).unwrap();
    let start = page.find(&format!("<section id=\"{id}\""))?;
    let length = page[start..].find("</section>").unwrap();
    Some(page[start..start + length].to_owned())
}

/// The texts of a section's first drawing, in the order in which they were drawn.
fn texts(section: &str) -> Vec<String> {
    let start = section.find("<svg").unwrap();
    let length = section[start..].find("</svg>").unwrap() + "</svg>".len();
    let drawing = Document::parse(&section[start..start + length]).unwrap();
    let texts = drawing
        .descendants()
        .filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "text")));
    texts
        .filter_map(|node| node.text().map(str::to_owned))
        .collect()
}

fn three_versions() -> Source {
    let names = [
        "torch-2.11.0-cu130",
        "torch-2.6.0-cu124",
        "torch-2.9.1-cu128",
    ];
    let mut source = Fake::gpu().images(&names).source();
    for image in &mut source.session.images {
        let version = image.name.split('-').nth(1).unwrap();
        image.libtorch_version = version.to_owned();
    }
    source
}

#[test]
fn versions_stand_in_their_order_with_a_panel_for_each_cell() {
    let source = three_versions();
    let cells = Fake::gpu().cells.len();
    let section = section(&[source], "versions").unwrap();
    assert!(section.contains("torch-cu <span class=\"muted\">2.9.1, 2.11.0 against 2.6.0"));
    let texts = texts(&section);
    let count = |wanted: &str| texts.iter().filter(|text| *text == wanted).count();
    for version in ["2.6.0", "2.9.1", "2.11.0"] {
        assert_eq!(count(version), cells, "{version}");
    }
    let captions = texts.iter().filter(|text| text.starts_with("throughput: "));
    assert_eq!(captions.count(), cells);
}

#[test]
fn versions_take_three_images_of_one_track() {
    let two = Fake::gpu().images(&["torch-2.10-cu128", "torch-2.11-cu130"]);
    assert_eq!(section(&[two.source()], "versions"), None);
    let unlike = Fake::gpu().images(&["torch-2.11-cu130", "torch-2.11-cpu", "jax-0.9"]);
    assert_eq!(section(&[unlike.source()], "versions"), None);
    // Every image of these says that it has the same version.
    let five = section(&[support::five_images().source()], "versions").unwrap();
    assert!(five.contains("torch-2.10-cu128, torch-2.8-cu128 against torch-2.11-cu130"));
}

#[test]
fn variants_that_nearly_agree_are_told_apart_by_their_ratio() {
    let mut fake = Fake::gpu();
    fake.cells.truncate(8);
    fake.failing.clear();
    let section = section(&[fake.source()], "ratio").unwrap();
    let texts = texts(&section);
    // tf32 bs64 with another allocator, 1 % slower: a hundredth of the width of a bar.
    let changes: Vec<&String> = texts.iter().filter(|text| text.contains(" … ")).collect();
    assert_eq!(changes.len(), 7, "{texts:?}");
    assert!(section.contains("threshold 0.50 %"));
}

#[test]
fn lines_of_one_panel_differ_in_grey() {
    let sources = [Fake::gpu().source()];
    let section = section(&sources, "monitor").unwrap();
    let start = section.find("<svg").unwrap();
    let length = section[start..].find("</svg>").unwrap() + "</svg>".len();
    let drawing = Document::parse(&section[start..start + length]).unwrap();
    let dashes = |line: roxmltree::Node| {
        let mut around = line.ancestors();
        around.find_map(|node| node.attribute("stroke-dasharray").map(str::to_owned))
    };
    let mut shared = 0;
    for panel in drawing
        .descendants()
        .filter(|one| one.has_attribute("data-panel"))
    {
        let series = panel
            .descendants()
            .filter(|one| one.has_attribute("data-series"));
        let lines =
            series.filter_map(|one| one.descendants().find(|one| one.has_attribute("points")));
        let all: Vec<Option<String>> = lines.map(dashes).collect();
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len(), "{panel:?}: {all:?}");
        shared += usize::from(all.len() > 1);
    }
    assert!(shared > 0, "no panel has several lines");
}

fn past(level: impl Fn(u32) -> f64) -> Past {
    Past {
        cell: "resnet50 · fp32 bs64".to_owned(),
        image: "torch-2.11-cu130".to_owned(),
        metric: "throughput_samples_per_second".to_owned(),
        series: trend::series("resnet50", trend::points(40, level)),
        href: Some("../trends/resnet50.html#throughput".to_owned()),
    }
}

#[test]
fn a_history_stands_beside_its_metrics_and_changes_come_first() {
    let sources = [Fake::gpu().source()];
    assert_eq!(section(&sources, "history"), None);
    let fell = |i| if i < 25 { 940.0 } else { 890.0 };
    let view = View::of(&sources).with_past(vec![past(|_| 940.0), past(fell)]);
    let page = html::render(&view).unwrap();
    let start = page.find("<section id=\"history\"").unwrap();
    let section = &page[start..];
    let (changed, steady) = (
        section.find(" % at r25, regressed"),
        section.find("no change in 40 points"),
    );
    assert!(changed.is_some() && steady.is_some() && changed < steady);
    assert!(section.contains("<a href=\"../trends/resnet50.html#throughput\">"));
    let text = markdown::render(&view);
    assert!(
        text.contains("| [throughput](../trends/resnet50.html#throughput) |"),
        "{text}"
    );
}
