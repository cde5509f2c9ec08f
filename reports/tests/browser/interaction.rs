//! Filters, sorting, links and copies.

use serde_json::{Value, json};

use crate::{
    chromium::Browser,
    support::{Page, index, two_images},
};

/// The cells of the results that are shown, by their first column and their image.
const SHOWN: &str = "[...document.querySelectorAll('#results tbody tr[id]')]
    .filter(row => row.offsetParent !== null).map(row => row.id)";

fn open(fragment: &str) -> (Browser, Page) {
    let page = Page::of(&[two_images()]);
    let mut browser = Browser::start(1400, 900);
    browser.open(&page.file, fragment);
    (browser, page)
}

fn shown(browser: &mut Browser) -> Vec<String> {
    serde_json::from_value(browser.evaluate(SHOWN)).unwrap()
}

/// Allows reading the clipboard, and reads it.
fn clipboard(browser: &mut Browser) -> String {
    let permissions = ["clipboardReadWrite", "clipboardSanitizedWrite"];
    browser.call(
        "Browser.grantPermissions",
        &json!({"permissions": permissions}),
    );
    browser.text("navigator.clipboard.readText()")
}

#[test]
fn cells_are_filtered_and_the_address_says_how() {
    let (mut browser, page) = open("");
    assert_eq!(shown(&mut browser).len(), 24);
    browser.click(".filter [data-facet=precision] summary");
    browser.click(".filter [name=precision][value=amp-fp16]");
    let of_precision = shown(&mut browser);
    assert_eq!(of_precision.len(), 6, "{of_precision:?}");
    assert!(of_precision.iter().all(|id| id.contains("amp-fp16")));
    browser.click(".filter [data-facet=image] summary");
    browser.click(".filter [name=image][value='torch-2.11']");
    assert_eq!(shown(&mut browser).len(), 3);
    assert_eq!(
        browser.text("location.hash"),
        "#precision=amp-fp16&image=torch-2.11"
    );
    assert_eq!(
        browser.text("document.querySelector('.filter output').value"),
        "3 of 24 cells shown"
    );
    // Verdicts are of these cells, and the pictures of other models are gone.
    let of_others = "[...document.querySelectorAll('#comparison tr[data-cell]')]
        .filter(row => !row.hidden && !row.dataset.cell.includes('amp-fp16')).length";
    assert_eq!(browser.evaluate(of_others), json!(0));
    let bright = "[...document.querySelectorAll('#throughput g[data-row]:not(.out)')].length";
    assert_eq!(browser.evaluate(bright), json!(3));
    let changes = "[...document.querySelectorAll('g[data-cell]:not(.out)')]
        .map(one => one.dataset.cell).filter(Boolean)";
    let changes: Vec<String> = serde_json::from_value(browser.evaluate(changes)).unwrap();
    let is_own = |cell: &String| cell.contains("amp-fp16");
    assert!(
        !changes.is_empty() && changes.iter().all(is_own),
        "{changes:?}"
    );
    // The address alone comes to the same, and another one to its own.
    browser.open(&page.file, "#precision=amp-fp16&image=torch-2.11");
    assert_eq!(shown(&mut browser).len(), 3);
    browser.evaluate("location.hash = '#model=vit-l16'");
    browser.evaluate("new Promise(done => setTimeout(done, 50))");
    let of_model = shown(&mut browser);
    assert!(of_model.len() == 8 && of_model.iter().all(|id| id.contains("vit-l16")));
    let figures = "[...document.querySelectorAll('#throughput figure')]
        .map(figure => [figure.dataset.scenario, figure.hidden])";
    let expect = json!([["resnet50", true], ["vit-l16", false]]);
    assert_eq!(browser.evaluate(figures), expect);
    browser.click(".filter form > button, .filter > button");
    assert_eq!(shown(&mut browser).len(), 24);
    assert_eq!(browser.text("location.hash"), "");
    let dim = "document.querySelectorAll('.out').length";
    assert_eq!(browser.evaluate(dim), json!(0));
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn what_is_unchanged_is_hidden() {
    let (mut browser, _page) = open("");
    let verdicts = "[...document.querySelectorAll('#comparison tr[data-facts*=verdict]')]
        .filter(row => !row.hidden).map(row => /verdict=([^;]*)/.exec(row.dataset.facts)[1])";
    let before = browser.evaluate(verdicts);
    let unchanged = |found: &Value| {
        let found = found.as_array().unwrap();
        found
            .iter()
            .filter(|verdict| **verdict == "unchanged")
            .count()
    };
    assert!(unchanged(&before) > 0, "{before}");
    browser.click(".filter [name=hide]");
    let after = browser.evaluate(verdicts);
    assert!(
        unchanged(&after) == 0 && !after.as_array().unwrap().is_empty(),
        "{after}"
    );
    assert_eq!(browser.text("location.hash"), "#hide=unchanged");
}

#[test]
fn tables_are_sorted_by_pointer_and_by_key() {
    let (mut browser, _page) = open("");
    let head = "[...document.querySelectorAll('#results th')].find(th => th.textContent.startsWith('reserved'))";
    let column = format!(
        "[...document.querySelectorAll('#results tbody')].map(body => [...body.querySelectorAll('tr[id]')]
            .map(row => row.cells[{head}.cellIndex].textContent))"
    );
    let bytes = |text: &str| {
        let (number, unit) = text.split_once(' ')?;
        let size = if unit == "GiB" { 1024.0 } else { 1.0 };
        Some(number.parse::<f64>().ok()? * size)
    };
    let numbers = |found: Value| -> Vec<Vec<Option<f64>>> {
        let found: Vec<Vec<String>> = serde_json::from_value(found).unwrap();
        let bodies = found.iter();
        bodies
            .map(|body| body.iter().map(|text| bytes(text)).collect())
            .collect()
    };
    let before = numbers(browser.evaluate(&column));
    assert!(!before[0].is_sorted(), "{before:?}");
    browser.evaluate(&format!("{head}.querySelector('button').focus()"));
    browser.press("Enter");
    assert_eq!(
        browser.evaluate(&format!("{head}.ariaSort")),
        json!("ascending")
    );
    let up = numbers(browser.evaluate(&column));
    assert!(up.iter().all(|body| body.is_sorted()), "{up:?}");
    // Over all scenarios, so that each row says its own.
    assert_eq!(up[0].len(), 24, "{up:?}");
    let scenario =
        "getComputedStyle(document.querySelector('#results tr[id] th'), '::before').content";
    let said = browser.text(scenario);
    assert!(
        said.contains("resnet50") || said.contains("vit-l16"),
        "{said}"
    );
    browser.press("Enter");
    let down = numbers(browser.evaluate(&column));
    let is_falling = |body: &Vec<Option<f64>>| body.iter().rev().is_sorted();
    assert!(down.iter().all(is_falling), "{down:?}");
    assert_eq!(
        browser.evaluate(&format!("{head}.ariaSort")),
        json!("descending")
    );
    // A name that stands no more under its like is shown again.
    let first = "document.querySelector('#results tbody tr[id] th').classList.contains('again')";
    assert_eq!(browser.evaluate(first), json!(false));
    browser.press("Enter");
    assert_eq!(numbers(browser.evaluate(&column)), before);
    assert_eq!(browser.evaluate(&format!("{head}.ariaSort")), json!(null));
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn a_cell_has_an_address_of_its_own() {
    let (mut browser, page) = open("");
    let link = browser.text("document.querySelectorAll('#results .link')[13].getAttribute('href')");
    let is_there = "(() => { const row = document.querySelector(':target'); \
        const r = row.getBoundingClientRect(); \
        return row.matches('tr') && r.top >= 0 && r.bottom <= innerHeight; })()";
    browser.open(&page.file, &link);
    browser.evaluate("new Promise(done => setTimeout(done, 300))");
    assert_eq!(browser.evaluate(is_there), json!(true), "{link}");
    // What is filtered out comes back for whoever follows a link to it.
    browser.open(&page.file, "#model=vit-l16");
    browser.evaluate(&format!("location.hash = {}", json!(link)));
    browser.evaluate("new Promise(done => setTimeout(done, 900))");
    assert_eq!(browser.evaluate(is_there), json!(true), "{link}");
}

#[test]
fn the_filtered_table_is_copied_as_csv_and_as_markdown() {
    let (mut browser, _page) = open("#precision=tf32&image=torch-2.11&model=vit-l16");
    let count = shown(&mut browser).len();
    browser.click("#results .tools button:nth-child(1)");
    let csv = clipboard(&mut browser);
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), count + 1, "{csv}");
    assert!(
        lines[0].starts_with("scenario,variant,image,samples/s,CV (%),"),
        "{csv}"
    );
    assert!(lines[0].contains(",reserved (B),"), "{csv}");
    // What is no number stays as it is; numbers are of the base unit.
    let end = "359.3,0.2,0.178,0.179,8744553410,9706626090,10357313600,6.93 → 5.71,5/5";
    assert!(lines[1].ends_with(end), "{csv}");
    assert!(lines[1].starts_with("vit-l16,tf32,torch-2.11,"), "{csv}");
    assert!(!csv.contains('#') && !csv.contains('$'), "{csv}");
    browser.click("#results .tools button:nth-child(2)");
    let markdown = clipboard(&mut browser);
    let lines: Vec<&str> = markdown.lines().collect();
    assert_eq!(lines.len(), count + 2, "{markdown}");
    assert!(
        lines[0].starts_with("| scenario | variant | image | samples/s |"),
        "{markdown}"
    );
    assert!(lines[1].starts_with("|---|---|---|---:|"), "{markdown}");
    let columns = |line: &str| line.matches(" | ").count();
    assert_eq!(columns(lines[2]), columns(lines[0]), "{markdown}");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn the_command_of_a_cell_is_copied() {
    let (mut browser, _page) = open("");
    browser.click("tr[id$='torch-2.11'] .tool");
    let command = clipboard(&mut browser);
    assert_eq!(
        command,
        "cargo xtask bench --suite sample --cell 'resnet50 · fp32 bs64' --image torch-2.11 \
         --device cuda:0 --engine docker --blocks 5"
    );
    let said = browser.text("[...document.querySelectorAll('output')].at(-1).value");
    assert!(said.ends_with("Command copied"), "{said}");
}

