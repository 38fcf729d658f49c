//! The texts that `-f` names: files, folders, standard input.
//!
//! A folder may be a stranger's, such as a repository with a proposed change: what is read of it are regular files of a size
//! that fits into memory, each once, and nothing that its links lead to outside of it.

use super::InputError;
use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Extensions of the files that are read from a folder; a file named itself is read whatever its extension.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// Bytes of one text at most: several times the objects of the largest clusters, and bounded memory.
const MOST: u64 = 256 << 20;

/// What shells put in the place of `<(command)`: a pipe, and the user's own.
const SHELL_PIPES: [&str; 3] = ["/dev/fd/", "/dev/stdin", "/proc/self/fd/"];

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
                sources.push(source("standard input".to_owned(), limited(io::stdin().lock(), MOST))?);
            }
            continue;
        }
        if SHELL_PIPES.iter().any(|pipe| path.to_string_lossy().starts_with(pipe)) {
            let read = File::open(path).and_then(|pipe| limited(pipe, MOST));
            sources.push(source(path.display().to_string(), read)?);
            continue;
        }
        let root = path.canonicalize().map_err(|cause| unreadable(path, cause))?;
        let mut walk = Walk { root, folders: BTreeSet::new(), files: Vec::new() };
        walk.collect(path)?;
        if walk.files.is_empty() {
            return Err(InputError::EmptyFolder { path: path.display().to_string() });
        }
        for file in walk.files {
            let identity = file.canonicalize().unwrap_or_else(|_| file.clone());
            if seen.insert(identity) {
                sources.push(source(file.display().to_string(), regular(&file))?);
            }
        }
    }
    Ok(sources)
}

/// The text of the file at `path`.
pub(super) fn text(path: &Path) -> Result<String, InputError> {
    source(path.display().to_string(), regular(path)).map(|source| source.text)
}

fn unreadable(path: &Path, cause: io::Error) -> InputError {
    InputError::Unreadable { file: path.display().to_string(), cause }
}

/// A file or folder that is named, while what is below it is looked up.
struct Walk {
    /// Without links.
    root: PathBuf,
    /// Those that were entered, without links: each is entered once, so that links neither loop nor multiply what there is to
    /// read.
    folders: BTreeSet<PathBuf>,
    files: Vec<PathBuf>,
}

impl Walk {
    /// Adds the files that are at `path`.
    fn collect(&mut self, path: &Path) -> Result<(), InputError> {
        let failed = |cause| unreadable(path, cause);
        if !std::fs::metadata(path).map_err(failed)?.is_dir() {
            self.files.push(path.to_owned());
            return Ok(());
        }
        if !self.folders.insert(path.canonicalize().map_err(failed)?) {
            return Ok(());
        }
        let entries = std::fs::read_dir(path).map_err(failed)?;
        let mut children = entries.map(|e| e.map(|e| e.path())).collect::<Result<Vec<_>, _>>().map_err(failed)?;
        children.sort();
        for child in children {
            let extension = child.extension().and_then(|e| e.to_str()).unwrap_or_default();
            if child.is_dir() || EXTENSIONS.contains(&extension) {
                self.check(&child)?;
                self.collect(&child)?;
            }
        }
        Ok(())
    }

    /// Refuses what a link of the folder leads to outside of it, there or not: the folder's author may not be whoever may read that.
    fn check(&self, path: &Path) -> Result<(), InputError> {
        match path.canonicalize() {
            Ok(real) if real.starts_with(&self.root) => Ok(()),
            _ => {
                let folder = self.root.display().to_string();
                Err(InputError::Elsewhere { file: path.display().to_string(), folder })
            }
        }
    }
}

/// The contents of a regular file. Anything else is refused before it is opened: opening a FIFO waits for its writer.
fn regular(path: &Path) -> io::Result<Vec<u8>> {
    let check = |found: &Metadata| {
        if found.is_file() {
            return Ok(());
        }
        let why = "neither a file nor a folder: give a regular file, or pipe it into `-f -`";
        Err(io::Error::other(why))
    };
    check(&std::fs::metadata(path)?)?;
    let file = File::open(path)?;
    check(&file.metadata()?)?;
    limited(file, MOST)
}

fn limited(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("larger than {} MiB: split it into several files", most >> 20)));
    }
    Ok(bytes)
}

fn source(name: String, bytes: io::Result<Vec<u8>>) -> Result<Source, InputError> {
    match bytes.map(String::from_utf8) {
        Ok(Ok(text)) => Ok(Source { name, text }),
        Ok(Err(e)) => Err(InputError::NotUtf8 { file: name, offset: e.utf8_error().valid_up_to() }),
        Err(cause) => Err(InputError::Unreadable { file: name, cause }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_without_end_is_given_up() {
        assert_eq!(limited(&b"abc"[..], 3).unwrap(), b"abc");
        let error = limited(io::repeat(b'x'), 2 << 20).unwrap_err().to_string();
        assert_eq!(error, "larger than 2 MiB: split it into several files");
    }
}
