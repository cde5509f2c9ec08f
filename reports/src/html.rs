//! `report.html`: one file, readable without scripts and without a network.

use askama::Template;
use record::ImageFacts;

use crate::{
    claims, comparison,
    facts::{self, Fact},
    format,
    model::{Contaminated, Group, View, stage_word},
    plots::{self, Drawing, Legend},
    svg::{escape, ink},
    table::{self, Column},
    write::ReportError,
};

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    title: String,
    subtitle: String,
    style: String,
    summary: &'a [String],
    warnings: &'a [String],
    heads: Vec<&'static str>,
    several: bool,
    contender_head: &'static str,
    groups: Vec<TableGroup>,
    plots: Vec<Figure>,
    failures: Vec<FailureRow>,
    contaminated: Vec<ContaminatedRow>,
    /// HTML.
    comparisons: Vec<String>,
    /// HTML.
    claims: Vec<String>,
    sessions: Vec<SessionFacts>,
}

struct TableGroup {
    scenario: String,
    subtitle: String,
    columns: usize,
    rows: Vec<TableRow>,
}

struct TableRow {
    /// HTML.
    label: String,
    /// How many cells the label stands for; 0 where one above does.
    span: usize,
    /// HTML.
    image: String,
    entries: Vec<String>,
    bad: bool,
}

struct Figure {
    id: &'static str,
    title: &'static str,
    about: String,
    legends: Vec<Legend>,
    drawings: Vec<DrawingParts>,
}

struct DrawingParts {
    heading: String,
    subtitle: String,
    svg: String,
    table: Option<String>,
    /// The table names what the picture only numbers.
    open: bool,
}

struct FailureRow {
    run: String,
    session: String,
    /// HTML.
    image: String,
    /// HTML.
    cell: String,
    attempt: u32,
    reason: String,
    stage: String,
    message: String,
    /// HTML.
    log: String,
}

struct ContaminatedRow {
    run: String,
    session: String,
    /// HTML.
    image: String,
    /// HTML.
    cell: String,
    attempt: u32,
    why: Vec<String>,
    came_to: String,
    log: String,
}

struct SessionFacts {
    name: String,
    run: Vec<Fact>,
    machine: Vec<Fact>,
    notes: Vec<String>,
    images: Vec<ImageGpu>,
}

struct ImageGpu {
    name: String,
    facts: Vec<Fact>,
    layers: Vec<Layer>,
}

struct Layer {
    holds: String,
    size: String,
    /// Of the largest layer, in percent.
    share: String,
}

