//! Tables in plain text: columns side by side, everything indented by two, no row wider than the screen.

use std::fmt::Display;

use crate::screen::{Screen, cut_to, width_of};

/// A cell of words is never cut below this many columns.
const CELL_MIN: usize = 12;

/// Rows of cells, laid out when all of them are known.
///
/// Columns are as wide as their widest cell. Where that is wider than the screen, columns of words are cut, the widest
/// first and the rightmost of equals before the others, down to [`CELL_MIN`]. Numbers are never cut on their own, because
/// half a number is a wrong number; a row that is still too wide is cut at its end. The last column is never padded.
pub struct Table {
    /// One letter a column: `l` for words, at the left edge of their column, `r` for numbers, at the right edge.
    sides: &'static [u8],
    title: Option<&'static str>,
    has_heads: bool,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table with a column for each letter: `l` for words, `r` for numbers.
    pub fn new(sides: &'static str) -> Self {
        Table { sides: sides.as_bytes(), title: None, has_heads: false, rows: Vec::new() }
    }

    /// Creates a table whose first row names the columns.
    pub fn with_heads<const N: usize>(sides: &'static str, heads: [&str; N]) -> Self {
        let rows = vec![heads.map(str::to_owned).to_vec()];
        Table { has_heads: true, rows, ..Table::new(sides) }
    }

    /// Creates a table with a line above it.
    pub fn titled(title: &'static str, sides: &'static str) -> Self {
        Table { title: Some(title), ..Table::new(sides) }
    }

    pub fn row(&mut self, cells: &[&dyn Display]) {
        self.rows.push(cells.iter().map(ToString::to_string).collect());
    }

    /// Lays the table out. A table without rows is an empty text, whatever its title or heads.
    pub fn text(&self, screen: Screen) -> String {
        if self.rows.len() == usize::from(self.has_heads) {
            return String::new();
        }
        let title = self.title.map(|title| screen.dim(&format!("  {title}")));
        let mut lines = self.lines(screen);
        if self.has_heads {
            lines[0] = screen.dim(&lines[0]);
        }
        title.into_iter().chain(lines).map(|line| line + "\n").collect()
    }

    /// Lays out the rows alone, one line each.
    pub fn lines(&self, screen: Screen) -> Vec<String> {
        let widest =
            |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(|cell| width_of(cell)).max();
        let mut widths: Vec<usize> = (0..self.sides.len()).map(|column| widest(column).unwrap_or(0)).collect();
        if let Some(screen) = screen.width() {
            self.narrow(&mut widths, screen);
        }
        self.rows.iter().map(|row| self.line(&widths, row, screen)).collect()
    }

    fn narrow(&self, widths: &mut [usize], screen: usize) {
        // Each cell stands between two blanks, and the first after one more; the last blank is not printed.
        while widths.iter().sum::<usize>() + 2 * widths.len() > screen {
            let words = (0..widths.len()).filter(|at| self.sides[*at] == b'l' && widths[*at] > CELL_MIN);
            let Some(widest) = words.max_by_key(|at| widths[*at]) else { return };
            widths[widest] -= 1;
        }
    }

    fn line(&self, widths: &[usize], row: &[String], screen: Screen) -> String {
        let mut line = String::from(" ");
        let mut is_styled = false;
        for (at, cell) in row.iter().enumerate() {
            // A cell with colors is short; cutting one would cut its escapes.
            let is_plain = !cell.contains('\x1b');
            is_styled |= !is_plain;
            let cell = if is_plain { cut_to(cell, widths[at]) } else { cell.clone() };
            let space = " ".repeat(widths[at].saturating_sub(width_of(&cell)));
            line.push_str(&if self.sides[at] == b'r' {
                format!(" {space}{cell} ")
            } else {
                format!(" {cell}{space} ")
            });
        }
        let line = line.trim_end();
        if is_styled { line.to_owned() } else { screen.cut(line) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(width: Option<usize>, expected: &str) {
        let mut table = Table::new("lrll");
        table.row(&[&"m1", &12000, &"Never touch the migrations in production", &"Read a file whose name is long"]);
        assert_eq!(table.text(Screen::plain(width)), expected);
    }

    #[test]
    fn the_widest_words_give_way_and_numbers_stay() {
        check(None, "  m1  12000  Never touch the migrations in production  Read a file whose name is long\n");
        check(Some(80), "  m1  12000  Never touch the migrations in prod…  Read a file whose name is long\n");
        check(Some(60), "  m1  12000  Never touch the migrat…  Read a file whose nam…\n");
        check(Some(40), "  m1  12000  Never touch…   Read a file…\n");
    }

    #[test]
    fn wide_letters_take_two_columns() {
        let mut table = Table::new("ll");
        table.row(&[&"迁移不要碰", &"a"]);
        table.row(&[&"abc", &"b"]);
        assert_eq!(table.text(Screen::plain(None)), "  迁移不要碰  a\n  abc         b\n");
    }
}
