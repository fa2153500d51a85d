//! Tables in plain text: the first column to the left, numbers to the right, everything indented by two.

/// Where a column's text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// At the left edge.
    Left,
    /// At the right edge.
    Right,
}

/// Lays rows out in columns; the last column is never padded.
pub fn table(sides: &[Side], rows: &[Vec<String>]) -> String {
    let width_of = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| width(cell)).max();
    let widths: Vec<usize> = (0..sides.len()).map(|column| width_of(column).unwrap_or(0)).collect();
    rows.iter().map(|row| format!("{}\n", line(sides, &widths, row))).collect()
}

fn line(sides: &[Side], widths: &[usize], row: &[String]) -> String {
    let mut line = String::from(" ");
    for (at, cell) in row.iter().enumerate() {
        let space = " ".repeat(widths[at].saturating_sub(width(cell)));
        line.push(' ');
        match sides[at] {
            Side::Left => line.push_str(&format!("{cell}{space}")),
            Side::Right => line.push_str(&format!("{space}{cell}")),
        }
        line.push(' ');
    }
    line.trim_end().to_owned()
}

fn width(cell: &str) -> usize {
    cell.chars().count()
}