#[test]
fn without_script_everything_is_there_and_no_control() {
    let page = Page::of(&[two_images()]);
    let mut browser = Browser::start(1400, 900);
    browser.open(&page.file, "");
    let rows = "document.querySelectorAll('tbody tr').length";
    let with = browser.evaluate(rows);
    browser.call(
        "Emulation.setScriptExecutionDisabled",
        &json!({"value": true}),
    );
    browser.open(&page.file, "");
    assert_eq!(browser.evaluate(rows), with);
    let controls =
        "document.querySelectorAll('button,input,select,form,[role=application]').length";
    assert_eq!(browser.evaluate(controls), json!(0));
    let hidden = "[...document.querySelectorAll('main tbody tr')]
        .filter(row => !row.closest('details') && row.offsetParent === null).length";
    assert_eq!(browser.evaluate(hidden), json!(0));
    let commands = "document.querySelectorAll('.commands li').length";
    assert_eq!(browser.evaluate(commands), json!(24));
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn the_index_is_searched_by_what_is_typed() {
    let page = index();
    let mut browser = Browser::start(1400, 900);
    browser.open(&page.file, "");
    browser.click("#words");
    let mut typed = |text: &str| {
        for letter in text.split("").filter(|letter| !letter.is_empty()) {
            browser.press(letter);
        }
        let links = "[...document.querySelectorAll('.index h3 a')]
            .filter(link => link.offsetParent).map(link => link.getAttribute('href')).join(' ')";
        let found = browser.text(links);
        (
            found,
            browser.text("document.getElementById('found').value"),
        )
    };
    let (all, count) = typed("");
    assert_eq!((all.split(' ').count(), &*count), (2, ""), "{all}");
    let (of_verdict, count) = typed("IMPROVED");
    assert!(
        of_verdict.starts_with("upgrade-2.6-to-2.12/"),
        "{of_verdict}"
    );
    assert_eq!(count, "1 of 2");
    assert_eq!(typed(" 2.6.0").0, of_verdict);
    assert_eq!(typed(" nowhere"), (String::new(), "0 of 2".to_owned()));
}
