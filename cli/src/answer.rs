//! What a command hands back: a text for people, an object for programs, and an exit code.

use serde::Serialize;
use serde_json::{Value, json};
use std::process::ExitCode;
use ziggurat_base::{Code, Error};

/// How the process ends. The numbers are a promise, told by `ziggurat --help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done,
    /// Something failed, or something is wrong that was looked for.
    Failed,
    /// The command line, the configuration or another input cannot be used.
    Usage,
    /// A key that was asked for is not there.
    Miss,
}

impl Exit {
    /// The number that the shell sees.
    fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Miss => 3,
        }
    }

    /// The end that belongs to an error.
    pub(crate) fn of(error: &Error) -> Self {
        match error.code() {
            Code::InvalidParams | Code::InvalidKey | Code::ConfigInvalid | Code::FileNotFound => {
                Self::Usage
            }
            _ => Self::Failed,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.number().into()
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Answer {
    /// For people; printed as it is.
    pub(crate) text: String,
    /// For programs; printed on one line instead of the text when `--json` is given.
    pub(crate) json: Value,
    /// How the process ends.
    pub(crate) exit: Exit,
}

impl Answer {
    /// An answer of a command that did what it was asked.
    pub(crate) fn done(text: impl Into<String>, json: &impl Serialize) -> Self {
        Self {
            text: text.into(),
            json: serde_json::to_value(json).expect("our reports have only text keys"),
            exit: Exit::Done,
        }
    }

    /// The same, with another end.
    pub(crate) fn ending(self, exit: Exit) -> Self {
        Self { exit, ..self }
    }
}

/// An error as programs see it.
pub(crate) fn error_json(error: &Error) -> Value {
    let code = error.code();
    let what = if error.what().is_empty() {
        code.cause()
    } else {
        error.what()
    };
    json!({"error": {"code": code.number(), "name": code.name(), "what": what, "cure": code.cure()}})
}

#[cfg(test)]
mod tests {
    use super::{Exit, error_json};
    use ziggurat_base::{Code, Error};

    #[test]
    fn an_error_without_circumstances_tells_its_cause() {
        let json = error_json(&Error::from(Code::RpcFail));
        assert_eq!(json["error"]["code"], -900);
        assert_eq!(json["error"]["name"], "RPC_FAIL");
        assert_eq!(json["error"]["what"], Code::RpcFail.cause());
    }

    #[test]
    fn bad_input_ends_with_2_and_a_failure_with_1() {
        let number = |code: Code| Exit::of(&Error::from(code)).number();
        assert_eq!(number(Code::ConfigInvalid), 2);
        assert_eq!(number(Code::InvalidKey), 2);
        assert_eq!(number(Code::RpcFail), 1);
    }
}
