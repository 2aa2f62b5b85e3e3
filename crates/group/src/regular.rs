//! Small files of people and programs: keys, tokens, lists. What is no regular file is refused before it is
//! opened, as a pipe would be waited for and a device never ends.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use zeroize::Zeroizing;

/// Refuses what is no regular file.
///
/// # Errors
/// It is none, or what the system says, as that it is not there.
pub fn check(path: &Path) -> io::Result<()> {
    if fs::metadata(path)?.is_file() {
        return Ok(());
    }
    Err(io::Error::other("it is no regular file"))
}

/// What is in a file of at most so many bytes. It is wiped when it is dropped.
///
/// # Errors
/// It is no regular file or a longer one, or what the system says.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Zeroizing<Vec<u8>>> {
    check(path)?;
    bounded(File::open(path)?, bytes_max)
}

/// The same of a text.
///
/// # Errors
/// As of [`read`]; [`io::ErrorKind::InvalidData`] of what is no text.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<Zeroizing<String>> {
    text(&read(path, bytes_max)?)
}

/// What comes from a stream, such as standard input, up to its end.
///
/// # Errors
/// It is longer, no text, or what the system says.
pub fn read_stream(from: impl Read, bytes_max: u64) -> io::Result<Zeroizing<String>> {
    text(&bounded(from, bytes_max)?)
}

fn text(bytes: &[u8]) -> io::Result<Zeroizing<String>> {
    let text = str::from_utf8(bytes);
    let text = text.map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is no text"))?;
    Ok(Zeroizing::new(text.to_owned()))
}

fn bounded(from: impl Read, bytes_max: u64) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(Vec::new());
    let read = from.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if read as u64 > bytes_max {
        return Err(io::Error::other(format!("it has more than {bytes_max} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn only_short_regular_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let missing = read(&path, 4).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        fs::write(&path, "four").unwrap();
        assert_eq!(read_text(&path, 4).unwrap().as_str(), "four");
        assert!(read_text(&path, 3).unwrap_err().to_string().contains("more than 3 bytes"));
        fs::write(&path, [0xff]).unwrap();
        assert_eq!(read_text(&path, 4).unwrap_err().kind(), io::ErrorKind::InvalidData);
        let socket = dir.path().join("s");
        let _listener = UnixListener::bind(&socket).unwrap();
        for other in [dir.path(), &socket, Path::new("/dev/zero")] {
            let refused = read(other, 4).unwrap_err().to_string();
            assert_eq!(refused, "it is no regular file", "{}", other.display());
        }
        assert_eq!(read_stream(&b"four"[..], 4).unwrap().as_str(), "four");
        assert!(read_stream(io::repeat(b'a'), 4).is_err());
    }
}
