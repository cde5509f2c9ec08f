//! Which columns of a table stand beside each other where not all have room.

use crate::document::Kind;

/// The columns of each of the tables that a table becomes, by their widths: what names a row is in
/// all of them, as far as the widest other column has room beside it.
pub(crate) fn parts(kinds: &[Kind], widths: &[f64], room: f64) -> Vec<Vec<usize>> {
    let leading = |named: &[Kind]| kinds.iter().take_while(|kind| named.contains(kind)).count();
    // Where several rows have one name, a word such as the metric tells them apart.
    let most = leading(&[Kind::Name, Kind::Word]).min(leading(&[Kind::Name]) + 1);
    let taken = |names: usize| widths[..names].iter().sum::<f64>();
    let widest = |from: usize| widths[from..].iter().copied().fold(0.0, f64::max);
    let repeated = (1..=most)
        .rev()
        .find(|&names| taken(names) + widest(names) <= room);
    let names: Vec<usize> = (0..repeated.unwrap_or(1).min(kinds.len())).collect();
    let own = taken(names.len());
    let mut all = vec![names.clone()];
    let mut used = own;
    for (column, width) in widths.iter().enumerate().skip(names.len()) {
        let last = all.len() - 1;
        if used + width > room && all[last].len() > names.len() {
            all.push(names.clone());
            used = own;
        }
        used += width;
        if let Some(last) = all.last_mut() {
            last.push(column);
        }
    }
    all
}
