//! Tables in plain text: columns side by side, everything indented by two, no row wider than the screen.

use crate::screen::{Screen, columns, cut_to};

/// Where a column's text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// At the left edge: words, which may be cut.
    Left,
    /// At the right edge: numbers, which are never cut by themselves.
    Right,
}

/// The fewest columns that a cell of words is cut to.
const CELL_MIN: usize = 12;

/// Lays rows out in columns; the last column is never padded.
///
/// On a screen that is too narrow the widest columns of words give way first, the rightmost of equals before the others.
/// What is still too wide, a row of many numbers, is cut at its end.
pub fn table(sides: &[Side], rows: &[Vec<String>], screen: Screen) -> String {
    let width_of = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| columns(cell)).max();
    let mut widths: Vec<usize> = (0..sides.len()).map(|column| width_of(column).unwrap_or(0)).collect();
    if let Some(screen) = screen.width() {
        narrow(&mut widths, sides, screen);
    }
    rows.iter().map(|row| format!("{}\n", line(sides, &widths, row, screen))).collect()
}

fn narrow(widths: &mut [usize], sides: &[Side], screen: usize) {
    // Each cell stands between two blanks, and the first after one more; the last blank is not printed.
    while widths.iter().sum::<usize>() + 2 * widths.len() > screen {
        let words = (0..widths.len()).filter(|at| sides[*at] == Side::Left && widths[*at] > CELL_MIN);
        let Some(widest) = words.max_by_key(|at| widths[*at]) else { return };
        widths[widest] -= 1;
    }
}

fn line(sides: &[Side], widths: &[usize], row: &[String], screen: Screen) -> String {
    let mut line = String::from(" ");
    let mut is_styled = false;
    for (at, cell) in row.iter().enumerate() {
        // A cell with colors is short; cutting one would cut its escapes.
        let is_plain = !cell.contains('\x1b');
        is_styled |= !is_plain;
        let cell = if is_plain && columns(cell) > widths[at] { cut_to(cell, widths[at]) } else { cell.clone() };
        let space = " ".repeat(widths[at].saturating_sub(columns(&cell)));
        line.push(' ');
        match sides[at] {
            Side::Left => line.push_str(&format!("{cell}{space}")),
            Side::Right => line.push_str(&format!("{space}{cell}")),
        }
        line.push(' ');
    }
    let line = line.trim_end();
    if is_styled { line.to_owned() } else { screen.cut(line) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(width: Option<usize>, expected: &str) {
        let rows = [["m1", "12000", "Never touch the migrations in production", "Read a file whose name is long"]];
        let rows: Vec<Vec<String>> = rows.iter().map(|row| row.map(str::to_owned).to_vec()).collect();
        let sides = [Side::Left, Side::Right, Side::Left, Side::Left];
        assert_eq!(table(&sides, &rows, Screen::plain(width)), expected);
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
        let rows = vec![vec!["迁移不要碰".to_owned(), "a".to_owned()], vec!["abc".to_owned(), "b".to_owned()]];
        let screen = Screen::plain(None);
        assert_eq!(table(&[Side::Left, Side::Left], &rows, screen), "  迁移不要碰  a\n  abc         b\n");
    }
}
