//! Rows and columns.

/// A column.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Column {
    /// Text, to the left.
    Text(&'static str),
    /// Numbers, to the right.
    Number(&'static str),
}

impl Column {
    fn heading(self) -> &'static str {
        match self {
            Column::Text(heading) | Column::Number(heading) => heading,
        }
    }
}

/// Rows as lines under their headings, with two blanks between columns.
pub(crate) fn table<const N: usize>(
    columns: [Column; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let headings = columns.map(|column| column.heading().to_owned());
    let rows: Vec<[String; N]> = std::iter::once(headings).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..N).map(|column| width(column).unwrap_or_default()).collect();
    let mut text = String::new();
    for row in &rows {
        let cells =
            row.iter().zip(&widths).zip(columns).map(|((cell, width), column)| match column {
                Column::Text(_) => format!("{cell:<width$}"),
                Column::Number(_) => format!("{cell:>width$}"),
            });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::Column::{Number, Text};
    use super::*;

    #[test]
    fn text_stands_to_the_left_and_numbers_to_the_right() {
        let row = |a: &str, b: &str, c: &str| [a, b, c].map(str::to_owned);
        let text = table(
            [Text("NAME"), Number("SIZE"), Text("X")],
            [row("a", "1", ""), row("ö-long", "100G", "y")],
        );
        assert_eq!(text, "NAME    SIZE  X\na          1\nö-long  100G  y\n");
        assert_eq!(table([Text("A")], []), "A\n");
    }
}
