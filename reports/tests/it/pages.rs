//! The page through its public face: well-formed drawings in which nothing is cut and no text
//! lies over another, whatever the session.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use reports::{View, html, measure};
use roxmltree::{Document, Node};
use sha2::{Digest as _, Sha256};

use crate::support::{self, Fake};

fn page(fakes: &[Fake]) -> String {
    let sources: Vec<_> = fakes.iter().map(Fake::source).collect();
    html::render(&View::of(&sources)).unwrap()
}

fn page_of(source: &reports::Source) -> String {
    html::render(&View::of(std::slice::from_ref(source))).unwrap()
}

fn every_kind() -> Vec<(&'static str, Vec<Fake>)> {
    vec![
        ("gpu", vec![Fake::gpu()]),
        ("cpu", vec![Fake::cpu()]),
        ("one cell", vec![support::one_cell()]),
        ("forty cells", vec![support::forty_cells()]),
        ("five images", vec![support::five_images()]),
        ("no success", vec![support::no_success()]),
        ("wide ranges", vec![support::wide_ranges()]),
        ("hostile names", vec![support::hostile()]),
        ("empty", vec![support::empty()]),
        ("contaminated", vec![support::contaminated()]),
        (
            "two sessions",
            vec![
                Fake::gpu(),
                Fake::gpu().seeded(5).named("2026-11-13T08-00-00-wxyz"),
            ],
        ),
    ]
}

/// Every drawing of a page.
fn drawings(page: &str) -> Vec<&str> {
    page.match_indices("<svg xmlns")
        .map(|(start, _)| {
            let length = page[start..].find("</svg>").unwrap() + "</svg>".len();
            &page[start..start + length]
        })
        .collect()
}

