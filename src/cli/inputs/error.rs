use std::sync::Arc;
use std::{fmt, io};

/// Where an object stood, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    pub(super) file: Arc<str>,
    /// Counted from 1, documents without content left out.
    pub(super) document: usize,
    /// Index in the document's list, if it is one.
    pub(super) item: Option<usize>,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, document {}", self.file, self.document)?;
        self.item.map_or(Ok(()), |i| write!(f, ", items[{i}]"))
    }
}

impl Origin {
    /// The file, or the object and the field, that the document stands in.
    pub(super) fn file(&self) -> &str {
        &self.file
    }
}

/// Why inputs cannot be used: names the file, the object, the field and the fix.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    #[error("{file}: {problem}", problem = unreadable(.cause))]
    Unreadable {
        file: String,
        /// What the operating system says; not a `source`: the text holds what a user needs of it.
        cause: io::Error,
    },
    #[error("--profile is given {given} times: give it once, or twice to compare; a folder may hold several profiles")]
    NotTwo { given: usize },
    #[error("{path}: no .yaml, .yml or .json file in this folder: give the folder that holds the manifests")]
    EmptyFolder { path: String },
    #[error(
        "{file}: a link that leads nowhere, or out of the folder {folder}: \
         remove it, or give what it leads to with an -f of its own"
    )]
    Elsewhere { file: String, folder: String },
    #[error("{file}: not UTF-8 text (byte {offset}): give YAML or JSON manifests")]
    NotUtf8 {
        file: String,
        /// Where the first bad byte is, counted from 0.
        offset: usize,
    },
    #[error("{file}, document {document}: not YAML: {problem}: correct the syntax there")]
    NotYaml {
        file: String,
        /// Which document, counted from 1.
        document: usize,
        /// What the parser says, with line and column.
        problem: String,
    },
    #[error("{file}: not JSON: {problem}: correct the syntax there")]
    NotJson {
        file: String,
        /// What the parser says, with line and column.
        problem: String,
    },
    /// A document is a list or a scalar.
    #[error("{origin}: not a Kubernetes object: write a mapping with apiVersion, kind and metadata")]
    NotAnObject { origin: Origin },
    /// A `List` holds something else than items.
    #[error("{origin}: List: items is not a list: write one object an entry")]
    BadList { origin: Origin },
    #[error(
        "{origin}: {field} is missing: every object needs apiVersion and kind, such as apiVersion: v1 and kind: Pod"
    )]
    NoKind { origin: Origin, field: &'static str },
    #[error("{origin}: {kind} without metadata.name: give it a name (generateName is filled in by an API server only)")]
    NoName { origin: Origin, kind: String },
    #[error("{origin}: {object}: {problem}")]
    Bad {
        origin: Origin,
        /// Kind and name.
        object: String,
        /// The field, what is wrong with it and the fix.
        problem: String,
    },
    #[error("{second}: {object} was already given in {first}: remove or rename one of them")]
    Duplicate {
        /// Kind and name.
        object: String,
        first: Origin,
        second: Origin,
    },
    #[error(
        "{files}: no SchedulerProfile in there: give a file with apiVersion: {api_version} and kind: SchedulerProfile, a KubeSchedulerConfiguration or a Policy"
    )]
    NoProfile { files: String, api_version: String },
    #[error("{files}: nothing to convert in there: give {wanted}")]
    NothingToConvert { files: String, wanted: &'static str },
    /// The custom resource definition is unusable: an error of this program.
    #[error("the custom resource definition of SchedulerProfile: {0}")]
    Crd(#[from] berth_api::CrdError),
}

fn unreadable(cause: &io::Error) -> String {
    match cause.kind() {
        io::ErrorKind::NotFound => "no such file or folder: check the path (`-` reads standard input)".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied: allow this user to read it".to_owned(),
        _ => cause.to_string(),
    }
}
