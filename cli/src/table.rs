//! Tables for people: aligned columns without borders, so that they can be cut and grepped; colours on a terminal only.

use crate::screen::Screen;
use comfy_table::{Attribute, Cell, Color, ContentArrangement, presets};

/// What a cell should look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    /// As it is.
    Plain,
    /// Stands out.
    Strong,
    /// Of less interest.
    Dim,
    /// All is well.
    Good,
    /// Odd.
    Warn,
    /// Wrong.
    Bad,
}

/// On a terminal that is narrower, or does not say how wide it is, long lines are left to it.
const WIDTH_LEAST: u16 = 60;

/// See the module.
#[derive(Debug)]
pub(crate) struct Table {
    table: comfy_table::Table,
    has_colour: bool,
}

impl Table {
    /// An empty table with these headings.
    pub(crate) fn new<const N: usize>(screen: &Screen, headings: [&str; N]) -> Self {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING);
        if !screen.is_terminal {
            table.force_no_tty();
        }
        if table.width().is_some_and(|width| width >= WIDTH_LEAST) {
            table.set_content_arrangement(ContentArrangement::Dynamic);
        }
        if screen.has_colour {
            table.enforce_styling();
        }
        let has_colour = screen.has_colour;
        table.set_header(
            headings.map(|heading| painted(&heading.to_uppercase(), Paint::Strong, has_colour)),
        );
        Self { table, has_colour }
    }

    /// Adds a row.
    pub(crate) fn row<const N: usize>(&mut self, cells: [(String, Paint); N]) {
        let has_colour = self.has_colour;
        self.table
            .add_row(cells.map(|(text, paint)| painted(&text, paint, has_colour)));
    }

    /// The table as text, with the end of its last line.
    pub(crate) fn text(mut self) -> String {
        for column in self.table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        let mut text = String::new();
        for line in self.table.lines() {
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Attributes are left out here rather than in the table, which would write them to any terminal.
fn painted(text: &str, paint: Paint, has_colour: bool) -> Cell {
    let cell = Cell::new(text);
    match paint {
        _ if !has_colour => cell,
        Paint::Plain => cell,
        Paint::Strong => cell.add_attribute(Attribute::Bold),
        Paint::Dim => cell.add_attribute(Attribute::Dim),
        Paint::Good => cell.fg(Color::Green),
        Paint::Warn => cell.fg(Color::Yellow),
        Paint::Bad => cell.fg(Color::Red),
    }
}
