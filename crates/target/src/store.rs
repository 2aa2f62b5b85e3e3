//! Where units keep what no restart may forget.
//!
//! A file for each is what one server needs. Several that serve a unit together keep it where all of
//! them see it; so a save is awaited, not blocked for.

use std::fmt::{self, Debug, Display, Formatter};
use std::io;
use std::path::PathBuf;

use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;

/// What is kept of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Record {
    /// The image of its persistent reservations (APTPL).
    Reservations,
    /// A SANITIZE that has not ended well.
    Sanitize,
}

/// Keeps the records of units, which are known by their serial numbers.
pub trait UnitStore: Send + Sync + Debug {
    /// What was saved last, if anything. Called when a unit begins to be served, and rarely beside.
    ///
    /// # Errors
    /// It cannot be known: the unit is not served then.
    fn load(&self, serial: &str, record: Record) -> io::Result<Option<Vec<u8>>>;

    /// Puts `image` in place of what was saved last, or takes that away. At its end the change outlives
    /// a loss of power; after an error, or a crash meanwhile, the old is there or the new, whole. The
    /// caller makes one change of a record at a time.
    fn save<'a>(
        &'a self,
        serial: &str,
        record: Record,
        image: Option<Vec<u8>>,
    ) -> LocalBoxFuture<'a, io::Result<()>>;

    /// Where a record is, as an operator looks for it.
    fn place(&self, serial: &str, record: Record) -> Place;
}

/// Where a record is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// As an operator finds it.
    pub what: String,
    /// What an operator does who wants to go on without a record that is damaged.
    pub remedy: &'static str,
}

impl Display for Place {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(&self.what)
    }
}

/// A file for each record in one directory, which one server has for itself.
#[derive(Debug)]
pub struct FileStore {
    dir: PathBuf,
}

impl FileStore {
    /// In this directory, which is made if it is missing.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new(dir: impl Into<PathBuf>) -> io::Result<Self> {
        let dir = dir.into();
        std::fs::create_dir_all(&dir)?;
        Ok(Self { dir })
    }

    fn path(&self, serial: &str, record: Record) -> PathBuf {
        let extension = match record {
            Record::Reservations => "reservations",
            Record::Sanitize => "unsanitized",
        };
        self.dir.join(format!("{}.{extension}", file_name(serial)))
    }
}

impl UnitStore for FileStore {
    fn load(&self, serial: &str, record: Record) -> io::Result<Option<Vec<u8>>> {
        match std::fs::read(self.path(serial, record)) {
            Ok(image) => Ok(Some(image)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn save<'a>(
        &'a self,
        serial: &str,
        record: Record,
        image: Option<Vec<u8>>,
    ) -> LocalBoxFuture<'a, io::Result<()>> {
        let path = self.path(serial, record);
        ring::blocking(move || match image {
            // Two records of one unit may be replaced at the same time: each has its own name.
            Some(image) => ring::replace_file(&path, &image),
            None => ring::remove_file(&path),
        })
        .boxed_local()
    }

    fn place(&self, serial: &str, record: Record) -> Place {
        let what = self.path(serial, record).display().to_string();
        Place { what, remedy: "delete the file to start without it" }
    }
}

/// The serial is printable ASCII; what a file system may not like becomes its code.
fn file_name(serial: &str) -> String {
    let mut name = String::new();
    for byte in serial.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => name.push(char::from(byte)),
            other => name.push_str(&format!("%{other:02x}")),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_keep_serials_apart() {
        assert_eq!(file_name("ab-1"), "ab-1");
        assert_ne!(file_name("a/b"), file_name("a%2fb"));
        assert!(!file_name("../x").contains('/'));
    }

    #[test]
    fn a_record_is_replaced_whole_and_apart_from_others() {
        let dir = tempfile::tempdir().unwrap();
        let store = FileStore::new(dir.path().join("made")).unwrap();
        let test = async move {
            for record in [Record::Reservations, Record::Sanitize] {
                assert_eq!(store.load("x", record).unwrap(), None);
                for image in [&b"one"[..], b"two"] {
                    store.save("x", record, Some(image.to_vec())).await.unwrap();
                    assert_eq!(store.load("x", record).unwrap().as_deref(), Some(image));
                }
                assert_eq!(store.load("y", record).unwrap(), None);
            }
            for _ in 0..2 {
                store.save("x", Record::Sanitize, None).await.unwrap();
                assert_eq!(store.load("x", Record::Sanitize).unwrap(), None);
            }
            assert_eq!(store.load("x", Record::Reservations).unwrap().unwrap(), b"two");
        };
        ring::block_on(&ring::CoreConfig::default(), test).unwrap();
    }
}
