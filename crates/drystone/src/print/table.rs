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

/// The longest word of a cell, which any iSCSI name is shorter than: a path that somebody made up must not pad every
/// line. JSON has it whole.
const WORD_CHARS_MAX: usize = 240;

/// A cell whose long words are cut.
fn fitting(cell: String) -> String {
    let is_long = |word: &str| word.chars().nth(WORD_CHARS_MAX).is_some();
    if !cell.split(' ').any(is_long) {
        return cell;
    }
    let cut = |word: &str| match is_long(word) {
        true => word.chars().take(WORD_CHARS_MAX - 1).chain(['…']).collect(),
        false => word.to_owned(),
    };
    cell.split(' ').map(cut).collect::<Vec<String>>().join(" ")
}

/// Rows as lines under their headings, with two blanks between columns.
pub(crate) fn table<const N: usize>(
    columns: [Column; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let headings = columns.map(|column| column.heading().to_owned());
    let rows = std::iter::once(headings).chain(rows).map(|row| row.map(fitting));
    let rows: Vec<[String; N]> = rows.collect();
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

    #[test]
    fn a_long_word_is_cut_and_pads_no_line() {
        let rows = [["x".repeat(3000), "a b".to_owned()], ["y".to_owned(), "c".to_owned()]];
        let text = table([Text("PATH"), Text("OUTCOME")], rows);
        assert!(text.lines().all(|line| line.chars().count() < 260), "{text}");
        assert!(text.contains("xx…  a b") && text.contains("PATH "));
        let whole = "z".repeat(WORD_CHARS_MAX);
        assert!(table([Text("A")], [[whole.clone()]]).contains(&format!("{whole}\n")));
    }
}
