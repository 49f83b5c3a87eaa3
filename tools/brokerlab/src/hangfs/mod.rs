//! A file system in user space over a directory, with a switch that makes its reads, writes and syncs hang: a disk that
//! does not answer. Names and sizes are still told, as a kernel tells them from its caches.

mod files;
mod nodes;
mod serve;

use fuser::{BackgroundSession, Config, MountOption, Session};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// The switch.
#[derive(Debug, Default)]
pub struct Hang {
    on: Mutex<bool>,
    off: Condvar,
}

impl Hang {
    /// From now on nothing is answered, or everything is, and what waited first.
    pub fn set(&self, on: bool) {
        *self.on.lock().unwrap_or_else(PoisonError::into_inner) = on;
        if !on {
            self.off.notify_all();
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        *self.on.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it is off.
    pub(crate) fn wait(&self) {
        let on = self.on.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.off.wait_while(on, |on| *on).unwrap_or_else(PoisonError::into_inner));
    }
}

/// Mounted; unmounted when dropped.
#[derive(Debug)]
pub struct HangFs {
    session: Option<BackgroundSession>,
    hang: Arc<Hang>,
    at: PathBuf,
}

impl HangFs {
    /// Shows what is in `below` at `at`.
    ///
    /// # Errors
    /// It cannot be mounted here, with the reason.
    pub fn mount(below: &Path, at: &Path) -> Result<Self, String> {
        let hang = Arc::new(Hang::default());
        let served = serve::Served::new(below, Arc::clone(&hang));
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("brokerlab".into()), MountOption::NoAtime];
        // What hangs has threads of its own; these only must not be busy with a slow disk below.
        config.n_threads = Some(4);
        let session = Session::new(served, at, &config).and_then(Session::spawn);
        let session = session.map_err(|error| format!("FUSE: {error}"))?;
        Ok(Self { session: Some(session), hang, at: at.to_owned() })
    }

    /// The switch.
    #[must_use]
    pub fn hang(&self) -> &Hang {
        &self.hang
    }

    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.at
    }
}

impl Drop for HangFs {
    fn drop(&mut self) {
        self.hang.set(false);
        let unmounted = self.session.take().map(BackgroundSession::umount_and_join);
        if let Some(Err(error)) = unmounted {
            eprintln!("{}: {error}", self.at.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};
    use std::sync::mpsc;
    use std::time::Duration;

    /// None where this machine has no FUSE for us: the scenario's test says so.
    fn mounted() -> Option<(tempfile::TempDir, HangFs)> {
        let home = tempfile::tempdir().unwrap();
        let (below, at) = (home.path().join("below"), home.path().join("at"));
        std::fs::create_dir(&below).unwrap();
        std::fs::create_dir(&at).unwrap();
        let fs = HangFs::mount(&below, &at).ok()?;
        Some((home, fs))
    }

    #[test]
    fn it_is_a_file_system() {
        let Some((home, fs)) = mounted() else { return };
        let at = fs.path();
        std::fs::create_dir(at.join("a")).unwrap();
        let mut file = std::fs::File::create_new(at.join("a/one")).unwrap();
        nix::fcntl::fallocate(&file, nix::fcntl::FallocateFlags::empty(), 0, 1 << 20).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 1 << 20);
        file.write_all(b"some bytes").unwrap();
        file.sync_all().unwrap();
        std::fs::rename(at.join("a"), at.join("b")).unwrap();
        std::fs::File::open(at.join("b")).unwrap().sync_all().unwrap();
        assert_eq!(&std::fs::read(home.path().join("below/b/one")).unwrap()[..10], b"some bytes");
        file.set_len(4).unwrap();
        // Still readable when its name is gone.
        std::fs::remove_file(at.join("b/one")).unwrap();
        assert!(std::fs::read_dir(at.join("b")).unwrap().next().is_none());
        file.rewind().unwrap();
        assert_eq!(file.metadata().unwrap().len(), 4);
        let mut text = String::new();
        let mut again = std::fs::File::create_new(at.join("b/one")).unwrap();
        again.write_all(b"new").unwrap();
        std::fs::File::open(at.join("b/one")).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "new");
        let names: Vec<_> =
            std::fs::read_dir(at).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["b"]);
        assert!(nix::sys::statvfs::statvfs(at).unwrap().blocks_available() > 0);
    }

    #[test]
    fn it_hangs_and_goes_on() {
        let Some((_home, fs)) = mounted() else { return };
        let path = fs.path().join("file");
        std::fs::write(&path, "before").unwrap();
        fs.hang().set(true);
        let (done, hear) = mpsc::channel();
        std::thread::spawn(move || {
            // Names are told while it hangs; bytes are not.
            assert_eq!(std::fs::metadata(&path).unwrap().len(), 6);
            done.send("named").unwrap();
            std::fs::write(&path, "after").unwrap();
            done.send("written").unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"after");
            done.send("read").unwrap();
        });
        assert_eq!(hear.recv_timeout(Duration::from_secs(20)), Ok("named"));
        assert!(hear.recv_timeout(Duration::from_millis(300)).is_err());
        fs.hang().set(false);
        assert_eq!(hear.recv_timeout(Duration::from_secs(20)), Ok("written"));
        assert_eq!(hear.recv_timeout(Duration::from_secs(20)), Ok("read"));
    }
}