#[derive(Debug)]
#[expect(
    dead_code,
    reason = "the text is for the message of a failed assertion"
)]
struct TextBox {
    text: String,
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

fn number(node: Node, attribute: &str) -> f64 {
    node.attribute(attribute).unwrap().parse().unwrap()
}

/// What a text takes, with the widths of the widest usual font.
fn text_box(node: Node) -> TextBox {
    let text = node.text().unwrap_or_default().to_owned();
    let size = number(node, "font-size");
    let width = if node.attribute("font-weight") == Some("bold") {
        measure::bold_width(&text, size)
    } else {
        measure::width(&text, size)
    };
    let x = number(node, "x");
    let left = match node.attribute("text-anchor").unwrap() {
        "start" => x,
        "middle" => x - width / 2.0,
        _ => x - width,
    };
    // All texts stand by their middle; x-height letters with ascenders take about one size.
    assert_eq!(node.attribute("dy"), Some("0.5ex"));
    let y = number(node, "y");
    TextBox {
        text,
        left,
        top: y - size * 0.5,
        right: left + width,
        bottom: y + size * 0.5,
    }
}

#[test]
fn drawings_are_xml_with_a_name_and_nothing_cut_or_overlapping() {
    for (kind, fakes) in every_kind() {
        let page = page(&fakes);
        for drawing in drawings(&page) {
            let document =
                Document::parse(drawing).unwrap_or_else(|error| panic!("{kind}: {error}"));
            let root = document.root_element();
            let title = root
                .children()
                .find(|child| child.has_tag_name(("http://www.w3.org/2000/svg", "title")));
            let title = title.and_then(|title| title.text()).unwrap();
            assert_eq!(root.attribute("role"), Some("img"));
            let view: Vec<f64> = root
                .attribute("viewBox")
                .unwrap()
                .split(' ')
                .map(|part| part.parse().unwrap())
                .collect();
            let texts: Vec<TextBox> = document
                .descendants()
                .filter(|node| node.tag_name().name() == "text")
                .map(text_box)
                .collect();
            for (index, one) in texts.iter().enumerate() {
                assert!(
                    one.left >= -1.0
                        && one.top >= -1.0
                        && one.right <= view[2] + 1.0
                        && one.bottom <= view[3] + 1.0,
                    "{kind}, {title}: {one:?} leaves {view:?}"
                );
                for other in &texts[..index] {
                    let apart = one.right <= other.left + 1.0
                        || other.right <= one.left + 1.0
                        || one.bottom <= other.top + 8.0
                        || other.bottom <= one.top + 8.0;
                    assert!(apart, "{kind}, {title}: {one:?} over {other:?}");
                }
            }
        }
    }
}

#[test]
fn every_colour_follows_light_and_dark() {
    let page = page(&[Fake::gpu()]);
    let style_end = page.find("</style>").unwrap();
    let style = &page[..style_end];
    for drawing in drawings(&page) {
        let document = Document::parse(drawing).unwrap();
        for node in document.descendants() {
            for attribute in ["fill", "stroke", "font-family"] {
                assert_eq!(node.attribute(attribute), None, "{node:?}");
            }
            for class in node.attribute("class").unwrap_or_default().split(' ') {
                let known =
                    class.is_empty() || class == "plot" || style.contains(&format!(".{class}{{"));
                assert!(known, "no style for {class}");
            }
        }
    }
}

#[test]
fn nothing_is_fetched_and_the_policy_names_the_one_script_and_style() {
    for (kind, fakes) in every_kind() {
        let page = page(&fakes);
        let inside = |page: &str, element: &str| {
            let (begin, end) = (format!("<{element}>"), format!("</{element}>"));
            let (_, rest) = page.split_once(&begin).unwrap();
            rest.split_once(&end).unwrap().0.to_owned()
        };
        let (style, script) = (inside(&page, "style"), inside(&page, "script"));
        assert!(script.len() <= 30_000, "{} bytes of script", script.len());
        let (_, policy) = page
            .split_once("Content-Security-Policy\" content=\"")
            .unwrap();
        let policy = policy.split_once('"').unwrap().0.replace("&#39;", "'");
        let hash = |text: &str| BASE64_STANDARD.encode(Sha256::digest(text));
        let expect = format!(
            "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; \
             form-action 'none'",
            hash(&style),
            hash(&script)
        );
        assert_eq!(policy, expect, "{kind}");
        assert!(!page.contains("style=\""), "{kind}: the policy forbids it");
        let page = page.replacen(&format!("<script>{script}</script>"), "", 1);
        for forbidden in [
            "<script",
            "<img",
            "<link",
            "<iframe",
            "@import",
            "url(",
            "href=\"http",
            "src=",
            "onerror=alert(1)>&",
        ] {
            let escaped = page
                .replace("&lt;img src=x onerror", "")
                .replace("&lt;img src=x", "")
                .replace("&#60;img src=x", "");
            assert!(!escaped.contains(forbidden), "{kind}: {forbidden}");
        }
        assert!(
            !page.contains('\u{202e}') && !page.contains('\u{0}') && !page.contains('\u{1b}'),
            "{kind}"
        );
    }
}

#[test]
fn ids_are_unique_and_every_link_has_its_target() {
    for (kind, fakes) in every_kind() {
        let page = page(&fakes);
        let values = |attribute: &str| -> Vec<String> {
            let needle = format!(" {attribute}=\"");
            page.match_indices(&needle)
                .map(|(start, _)| {
                    let rest = &page[start + needle.len()..];
                    rest[..rest.find('"').unwrap()].to_owned()
                })
                .collect()
        };
        let mut ids = values("id");
        let count = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), count, "{kind}: an id twice");
        for target in values("href")
            .iter()
            .filter_map(|href| href.strip_prefix('#'))
        {
            assert!(ids.iter().any(|id| id == target), "{kind}: #{target}");
        }
        for names in values("aria-labelledby") {
            for name in names.split(' ') {
                assert!(ids.iter().any(|id| id == name), "{kind}: {name}");
            }
        }
    }
}

#[test]
fn every_failed_run_stands_with_its_reason_stage_and_log() {
    let page = page(&[Fake::gpu()]);
    for word in [
        "r-0007",
        "out-of-memory",
        "at warmup",
        "Tried to allocate 1.53 GiB",
        "logs/r-0007.log",
        "r-0031",
        "time-limit",
        "at start",
    ] {
        assert!(page.contains(word), "{word}");
    }
}

#[test]
fn contaminated_attempts_stand_apart_with_their_reason_and_what_came_of_them() {
    let sources = [support::contaminated().source()];
    let view = View::of(&sources);
    let page = html::render(&view).unwrap();
    let (_, section) = page.split_once("<section id=\"contaminated\"").unwrap();
    let (section, _) = section.split_once("</section>").unwrap();
    for word in [
        "r-0003",
        "other processes used the GPU: 4242 (somebody)",
        "attempt 2 succeeded",
        "held back by hw_thermal_slowdown in 40 %",
    ] {
        assert!(section.contains(word), "{word} in {section}");
    }
    assert!(
        !page.contains("<section id=\"failures\""),
        "they are no failures of the workload"
    );
    // Their series are drawn, in a colour of their own, with what contaminated them at its time.
    let (_, drawn) = page.split_once("<section id=\"cells\"").unwrap();
    let (drawn, _) = drawn.split_once("</section>").unwrap();
    assert!(drawn.contains("run r-0003 · attempt 1"));
    assert!(drawn.contains("from 3.0 s to 5.0 s"), "no stretch");
    assert!(drawn.contains("the same in a contaminated attempt"));
    // What rests on metrics rests on the repetition alone.
    let cell = &view.report.cells[3];
    assert_eq!((cell.runs, cell.ok), (6, 5), "{}", cell.cell);
    let markdown = reports::markdown::render(&view);
    assert!(markdown.contains("### 2 contaminated attempts"));
    assert!(!markdown.contains("failed run"), "{markdown}");
}

