//! The one reading of what an answer to a write means. Only status codes count: the API server's messages are for people.

use crate::send::{Answer, NoAnswer};
use std::time::Duration;

/// What it means that a write was not simply carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// It conflicts with what is there (404, 409): only the object itself shows how.
    ReadBack,
    /// Not now: the same again after a pause. `doubtful`: a proxy or a server that shuts down may have answered so after
    /// the write was carried out.
    Later { doubtful: bool },
    /// No connection was made: the API server has not seen it.
    NotSent,
    /// It may have been carried out, or still be.
    Unknown,
    /// It is not allowed as it is.
    Refused,
}

/// A write that was not carried out, as far as is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteError {
    pub(crate) meaning: Meaning,
    /// The HTTP status, where there was an answer.
    pub(crate) code: Option<u16>,
    /// The pause that the API server asked for.
    pub(crate) pause: Option<Duration>,
    pub(crate) message: String,
}

pub(crate) fn meaning(result: Result<Answer, NoAnswer>) -> Result<Answer, WriteError> {
    let unanswered = |meaning, message| WriteError { meaning, code: None, pause: None, message };
    let answer = match result {
        Ok(answer) if answer.is_success() => return Ok(answer),
        Ok(answer) => answer,
        Err(NoAnswer::NotSent(why)) => return Err(unanswered(Meaning::NotSent, why)),
        Err(NoAnswer::Lost(why)) => return Err(unanswered(Meaning::Unknown, why)),
    };
    let meaning = match (answer.code, answer.retry_after) {
        (404 | 409, _) => Meaning::ReadBack,
        (429, _) => Meaning::Later { doubtful: false },
        (503, Some(_)) => Meaning::Later { doubtful: true },
        (408 | 500.., _) => Meaning::Unknown,
        _ => Meaning::Refused,
    };
    Err(WriteError { meaning, code: Some(answer.code), pause: answer.retry_after, message: answer.message() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_has_its_meaning() {
        let table = [
            (200, None, None),
            (201, None, None),
            (400, None, Some(Meaning::Refused)),
            (401, None, Some(Meaning::Refused)),
            (403, None, Some(Meaning::Refused)),
            (404, None, Some(Meaning::ReadBack)),
            (408, None, Some(Meaning::Unknown)),
            (409, None, Some(Meaning::ReadBack)),
            (422, None, Some(Meaning::Refused)),
            (429, Some(3), Some(Meaning::Later { doubtful: false })),
            (429, None, Some(Meaning::Later { doubtful: false })),
            (500, None, Some(Meaning::Unknown)),
            (500, Some(1), Some(Meaning::Unknown)),
            (502, None, Some(Meaning::Unknown)),
            (503, None, Some(Meaning::Unknown)),
            (503, Some(2), Some(Meaning::Later { doubtful: true })),
            (504, None, Some(Meaning::Unknown)),
        ];
        for (code, seconds, want) in table {
            let retry_after = seconds.map(Duration::from_secs);
            let got = meaning(Ok(Answer { code, retry_after, body: r#"{"message": "why"}"#.into() })).err();
            let want =
                want.map(|meaning| WriteError { meaning, code: Some(code), pause: retry_after, message: "why".into() });
            assert_eq!(got, want, "{code} {seconds:?}");
        }
        let of = |none| meaning(Err(none)).err().map(|error| (error.meaning, error.message));
        assert_eq!(of(NoAnswer::NotSent("refused".into())), Some((Meaning::NotSent, "refused".into())));
        assert_eq!(of(NoAnswer::Lost("reset".into())), Some((Meaning::Unknown, "reset".into())));
    }
}
