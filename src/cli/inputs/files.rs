//! The texts that `-f` names: files, folders, standard input.

use super::InputError;
use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Extensions of the files that are read from a folder; a file named itself is read whatever its extension.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// A text and where it came from.
pub(super) struct Source {
    /// The path as it was given or found, `standard input` for `-`.
    pub(super) name: String,
    pub(super) text: String,
}

/// Reads everything that `paths` name: in the order given, folders recursively and in the order of names.
///
/// A file that is reached twice is read once.
pub(super) fn read_all(paths: &[PathBuf]) -> Result<Vec<Source>, InputError> {
    let mut seen = BTreeSet::new();
    let mut sources = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            if seen.insert(path.clone()) {
                sources.push(read_stdin()?);
            }
            continue;
        }
        let mut files = Vec::new();
        collect(path, &mut BTreeSet::new(), &mut files)?;
        if files.is_empty() {
            return Err(InputError::EmptyFolder { path: path.display().to_string() });
        }
        for file in files {
            let identity = file.canonicalize().unwrap_or_else(|_| file.clone());
            if seen.insert(identity) {
                sources.push(read_file(&file)?);
            }
        }
    }
    Ok(sources)
}

/// Adds to `files` what is at `path`; `parents` are the folders on the way, so that a link to one of them ends.
fn collect(path: &Path, parents: &mut BTreeSet<PathBuf>, files: &mut Vec<PathBuf>) -> Result<(), InputError> {
    let unreadable = |cause| InputError::Unreadable { file: path.display().to_string(), cause };
    if !std::fs::metadata(path).map_err(unreadable)?.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let identity = path.canonicalize().map_err(unreadable)?;
    if !parents.insert(identity.clone()) {
        return Ok(());
    }
    let entries = std::fs::read_dir(path).map_err(unreadable)?;
    let mut children = entries.map(|e| e.map(|e| e.path())).collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
    children.sort();
    for child in children {
        let extension = child.extension().and_then(|e| e.to_str()).unwrap_or_default();
        if child.is_dir() || EXTENSIONS.contains(&extension) {
            collect(&child, parents, files)?;
        }
    }
    parents.remove(&identity);
    Ok(())
}

fn read_file(path: &Path) -> Result<Source, InputError> {
    let name = path.display().to_string();
    match std::fs::read(path) {
        Ok(bytes) => text(name, bytes),
        Err(cause) => Err(InputError::Unreadable { file: name, cause }),
    }
}

pub(super) fn read_one(path: &Path) -> io::Result<String> {
    std::fs::read_to_string(path)
}

fn read_stdin() -> Result<Source, InputError> {
    let name = "standard input".to_owned();
    let mut bytes = Vec::new();
    match std::io::stdin().lock().read_to_end(&mut bytes) {
        Ok(_) => text(name, bytes),
        Err(cause) => Err(InputError::Unreadable { file: name, cause }),
    }
}

fn text(name: String, bytes: Vec<u8>) -> Result<Source, InputError> {
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Source { name, text }),
        Err(e) => Err(InputError::NotUtf8 { file: name, offset: e.utf8_error().valid_up_to() }),
    }
}
