use super::*;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

/// A directory for temporary files that goes with the test.
pub(crate) struct TestDirectory(pub(crate) Arc<TempPath>);

impl TestDirectory {
    pub(crate) fn new(levels: [u8; 3]) -> TestDirectory {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("sealane-temp-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).expect("the temporary directory is writable");
        TestDirectory(Arc::new(TempPath { path, levels }))
    }

    /// Files below it, by their paths relative to it.
    fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let mut directories = vec![self.0.path.clone()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).expect("readable") {
                let path = entry.expect("readable").path();
                match path.is_dir() {
                    true => directories.push(path),
                    false => files.push(path.strip_prefix(&self.0.path).expect("below").into()),
                }
            }
        }
        files
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0.path);
    }
}

/// A file on which every write fails for want of space.
pub(crate) fn full_file() -> TempFile {
    let path = Path::new("/dev/full");
    let file = OpenOptions::new().read(true).write(true).open(path);
    TempFile::new(file.expect("every Linux has it"), path, Keep::Unnamed).expect("it is open")
}

/// Descriptors of this process that lead below a directory, removed files included.
pub(crate) fn descriptors_below(directory: &Path) -> usize {
    let entries = fs::read_dir("/proc/self/fd").expect("Linux");
    entries
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .filter(|target| target.starts_with(directory))
        .count()
}

fn runtime() -> sealane_io::runtime::Runtime {
    sealane_io::runtime::Runtime::new().expect("a runtime can be built")
}

fn contents(file: &TempFile) -> Vec<u8> {
    let mut bytes = Vec::new();
    let len = file.len() as usize;
    sealane_sys::file::read_at(file.file.as_fd(), &mut bytes, len, 0).expect("readable");
    bytes
}

#[test]
fn the_last_digits_name_the_subdirectories() {
    let path = |levels, number| {
        let path = PathBuf::from("/t");
        let path = hashed_path(&TempPath { path, levels }, number);
        path.into_os_string().into_string().expect("ASCII")
    };
    assert_eq!(path([0, 0, 0], 7), "/t/0000000007");
    assert_eq!(path([1, 2, 0], 123_457), "/t/7/45/0000123457");
    assert_eq!(path([1, 2, 3], 123_457), "/t/7/45/123/0000123457");
    assert_eq!(path([2, 0, 0], u32::MAX), "/t/95/4294967295");
}

#[test]
fn a_file_without_a_name_leaves_nothing_behind() {
    let place = TestDirectory::new([1, 2, 0]);
    let runtime = runtime();
    let mut file = runtime
        .block_on(TempFile::create(&place.0, Keep::Unnamed))
        .expect("created");
    assert!(place.files().is_empty(), "its name has gone already");
    assert_eq!(descriptors_below(&place.0.path), 1);
    let pieces = vec![Bytes::from_static(b"ab"), Bytes::new(), "cde".into()];
    runtime.block_on(file.append(pieces)).expect("written");
    // Two at a time, the later one first.
    let (first, second) = (
        file.append(vec!["f".into()]),
        file.append(vec!["gh".into()]),
    );
    runtime.block_on(second).expect("written");
    runtime.block_on(first).expect("written");
    assert_eq!(contents(&file), b"abcdefgh");
    let Segment::File(range) = file.segment(2, 3) else {
        panic!("a file is a file");
    };
    drop(file);
    assert_eq!((range.offset, range.len), (2, 3));
    assert_eq!(descriptors_below(&place.0.path), 1, "the range keeps it");
    let _entered = runtime.enter();
    drop(range);
    drop(_entered);
    drop(runtime);
    assert_eq!(descriptors_below(&place.0.path), 0);
}

#[test]
fn a_file_keeps_its_name_as_long_as_asked() {
    let place = TestDirectory::new([0, 0, 0]);
    let runtime = runtime();
    let create = |keep| {
        let file = runtime.block_on(TempFile::create(&place.0, keep));
        file.expect("created")
    };
    let clean = create(Keep::WhileUsed);
    let forever = create(Keep::Forever);
    assert_eq!(place.files().len(), 2);
    let mode = fs::metadata(path_of(clean.path())).expect("there");
    assert_eq!(mode.permissions().mode() & 0o777, 0o600);
    let other = clean.segment(0, 1);
    {
        let _entered = runtime.enter();
        drop(clean);
        assert_eq!(place.files().len(), 2, "somebody still has it");
        drop(other);
        drop(forever);
    }
    drop(runtime);
    let left = place.files();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(descriptors_below(&place.0.path), 0);
}

