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
    lines(&columns, rows.into_iter().map(Vec::from))
}

/// The same of things that members of a group have: behind the first column stands whose each is. Those of a member that
/// is in no group have none, and the column is left out.
pub(crate) fn table_of_members<const N: usize>(
    columns: [Column; N],
    rows: impl IntoIterator<Item = (Option<String>, [String; N])>,
) -> String {
    let rows: Vec<_> = rows.into_iter().collect();
    if rows.iter().all(|(member, _)| member.is_none()) {
        return table(columns, rows.into_iter().map(|(_, row)| row));
    }
    let mut with_member = Vec::from(columns);
    with_member.insert(1, Column::Text("MEMBER"));
    let rows = rows.into_iter().map(|(member, row)| {
        let mut row = Vec::from(row);
        row.insert(1, member.unwrap_or_else(|| "-".to_owned()));
        row
    });
    lines(&with_member, rows)
}

/// Each row has a cell for each of the columns.
fn lines(columns: &[Column], rows: impl Iterator<Item = Vec<String>>) -> String {
    let headings = columns.iter().map(|column| column.heading().to_owned()).collect();
    let rows = std::iter::once(headings).chain(rows);
    let fit = |row: Vec<String>| row.into_iter().map(fitting).collect();
    let rows: Vec<Vec<String>> = rows.map(fit).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths = (0..columns.len()).map(|column| width(column).unwrap_or_default());
    let widths: Vec<usize> = widths.collect();
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
    fn whose_a_thing_is_stands_behind_its_name_where_members_are_several() {
        let row = |name: &str, member: Option<&str>| {
            (member.map(str::to_owned), [name, "1"].map(str::to_owned))
        };
        let columns = [Text("NAME"), Number("N")];
        let of_group = table_of_members(columns, [row("a", Some("left")), row("b", None)]);
        assert_eq!(of_group, "NAME  MEMBER  N\na     left    1\nb     -       1\n");
        assert_eq!(table_of_members(columns, [row("a", None)]), "NAME  N\na     1\n");
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
