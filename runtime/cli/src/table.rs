//! Tables of one line a row, the last column coloured.

use anstyle::Style;
use comfy_table::{CellAlignment, ContentArrangement, presets};

use crate::error::CliError;
use crate::screen::{HEADING, Screen, one_line};

/// A table under construction.
pub(crate) struct Table {
    inner: comfy_table::Table,
    styles: Vec<Style>,
}

impl Table {
    /// A table with these headings.
    pub(crate) fn new(headings: &[&str]) -> Self {
        let mut inner = comfy_table::Table::new();
        // Disabled: a row is one line whatever the width, so that styles find their row and grep works.
        inner
            .load_preset(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Disabled);
        inner.set_header(headings.to_vec());
        Self {
            inner,
            styles: Vec::new(),
        }
    }

    /// Sets columns of figures flush right.
    pub(crate) fn right(mut self, columns: &[usize]) -> Self {
        for &column in columns {
            if let Some(column) = self.inner.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        self
    }

    /// Adds a row whose last cell is written in `style`.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N], style: Style) {
        self.inner.add_row(cells.map(|c| one_line(&c)));
        self.styles.push(style);
    }

    /// Writes the table.
    pub(crate) fn print(&self, screen: &mut Screen) -> Result<(), CliError> {
        let columns = self.inner.column_max_content_widths();
        let last = columns.last().map_or(0, |&w| usize::from(w));
        // The last column is flush left and padded by one space on each side.
        let last_begins = columns
            .iter()
            .map(|&w| usize::from(w) + 2)
            .sum::<usize>()
            .saturating_sub(last + 1);
        for (index, line) in self.inner.lines().enumerate() {
            let text = line.trim_end();
            let painted = match index.checked_sub(1).and_then(|row| self.styles.get(row)) {
                None => screen.paint(HEADING, text),
                Some(&style) => match text.char_indices().nth(last_begins) {
                    Some((at, _)) => format!("{}{}", &text[..at], screen.paint(style, &text[at..])),
                    None => text.to_owned(),
                },
            };
            screen.line(&painted)?;
        }
        Ok(())
    }
}
