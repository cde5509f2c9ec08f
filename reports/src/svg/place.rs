//! Labels beside points, none over another.

/// A box on the paper: left, top, right, bottom.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Area {
    /// Left edge.
    pub left: f64,
    /// Upper edge.
    pub top: f64,
    /// Right edge.
    pub right: f64,
    /// Lower edge.
    pub bottom: f64,
}

impl Area {
    /// Around a middle.
    #[must_use]
    pub fn around((x, y): (f64, f64), width: f64, height: f64) -> Self {
        Self {
            left: x - width / 2.0,
            top: y - height / 2.0,
            right: x + width / 2.0,
            bottom: y + height / 2.0,
        }
    }

    /// Its width.
    #[must_use]
    pub fn width(&self) -> f64 {
        self.right - self.left
    }

    /// Its height.
    #[must_use]
    pub fn height(&self) -> f64 {
        self.bottom - self.top
    }

    /// Its middle.
    #[must_use]
    pub fn middle(&self) -> (f64, f64) {
        (
            f64::midpoint(self.left, self.right),
            f64::midpoint(self.top, self.bottom),
        )
    }

    /// Whether the two share more than an edge.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }

    /// Whether `other` lies inside.
    #[must_use]
    pub fn holds(&self, other: &Self) -> bool {
        self.left <= other.left
            && other.right <= self.right
            && self.top <= other.top
            && other.bottom <= self.bottom
    }
}

/// A point and the size of its label.
#[derive(Debug, Clone, Copy)]
pub struct Wish {
    /// The point.
    pub point: (f64, f64),
    /// Width and height of the label.
    pub size: (f64, f64),
}

/// Finds a place inside `paper` for every label, near its point, over no label, no point and none
/// of the `taken` areas. `None` where one finds none within `reach` of its point.
#[must_use]
pub fn place(
    wishes: &[Wish],
    paper: &Area,
    taken: &[Area],
    mark: f64,
    reach: f64,
) -> Option<Vec<Area>> {
    let marks: Vec<Area> = wishes
        .iter()
        .map(|wish| Area::around(wish.point, mark, mark))
        .chain(taken.iter().copied())
        .collect();
    let mut placed: Vec<Area> = Vec::with_capacity(wishes.len());
    for wish in wishes {
        let free = |area: &Area| {
            paper.holds(area)
                && !placed.iter().any(|other| area.overlaps(other))
                && !marks.iter().any(|other| area.overlaps(other))
        };
        placed.push(candidates(wish, mark, reach).find(free)?);
    }
    Some(placed)
}

/// Right, left, above, below, the corners, and then the same farther and farther out.
fn candidates(wish: &Wish, mark: f64, reach: f64) -> impl Iterator<Item = Area> {
    const DIRECTIONS: [(f64, f64); 12] = [
        (1.0, 0.0),
        (-1.0, 0.0),
        (0.0, -1.0),
        (0.0, 1.0),
        (1.0, -1.0),
        (1.0, 1.0),
        (-1.0, -1.0),
        (-1.0, 1.0),
        (1.0, -0.5),
        (1.0, 0.5),
        (-1.0, -0.5),
        (-1.0, 0.5),
    ];
    const STEP: f64 = 6.0;
    let Wish {
        point: (x, y),
        size: (width, height),
    } = *wish;
    let gap = mark / 2.0 + 2.0;
    let mut out = 0.0;
    std::iter::from_fn(move || {
        let ring = out;
        out += STEP;
        (ring <= reach).then_some(ring)
    })
    .flat_map(move |ring| {
        DIRECTIONS.into_iter().map(move |(dx, dy)| {
            let middle = (
                x + dx * (gap + ring + width / 2.0),
                y + dy * (gap + ring + height / 2.0),
            );
            Area::around(middle, width, height)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAPER: Area = Area {
        left: 0.0,
        top: 0.0,
        right: 500.0,
        bottom: 300.0,
    };

    fn check(wishes: &[Wish]) {
        let placed = place(wishes, &PAPER, &[], 8.0, 600.0).unwrap();
        for (index, area) in placed.iter().enumerate() {
            assert!(PAPER.holds(area));
            assert!(placed[..index].iter().all(|other| !area.overlaps(other)));
            for wish in wishes {
                assert!(!area.overlaps(&Area::around(wish.point, 8.0, 8.0)));
            }
        }
    }

    #[test]
    fn forty_labels_on_one_spot_find_places() {
        check(
            &[Wish {
                point: (250.0, 150.0),
                size: (18.0, 13.0),
            }; 40],
        );
        check(
            &[Wish {
                point: (0.0, 0.0),
                size: (18.0, 13.0),
            }; 40],
        );
    }

    #[test]
    fn a_lonely_label_stands_to_the_right() {
        let wish = Wish {
            point: (100.0, 100.0),
            size: (20.0, 10.0),
        };
        let [area] = place(&[wish], &PAPER, &[], 8.0, 50.0).unwrap()[..] else {
            unreachable!("one wish, one place")
        };
        assert!(area.left > 100.0 && (area.middle().1 - 100.0).abs() < 1e-9);
    }

    #[test]
    fn too_large_a_label_is_told() {
        let wish = Wish {
            point: (100.0, 100.0),
            size: (600.0, 10.0),
        };
        assert_eq!(place(&[wish], &PAPER, &[], 8.0, 400.0), None);
    }
}
