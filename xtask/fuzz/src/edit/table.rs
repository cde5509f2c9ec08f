//! Edits of CSV: cells, rows, columns.

use super::{Dice, Pool, lines, lossy};

/// Edits a table.
pub(crate) fn edit(table: &[u8], _: &Pool, dice: &mut Dice) -> Vec<u8> {
    if dice.one_in(6) {
        return edit_column(&lossy(table), dice).into_bytes();
    }
    lines(table, dice, |row, dice| {
        let row = lossy(row);
        let mut cells: Vec<String> = row.split(',').map(str::to_owned).collect();
        let (at, other) = (dice.below(cells.len()), dice.below(cells.len()));
        match dice.below(8) {
            0 => drop(cells.remove(at)),
            1 => cells.insert(at, dice.text("")),
            2 => cells.swap(at, other),
            _ => cells[at] = cell(&cells[at], dice),
        }
        cells.join(",").into_bytes()
    })
}

fn cell(old: &str, dice: &mut Dice) -> String {
    if dice.one_in(2) {
        dice.number(old).to_string()
    } else {
        dice.text(old)
    }
}

/// Sets one cell of every row alike: what is odd alone is refused alone.
fn edit_column(table: &str, dice: &mut Dice) -> String {
    let (column, new) = (dice.below(3), cell("1", dice));
    let rows = table.lines().enumerate().map(|(number, row)| {
        let mut cells: Vec<&str> = row.split(',').collect();
        if number > 0 && column < cells.len() {
            cells[column] = &new;
        }
        cells.join(",") + "\n"
    });
    rows.collect()
}
