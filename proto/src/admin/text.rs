//! The text format of Prometheus.

use std::fmt::{Display, Write};

/// How a number moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only rises, from zero at the start of the process.
    Counter,
    /// It is what it is now.
    Gauge,
}

/// One number of a `T`: its name without the prefix, whether it only rises, its help, and how to read it.
pub type Row<T, V = u64> = (&'static str, bool, &'static str, fn(&T) -> V);

/// Labels and their values.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// Metrics under one prefix.
#[derive(Debug)]
pub struct Text {
    prefix: &'static str,
    out: String,
}

impl Text {
    /// Nothing yet; every name begins with `prefix` and an underscore.
    #[must_use]
    pub fn new(prefix: &'static str) -> Self {
        Self {
            prefix,
            out: String::new(),
        }
    }

    /// Begins a metric: its lines follow.
    pub fn head(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        let full = format!("{}_{name}", self.prefix);
        let _into_memory = writeln!(self.out, "# HELP {full} {help}\n# TYPE {full} {kind}");
    }

    /// One number of it.
    pub fn line(&mut self, name: &str, labels: Labels<'_>, value: impl Display) {
        let _into_memory = write!(self.out, "{}_{name}", self.prefix);
        for (index, (label, value)) in labels.iter().enumerate() {
            let before = if index == 0 { '{' } else { ',' };
            let value = escaped(value);
            let _into_memory = write!(self.out, "{before}{label}=\"{value}\"");
        }
        let after = if labels.is_empty() { "" } else { "}" };
        let _into_memory = writeln!(self.out, "{after} {value}");
    }

    /// The numbers of several things that the same rows describe.
    pub fn rows<T, V: Display>(&mut self, rows: &[Row<T, V>], things: &[(Labels<'_>, &T)]) {
        for (name, rises, help, read) in rows {
            let kind = if *rises { Kind::Counter } else { Kind::Gauge };
            self.head(name, kind, help);
            for (labels, thing) in things {
                self.line(name, labels, read(thing));
            }
        }
    }

    /// All of it.
    #[must_use]
    pub fn finish(self) -> String {
        self.out
    }
}

fn escaped(value: &str) -> String {
    let value = value.replace('\\', "\\\\");
    value.replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::{Kind, Row, Text};

    #[test]
    fn a_number_has_its_head_once_and_a_line_for_each_thing() {
        const ROWS: &[Row<u64>] = &[("things_total", true, "Things.", |n| *n)];
        let mut text = Text::new("z");
        text.rows(ROWS, &[(&[("of", "a")], &1), (&[("of", "b")], &2)]);
        text.head("share", Kind::Gauge, "A share.");
        text.line("share", &[], 0.5);
        let expected = "# HELP z_things_total Things.\n# TYPE z_things_total counter\nz_things_total{of=\"a\"} 1\n\
                        z_things_total{of=\"b\"} 2\n# HELP z_share A share.\n# TYPE z_share gauge\nz_share 0.5\n";
        assert_eq!(text.finish(), expected);
    }

    #[test]
    fn what_a_label_says_cannot_end_it() {
        let mut text = Text::new("z");
        text.line("n", &[("why", "a \"b\" \\ c\nd"), ("x", "ü")], 1);
        assert_eq!(
            text.finish(),
            "z_n{why=\"a \\\"b\\\" \\\\ c\\nd\",x=\"ü\"} 1\n"
        );
    }
}
