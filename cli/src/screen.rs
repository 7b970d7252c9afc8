//! The terminal: the answer goes to standard output, everything else to standard error.

use crate::answer::{Answer, Exit, error_json};
use anstream::{AutoStream, ColorChoice, eprintln};
use anstyle::{AnsiColor, Style};
use std::{
    fmt::Display,
    io::{self, IsTerminal, Write},
};
use ziggurat_base::{Code, Error, Result};

const RED: Style = AnsiColor::Red.on_default().bold();
const YELLOW: Style = AnsiColor::Yellow.on_default().bold();
const DIM: Style = Style::new().dimmed();

/// In which form answers are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Text, tables, colours.
    People,
    /// One JSON object on the last line.
    Json,
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    /// In which form answers are printed.
    pub(crate) form: Form,
    /// Whether standard output takes colours: a terminal without `NO_COLOR`, or `CLICOLOR_FORCE`.
    pub(crate) has_colour: bool,
    /// Whether standard output is a terminal, so that long lines are wrapped to its width.
    pub(crate) is_terminal: bool,
}

impl Screen {
    /// The screen of this process.
    pub(crate) fn new(form: Form) -> Self {
        Self {
            form,
            has_colour: AutoStream::choice(&io::stdout()) != ColorChoice::Never,
            is_terminal: io::stdout().is_terminal(),
        }
    }

    /// Whether a program reads the answer.
    pub(crate) fn is_json(&self) -> bool {
        self.form == Form::Json
    }

    /// Tells people something on standard error.
    pub(crate) fn note(&self, what: impl Display) {
        eprintln!("{what}");
    }

    /// Says on standard error that something is odd and the command goes on.
    pub(crate) fn warn(&self, what: impl Display) {
        eprintln!("{YELLOW}warning:{YELLOW:#} {what}");
    }

    /// Prints what became of the command.
    pub(crate) fn finish(&self, outcome: Result<Answer>) -> Exit {
        match outcome {
            Ok(answer) => {
                let written = match self.form {
                    Form::People => print(&answer.text),
                    Form::Json => print(&format!("{}\n", answer.json)),
                };
                match written {
                    Ok(()) => answer.exit,
                    Err(error) => self.fail(&error),
                }
            }
            Err(error) => self.fail(&error),
        }
    }

    /// Prints an error: what, which code, what to do.
    pub(crate) fn fail(&self, error: &Error) -> Exit {
        let code = error.code();
        let what = if error.what().is_empty() {
            code.cause()
        } else {
            error.what()
        };
        eprintln!("{RED}error:{RED:#} {what}");
        eprintln!("{DIM} code:{DIM:#} {} ({})", code.name(), code.number());
        eprintln!("{DIM} cure:{DIM:#} {}", code.cure());
        if self.form == Form::Json {
            self.tell_programs(error);
        }
        Exit::of(error)
    }

    /// Prints an error as the last line of standard output.
    pub(crate) fn tell_programs(&self, error: &Error) {
        // Nobody is left to tell when standard output is gone too.
        let _gone = print(&format!("{}\n", error_json(error)));
    }
}

/// Writes to standard output. A reader that has seen enough (`| head`) is no failure.
fn print(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Error::new(
            Code::FileWriteFail,
            format!("write to standard output: {error}"),
        )),
        _ => Ok(()),
    }
}
