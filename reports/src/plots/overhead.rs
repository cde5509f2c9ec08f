//! Where the time of a run goes outside its measured steps.

use super::{Key, Legend, Picture, Plot, Table, group_drawing};
use crate::{
    format::{self, Quantity},
    model::{Group, TimeParts, View},
    svg::{
        Anchor, Canvas, DrawError, SMALL, TEXT, axis,
        ink::Ink,
        measure,
        place::Area,
        rows::{Lane, Rows, WIDTH},
        scale::Scale,
    },
};

pub(super) const PLOT: Plot = Plot {
    id: "overhead",
    title: "Time outside the measured steps",
    about: "Medians of the runs. Left: all of it, with what the harness causes as one part. Right: \
            that part magnified: everything but the CUDA start, the model build, the warm-up, \
            the measured steps and the calibration.",
    draw,
};

const TOP: f64 = 4.0;
const GAP: f64 = 40.0;
const SHARE: f64 = 0.5;

struct Part {
    ink: Ink,
    label: &'static str,
    read: fn(&TimeParts) -> f64,
}

/// What the run is for, and the harness as one part.
const WORK: [Part; 5] = [
    Part { ink: Ink::Part(0), label: "CUDA start", read: |time| time.cuda_start_seconds },
    Part { ink: Ink::Part(1), label: "Model build", read: |time| time.model_build_seconds },
    Part { ink: Ink::Part(3), label: "Warm-up", read: |time| time.warmup_seconds },
    Part { ink: Ink::Part(5), label: "Calibration", read: |time| time.calibrate_seconds },
    Part {
        ink: Ink::Part(6),
        label: "Caused by the harness",
        read: |time| time.harness_caused.map_or(0.0, |spread| spread.median),
    },
];

/// What the harness causes, in the order in which it passes.
const HARNESS: [Part; 8] = [
    Part { ink: Ink::Part(4), label: "Create", read: |time| time.create_seconds },
    Part { ink: Ink::Part(2), label: "Start", read: |time| time.start_seconds },
    Part { ink: Ink::Part(0), label: "Process start", read: |time| time.process_start_seconds },
    Part { ink: Ink::Part(5), label: "Data", read: |time| time.data_seconds },
    Part { ink: Ink::Part(1), label: "Teardown", read: |time| time.teardown_seconds },
    Part { ink: Ink::Part(6), label: "Notice the end", read: |time| time.notice_seconds },
    Part { ink: Ink::Part(7), label: "Remove", read: |time| time.remove_seconds },
    Part { ink: Ink::Part(3), label: "Other", read: |time| time.other_seconds },
];

fn total(parts: &[Part], time: &TimeParts) -> f64 {
    parts.iter().map(|part| (part.read)(time).max(0.0)).sum()
}

fn draw(view: &View) -> Result<Picture, DrawError> {
    if view.report.cells.iter().all(|cell| cell.time.is_none()) {
        return Ok(Picture::default());
    }
    let drawings = view
        .groups
        .iter()
        .enumerate()
        .filter(|(_, group)| times(view, group).next().is_some())
        .map(|(index, group)| {
            let rows = Rows::of(view, group, TOP);
            let size = (WIDTH, rows.bottom + axis::LOWER);
            let description = describe(view, group);
            let drawn = group_drawing(&PLOT, group, index, size, &description, |canvas| {
                draw_group(canvas, view, &rows);
            });
            drawn.map(|mut drawing| {
                drawing.table = Some(table(view, group));
                drawing
            })
        })
        .collect::<Result<_, _>>()?;
    let legend = |title, parts: &[Part]| {
        let spent = |part: &&Part| {
            let mut times = view.report.cells.iter().filter_map(|cell| cell.time.as_ref());
            times.any(|time| (part.read)(time) > 0.0)
        };
        let keys = parts.iter().filter(spent).map(|part| Key::area(part.ink, part.label));
        Legend { title, keys: keys.collect() }
    };
    let legends = vec![legend("Left:", &WORK), legend("Right:", &HARNESS)];
    Ok(Picture { legends, drawings })
}

fn times<'v>(view: &'v View, group: &'v Group) -> impl Iterator<Item = (usize, &'v str, TimeParts)> {
    group.rows.iter().flat_map(move |row| {
        row.cells
            .iter()
            .filter_map(move |&cell| Some((cell, row.label.as_str(), view.report.cells[cell].time?)))
    })
}

