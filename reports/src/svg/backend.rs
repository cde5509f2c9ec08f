//! What plotters draws on: SVG whose colours are classes, so that they follow light, dark and print.

use std::{cell::RefCell, convert::Infallible, fmt::Write as _, rc::Rc};

use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
    FontStyle, text_anchor::HPos,
};

use super::ink::Ink;

/// The inside of an SVG. What else belongs into it, such as groups, is written to the same text.
pub(super) struct Backend {
    pub(super) out: Rc<RefCell<String>>,
    pub(super) size: (u32, u32),
}

type Drawn = Result<(), DrawingErrorKind<Infallible>>;

impl Backend {
    fn element(&self, name: &str, class: &str, colour: BackendColor, attributes: &str) {
        let ink = Ink::of(colour.rgb).name();
        let opacity = if colour.alpha < 1.0 {
            format!(" opacity=\"{}\"", colour.alpha)
        } else {
            String::new()
        };
        let mut out = self.out.borrow_mut();
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "<{name} class=\"{class}-{ink}\"{opacity}{attributes}/>"
        );
    }
}

fn points(points: impl IntoIterator<Item = BackendCoord>) -> String {
    let points = points.into_iter().map(|(x, y)| format!("{x},{y}"));
    points.collect::<Vec<_>>().join(" ")
}

impl DrawingBackend for Backend {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        Ok(())
    }

    fn draw_pixel(&mut self, (x, y): BackendCoord, colour: BackendColor) -> Drawn {
        self.draw_rect((x, y), (x + 1, y + 1), &colour, true)
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        (left, top): BackendCoord,
        (right, bottom): BackendCoord,
        style: &S,
        _fill: bool,
    ) -> Drawn {
        let (width, height) = (right - left, bottom - top);
        let place = format!(" x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\"");
        self.element("rect", "f", style.color(), &place);
        Ok(())
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Drawn {
        let (width, points) = (style.stroke_width(), points(path));
        let place = format!(" stroke-width=\"{width}\" points=\"{points}\"");
        self.element("polyline", "s", style.color(), &place);
        Ok(())
    }

    fn draw_circle<S: BackendStyle>(
        &mut self,
        (x, y): BackendCoord,
        radius: u32,
        style: &S,
        _fill: bool,
    ) -> Drawn {
        let place = format!(" cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"");
        self.element("circle", "f", style.color(), &place);
        Ok(())
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        corners: I,
        style: &S,
    ) -> Drawn {
        let place = format!(" points=\"{}\"", points(corners));
        self.element("polygon", "f", style.color(), &place);
        Ok(())
    }

    fn draw_text<S: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &S,
        (x, y): BackendCoord,
    ) -> Drawn {
        let anchor = match style.anchor().h_pos {
            HPos::Left => "start",
            HPos::Center => "middle",
            HPos::Right => "end",
        };
        let bold = match style.style() {
            FontStyle::Bold => " font-weight=\"bold\"",
            _ => "",
        };
        let (ink, size, text) = (
            Ink::of(style.color().rgb).name(),
            style.size(),
            escape(text),
        );
        let mut out = self.out.borrow_mut();
        let _ = writeln!(
            out,
            "<text class=\"f-{ink}\" x=\"{x}\" y=\"{y}\" dy=\"0.5ex\" text-anchor=\"{anchor}\" \
             font-size=\"{size}\"{bold}>{text}</text>"
        );
        Ok(())
    }
}

pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
