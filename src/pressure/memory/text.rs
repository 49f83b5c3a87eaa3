//! The kernel's small text files, as text.

use std::path::PathBuf;

/// The value of `name` in lines of `name value`; also of `name: value kB`, which is given in bytes.
pub(super) fn value(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let key = words.next()?;
        (key.strip_suffix(':').unwrap_or(key) == name).then_some(())?;
        let value: u64 = words.next()?.parse().ok()?;
        Some(if words.next() == Some("kB") { value.saturating_mul(1024) } else { value })
    })
}

/// One line of `/proc/self/mountinfo`, as far as it matters.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mount {
    /// What of the file system is mounted there.
    pub(super) root: PathBuf,
    pub(super) point: PathBuf,
    pub(super) kind: String,
    /// Of the whole file system, separated by commas.
    pub(super) options: String,
}

/// The mounts, those mounted later behind the earlier ones; lines that make no sense are left out.
pub(super) fn mounts(mountinfo: &str) -> Vec<Mount> {
    let mount = |line: &str| {
        let (place, what) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (root, point) = (unescape(place.next()?), unescape(place.next()?));
        let mut what = what.split(' ');
        let kind = what.next()?.to_owned();
        let options = what.nth(1)?.to_owned();
        Some(Mount { root, point, kind, options })
    };
    mountinfo.lines().filter_map(mount).collect()
}

/// Blanks and the like stand there as a backslash and three octal digits.
fn unescape(path: &str) -> PathBuf {
    let mut parts = path.split('\\');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code.filter(u8::is_ascii) {
            Some(byte) => {
                plain.push(char::from(byte));
                plain.push_str(&part[3..]);
            }
            None => {
                plain.push('\\');
                plain.push_str(part);
            }
        }
    }
    plain.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_whole_name() {
        let text = "anon 5\nanon_thp 7\nkernel garbage\nRssAnon:\t     152 kB\nempty\n";
        assert_eq!(value(text, "anon"), Some(5));
        assert_eq!(value(text, "anon_thp"), Some(7));
        assert_eq!(value(text, "RssAnon"), Some(152 * 1024));
        assert_eq!([value(text, "kernel"), value(text, "empty"), value(text, "none")], [None; 3]);
        assert_eq!(value("huge 18446744073709551615 kB", "huge"), Some(u64::MAX));
        assert_eq!(value("more 18446744073709551616", "more"), None);
    }

    #[test]
    fn mounts_are_read_with_optional_fields_and_blanks() {
        let text = "35 31 0:32 / /sys/fs/my\\040group rw,relatime shared:9 master:1 - cgroup cgroup rw,memory\nrubbish\n\
                    36 31 0:33 /a\\q /b\\ rw - cgroup2 none rw\n";
        let mounts = mounts(text);
        assert_eq!(mounts.len(), 2);
        assert_eq!(mounts[0].point, PathBuf::from("/sys/fs/my group"));
        assert_eq!((mounts[0].kind.as_str(), mounts[0].options.as_str()), ("cgroup", "rw,memory"));
        assert_eq!((&mounts[1].root, &mounts[1].point), (&"/a\\q".into(), &"/b\\".into()));
    }
}