#[test]
fn without_a_runtime_the_rest_is_done_at_once() {
    let place = TestDirectory::new([0, 0, 0]);
    let file = create_blocking(&place.0, Keep::WhileUsed, |_| 1).expect("created");
    drop(file);
    assert!(place.files().is_empty());
    assert_eq!(descriptors_below(&place.0.path), 0);
}

#[test]
fn a_future_that_nobody_waits_for_leaves_nothing_behind() {
    let place = TestDirectory::new([1, 0, 0]);
    let runtime = runtime();
    runtime.block_on(async {
        for _ in 0..50 {
            let mut create = Box::pin(TempFile::create(&place.0, Keep::WhileUsed));
            // Polled once, so that a disk thread is at it; then the client goes.
            let polled = std::future::poll_fn(|cx| {
                std::task::Poll::Ready(create.as_mut().poll(cx).is_ready())
            });
            let _ = polled.await;
        }
    });
    drop(runtime);
    // The disk threads are not the runtime's: they may still be at the last file.
    let deadline = Instant::now() + Duration::from_secs(60);
    while !place.files().is_empty() || descriptors_below(&place.0.path) > 0 {
        assert!(Instant::now() < deadline, "{:?}", place.files());
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn numbers_that_are_taken_are_left_alone() {
    let place = TestDirectory::new([0, 0, 0]);
    for number in 1..=3 {
        fs::write(hashed_path(&place.0, number), "somebody's").expect("ours");
    }
    let mut next = 0;
    let count = |_| {
        next += 1;
        next
    };
    let file = create_blocking(&place.0, Keep::Forever, count).expect("the fourth is free");
    assert_eq!(path_of(file.path()), hashed_path(&place.0, 4));
    for number in 1..=3 {
        let text = fs::read(hashed_path(&place.0, number)).expect("there");
        assert_eq!(text, b"somebody's");
    }
    let error = create_blocking(&place.0, Keep::Forever, |_| 1).expect_err("taken for good");
    assert!(
        error.to_string().ends_with("failed (17: File exists)"),
        "{error}"
    );
}

#[test]
fn a_link_in_the_place_of_a_file_is_not_followed() {
    let place = TestDirectory::new([0, 0, 0]);
    let target = place.0.path.join("target");
    std::os::unix::fs::symlink(&target, hashed_path(&place.0, 1)).expect("ours");
    let mut next = 0;
    let count = |_| {
        next += 1;
        next
    };
    let file = create_blocking(&place.0, Keep::Forever, count).expect("the second is free");
    assert_eq!(path_of(file.path()), hashed_path(&place.0, 2));
    assert!(!target.exists());
}

#[test]
fn errors_read_as_in_nginx() {
    let path = PathBuf::from("/nonexistent");
    let flat = TempPath {
        path,
        levels: [0, 0, 0],
    };
    let error = create_blocking(&flat, Keep::Unnamed, |_| 1).expect_err("no directory");
    assert_eq!(
        error.to_string(),
        "open() \"/nonexistent/0000000001\" failed (2: No such file or directory)"
    );
    let levels = TempPath {
        levels: [1, 0, 0],
        ..flat
    };
    let error = create_blocking(&levels, Keep::Unnamed, |_| 1).expect_err("no directory");
    assert_eq!(
        error.to_string(),
        "mkdir() \"/nonexistent/1\" failed (2: No such file or directory)"
    );
    let mut full = full_file();
    let written = runtime().block_on(full.append(vec!["x".into()]));
    assert_eq!(
        written.expect_err("it is full").to_string(),
        "pwrite() \"/dev/full\" failed (28: No space left on device)"
    );
}

#[test]
fn files_that_are_written_at_the_same_time_stay_apart() {
    let place = TestDirectory::new([1, 1, 0]);
    let runtime = runtime();
    let files = runtime.block_on(async {
        let tasks: Vec<_> = (0..64u8)
            .map(|number| {
                let place = place.0.clone();
                sealane_io::runtime::spawn_with_handle(async move {
                    let mut file = TempFile::create(&place, Keep::Unnamed).await?;
                    for round in 0..8 {
                        file.append(vec![vec![number; 1000 + round].into()]).await?;
                    }
                    Ok::<_, TempFileError>(file)
                })
            })
            .collect();
        let mut files = Vec::new();
        for task in tasks {
            files.push(task.await.expect("no panic").expect("written"));
        }
        files
    });
    for (number, file) in files.iter().enumerate() {
        let bytes = contents(file);
        assert_eq!(bytes.len(), 8028);
        assert!(bytes.iter().all(|byte| usize::from(*byte) == number));
    }
    assert_eq!(descriptors_below(&place.0.path), 64);
    drop(files);
    assert_eq!(descriptors_below(&place.0.path), 0);
}
