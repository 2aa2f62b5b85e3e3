//! Values that are several: names and numbers in brackets.

use super::super::units;
use super::line::Word;
use super::{ParameterError, Problem};

/// The most values that one list may have.
const VALUES_MAX: usize = 4096;

/// What stands in brackets, or the value itself.
pub(super) fn items(value: &str) -> Vec<&str> {
    let inner = value.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(value);
    inner.split(',').map(str::trim).filter(|item| !item.is_empty()).collect()
}

/// The indices of the names that a value means: `a`, `(a,b)`, `(a1-a9)`, `a*`, `*`.
pub(super) fn named(
    word: &Word,
    kind: &'static str,
    names: &[String],
) -> Result<Vec<usize>, ParameterError> {
    let mut found: Vec<usize> = Vec::new();
    for item in items(&word.value) {
        let unknown = || Problem::Unknown { kind, name: item.to_owned() }.at(word.line);
        let index = |name: &str| names.iter().position(|known| known == name);
        let mut meant: Vec<usize> = Vec::new();
        if let Some(index) = index(item) {
            meant.push(index);
        } else if let Some(start) = item.strip_suffix('*') {
            let begins = |(_, name): &(usize, &String)| name.starts_with(start);
            meant.extend(names.iter().enumerate().filter(begins).map(|(index, _)| index));
        } else if let Some((stem, first, last)) = span(item) {
            for number in first..=last {
                let name = format!("{stem}{number}");
                let unknown = || Problem::Unknown { kind, name: name.clone() }.at(word.line);
                meant.push(index(&name).ok_or_else(unknown)?);
            }
        }
        if meant.is_empty() {
            return Err(unknown());
        }
        for index in meant {
            if !found.contains(&index) {
                found.push(index);
            }
        }
    }
    if found.is_empty() { Err(word.wrong("at least one name")) } else { Ok(found) }
}

/// `sd1-sd34`, also `sd1-34`.
fn span(item: &str) -> Option<(&str, u64, u64)> {
    let (first, last) = item.split_once('-')?;
    let stem = first.trim_end_matches(|c: char| c.is_ascii_digit());
    let last = last.strip_prefix(stem).unwrap_or(last);
    let (first, last) = (first[stem.len()..].parse().ok()?, last.parse().ok()?);
    let count = u64::checked_sub(last, first)?;
    (count < VALUES_MAX as u64).then_some((stem, first, last))
}

/// Numbers: `8`, `(1,2,4)`, `(1-10,1)` in steps, `(1-64,d)` doubling. `read` reads one.
pub(super) fn numbers(
    word: &Word,
    instead: &'static str,
    read: impl Fn(&str) -> Option<u64>,
) -> Result<Vec<u64>, ParameterError> {
    let items = items(&word.value);
    let wrong = || word.wrong(instead);
    if let [range, step] = items[..]
        && let Some((first, last)) = range.split_once('-')
    {
        let (first, last) = (read(first).ok_or_else(wrong)?, read(last).ok_or_else(wrong)?);
        let doubles = step.eq_ignore_ascii_case("d");
        let step =
            if doubles { 0 } else { read(step).filter(|step| *step > 0).ok_or_else(wrong)? };
        // Nothing doubles to more than nothing.
        if (doubles && first == 0) || first > last {
            return Err(wrong());
        }
        let next = |at: &u64| at.checked_add(if doubles { *at } else { step });
        let values: Vec<u64> = std::iter::successors(Some(first), next)
            .take_while(|at| *at <= last)
            .take(VALUES_MAX + 1)
            .collect();
        return if values.len() > VALUES_MAX { Err(wrong()) } else { Ok(values) };
    }
    let values: Option<Vec<u64>> = items.iter().map(|item| read(item)).collect();
    values.filter(|values| !values.is_empty() && values.len() <= VALUES_MAX).ok_or_else(wrong)
}

/// One number.
pub(super) fn number(
    word: &Word,
    min: u64,
    max: u64,
    instead: &'static str,
) -> Result<u64, ParameterError> {
    let is_plain = word.value.bytes().all(|byte| byte.is_ascii_digit());
    let number = word.value.parse().ok().filter(|number| is_plain && (min..=max).contains(number));
    number.ok_or_else(|| word.wrong(instead))
}

/// A whole number without a sign.
pub(super) fn plain(text: &str) -> Option<u64> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

/// Bytes.
pub(super) fn bytes(word: &Word, instead: &'static str) -> Result<u64, ParameterError> {
    units::bytes(&word.value).filter(|bytes| *bytes > 0).ok_or_else(|| word.wrong(instead))
}
