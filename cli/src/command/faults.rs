//! What a proof of stored bytes has found, as a table and as rows for programs.

use crate::{
    screen::Screen,
    table::{Paint, Table},
};
use serde_json::{Value, json};
use ziggurat_base::{ObjectKey, Ticket};

/// Something that is not as it was written.
pub(super) struct Row<'a> {
    /// In which file.
    pub(super) file: &'a str,
    /// From which byte on.
    pub(super) offset: u64,
    /// Whose object it is, if that can be told.
    pub(super) object: Option<&'a (Box<str>, ObjectKey, Ticket)>,
    /// What is wrong.
    pub(super) what: &'a str,
}

/// The table, and the rows.
pub(super) fn listed<'a>(
    faults: impl Iterator<Item = Row<'a>>,
    screen: &Screen,
) -> (Table, Vec<Value>) {
    let mut table = Table::new(screen, ["file", "offset", "tenant", "key", "fault"]);
    let mut rows = Vec::new();
    for fault in faults {
        let (tenant, key, ticket) = match fault.object {
            Some((tenant, key, ticket)) => (tenant.as_ref(), key.to_string(), ticket.to_string()),
            None => ("", String::new(), String::new()),
        };
        table.row([
            (fault.file.to_owned(), Paint::Plain),
            (fault.offset.to_string(), Paint::Plain),
            (tenant.to_owned(), Paint::Dim),
            (key.clone(), Paint::Plain),
            (fault.what.to_owned(), Paint::Bad),
        ]);
        let named = |text: &str| fault.object.map(|_| Value::from(text.to_owned()));
        rows.push(json!({
            "file": fault.file, "offset": fault.offset, "what": fault.what, "tenant": named(tenant),
            "key": named(&key), "ticket": named(&ticket),
        }));
    }
    (table, rows)
}
