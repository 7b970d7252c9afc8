//! Batches: positional answers become columns of what succeeded and a sparse list of what failed, and back.

use super::{broken, nanos};
use crate::wire;
use std::time::Duration;
use ziggurat_base::{Code, Error};
use ziggurat_engine::command::{Answer, BATCH_MAX};

/// The longest text of an error that travels.
const WHAT_LEN_MAX: usize = 1024;

/// Refuses a batch that would make a turn too long.
pub(crate) fn check_count(count: usize) -> Result<(), Error> {
    if count <= BATCH_MAX {
        return Ok(());
    }
    let what = format!("a batch of {count} items: split it, {BATCH_MAX} are the most");
    Err(Error::new(Code::InvalidParams, what))
}

/// The text of an error, cut where it becomes unreasonable.
pub(crate) fn text(error: &Error) -> &str {
    let what = error.what();
    let end = what.floor_char_boundary(WHAT_LEN_MAX);
    &what[..end]
}

/// An error of the item at `index`.
pub(crate) fn failed(index: usize, error: &Error) -> wire::ItemError {
    wire::ItemError {
        index: index as u32,
        code: error.code().number(),
        what: text(error).to_owned(),
    }
}

/// The error that a peer sent. A code that this build does not know keeps its number in the text.
pub(crate) fn error(code: i32, what: String) -> Error {
    match Code::from_number(code) {
        Some(Code::Ok) | None => {
            let what = format!("the peer answered {code}, which this build does not know: {what}");
            Error::new(Code::Internal, what)
        }
        Some(code) => Error::new(code, what),
    }
}

/// Hands every success to `each` and lists the failures.
pub(crate) fn split<T>(
    answers: Vec<Answer<T>>,
    mut each: impl FnMut(usize, T),
) -> Vec<wire::ItemError> {
    let mut errors = Vec::new();
    for (index, answer) in answers.into_iter().enumerate() {
        match answer {
            Ok(value) => each(index, value),
            Err(error) => errors.push(failed(index, &error)),
        }
    }
    errors
}

/// Puts positional answers together again: `next` makes the value of each item that is not in `errors`.
///
/// # Errors
/// `DeserializeFail` when the answer has another count than the request, or errors out of order.
pub(crate) fn join<T>(
    count: usize,
    told: u32,
    errors: Vec<wire::ItemError>,
    mut next: impl FnMut(usize) -> Result<T, Error>,
) -> Answer<Vec<Answer<T>>> {
    if told as usize != count {
        return Err(broken(format!("an answer for {told} items to {count}")));
    }
    let mut answers = Vec::with_capacity(count);
    for item in errors {
        let index = item.index as usize;
        if index < answers.len() || index >= count {
            return Err(broken("errors of a batch are out of order"));
        }
        while answers.len() < index {
            answers.push(Ok(next(answers.len())?));
        }
        answers.push(Err(error(item.code, item.what)));
    }
    while answers.len() < count {
        answers.push(Ok(next(answers.len())?));
    }
    Ok(answers)
}

/// One bit per item.
pub(crate) struct Bits(pub(crate) Vec<u8>);

impl Bits {
    /// All clear.
    pub(crate) fn clear(count: usize) -> Self {
        Self(vec![0; count.div_ceil(8)])
    }

    pub(crate) fn set(&mut self, index: usize) {
        self.0[index / 8] |= 1 << (index % 8);
    }

    /// Reads what a peer sent for `count` items.
    pub(crate) fn checked(bytes: Vec<u8>, count: usize) -> Result<Self, Error> {
        if bytes.len() == count.div_ceil(8) {
            Ok(Self(bytes))
        } else {
            Err(broken(format!(
                "{} bytes of bits for {count} items",
                bytes.len()
            )))
        }
    }

    /// Whether the bit of an item below the count is set.
    pub(crate) fn get(&self, index: usize) -> bool {
        self.0[index / 8] & (1 << (index % 8)) != 0
    }
}

/// A column of spans; one entry when they are all the same.
#[derive(Default)]
pub(crate) struct Spans(Vec<u64>);

impl Spans {
    pub(crate) fn push(&mut self, span: Duration) {
        self.0.push(nanos(span));
    }

    pub(crate) fn finish(mut self) -> Vec<u64> {
        if let [first, rest @ ..] = self.0.as_slice()
            && rest.iter().all(|span| span == first)
        {
            self.0.truncate(1);
        }
        self.0
    }
}

/// The entry of a column.
pub(crate) fn at<T: Copy>(column: &[T], index: usize) -> Result<T, Error> {
    let entry = column.get(index).copied();
    entry.ok_or_else(|| broken("a column of a batch is too short"))
}

/// The span of an item, see [`Spans`].
pub(crate) fn span_at(spans: &[u64], index: usize) -> Result<Duration, Error> {
    match spans {
        [one] => Ok(Duration::from_nanos(*one)),
        many => at(many, index).map(Duration::from_nanos),
    }
}
