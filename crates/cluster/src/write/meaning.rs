//! The one reading of what an answer to a write means. Only status codes count: the API server's messages are for people.

use crate::send::{Answer, NoAnswer};
use std::time::Duration;

/// What it means that a write was not simply carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// It conflicts with what is there (404, 409): only the object itself shows how.
    ReadBack,
    /// Not now: the same again after a pause. `doubtful`: a proxy or a server that shuts down may have answered so after
    /// the write was carried out. `turned_away`: nothing has looked at the request, so that it is not the fault of its object
    /// or of a webhook there, but of how much the API server has to do.
    Later { doubtful: bool, turned_away: bool },
    /// No byte of it was written: the API server has not seen it.
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

impl WriteError {
    /// Whether the write may have been carried out all the same, or still be.
    pub(crate) fn may_land(&self) -> bool {
        matches!(self.meaning, Meaning::Unknown | Meaning::Later { doubtful: true, .. })
    }
}

pub(crate) fn meaning(result: Result<Answer, NoAnswer>) -> Result<Answer, WriteError> {
    let unanswered = |meaning, message| WriteError { meaning, code: None, pause: None, message };
    let answer = match result {
        Ok(answer) if answer.is_success() => return Ok(answer),
        Ok(answer) => answer,
        Err(NoAnswer::NotSent(why)) => return Err(unanswered(Meaning::NotSent, why)),
        Err(NoAnswer::Lost(why)) => return Err(unanswered(Meaning::Unknown, why)),
    };
    // Not by the headers of API Priority and Fairness: what is let in has them too.
    let turned_away = !answer.is_json;
    let meaning = match (answer.code, answer.retry_after) {
        (404 | 409, _) => Meaning::ReadBack,
        (429, _) => Meaning::Later { doubtful: false, turned_away },
        (503, Some(_)) => Meaning::Later { doubtful: true, turned_away },
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
        let later = |doubtful| Some(Meaning::Later { doubtful, turned_away: false });
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
            (429, Some(3), later(false)),
            (429, None, later(false)),
            (500, None, Some(Meaning::Unknown)),
            (500, Some(1), Some(Meaning::Unknown)),
            (502, None, Some(Meaning::Unknown)),
            (503, None, Some(Meaning::Unknown)),
            (503, Some(2), later(true)),
            (504, None, Some(Meaning::Unknown)),
        ];
        for (code, seconds, want) in table {
            let retry_after = seconds.map(Duration::from_secs);
            let got =
                meaning(Ok(Answer { code, retry_after, is_json: true, body: r#"{"message": "why"}"#.into() })).err();
            let want =
                want.map(|meaning| WriteError { meaning, code: Some(code), pause: retry_after, message: "why".into() });
            assert_eq!(got, want, "{code} {seconds:?}");
        }
        let text = Answer { code: 429, retry_after: None, is_json: false, body: "Too many requests".into() };
        let turned_away = Some(Meaning::Later { doubtful: false, turned_away: true });
        assert_eq!(meaning(Ok(text)).err().map(|error| error.meaning), turned_away);
        let of = |none| meaning(Err(none)).err().map(|error| (error.meaning, error.message));
        assert_eq!(of(NoAnswer::NotSent("refused".into())), Some((Meaning::NotSent, "refused".into())));
        assert_eq!(of(NoAnswer::Lost("reset".into())), Some((Meaning::Unknown, "reset".into())));
    }
}
