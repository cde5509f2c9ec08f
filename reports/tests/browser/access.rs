//! Everybody can use the page: axe-core's rules, names of tab stops, widths, print.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    chromium::Browser,
    fakes::five_hundred_cells,
    support::{Page, axe, gallery, kinds, two_images},
};

/// Which of axe-core's rules a page is held to.
#[derive(Clone, Copy)]
enum Rules {
    All,
    Only(&'static [&'static str]),
}

/// What axe-core finds, in a few words each.
fn violations(browser: &mut Browser, rules: Rules) -> Vec<String> {
    let mut options = json!({"resultTypes": ["violations"], "preload": false});
    match rules {
        Rules::All => {}
        Rules::Only(rules) => options["runOnly"] = json!(rules),
    }
    let found = browser.evaluate(&format!(
        "axe.run(document, {options}).then(r => r.violations)"
    ));
    let found = found.as_array().expect("violations");
    let told = found.iter().map(|one| {
        let nodes = one["nodes"].as_array().expect("nodes");
        let first: Vec<String> = nodes
            .iter()
            .take(4)
            .map(|node| format!("{} {}", node["html"], node["failureSummary"]))
            .collect();
        format!(
            "{}, {} times: {}",
            one["id"],
            nodes.len(),
            first.join(" | ")
        )
    });
    told.collect()
}

/// The tab stops that have no name.
fn unnamed(browser: &mut Browser) -> Vec<String> {
    let tree = browser.call("Accessibility.getFullAXTree", &json!({}));
    let nodes = tree["nodes"].as_array().expect("nodes");
    let has = |node: &Value, name: &str| {
        let properties = node["properties"].as_array();
        let mut properties = properties.into_iter().flatten();
        properties.any(|one| one["name"] == name && one["value"]["value"] == true)
    };
    let is_unnamed = |node: &&Value| {
        has(node, "focusable")
            && node["role"]["value"] != "RootWebArea"
            && node["name"]["value"]
                .as_str()
                .unwrap_or_default()
                .is_empty()
    };
    let told = |node: &Value| format!("{} in {}", node["role"]["value"], node["parentId"]);
    nodes.iter().filter(is_unnamed).map(told).collect()
}

/// Opens whatever is folded: what is hidden is not looked at.
const UNFOLD: &str = "document.querySelectorAll('details').forEach(one => { one.open = true; })";

/// Takes out what takes axe-core minutes: what is drawn, of which it has nothing to say, and of
/// rows and figures those behind the first few of their kind.
const EMPTY: &str = "document.querySelectorAll('svg > :not(title):not(desc), \
    tbody > tr:nth-child(n+4), figure:nth-of-type(n+3), li:nth-of-type(n+8)')\
    .forEach(one => one.remove())";

/// What is wrong with a page; what takes long, axe and paper, is looked at where it is `whole`.
fn faults(browser: &mut Browser, page: &Page, axe: &str, whole: bool) -> Vec<String> {
    let mut found = Vec::new();
    let mut told = |what: &str, list: Vec<String>| {
        found.extend(list.into_iter().map(|one| format!("{what}: {one}")));
    };
    browser.show_as("screen", "light");
    browser.resize(1400, 900);
    browser.open(&page.file, "");
    let led = stops(browser);
    if led.len() > MOST_STOPS {
        told("tab stops", vec![format!("{}: {led:?}", led.len())]);
    }
    browser.evaluate(UNFOLD);
    if whole {
        told("tab stop without a name", unnamed(browser));
        browser.show_as("print", "light");
        browser.resize(1000, 900);
        told("wider than paper", wider(browser, 1000));
        browser.show_as("screen", "light");
    }
    browser.resize(390, 844);
    told("wider than a telephone", wider(browser, 390));
    told("on a telephone", unreadable(browser));
    if whole {
        browser.evaluate(EMPTY);
        browser.evaluate(axe);
        let narrow = Rules::Only(&["scrollable-region-focusable", "target-size"]);
        told("narrow", violations(browser, narrow));
        browser.show_as("screen", "dark");
        told(
            "dark",
            violations(browser, Rules::Only(&["color-contrast"])),
        );
        browser.show_as("screen", "light");
        browser.resize(1400, 900);
        told("light", violations(browser, Rules::All));
    }
    let mut complaints = browser.complaints();
    // The pictures of an index are files of their own.
    complaints.retain(|one| !one.ends_with("/card.svg"));
    told("complaint", complaints);
    found
}

/// Most controls that Tab leads to while nothing is unfolded.
const MOST_STOPS: usize = 40;