fn draw_group(canvas: &mut Canvas, view: &View, rows: &Rows) {
    let known: Vec<(&Lane, TimeParts)> = rows
        .lanes()
        .filter_map(|lane| Some((lane, view.report.cells[lane.cell].time?)))
        .collect();
    let metric = |parts: &[Part]| {
        known
            .iter()
            .map(|(_, time)| measure::bold_width(&format::seconds(total(parts, time)), TEXT))
            .fold(0.0, f64::max)
            + 14.0
    };
    let room = WIDTH - rows.left - GAP - metric(&WORK) - metric(&HARNESS) - 6.0;
    let split = rows.left + room * SHARE;
    let left = Area { left: rows.left, top: rows.top, right: split, bottom: rows.bottom };
    let right_from = split + metric(&WORK) + GAP;
    let right = Area { left: right_from, right: right_from + room * (1.0 - SHARE), ..left };
    rows.draw(canvas);
    for (area, parts, title) in [
        (left, &WORK[..], "All time outside the measured steps"),
        (right, &HARNESS[..], "Of it caused by the harness"),
    ] {
        let most = known.iter().map(|(_, time)| total(parts, time)).fold(0.0, f64::max);
        let most = if most > 0.0 { most } else { 1.0 };
        let scale = Scale::linear((0.0, most), (area.left, area.right));
        axis::lower(canvas, &area, &scale, Quantity::Seconds, title);
        for (lane, time) in &known {
            stack(canvas, parts, time, &scale, lane.y);
        }
    }
    for lane in rows.lanes() {
        if view.report.cells[lane.cell].time.is_none() {
            let why = measure::shorten(&view.why_nothing(lane.cell), SMALL, WIDTH - left.left - 12.0);
            canvas.text(&why, (left.left + 6.0, lane.y), Anchor::Start, SMALL, Ink::Danger);
        }
    }
}

fn stack(canvas: &mut Canvas, parts: &[Part], time: &TimeParts, scale: &Scale, y: f64) {
    let mut from = 0.0;
    for part in parts {
        let seconds = (part.read)(time).max(0.0);
        if seconds == 0.0 {
            continue;
        }
        let area = Area {
            left: scale.place(from),
            top: y - 7.0,
            right: scale.place(from + seconds),
            bottom: y + 7.0,
        };
        let hint = format!("{}: {}", part.label, format::seconds(seconds));
        canvas.hinted(&hint, |canvas| canvas.fill(area, part.ink));
        from += seconds;
    }
    let at = (scale.place(from) + 7.0, y);
    canvas.bold(&format::seconds(from), at, Anchor::Start, TEXT, Ink::Text);
}

fn table(view: &View, group: &Group) -> Table {
    let several = view.contenders.len() > 1;
    let mut heads = vec!["Variant".to_owned()];
    if several {
        heads.push(view.contender_head().to_owned());
    }
    let columns: Vec<&Part> = WORK[..4].iter().chain(&HARNESS).collect();
    heads.extend(columns.iter().map(|part| part.label.to_owned()));
    heads.extend(["Harness".to_owned(), "Whole run".to_owned()]);
    let rows = times(view, group)
        .map(|(cell, label, time)| {
            let mut row = vec![label.to_owned()];
            if several {
                row.push(view.contenders[view.contender_of(cell)].label.clone());
            }
            row.extend(columns.iter().map(|part| format::seconds((part.read)(&time))));
            let caused = time.harness_caused.map_or(0.0, |spread| spread.median);
            row.extend([format::seconds(caused), format::seconds(time.wall_seconds)]);
            row
        })
        .collect();
    Table { caption: "The same values".to_owned(), heads, rows, names: if several { 2 } else { 1 }, open: false }
}

fn describe(view: &View, group: &Group) -> String {
    let lines = times(view, group).map(|(cell, label, time)| {
        let caused = time.harness_caused.map_or(0.0, |spread| spread.median);
        format!(
            "{label} in {}: {} of a run of {} caused by the harness.",
            view.contenders[view.contender_of(cell)].label,
            format::seconds(caused),
            format::seconds(time.wall_seconds)
        )
    });
    lines.collect::<Vec<_>>().join(" ")
}
