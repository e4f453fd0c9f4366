use super::*;
use std::fs;

fn temporary(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("sealane-pid-{}-{name}", std::process::id()))
}

#[test]
fn what_is_written_is_read_and_removed() {
    let path = temporary("round");
    let file = PidFile::create(&path, 4321, &Guard::default()).expect("writable");
    assert_eq!(fs::read_to_string(&path).expect("readable"), "4321\n");
    assert_eq!(read(&path, &Guard::default()), Ok(4321));
    file.remove(&Guard::default()).expect("there");
    assert!(
        read(&path, &Guard::default())
            .expect_err("gone")
            .contains("failed (2: No such file or directory)")
    );
}

#[test]
fn the_file_makes_room_and_comes_back() {
    let path = temporary("aside");
    let mut file = PidFile::create(&path, 7, &Guard::default()).expect("writable");
    file.set_aside(&Guard::default()).expect("renamed");
    assert!(!path.exists() && !file.names(7, &Guard::default()));
    let new = PidFile::create(&path, 8, &Guard::default()).expect("writable");
    assert!(file.names(8, &Guard::default()));
    assert_eq!(read(&aside(&path), &Guard::default()), Ok(7));
    new.remove(&Guard::default()).expect("there");
    file.put_back(&Guard::default()).expect("renamed");
    assert_eq!(read(&path, &Guard::default()), Ok(7));
    file.set_aside(&Guard::default()).expect("renamed");
    file.remove_aside_of(8, &Guard::default());
    assert!(aside(&path).exists(), "it is another one's");
    file.remove(&Guard::default()).expect("there");
    assert!(!aside(&path).exists());
    let mut gone = PidFile::create(&path, 7, &Guard::default()).expect("writable");
    fs::remove_file(&path).expect("there");
    assert!(
        gone.set_aside(&Guard::default())
            .expect_err("gone")
            .contains("rename() \"")
    );
}

#[test]
fn what_is_no_pid_is_refused() {
    let path = temporary("bad");
    for text in ["", "\n", "abc", "-1", "0", "12 34", "99999999999999999999"] {
        fs::write(&path, text).expect("writable");
        let message = read(&path, &Guard::default()).expect_err(text);
        assert!(message.starts_with("invalid PID number \""), "{message}");
    }
    fs::remove_file(&path).expect("there");
}

#[test]
fn checking_leaves_nothing_behind_and_keeps_what_is_there() {
    let path = temporary("check");
    PidFile::check(&path, &Guard::default()).expect("writable");
    assert!(!path.exists());
    fs::write(&path, "7\n").expect("writable");
    PidFile::check(&path, &Guard::default()).expect("writable");
    assert_eq!(read(&path, &Guard::default()), Ok(7));
    fs::remove_file(&path).expect("there");
    assert!(PidFile::check(Path::new("/nonexistent/x.pid"), &Guard::default()).is_err());
}