/// The controls that Tab leads to, from the top to the end of the page, and how each shows its focus.
fn stops(browser: &mut Browser) -> Vec<String> {
    let mut found = Vec::new();
    // Beyond so many it is wrong, however many there are.
    while found.len() <= 2 * MOST_STOPS {
        browser.press("Tab");
        let at = browser.text(
            "(() => { const e = document.activeElement, s = getComputedStyle(e); \
             if (e === document.body || e.seen) return ''; \
             e.seen = true; \
             return `${e.tagName} ${e.className} ${e.textContent.slice(0, 40)} \
             ${s.outlineStyle} ${s.outlineWidth}`; })()",
        );
        if at.is_empty() {
            break;
        }
        found.push(at);
    }
    found
}

/// Plots that are scrolled sideways, and those with text of less than nine pixels.
fn unreadable(browser: &mut Browser) -> Vec<String> {
    let found = browser.evaluate(
        "[...document.querySelectorAll('.paper:has(.plot)')].flatMap(paper => {
            const name = paper.getAttribute('aria-label');
            const svg = [...paper.querySelectorAll('.plot')].find(one => one.getClientRects().length);
            if (!svg) return [];
            const found = paper.scrollWidth > paper.clientWidth + 1 ? [`${name} is scrolled`] : [];
            const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
            const small = [...svg.querySelectorAll('text')]
                .find(text => parseFloat(text.getAttribute('font-size')) * scale < 9);
            if (small) found.push(`${name} has small text: ${small.textContent}`);
            return found; })",
    );
    let found = found.as_array().expect("names").iter();
    found.map(ToString::to_string).collect()
}

/// How wide the page is where that is more than `most` pixels.
fn wider(browser: &mut Browser, most: u64) -> Vec<String> {
    let wide = browser.evaluate("document.documentElement.scrollWidth");
    let is_wide = wide.as_u64().is_none_or(|wide| wide > most);
    is_wide.then(|| wide.to_string()).into_iter().collect()
}

