//! Rows on scales: a label for each row, under it a lane for each thing that it compares, and in each
//! lane a track on every scale.

use super::{Entry, axis::Axis, axis::Scale, frame};
use crate::{
    measure,
    svg::{Anchor, Area, Canvas, LEADING, Look, SMALL, Svg, TEXT, WIDTH, ink::Ink},
};

#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// Axes side by side, each with its share of the width.
    pub(crate) scales: Vec<(Axis, f64)>,
    pub(crate) rows: Vec<Row>,
}

#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) label: String,
    pub(crate) lanes: Vec<Lane>,
}

/// One of the things that are compared.
#[derive(Debug)]
pub(crate) struct Lane {
    /// Empty where it is alone in its row.
    pub(crate) name: String,
    /// What it comes to, in words.
    pub(crate) entry: Entry,
    pub(crate) ink: Ink,
    /// Attributes by which a page's script finds it.
    pub(crate) about: String,
    /// One for each scale, or none where there is nothing to draw.
    pub(crate) tracks: Vec<Track>,
}

/// What a lane has on one scale.
#[derive(Debug, Default)]
pub(crate) struct Track {
    /// Behind the rest; an end that is missing is open.
    pub(crate) band: Option<(Option<f64>, Option<f64>)>,
    /// Parts of a bar from 0 on, with their lengths.
    pub(crate) parts: Vec<(Ink, f64)>,
    pub(crate) interval: Option<(f64, f64, Ink)>,
    pub(crate) strokes: Vec<(f64, Ink)>,
    pub(crate) marks: Vec<(f64, Look)>,
}

const TOP: f64 = 3.0;
const SIDE: f64 = 6.0;
const GAP: f64 = 22.0;
const TRACK: f64 = 16.0;
const UNDER: f64 = 4.0;
const LINE: f64 = TEXT * LEADING;
/// A range shorter than this is no line.
const VISIBLE: f64 = 4.0;

/// A label or a lane on the paper: lines of what it is on the left, its value on the right, and the
/// lane's track under them.
struct Placed<'a> {
    lane: Option<&'a Lane>,
    lines: Vec<String>,
    size: f64,
    ink: Ink,
    value: String,
    /// Whether the value has a line of its own.
    is_below: bool,
    top: f64,
}

impl<'a> Placed<'a> {
    fn of(name: &str, size: f64, ink: Ink, lane: Option<&'a Lane>) -> Self {
        let value = lane.map_or("", |lane| &lane.entry.value);
        let room = WIDTH - 2.0 * SIDE;
        let value = measure::shorten(value, TEXT, room / 1.16);
        let taken = measure::bold_width(&value, TEXT);
        let lines = match name {
            "" => Vec::new(),
            name => measure::wrap(name, size, room),
        };
        let last = lines.last().map(|line| measure::width(line, size) + 12.0);
        let is_below = !value.is_empty() && last.is_none_or(|last| last + taken > room);
        Self {
            lane,
            lines,
            size,
            ink,
            value,
            is_below,
            top: 0.0,
        }
    }

    fn lower(&self) -> f64 {
        self.top + (self.lines.len() + usize::from(self.is_below)) as f64 * LINE
    }

    fn bottom(&self) -> f64 {
        let track = self.lane.map_or(0.0, |lane| match &lane.tracks[..] {
            [] => UNDER,
            _ => TRACK + UNDER,
        });
        self.lower() + track
    }

    fn y(&self) -> f64 {
        self.lower() + TRACK / 2.0
    }

    fn write(&self, canvas: &mut Canvas) {
        let y = |line: usize| self.top + LINE * (line as f64 + 0.5);
        for (place, line) in self.lines.iter().enumerate() {
            canvas.text(line, (SIDE, y(place)), Anchor::Left, self.size, self.ink);
        }
        if let Some(lane) = self.lane {
            let line = self.lines.len().saturating_sub(usize::from(!self.is_below));
            let at = (WIDTH - SIDE, y(line));
            canvas.bold(&self.value, at, Anchor::Right, TEXT, lane.ink);
        }
    }
}

impl Rows {
    /// Its rows, in two halves where they are many.
    pub(super) fn halves(&self) -> Vec<&[Row]> {
        const MANY: usize = 7;
        let lanes = |rows: &[Row]| rows.iter().map(|row| row.lanes.len() + 1).sum::<usize>();
        let all = lanes(&self.rows);
        if all < 2 * MANY || self.rows.len() < 2 {
            return vec![&self.rows];
        }
        let is_half = |count: &usize| 2 * lanes(&self.rows[..*count]) >= all;
        let first = (1..self.rows.len()).find(is_half).unwrap_or(1);
        let (one, other) = self.rows.split_at(first);
        vec![one, other]
    }

