//! The configuration file: TOML, one table for each group.

use super::{
    fault::Fault,
    layers::{Given, Origin},
    setting::Group,
    suggest::nearest,
};
use std::path::Path;
use toml::{
    Spanned,
    de::{DeString, DeTable, DeValue},
};

/// What a file says, and what is wrong with it.
#[derive(Debug, Default)]
pub(super) struct FileValues {
    /// The values, in the order of their lines.
    pub(super) given: Vec<Given>,
    /// Text that is not TOML, unknown names, values that are no text, number or switch.
    pub(super) faults: Vec<Fault>,
}

/// Reads a file; `named_by` is who named it.
pub(super) fn read(path: &Path, groups: &[Group], named_by: Origin) -> FileValues {
    match std::fs::read_to_string(path) {
        Ok(text) => Reader::new(path, &text, groups).read(),
        Err(error) => FileValues {
            faults: vec![Fault {
                origin: named_by,
                what: format!(
                    "cannot read {}: {error}; name a file that can be read",
                    path.display()
                ),
            }],
            ..FileValues::default()
        },
    }
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    groups: &'a [Group],
    values: FileValues,
}

impl<'a> Reader<'a> {
    fn new(path: &'a Path, text: &'a str, groups: &'a [Group]) -> Self {
        Self {
            path,
            text,
            groups,
            values: FileValues::default(),
        }
    }

    fn read(mut self) -> FileValues {
        let (table, errors) = DeTable::parse_recoverable(self.text);
        for error in errors {
            let at = error.span().map_or(0, |span| span.start);
            self.fault(at, format!("this is not TOML: {}", error.message()));
        }
        for (name, value) in table.get_ref() {
            let group = self
                .groups
                .iter()
                .find(|group| group.name == name.get_ref());
            match (group, value.get_ref()) {
                (Some(group), DeValue::Table(table)) => self.read_group(group, table),
                (Some(group), _) => {
                    let what = format!(
                        "`{0}` is a table: write [{0}] and its settings below",
                        group.name
                    );
                    self.fault(name.span().start, what);
                }
                (None, _) => self.unknown(name, None),
            }
        }
        let line_of = |given: &Given| match given.origin {
            Origin::File { line, .. } => line,
            _ => 0,
        };
        self.values.given.sort_by_key(line_of);
        self.values
    }

    fn read_group(&mut self, group: &Group, table: &DeTable<'_>) {
        for (name, value) in table {
            if !group
                .settings
                .iter()
                .any(|setting| setting.name == *name.get_ref())
            {
                self.unknown(name, Some(group));
                continue;
            }
            let at = name.span().start;
            match text_of(value.get_ref()) {
                Some(text) => {
                    let origin = self.origin(at);
                    self.values.given.push(Given {
                        name: name.get_ref().to_string(),
                        text,
                        origin,
                    });
                }
                None => {
                    let what = format!(
                        "`{}` is {}: write a text, a number or a switch",
                        name.get_ref(),
                        kind_of(value.get_ref())
                    );
                    self.fault(at, what);
                }
            }
        }
    }

    /// Says what a name that does not belong there might have been meant for.
    fn unknown(&mut self, name: &Spanned<DeString<'_>>, inside: Option<&Group>) {
        let written = name.get_ref();
        let home = self.groups.iter().find(|group| {
            group
                .settings
                .iter()
                .any(|setting| setting.name == *written)
        });
        let advice = if let Some(home) = home {
            format!("it belongs into [{}]", home.name)
        } else {
            let tables = self.groups.iter().filter(|_| inside.is_none());
            let names = self.groups.iter().flat_map(|group| &group.settings);
            let candidates = names
                .map(|setting| &setting.name[..])
                .chain(tables.map(|group| group.name));
            match nearest(written, candidates) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => "`ziggurat config` lists all settings".to_owned(),
            }
        };
        let place = inside.map_or_else(String::new, |group| format!(" in [{}]", group.name));
        let what = format!("`{written}` is not a setting{place}: {advice}");
        self.fault(name.span().start, what);
    }

    fn fault(&mut self, at: usize, what: String) {
        let origin = self.origin(at);
        self.values.faults.push(Fault { origin, what });
    }

    fn origin(&self, at: usize) -> Origin {
        let before = self.text.as_bytes().iter().take(at);
        Origin::File {
            path: self.path.to_owned(),
            line: before.filter(|byte| **byte == b'\n').count() + 1,
        }
    }
}

/// A value as it would be written behind a flag.
fn text_of(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .ok()
            .map(|number| number.to_string()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(is_on) => Some(is_on.to_string()),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

fn kind_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
        _ => "a number that is too large",
    }
}
