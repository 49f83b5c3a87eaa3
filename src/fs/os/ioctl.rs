//! What Linux tells of a file's blocks, and takes as a wish about them, only through `ioctl(2)`.

use super::retry;
use nix::errno::Errno;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// `FS_NOCOW_FL`: btrfs and bcachefs overwrite the blocks of such a file in place.
const NO_COPY_ON_WRITE: libc::c_int = 0x0080_0000;

/// `FIEMAP_FLAG_SYNC`: dirty pages get their blocks first. It makes nothing durable.
const SYNC: u32 = 0x1;
/// `FIEMAP_EXTENT_UNKNOWN`, `_DELALLOC`, `_DATA_INLINE`, `_DATA_TAIL`: the address means nothing, or not only this file.
const NO_PLACE: u32 = 0x2 | 0x4 | 0x200 | 0x400;

/// `struct fiemap` with room for one extent.
#[repr(C)]
#[derive(Default)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    room: u32,
    reserved: u32,
    extent: Extent,
}

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Default)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// `FS_IOC_FIEMAP`; its size counts the head alone.
const FIEMAP: libc::Ioctl = libc::_IOWR::<[u64; 4]>(b'f' as u32, 11);

/// Sets the flag; says whether it is there afterwards.
pub(super) fn no_copy_on_write(file: impl AsFd) -> io::Result<bool> {
    let flags = match flags(&file) {
        Ok(flags) => flags,
        Err(errno) if is_refusal(errno) => return Ok(false),
        Err(errno) => return Err(errno.into()),
    };
    if flags & NO_COPY_ON_WRITE != 0 {
        return Ok(true); // From the directory, or the mount.
    }
    let wanted = flags | NO_COPY_ON_WRITE;
    let fd = file.as_fd().as_raw_fd();
    // SAFETY: `fd` is open for the whole call, which only reads `wanted`: an int, whatever the number's name says.
    let set = retry(|| Errno::result(unsafe { libc::ioctl(fd, libc::FS_IOC_SETFLAGS, &wanted) }));
    match set {
        // btrfs answers 0 and does nothing for a file that has bytes.
        Ok(_) => Ok(self::flags(&file)? & NO_COPY_ON_WRITE != 0),
        Err(errno) if is_refusal(errno) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

fn flags(file: impl AsFd) -> nix::Result<libc::c_int> {
    let mut flags: libc::c_int = 0;
    let fd = file.as_fd().as_raw_fd();
    // SAFETY: `fd` is open for the whole call, and the kernel writes one int, whatever the number's name says.
    retry(|| Errno::result(unsafe { libc::ioctl(fd, libc::FS_IOC_GETFLAGS, &mut flags) }))?;
    Ok(flags)
}

/// No such call, no such flag, not together with another flag (compression), or not for this user.
fn is_refusal(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::EOPNOTSUPP
            | Errno::ENOTTY
            | Errno::ENOSYS
            | Errno::EINVAL
            | Errno::EPERM
            | Errno::EACCES
    )
}

/// Where the first block is.
pub(super) fn place(file: impl AsFd) -> io::Result<Option<u64>> {
    let mut map = Fiemap { length: 1, flags: SYNC, room: 1, ..Fiemap::default() };
    let fd = file.as_fd().as_raw_fd();
    // SAFETY: `fd` is open for the whole call, and the kernel writes the head and at most the one extent there is room for.
    let asked = retry(|| Errno::result(unsafe { libc::ioctl(fd, FIEMAP, &mut map) }));
    match asked {
        Ok(_) => Ok(place_in(&map)),
        // EBADR: it cannot sync first.
        Err(Errno::EOPNOTSUPP | Errno::ENOTTY | Errno::ENOSYS | Errno::EBADR) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

fn place_in(map: &Fiemap) -> Option<u64> {
    let told = map.mapped > 0 && map.extent.logical == 0 && map.extent.flags & NO_PLACE == 0;
    told.then_some(map.extent.physical)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structs_are_those_of_the_kernel() {
        assert_eq!(size_of::<Fiemap>(), 32 + 56);
        assert_eq!(std::mem::offset_of!(Fiemap, extent), 32);
        assert_eq!(std::mem::offset_of!(Extent, flags), 40);
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        assert_eq!(FIEMAP, 0xc020_660b);
    }

    #[test]
    fn an_address_counts_only_where_it_is_one() {
        let map = |mapped, logical, flags| Fiemap {
            mapped,
            extent: Extent { logical, physical: 8192, flags, ..Extent::default() },
            ..Fiemap::default()
        };
        assert_eq!(place_in(&map(1, 0, 0)), Some(8192));
        // The last extent of the file; one not yet written, one that is compressed, and a shared one have addresses.
        for flags in [0x1, 0x800, 0x8, 0x2000] {
            assert_eq!(place_in(&map(1, 0, flags)), Some(8192), "{flags:#x}");
        }
        for flags in [0x2, 0x2 | 0x4, 0x200 | 0x100, 0x400] {
            assert_eq!(place_in(&map(1, 0, flags)), None, "{flags:#x}");
        }
        assert_eq!(place_in(&map(0, 0, 0)), None, "a hole");
        assert_eq!(place_in(&map(1, 4096, 0)), None, "a hole in front of it");
    }
}