    pub(super) fn draw(&self, rows: &[Row], has_hints: bool) -> Svg {
        let mut bottom = TOP;
        let mut placed = Vec::new();
        for row in rows {
            for mut one in row.placed() {
                one.top = bottom;
                bottom = one.bottom();
                placed.push(one);
            }
            bottom += UNDER;
        }
        let areas = self.areas(bottom);
        let scales = self.scales.iter().zip(&areas);
        let scales = scales.map(|((axis, _), area)| axis.on(area.left, area.right));
        let scales: Vec<Scale> = scales.collect();
        let lower = scales.iter().map(frame::height).fold(0.0, f64::max);
        let mut canvas = Canvas::new(bottom + lower + 2.0, has_hints);
        canvas.fill(Area::of((0.0, 0.0), (WIDTH, bottom)), Ink::Band);
        let lanes = || placed.iter().filter_map(|one| Some((one, one.lane?)));
        for (one, lane) in lanes() {
            for ((track, scale), area) in lane.tracks.iter().zip(&scales).zip(&areas) {
                track.draw_band(&mut canvas, scale, area, one.y());
            }
        }
        for (scale, area) in scales.iter().zip(&areas) {
            frame::lower(&mut canvas, area, scale);
        }
        for one in &placed {
            let about = one.lane.map_or("", |lane| &lane.about);
            canvas.about(about, |canvas| {
                one.write(canvas);
                let Some(lane) = one.lane else { return };
                canvas.hinted(&lane.entry.hint(), |canvas| {
                    for (track, scale) in lane.tracks.iter().zip(&scales) {
                        track.draw(canvas, scale, one.y());
                    }
                });
            });
        }
        canvas.finish()
    }

    fn areas(&self, bottom: f64) -> Vec<Area> {
        let shares: f64 = self.scales.iter().map(|(_, share)| share).sum();
        let gaps = GAP * self.scales.len().saturating_sub(1) as f64;
        let room = WIDTH - 2.0 * SIDE - gaps;
        let mut left = SIDE;
        let area = |(_, share): &(Axis, f64)| {
            let right = left + room * share / shares;
            let area = Area::of((left, TOP), (right, bottom));
            left = right + GAP;
            area
        };
        self.scales.iter().map(area).collect()
    }
}

impl Row {
    /// Of one thing, which its label names.
    pub(crate) fn only(entry: Entry, ink: Ink, about: String, tracks: Vec<Track>) -> Self {
        let label = entry.name.clone();
        let lane = Lane {
            name: String::new(),
            entry,
            ink,
            about,
            tracks,
        };
        Self {
            label,
            lanes: vec![lane],
        }
    }

    /// Its label and its lanes; the label is the lane where that is alone and has no name.
    fn placed(&self) -> Vec<Placed<'_>> {
        if let [only] = &self.lanes[..]
            && only.name.is_empty()
        {
            return vec![Placed::of(&self.label, TEXT, Ink::Label, Some(only))];
        }
        let label = Placed::of(&self.label, TEXT, Ink::Label, None);
        let lanes = self.lanes.iter();
        let lanes = lanes.map(|one| Placed::of(&one.name, SMALL, Ink::Muted, Some(one)));
        [label].into_iter().chain(lanes).collect()
    }
}

impl Track {
    fn draw_band(&self, canvas: &mut Canvas, scale: &Scale, area: &Area, y: f64) {
        let Some((low, high)) = self.band else { return };
        let left = low.map_or(area.left, |low| scale.place(low));
        let right = high.map_or(area.right, |high| scale.place(high));
        let paper = (y - TRACK / 2.0, y + TRACK / 2.0);
        canvas.fill(Area::of((left, paper.0), (right, paper.1)), Ink::Grid);
    }

    fn draw(&self, canvas: &mut Canvas, scale: &Scale, y: f64) {
        let mut from = 0.0;
        for (ink, length) in &self.parts {
            let (left, right) = (scale.place(from), scale.place(from + length));
            canvas.fill(Area::of((left, y - 6.5), (right, y + 6.5)), *ink);
            from += length;
        }
        if from > scale.axis.range().1 {
            // It goes on: two slanted strokes of paper across it.
            let end = scale.place(from);
            for x in [end - 16.0, end - 10.0] {
                canvas.line(&[(x - 3.0, y + 9.0), (x + 3.0, y - 9.0)], Ink::Paper, 3.0);
            }
        }
        if let Some((low, high, ink)) = self.interval {
            let ends = [low, high].map(|end| scale.place(end));
            if ends[1] - ends[0] >= VISIBLE {
                canvas.level((ends[0], ends[1]), y, ink, 2.0);
                for (end, x) in [low, high].into_iter().zip(ends) {
                    if scale.axis.has(end) {
                        canvas.upright(x, (y - 4.0, y + 4.0), ink, 2.0);
                    } else {
                        canvas.beyond((x, y), end > low, ink);
                    }
                }
            }
        }
        for (value, ink) in &self.strokes {
            canvas.upright(scale.place(*value), (y - 8.0, y + 8.0), *ink, 1.6);
        }
        for (value, look) in &self.marks {
            let at = (scale.place(*value), y);
            if scale.axis.has(*value) {
                canvas.mark(at, 9.0, *look);
            } else {
                canvas.beyond(at, *value > scale.axis.range().0, look.ink);
            }
        }
    }
}