/// Looks at every page; `is_whole` says of which in full.
#[track_caller]
fn check(pages: impl IntoIterator<Item = (String, Page)>, is_whole: impl Fn(&str) -> bool) {
    let axe = axe();
    let mut browser = Browser::start(1400, 900);
    let mut found = Vec::new();
    for (name, page) in pages {
        let faults = faults(&mut browser, &page, &axe, is_whole(&name));
        found.extend(faults.into_iter().map(|one| format!("{name}, {one}")));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn axe_finds_nothing_on_a_page_of_any_kind_and_nothing_is_cut() {
    check(kinds(), |_| true);
}

#[test]
fn axe_finds_nothing_in_the_gallery_and_nothing_is_cut() {
    // Of the real pages the largest and the one with most pictures; they are made as `kinds` are.
    check(gallery(), |name| {
        ["h200-versions", "h100-scaling"].contains(&name)
    });
}

#[test]
fn the_focus_is_seen_wherever_it_is() {
    let page = Page::of(&[two_images()]);
    let mut browser = Browser::start(1400, 900);
    browser.open(&page.file, "");
    let seen = stops(&mut browser);
    assert!(seen[0].starts_with("A skip"), "{}", seen[0]);
    assert!(seen.len() > 20, "{seen:?}");
    for at in seen {
        assert!(at.contains(" solid ") || at.contains(" auto "), "{at}");
    }
}

#[test]
fn arrows_lead_from_the_one_tab_stop_of_a_table_to_its_other_controls() {
    let page = Page::of(&[two_images()]);
    let mut browser = Browser::start(1400, 900);
    browser.open(&page.file, "#precision=tf32");
    let at = "(() => { const e = document.activeElement; \
              return `${e.closest('section, form')?.id} ${e.className} ${e.textContent}`; })()";
    browser.evaluate("document.querySelector('#results .tools button').focus()");
    let mut met = Vec::new();
    for _ in 0..60 {
        browser.press("ArrowRight");
        met.push(browser.text(at));
    }
    // Sort, link and command of every row that is shown, and round again.
    for control in ["results sort variant", "results link #", "results tool $"] {
        assert!(met.iter().any(|one| one == control), "{control}: {met:?}");
    }
    let own = "results  Copy as CSV";
    let round = met.iter().position(|one| one == own);
    assert!(round.is_some_and(|count| count > 12), "{met:?}");
    browser.press("ArrowLeft");
    browser.press("Tab");
    let below = "results  The commands that run each cell again";
    assert_eq!(browser.text(at), below, "the table is one stop");
    // Who stood on a row that is filtered out finds the table all the same.
    browser.evaluate("document.querySelector('#results tr:not([hidden]) .link').focus()");
    browser.evaluate("location.hash = '#precision=fp32'");
    browser.evaluate("new Promise(done => setTimeout(done, 50))");
    browser.evaluate("document.querySelector('nav a').focus()");
    let met: Vec<String> = std::iter::repeat_with(|| {
        browser.press("Tab");
        browser.text(at)
    })
    .take(40)
    .collect();
    assert!(met.iter().any(|one| one == own), "{met:?}");
}

#[test]
fn five_hundred_cells_have_no_more_tab_stops_than_few() {
    let page = Page::of(&[five_hundred_cells().source()]);
    let mut browser = Browser::start(1400, 900);
    browser.open(&page.file, "");
    let found = stops(&mut browser);
    assert!(found.len() <= MOST_STOPS, "{}: {found:?}", found.len());
}

/// A link to a section that is folded shows what is in it.
#[test]
fn the_way_to_a_section_unfolds_it() {
    let page = Page::of(&[two_images()]);
    let mut browser = Browser::start(1400, 900);
    browser.open(&page.file, "");
    let seen = "document.querySelector('#throughput figure').checkVisibility()";
    assert_eq!(browser.evaluate(seen), json!(false));
    browser.click("nav a[href='#throughput']");
    browser.evaluate("new Promise(done => setTimeout(done, 50))");
    assert_eq!(browser.evaluate(seen), json!(true));
}

#[test]
fn print_has_no_controls_and_nothing_folded_that_is_needed() {
    let page = Page::of(&[two_images()]);
    let mut browser = Browser::start(1000, 900);
    browser.open(&page.file, "");
    browser.show_as("print", "light");
    let controls = "[...document.querySelectorAll('button,input,.filter,.link,nav,.commands')]
        .filter(one => one.checkVisibility() && one.className !== 'sort').length";
    assert_eq!(browser.evaluate(controls), json!(0));
    let folded = "[...document.querySelectorAll('main > section > details:not(.commands) tr')]
        .filter(row => !row.closest('figure') && row.getBoundingClientRect().height === 0).length";
    assert_eq!(browser.evaluate(folded), json!(0));
    let pdf = browser.call("Page.printToPDF", &json!({}));
    assert!(pdf["data"].as_str().unwrap().len() > 10_000);
    let still = json!([{"name": "prefers-reduced-motion", "value": "reduce"}]);
    browser.call(
        "Emulation.setEmulatedMedia",
        &json!({"media": "", "features": still}),
    );
    let behaviour = "getComputedStyle(document.documentElement).scrollBehavior";
    assert_eq!(browser.text(behaviour), "auto");
}

/// Of 500 cells beside 2, loaded by turns: what a machine takes for a page depends on what else it
/// does, but for the large one it may take only so much longer. The time itself is in ARCHITECTURE.md.
#[test]
fn the_first_paint_of_five_hundred_cells_is_not_far_behind_that_of_two() {
    let large = Page::of(&[five_hundred_cells().source()]);
    let small = Page::of(&[two_images()]);
    let mut browser = Browser::start(1400, 900);
    let mut painted = |page: &Page| {
        browser.open(&page.file, "");
        std::thread::sleep(Duration::from_millis(200));
        let painted = "performance.getEntriesByName('first-contentful-paint')[0].startTime";
        let ready = "performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd";
        let times = (browser.evaluate(painted), browser.evaluate(ready));
        (times.0.as_f64().unwrap(), times.1.as_f64().unwrap())
    };
    // The best of some, more of them on a busy machine: other work only ever adds.
    let least =
        |(paint, ready): (f64, f64), times: (f64, f64)| (paint.min(times.0), ready.min(times.1));
    let (mut of_large, mut of_small) = (
        (f64::INFINITY, f64::INFINITY),
        (f64::INFINITY, f64::INFINITY),
    );
    let is_near = |of_large: (f64, f64), of_small: (f64, f64)| {
        of_large.0 < 4.0 * of_small.0 && of_large.1 < 8.0 * of_small.1
    };
    for round in 0..30 {
        of_small = least(of_small, painted(&small));
        of_large = least(of_large, painted(&large));
        if round >= 2 && is_near(of_large, of_small) {
            break;
        }
    }
    assert!(
        is_near(of_large, of_small),
        "paint and ready in ms: {of_small:?} of two cells, {of_large:?} of 500"
    );
    assert_eq!(browser.complaints(), [""; 0]);
}