#[test]
fn behind_each_cell_are_the_pictures_that_are_of_it_alone() {
    let source = Fake::gpu().images(&["torch-2.10", "torch-2.11"]).source();
    let page = page_of(&source);
    let section = |id: &str| {
        let (_, section) = page.split_once(&format!("<section id=\"{id}\"")).unwrap();
        section.split_once("</section>").unwrap().0
    };
    let (results, cells) = (section("results"), section("cells"));
    assert!(cells.contains("<details class=\"more\"><summary><h2 id=\"cells-heading\">"));
    // One fold a cell under its name, and from its row a link into it.
    let folds: Vec<&str> = cells.split("<details><summary>").skip(1).collect();
    let own: Vec<_> = folds
        .iter()
        .filter(|fold| !fold.starts_with("As a table"))
        .collect();
    assert_eq!(own.len(), 24);
    assert!(
        own[1].starts_with("resnet50 fp32 bs64 in torch-2.11</summary>"),
        "{}",
        own[1]
    );
    for (place, fold) in own.iter().enumerate() {
        let ids = ["timeline", "monitor"].map(|kind| format!("{kind}-{}", place + 1));
        let mut ids = ids
            .iter()
            .filter(|id| fold.contains(&format!(" id=\"{id}\"")));
        let first = ids.next().unwrap_or_else(|| panic!("nothing in {fold}"));
        assert!(
            results.contains(&format!("<a href=\"#{first}\">")),
            "{first}"
        );
        assert!(
            fold.contains(&format!("<figure data-row=\"{place}\"")),
            "{fold}"
        );
    }
    assert!(
        !page.contains("<section id=\"monitor\"") && !page.contains("<section id=\"timeline\"")
    );
    // A page of one cell has nothing to fold away.
    let one = page_of(&support::one_cell().source());
    assert!(one.contains("<section id=\"monitor\"") && !one.contains("<section id=\"cells\""));
}

#[test]
fn every_series_of_a_record_is_drawn() {
    let page = page(&[Fake::gpu()]);
    for title in [
        "GPU utilization (%)",
        "GPU memory (GiB)",
        "GPU power (W)",
        "Clocks (MHz)",
        "GPU temperature (°C)",
        "CPUs (cores)",
        "Memory of the run (GiB)",
        "Memory available (GiB)",
        "Threads, processes",
    ] {
        assert!(page.contains(&format!(">{title}</text>")), "{title}");
    }
    assert!(page.contains("· read 812.0 MiB · written 0 B · drew "));
}

