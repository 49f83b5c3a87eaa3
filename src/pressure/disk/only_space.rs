//! A file system for tests that can only be asked for free space, and answers when it is let go.

use crate::fs::{DirEntry, File, FileSystem, Lock, Metadata, Space};
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

#[derive(Debug)]
struct OnlySpace {
    space: Space,
    called: Sender<()>,
    go: Mutex<Receiver<()>>,
}

/// The other end: it holds the calls.
#[derive(Debug)]
pub(super) struct Hanging {
    called: Receiver<()>,
    go: Sender<()>,
}

impl Hanging {
    /// One call may answer, now or when it comes.
    pub(super) fn go(&self) {
        self.go.send(()).unwrap();
    }

    /// Blocks until a call has come that was not let go before.
    pub(super) fn wait_until_called(&self) {
        self.called.recv().unwrap();
    }
}

pub(super) fn hanging(space: Space) -> (Arc<dyn FileSystem>, Hanging) {
    let ((called, was_called), (go, may_go)) = (channel(), channel());
    let fs = OnlySpace { space, called, go: Mutex::new(may_go) };
    (Arc::new(fs), Hanging { called: was_called, go })
}

fn no<T>() -> io::Result<T> {
    Err(io::ErrorKind::Unsupported.into())
}

impl FileSystem for OnlySpace {
    fn open_read(&self, _: &Path) -> io::Result<Arc<dyn File>> {
        no()
    }

    fn open_write(&self, _: &Path) -> io::Result<Arc<dyn File>> {
        no()
    }

    fn create(&self, _: &Path) -> io::Result<Arc<dyn File>> {
        no()
    }

    fn create_dir(&self, _: &Path) -> io::Result<()> {
        no()
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        no()
    }

    fn remove_file(&self, _: &Path) -> io::Result<()> {
        no()
    }

    fn remove_dir(&self, _: &Path) -> io::Result<()> {
        no()
    }

    fn list(&self, _: &Path) -> io::Result<Vec<DirEntry>> {
        no()
    }

    fn metadata(&self, _: &Path) -> io::Result<Metadata> {
        no()
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        no()
    }

    fn space(&self, _: &Path) -> io::Result<Space> {
        let go = self.go.lock().unwrap();
        if go.try_recv().is_err() {
            self.called.send(()).unwrap();
            go.recv().map_err(io::Error::other)?;
        }
        Ok(self.space)
    }

    fn lock(&self, _: &Path) -> io::Result<Box<dyn Lock>> {
        no()
    }

    fn random(&self, _: &mut [u8]) -> io::Result<()> {
        no()
    }
}
