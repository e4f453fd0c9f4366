use super::*;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// A file that is removed at the end of its test.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str, content: &[u8]) -> Temporary {
        let path = std::env::temp_dir().join(format!("sealane-sys-{}-{name}", std::process::id()));
        fs::write(&path, content).unwrap();
        Temporary(path)
    }

    fn c_path(&self) -> CString {
        CString::new(self.0.as_os_str().as_bytes()).unwrap()
    }

    fn open(&self) -> OwnedFd {
        open_read(&self.c_path()).unwrap()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 % 251) as u8).collect()
}

#[test]
fn so_many_bytes_are_read_or_none_is_missing() {
    let content = pattern(5000);
    let file = Temporary::new("exact", &content);
    let opened = file.open();
    let mut bytes = Vec::new();
    read_exact_at(opened.as_fd(), &mut bytes, 4990, 10).unwrap();
    assert_eq!(bytes, content[10..]);
    assert_eq!(bytes.capacity(), 4990);
    read_exact_at(opened.as_fd(), &mut bytes, 0, 9000).unwrap();
    let error = read_exact_at(opened.as_fd(), &mut bytes, 4991, 10).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn sendfile_sends_from_the_offset_and_leaves_the_position_alone() {
    let content = pattern(10_000);
    let temporary = Temporary::new("sendfile", &content);
    let mut file = File::from(temporary.open());
    let (sender, mut receiver) = UnixStream::pair().unwrap();
    let mut sent = 0;
    while sent < 4_000 {
        sent += sendfile(
            sender.as_fd(),
            file.as_fd(),
            500 + sent as u64,
            4_000 - sent,
        )
        .unwrap();
    }
    let mut received = vec![0; 4_000];
    receiver.read_exact(&mut received).unwrap();
    assert_eq!(received, content[500..4_500]);
    assert_eq!(
        sendfile(sender.as_fd(), file.as_fd(), 10_000, 1).unwrap(),
        0,
        "end of file"
    );
    let mut all = Vec::new();
    file.read_to_end(&mut all).unwrap();
    assert_eq!(all, content, "the file's own position was not moved");
}

#[test]
fn sendfile_to_a_full_socket_would_block() {
    let temporary = Temporary::new("sendfile-full", &pattern(1 << 20));
    let file = temporary.open();
    let (sender, _receiver) = UnixStream::pair().unwrap();
    sender.set_nonblocking(true).unwrap();
    let mut offset = 0;
    let error = loop {
        match sendfile(sender.as_fd(), file.as_fd(), offset, 1 << 20) {
            Ok(0) => panic!("the socket took a whole MiB that nobody reads"),
            Ok(sent) => offset += sent as u64,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn reads_append_and_stop_at_the_end() {
    let content = pattern(3_000);
    let temporary = Temporary::new("read", &content);
    let file = temporary.open();
    let mut buf = b"before".to_vec();
    assert_eq!(read_at(file.as_fd(), &mut buf, 1_000, 2_500).unwrap(), 500);
    assert_eq!(buf, [b"before", &content[2_500..]].concat());
    assert_eq!(read_at(file.as_fd(), &mut buf, 10, 3_000).unwrap(), 0);
    assert_eq!(read_at(file.as_fd(), &mut buf, 0, 0).unwrap(), 0);
    assert_eq!(buf.len(), 506);
}

#[test]
fn an_offset_beyond_what_files_can_have_is_refused() {
    let temporary = Temporary::new("offset", b"x");
    let file = temporary.open();
    let error = read_at(file.as_fd(), &mut Vec::new(), 1, u64::MAX).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn a_cached_read_answers_from_memory_or_not_at_all() {
    let content = pattern(3_000);
    let temporary = Temporary::new("cached", &content);
    let file = temporary.open();
    let mut buf = Vec::new();
    // Just written, so it is in the page cache; a file system without
    // RWF_NOWAIT may still decline.
    match read_cached_at(file.as_fd(), &mut buf, 1_000, 100) {
        Ok(count) => assert_eq!(buf, content[100..100 + count]),
        Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
    }
    buf.clear();
    let end = read_cached_at(file.as_fd(), &mut buf, 1_000, 3_000).unwrap_err();
    assert_eq!(
        end.kind(),
        io::ErrorKind::WouldBlock,
        "the end is for read_at to tell"
    );
    assert!(buf.is_empty());
}

#[test]
fn a_file_in_memory_is_read_at_once() {
    let file = memory_file(c"sealane-test").expect("every Linux has memfd_create");
    file.try_clone().unwrap().write_all(&[7; 3_000]).unwrap();
    let mut buf = Vec::new();
    let read = read_cached_at(file.as_fd(), &mut buf, 1_000, 100).unwrap();
    assert_eq!(buf, vec![7; read]);
    assert!(read > 0);
    let end = read_cached_at(file.as_fd(), &mut buf, 1_000, 3_000).unwrap_err();
    assert_eq!(end.kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn a_cached_open_finds_what_was_just_used() {
    let temporary = Temporary::new("open-cached", b"content");
    let path = temporary.c_path();
    drop(open_read(&path).unwrap());
    match open_cached(&path) {
        Ok(fd) => assert_eq!(stat_fd(fd.as_fd()).unwrap(), stat_path(&path).unwrap()),
        Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
    }
    let missing = CString::new("/no-such-directory/file").unwrap();
    let error = open_cached(&missing).unwrap_err();
    assert!(matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::WouldBlock
    ));
}

#[test]
fn opening_a_fifo_does_not_block() {
    let path = std::env::temp_dir().join(format!("sealane-sys-{}-fifo", std::process::id()));
    let status = std::process::Command::new("mkfifo")
        .arg(&path)
        .status()
        .unwrap();
    assert!(status.success());
    let c_path = CString::new(path.as_os_str().as_bytes()).unwrap();
    let fd = open_read(&c_path).unwrap();
    assert_eq!(stat_fd(fd.as_fd()).unwrap().kind, Kind::Other);
    fs::remove_file(path).unwrap();
}

#[test]
fn stat_agrees_with_the_standard_library() {
    use std::os::unix::fs::MetadataExt;
    let temporary = Temporary::new("stat", &pattern(777));
    let expected = fs::metadata(&temporary.0).unwrap();
    let stat = stat_path(&temporary.c_path()).unwrap();
    assert_eq!((stat.kind, stat.size), (Kind::File, 777));
    assert_eq!((stat.dev, stat.inode), (expected.dev(), expected.ino()));
    assert_eq!(
        (stat.mtime_s, i64::from(stat.mtime_ns)),
        (expected.mtime(), expected.mtime_nsec())
    );
    assert_eq!(stat_path(c"/").unwrap().kind, Kind::Dir);
    assert_eq!(stat_path(c"/dev/null").unwrap().kind, Kind::Other);
    assert_eq!(
        stat_path(c"/nonexistent").unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
}

#[test]
fn replacing_a_descriptor_redirects_whoever_holds_it() {
    let (old, new) = (
        Temporary::new("replace-old", b""),
        Temporary::new("replace-new", b""),
    );
    let mut log = File::options().append(true).open(&old.0).unwrap();
    log.write_all(b"one").unwrap();
    let fresh = File::options().append(true).open(&new.0).unwrap();
    replace(fresh.as_fd(), log.as_fd()).unwrap();
    drop(fresh);
    log.write_all(b"two").unwrap();
    assert_eq!(fs::read(&old.0).unwrap(), b"one");
    assert_eq!(fs::read(&new.0).unwrap(), b"two");
}

#[test]
fn a_full_disk_is_an_error_and_not_a_short_count() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let error = write(full.as_fd(), b"line\n").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
}

#[test]
fn a_file_in_memory_is_read_and_sent_like_any_other() {
    use std::io::{Read, Write};
    let mut file = memory_file(c"sealane-test").unwrap();
    file.write_all(b"0123456789").unwrap();
    assert_eq!(stat_fd(file.as_fd()).unwrap().kind, Kind::File);
    let (mut reader, writer) = std::io::pipe().unwrap();
    assert_eq!(sendfile(writer.as_fd(), file.as_fd(), 3, 5).unwrap(), 5);
    drop(writer);
    let mut sent = String::new();
    reader.read_to_string(&mut sent).unwrap();
    assert_eq!(sent, "34567");
}
