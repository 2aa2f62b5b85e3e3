//! One thing with all that is known about it.

use super::units;
use serde::Serialize;
use serde_json::Value;

/// One line for each field, the name first: `size_bytes` becomes `size  10 GiB`, `created_unix_seconds` a date.
pub(crate) fn details(thing: &impl Serialize) -> serde_json::Result<String> {
    let Value::Object(fields) = serde_json::to_value(thing)? else { return Ok(String::new()) };
    let line = |(name, value): (&String, &Value)| Some((label(name), shown(name, value)?));
    let mut lines: Vec<(String, String)> = fields.iter().filter_map(line).collect();
    // Which one it is and how it does come first.
    lines.sort_by_key(|(label, _)| match label.as_str() {
        "name" => 0,
        "health" => 1,
        _ => 2,
    });
    let width = lines.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
    Ok(lines.iter().map(|(label, value)| format!("{label:<width$}  {value}\n")).collect())
}

fn label(name: &str) -> String {
    let bare = name.strip_suffix("_bytes").or_else(|| name.strip_suffix("_unix_seconds"));
    bare.unwrap_or(name).replace('_', " ")
}

/// `None` for what there is not.
fn shown(name: &str, value: &Value) -> Option<String> {
    Some(match value {
        Value::Null => return None,
        Value::String(text) if text.is_empty() => return None,
        Value::String(text) => text.clone(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
        Value::Number(number) => match number.as_u64() {
            Some(size) if name.ends_with("_bytes") => units::bytes(size),
            Some(time) if name.ends_with("_unix_seconds") => units::time(time),
            _ => number.to_string(),
        },
        Value::Array(items) if items.is_empty() => return None,
        Value::Array(items) => {
            let texts = items.iter().filter_map(|item| shown(name, item));
            texts.collect::<Vec<_>>().join("; ")
        }
        Value::Object(fields) => {
            let texts = fields.iter().filter_map(|(name, value)| {
                Some(format!("{} {}", label(name), shown(name, value)?))
            });
            texts.collect::<Vec<_>>().join(", ")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_field_is_a_line_and_what_there_is_not_is_none() {
        let thing = json!({
            "name": "a", "size_bytes": 1536, "created_unix_seconds": 1, "thick": false,
            "reason": "", "origin": null, "sessions": 3, "warnings": ["x", "y"],
            "levels": [{"free_bytes": 1024, "raid": "raid5"}, {"free_bytes": 0, "raid": "raid6"}],
            "health": "healthy",
        });
        let wanted = "name      a\nhealth    healthy\ncreated   1970-01-01 00:00:01Z\n\
                      levels    free 1 KiB, raid raid5; free 0 B, raid raid6\nsessions  3\nsize      1.5 KiB\n\
                      thick     no\nwarnings  x; y\n";
        assert_eq!(details(&thing).unwrap(), wanted);
    }
}
