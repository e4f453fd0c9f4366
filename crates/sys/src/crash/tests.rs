use super::line::Line;
use super::stack::{Stack, build_id_in};
use super::*;
use std::io::{Read, Seek};
use std::os::fd::AsFd;

fn text_of(fill: impl FnOnce(&mut Line)) -> String {
    let mut line = Line::new();
    fill(&mut line);
    line.as_str().to_owned()
}

#[test]
fn numbers_and_times_are_written_without_the_allocator() {
    assert_eq!(
        text_of(|line| {
            line.number(0).text("|").number(u64::MAX);
        }),
        "0|18446744073709551615"
    );
    assert_eq!(
        text_of(|line| {
            line.hex(0).text("|").hex(0xdead_beef);
        }),
        "0x0|0xdeadbeef"
    );
    // `date -u -d @N '+%Y/%m/%d %T'`
    for (seconds, expected) in [
        (0, "1970/01/01 00:00:00"),
        (951_782_399, "2000/02/28 23:59:59"),
        (951_782_400, "2000/02/29 00:00:00"),
        (1_709_251_199, "2024/02/29 23:59:59"),
        (4_107_542_400, "2100/03/01 00:00:00"),
        (1_795_298_766, "2026/11/21 22:06:06"),
    ] {
        let text = text_of(|line| {
            line.time(seconds);
        });
        assert_eq!(text, expected);
    }
}

#[test]
fn a_line_that_is_too_long_is_cut_and_still_ends() {
    let mut file = crate::file::memory_file(c"line").expect("a file in memory");
    let mut line = Line::new();
    line.text(&"é".repeat(3000));
    assert!(line.as_str().chars().all(|c| c == 'é'));
    line.end(file.as_fd().as_raw_fd());
    let mut written = Vec::new();
    file.rewind().expect("a file");
    file.read_to_end(&mut written).expect("readable");
    assert_eq!((written.len(), written.last()), (2048, Some(&b'\n')));
}

#[test]
fn the_build_id_is_found_among_notes() {
    let note = |name: &[u8], kind: u32, content: &[u8]| {
        let mut note = Vec::new();
        for number in [name.len() as u32, content.len() as u32, kind] {
            note.extend(number.to_ne_bytes());
        }
        for part in [name, content] {
            note.extend(part);
            note.resize(note.len().next_multiple_of(4), 0);
        }
        note
    };
    let notes = [note(b"GNU\0", 1, &[9; 16]), note(b"GNU\0", 3, &[7; 20])].concat();
    assert_eq!(build_id_in(&notes), Some(&[7; 20][..]));
    for cut in 0..notes.len() {
        assert_eq!(build_id_in(&notes[..cut]), None, "{cut}");
    }
    assert_eq!(build_id_in(&note(b"Go\0", 3, &[7; 20])), None);
    assert_eq!(build_id_in(&[0xff; 64]), None);
}

#[test]
fn the_stack_leads_to_the_caller() {
    install(Role::Worker).expect("handlers");
    let mut stack = Stack::default();
    stack.walk();
    let modules = super::stack::modules();
    let own = stack.frames().iter();
    let own = own
        .filter(|&&address| modules[0].offset(address).is_some())
        .count();
    assert!(own >= 3, "{own} frames of {}", stack.frames().len());
    let command = call_stack();
    assert!(command.starts_with("addr2line -Cfipe /"), "{command}");
    assert!(command.matches(" 0x").count() > 3, "{command}");
    assert_ne!(build_id(), "");
}

#[test]
fn a_thread_gives_its_signal_stack_back() {
    let signal_stack = || {
        let mut now = libc::stack_t {
            ss_sp: std::ptr::null_mut(),
            ss_flags: 0,
            ss_size: 0,
        };
        // SAFETY: `now` has room for the answer.
        unsafe { libc::sigaltstack(std::ptr::null(), &raw mut now) };
        (now.ss_flags & libc::SS_DISABLE == 0).then_some(now.ss_size)
    };
    let thread = std::thread::spawn(move || {
        prepare_thread().expect("memory");
        prepare_thread().expect("it has one");
        signal_stack()
    });
    assert_eq!(thread.join().expect("no panic"), Some(SIGNAL_STACK_BYTES));
}