#[test]
fn a_session_of_a_thousand_cells_is_a_page_that_a_browser_opens() {
    let mut fake = Fake::gpu();
    fake.failing.clear();
    fake.blocks = 1;
    fake.steps = 20;
    fake.cells = (1..=1000)
        .map(|batch| {
            let json = format!(r#"{{"batch":{batch}}}"#);
            support::cell("x", protocol::Model::Resnet50, &json, 900.0, 4000.0)
        })
        .collect();
    let bytes = page(&[fake]).len();
    assert!(bytes < 25_000_000, "{bytes}");
}

#[test]
fn the_page_says_how_it_was_run_and_on_what() {
    let page = page(&[Fake::gpu()]);
    assert!(page.contains(" steps a run, step p99 is nearly the slowest."));
    for fact in [
        "cargo xtask bench --suite sample --blocks 5",
        "2c6e365",
        "NVIDIA H200",
        "580.159",
        "libtorch 2.11.0+cu130",
        "3.386 GiB",
        "47 min 12 s",
    ] {
        assert!(page.contains(fact), "{fact}");
    }
}

#[test]
fn how_long_an_image_took_to_load_stands_beside_its_size() {
    let page = |second: Option<f64>| {
        let mut source = Fake::gpu().images(&["torch-2.10", "torch-2.11"]).source();
        for (image, seconds) in source.session.images.iter_mut().zip([Some(10.0), second]) {
            image.load_seconds = seconds;
            image.loaded_bytes = image.size_bytes.filter(|_| seconds.is_some());
        }
        html::render(&View::of(&[source])).unwrap()
    };
    let loaded = page(Some(14.0));
    let first = first_screen(&loaded);
    let place = "torch-2.11 (libtorch 2.11.0, 3.411 GiB, loaded in 14.0 s)";
    assert!(first.contains(place), "{first}");
    assert!(loaded.contains("image load · image: ? +40.00 %, no interval."));
    // What the engine had was not loaded in no time.
    let cached = page(None);
    assert!(first_screen(&cached).contains("3.411 GiB)"));
    assert!(!cached.contains("image load"));
}

#[test]
fn a_cell_is_beaten_by_what_the_judge_finds_better() {
    let mut fake = Fake::cpu();
    fake.blocks = 3;
    fake.cells = [
        ("a", 1, 100.0, 10.0),
        ("b", 2, 300.0, 30.0),
        ("c", 3, 200.0, 40.0),
    ]
    .into_iter()
    .map(|(_, batch, speed, mib)| {
        let json = format!(r#"{{"batch":{batch}}}"#);
        let model = protocol::Model::ResnetTiny;
        support::FakeCell {
            noise: 0.001,
            ..support::cell("x", model, &json, speed, mib)
        }
    })
    .collect();
    let page = page(&[fake]);
    let description = page.split("id=\"pareto-1-description\">").nth(1).unwrap();
    let description = description.split("</desc>").next().unwrap();
    assert!(
        description.contains("40.00 MiB allocated, beaten"),
        "{description}"
    );
    assert_eq!(description.matches("beaten").count(), 1, "{description}");
}

/// What stands between the heading and the first section.
fn first_screen(page: &str) -> String {
    let (_, rest) = page.split_once("<h1>").unwrap();
    rest.split_once("<nav").unwrap().0.to_owned()
}

#[test]
fn the_first_screen_answers() {
    let one = first_screen(&page(&[Fake::gpu()]));
    for words in [
        "sample: What do precision and the allocator change?",
        "allocator (native, expandable_segments",
        "</b> ✓ better",
        "<b>2</b> failed",
        "Worst: ",
    ] {
        assert!(one.contains(words), "{words} in {one}");
    }
    assert!(one.contains("<svg"), "{one}");
    // What a link to the page shows.
    let whole = page(&[Fake::gpu()]);
    let (_, preview) = whole
        .split_once("property=\"og:description\" content=\"")
        .unwrap();
    let (preview, _) = preview.split_once('"').unwrap();
    assert!(
        preview.contains("2 failed. ") && preview.contains("Worst: "),
        "{preview}"
    );
    let (_, title) = whole.split_once("\"og:title\" content=\"").unwrap();
    assert!(!title.starts_with("sample: "), "{title}");
    assert!(!one.contains("Gate "), "nothing is gated: {one}");
    let two = Fake::gpu().images(&["torch-2.10", "torch-2.11"]);
    let two = first_screen(&page(&[two]));
    assert!(two.contains("torch-2.10 → torch-2.11"), "{two}");
    assert!(
        two.contains("Gate passed: 0 of 36 gated metrics regressed, 1 inconclusive."),
        "{two}"
    );
}

#[test]
fn the_summary_claims_no_more_than_the_judge() {
    // The cells differ by less than their noise: whatever the medians say, no one is the fastest.
    let mut fake = Fake::cpu();
    fake.blocks = 4;
    fake.cells = [(1, 100.0), (2, 100.1), (4, 100.2)]
        .map(|(batch, speed)| {
            let json = format!(r#"{{"batch":{batch}}}"#);
            let model = protocol::Model::ResnetTiny;
            support::FakeCell {
                noise: 0.05,
                ..support::cell("x", model, &json, speed, 10.0)
            }
        })
        .into();
    let sources = [fake.source()];
    let view = View::of(&sources);
    let summary = view.report.summary.join("\n");
    assert!(summary.contains("fastest is not decided: "), "{summary}");
    assert!(summary.contains(" alike, "), "{summary}");
    let counts = view.report.headline.counts.unwrap();
    assert_eq!((counts.regressed, counts.improved), (0, 0));
    // Two sessions did not run side by side.
    let sources = [
        Fake::gpu().source(),
        Fake::gpu().seeded(5).named("later").source(),
    ];
    let summary = View::of(&sources).report.summary.join("\n");
    assert!(!summary.contains("fastest"), "{summary}");
}

#[test]
fn five_hundred_cells_are_a_page_of_three_megabytes_and_one_comment() {
    let sources = [support::five_hundred_cells().source()];
    let view = View::of(&sources);
    let page = html::render(&view).unwrap();
    if let Some(path) = std::env::var_os("KEEP_PAGE") {
        std::fs::write(path, &page).unwrap();
    }
    assert!(page.len() <= 3_000_000, "{}", page.len());
    let markdown = reports::markdown::render(&view);
    let length = markdown.chars().count();
    assert!(length <= 60_000, "{length}");
    assert!(markdown.contains("more rows") && markdown.contains("](report.html)"));
}
