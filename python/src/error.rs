//! Exceptions. A call that was made wrongly raises `ValueError` or `TypeError`; what the store answers raises
//! `ziggurat.Error` with the code of docs/errors.md.

use pyo3::{prelude::*, sync::PyOnceLock, types::PyType};
use ziggurat_base::{Code, Error};

/// The class is written in Python, because the stable interface of 3.11 has no native exceptions with attributes.
static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// The exception for an error of the store.
pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    let code = error.code();
    let what = match error.what() {
        "" => code.cause(),
        what => what,
    };
    match CLASS.import(py, "ziggurat._error", "Error") {
        Ok(class) => {
            let arguments = (code.number(), code.name(), what.to_owned());
            PyErr::from_type(class.clone(), arguments)
        }
        Err(broken) => broken,
    }
}

/// What every call answers once its object has been closed or stopped.
pub(crate) fn closed(py: Python<'_>, what: &str) -> PyErr {
    let text = format!("the {what} is closed");
    raise(py, &Error::new(Code::UnavailableInCurrentStatus, text))
}
