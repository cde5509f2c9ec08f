//! What is behind each cell of a page: the pictures that are of one cell alone.

use std::collections::BTreeMap;

use crate::{
    charts::Chart,
    document::{Block, Picture, Section},
    model::{Group, View},
    session::cells,
};

/// Where the table of cells leads to: of each row that has something behind it, what that begins with.
pub(super) type Firsts = BTreeMap<usize, String>;

fn picture(section: &Section) -> Option<&Picture> {
    let mut pictures = section.blocks.iter().filter_map(|block| match block {
        Block::Picture(picture) => Some(picture),
        _ => None,
    });
    pictures.next()
}

pub(super) fn is_of_cells(section: &Section) -> bool {
    picture(section).is_some_and(|one| one.charts.iter().all(|chart| chart.row.is_some()))
}

/// A section of these pictures: what each shows and its legend, then every cell, with its own charts
/// folded under its name.
pub(super) fn section(view: &View, pictures: Vec<Section>) -> Option<(Section, Firsts)> {
    let mut blocks = Vec::new();
    let mut behind: BTreeMap<usize, Vec<Picture>> = BTreeMap::new();
    let mut titles = Vec::new();
    for Section {
        about, blocks: own, ..
    } in pictures
    {
        for block in own {
            let Block::Picture(mut all) = block else {
                continue;
            };
            for chart in std::mem::take(&mut all.charts) {
                let Some(row) = chart.row else { continue };
                let own = behind.entry(row).or_default();
                let chart = Chart {
                    subtitle: format!("{}, {}", all.title, chart.subtitle),
                    ..chart
                };
                match own.last_mut() {
                    Some(last) if last.title == all.title => last.charts.push(chart),
                    _ => own.push(Picture {
                        id: format!("{}-{}", all.id, row + 1),
                        has_hints: all.has_hints,
                        is_target: true,
                        ..Picture::of("", all.title, Vec::new(), vec![chart])
                    }),
                }
            }
            titles.push(all.title);
            blocks.push(Block::Heading(all.title.to_owned()));
            blocks.push(Block::Method(about.to_owned()));
            blocks.push(Block::Picture(all));
        }
    }
    let rows: Vec<usize> = view.groups.iter().flat_map(Group::cells).collect();
    let firsts = behind.iter().map(|(row, own)| (*row, own[0].id.clone()));
    let firsts: Firsts = firsts.collect();
    blocks.extend(behind.into_iter().map(|(row, own)| {
        let own = own.into_iter().map(Block::Picture);
        Block::Folded(view.name_of(rows[row]), own.collect())
    }));
    let title = format!("Each cell: {}", titles.join(", ").to_lowercase());
    let section = Section {
        is_folded: true,
        ..Section::of("cells", &title, blocks)
    };
    (!firsts.is_empty()).then_some((section, firsts))
}

/// Leads from the names in the table of cells to what is behind them.
pub(super) fn lead(view: &View, results: &mut [Block], firsts: &Firsts) {
    let name = cells::names(view).len() - 1;
    for block in results {
        let Block::Table(table) = block else { continue };
        let rows = table.bodies.iter_mut().flat_map(|body| &mut body.rows);
        for (row, cells) in rows.enumerate() {
            let first = firsts.get(&row).map(|id| format!("#{id}"));
            cells[name].href = first;
        }
    }
}