/// A name as HTML; long words in it may break behind their marks.
fn breakable(text: &str) -> String {
    const LONG: usize = 24;
    let marks = ['=', '+', ':', '-', '_', '/', ',', ';', '.'];
    let text = format::clean(text);
    let words = text.split(' ').map(|word| {
        if word.chars().count() <= LONG {
            return escape(word);
        }
        let pieces: Vec<String> = word.split_inclusive(marks).map(escape).collect();
        pieces.join("<wbr>")
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The whole page.
pub fn render(view: &View) -> Result<String, ReportError> {
    let mut columns = table::columns(view);
    if view.contenders.len() > 1 {
        // The column of images takes its room; the picture below shows every run.
        columns.retain(|column| column.head != table::RANGE);
    }
    let plots = plots::ALL
        .iter()
        .map(|plot| {
            let picture = (plot.draw)(view)?;
            Ok(Figure {
                id: plot.id,
                title: plot.title,
                about: plot.about.to_owned(),
                legends: picture.legends,
                drawings: picture.drawings.into_iter().map(parts).collect(),
            })
        })
        .collect::<Result<Vec<_>, ReportError>>()?;
    let page = Page {
        title: title(view),
        subtitle: subtitle(view),
        style: format!(
            "{}\n{}",
            ink::style_sheet(),
            include_str!("../templates/report.css")
        ),
        summary: &view.report.summary,
        warnings: &view.report.warnings,
        heads: columns.iter().map(|column| column.head).collect(),
        several: view.contenders.len() > 1,
        contender_head: view.contender_head(),
        groups: view
            .groups
            .iter()
            .map(|group| table_group(view, group, &columns))
            .collect(),
        plots: plots
            .into_iter()
            .filter(|plot| !plot.drawings.is_empty())
            .collect(),
        failures: failures(view),
        contaminated: view.report.contaminated.iter().map(contaminated).collect(),
        comparisons: view
            .report
            .sessions
            .iter()
            .flat_map(|session| session.comparisons.iter().map(comparison::html))
            .collect(),
        claims: claims(view),
        sessions: sessions(view),
    };
    Ok(page.render()?)
}

/// The claims of every session that has some, under its name where there are several sessions.
fn claims(view: &View) -> Vec<String> {
    let sessions = &view.report.sessions;
    let judged = sessions.iter().filter(|session| !session.claims.is_empty());
    judged
        .map(|session| {
            let name = if sessions.len() > 1 {
                format!("<h3>{}</h3>", escape(&format::clean(&session.session)))
            } else {
                String::new()
            };
            name + &claims::html(&session.claims)
        })
        .collect()
}

fn title(view: &View) -> String {
    match &view.report.sessions[..] {
        [only] => format!("Torchgauge · {}", format::clean(&only.session)),
        sessions => format!("Torchgauge · {} sessions", sessions.len()),
    }
}

fn subtitle(view: &View) -> String {
    let names = view.report.sessions.iter().map(|session| {
        let day = session.started_at.strftime("%Y-%m-%d %H:%M UTC");
        let device = session
            .machine
            .gpus
            .first()
            .filter(|_| session.device.is_cuda())
            .map_or_else(|| session.machine.cpu.model.clone(), |gpu| gpu.name.clone());
        format!("{day} · {} · {device}", session.machine.name)
    });
    format::clean(&names.collect::<Vec<_>>().join(" | "))
}

fn parts(drawing: Drawing) -> DrawingParts {
    DrawingParts {
        heading: drawing.heading,
        subtitle: drawing.subtitle,
        svg: drawing.svg,
        open: drawing.table.as_ref().is_some_and(|table| table.open),
        table: drawing.table.map(|table| table.html()),
    }
}

fn table_group(view: &View, group: &Group, columns: &[&Column]) -> TableGroup {
    let mut rows = Vec::new();
    for row in &group.rows {
        for (place, &cell) in row.cells.iter().enumerate() {
            let summary = &view.report.cells[cell];
            rows.push(TableRow {
                label: breakable(&row.label),
                span: if place == 0 { row.cells.len() } else { 0 },
                image: breakable(&view.contenders[view.contender_of(cell)].label),
                entries: columns
                    .iter()
                    .map(|column| table::entry(column, summary))
                    .collect(),
                bad: summary.failed > 0 || summary.ok == 0,
            });
        }
    }
    let names = if view.contenders.len() > 1 { 2 } else { 1 };
    TableGroup {
        scenario: group.scenario.clone(),
        subtitle: group.subtitle(),
        columns: columns.len() + names,
        rows,
    }
}

fn failures(view: &View) -> Vec<FailureRow> {
    view.report
        .own_failures()
        .map(|failure| FailureRow {
            run: format::clean(&failure.run),
            session: format::clean(&failure.session),
            image: breakable(&failure.image),
            cell: breakable(&failure.cell),
            attempt: failure.attempt,
            reason: failure.reason.word(),
            stage: stage_word(failure.stage),
            message: format::clean_lines(&failure.message),
            log: failure
                .log
                .clone()
                .unwrap_or_else(|| format::UNKNOWN.to_owned()),
        })
        .collect()
}

fn contaminated(one: &Contaminated) -> ContaminatedRow {
    ContaminatedRow {
        run: format::clean(&one.run),
        session: format::clean(&one.session),
        image: breakable(&one.image),
        cell: breakable(&one.cell),
        attempt: one.attempt,
        why: one.why.iter().map(|why| format::clean(why)).collect(),
        came_to: one.came_to(),
        log: one
            .log
            .clone()
            .map_or_else(|| format::UNKNOWN.to_owned(), |log| format::clean(&log)),
    }
}

fn sessions(view: &View) -> Vec<SessionFacts> {
    let clean = |facts: Vec<Fact>| -> Vec<Fact> {
        facts
            .into_iter()
            .map(|(name, value)| (name, format::clean(&value)))
            .collect()
    };
    view.report
        .sessions
        .iter()
        .map(|session| SessionFacts {
            name: format::clean(&session.session),
            run: clean(facts::run(session)),
            machine: clean(facts::machine(session)),
            notes: session
                .notes
                .iter()
                .map(|note| format::clean(note))
                .collect(),
            images: session.images.iter().map(image_gpu).collect(),
        })
        .collect()
}

fn image_gpu(image: &ImageFacts) -> ImageGpu {
    let largest = image
        .layers
        .iter()
        .map(|(_, bytes)| *bytes)
        .max()
        .unwrap_or(0);
    let layer = |(holds, bytes): &(String, u64)| Layer {
        holds: format::clean(holds),
        size: format::bytes(*bytes as f64),
        share: format!("{:.1}", *bytes as f64 / largest.max(1) as f64 * 100.0),
    };
    ImageGpu {
        name: format::clean(&image.name),
        facts: facts::image(image)
            .into_iter()
            .map(|(name, value)| (name, format::clean(&value)))
            .collect(),
        layers: image.layers.iter().map(layer).collect(),
    }
}
