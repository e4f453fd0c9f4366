//! Code addresses: walks the stack, and finds the module of an address.

use super::line::Line;
use std::ffi::{CStr, c_int, c_void};

/// The most frames in a report.
pub(super) const MAX_FRAMES: usize = 64;

/// The most modules that are distinguished; there are five.
const MAX_MODULES: usize = 64;

/// Type of the note that holds the build id.
const NT_GNU_BUILD_ID: u32 = 3;

/// A loaded program or library.
pub(super) struct Module {
    name: String,
    /// The base from which its addresses in the file are counted.
    base: usize,
    start: usize,
    end: usize,
}

impl Module {
    /// The offset of the address in the file, if it is in this module.
    pub(super) fn offset(&self, address: usize) -> Option<usize> {
        (self.start..self.end)
            .contains(&address)
            .then(|| address - self.base)
    }
}

/// `libc.so.6+0x3c050`, or the bare address.
pub(super) fn describe(line: &mut Line, modules: &[Module], address: usize) {
    let found = modules
        .iter()
        .find_map(|module| Some((module, module.offset(address)?)));
    match found {
        Some((module, offset)) => line.text(&module.name).text("+").hex(offset),
        None => line.hex(address),
    };
}

/// Addresses of a stack, innermost first.
pub(super) struct Stack {
    addresses: [usize; MAX_FRAMES],
    len: usize,
}

impl Default for Stack {
    fn default() -> Stack {
        Stack {
            addresses: [0; MAX_FRAMES],
            len: 0,
        }
    }
}

unsafe extern "C" {
    fn _Unwind_Backtrace(
        each: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

/// `_URC_NO_REASON` continues; anything else ends the walk.
const GO_ON: c_int = 0;
const ENOUGH: c_int = 5;

impl Stack {
    pub(super) fn frames(&self) -> &[usize] {
        &self.addresses[..self.len]
    }

    /// Walks the frames of the caller.
    pub(super) fn walk(&mut self) {
        // SAFETY: `each` gets the pointer to `self` back, for the time of the call only.
        unsafe { _Unwind_Backtrace(each, (&raw mut *self).cast()) };
    }

    /// Walks the frames from the one at `counter`, where a signal arrived, leaving out the
    /// handler's own. Keeps all of them if `counter` is not among them.
    pub(super) fn walk_from(&mut self, counter: usize) {
        self.walk();
        match self.frames().iter().position(|&address| address == counter) {
            Some(at) => {
                self.addresses.copy_within(at..self.len, 0);
                self.len -= at;
            }
            None => {
                // Something jumped to an address without code, so the walk cannot start there.
                let kept = self.len.min(MAX_FRAMES - 1);
                self.addresses.copy_within(..kept, 1);
                self.addresses[0] = counter;
                self.len = kept + 1;
            }
        }
    }

    /// This frame alone.
    pub(super) fn only(&mut self, counter: usize) {
        self.addresses[0] = counter;
        self.len = 1;
    }
}

extern "C" fn each(context: *mut c_void, argument: *mut c_void) -> c_int {
    // SAFETY: `argument` is the stack that `walk` borrows for the time of the call.
    let stack = unsafe { &mut *argument.cast::<Stack>() };
    // SAFETY: the unwinder hands its context to this function.
    let address = unsafe { _Unwind_GetIP(context) };
    if address == 0 || stack.len == MAX_FRAMES {
        return ENOUGH;
    }
    stack.addresses[stack.len] = address;
    stack.len += 1;
    GO_ON
}

/// The modules loaded now, the program first.
pub(super) fn modules() -> Vec<Module> {
    let mut modules = Vec::new();
    // SAFETY: the callback gets the pointer to `modules` back, for the time of the call only.
    unsafe { libc::dl_iterate_phdr(Some(add_module), (&raw mut modules).cast()) };
    modules
}

unsafe extern "C" fn add_module(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    modules: *mut c_void,
) -> c_int {
    // SAFETY: `modules` is the list that the caller borrows for the time of the call.
    let modules = unsafe { &mut *modules.cast::<Vec<Module>>() };
    // SAFETY: the loader hands out a valid description.
    let info = unsafe { &*info };
    let base = info.dlpi_addr as usize;
    let code = headers(info).filter(|header| header.p_type == libc::PT_LOAD);
    let (start, end) = code.fold((usize::MAX, 0), |(start, end), header| {
        let from = base + header.p_vaddr as usize;
        (start.min(from), end.max(from + header.p_memsz as usize))
    });
    if start >= end {
        return 0;
    }
    let path = if info.dlpi_name.is_null() {
        String::new()
    } else {
        // SAFETY: the loader's name ends with NUL.
        let name = unsafe { CStr::from_ptr(info.dlpi_name) };
        name.to_string_lossy().into_owned()
    };
    let name = path.rsplit('/').next().unwrap_or_default();
    let name = if modules.is_empty() { "sealane" } else { name };
    modules.push(Module {
        name: name.to_owned(),
        base,
        start,
        end,
    });
    c_int::from(modules.len() == MAX_MODULES)
}

fn headers(info: &libc::dl_phdr_info) -> impl Iterator<Item = &libc::Elf64_Phdr> {
    // SAFETY: the loader's table has that many entries and stays while the module is loaded.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    headers.iter()
}

/// The build id of the program, in hexadecimal digits.
pub(super) fn build_id() -> String {
    let mut id = String::new();
    // SAFETY: the callback gets the pointer to `id` back, for the time of the call only.
    unsafe { libc::dl_iterate_phdr(Some(find_build_id), (&raw mut id).cast()) };
    if id.is_empty() {
        id.push_str("unknown");
    }
    id
}

/// Looks only into the first module, which is the program.
unsafe extern "C" fn find_build_id(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    id: *mut c_void,
) -> c_int {
    // SAFETY: `id` is the text that the caller borrows for the time of the call.
    let id = unsafe { &mut *id.cast::<String>() };
    // SAFETY: the loader hands out a valid description.
    let info = unsafe { &*info };
    for header in headers(info).filter(|header| header.p_type == libc::PT_NOTE) {
        let start = (info.dlpi_addr as usize + header.p_vaddr as usize) as *const u8;
        // SAFETY: the loader has mapped the segment with that many bytes, for reading.
        let notes = unsafe { std::slice::from_raw_parts(start, header.p_memsz as usize) };
        if let Some(found) = build_id_in(notes) {
            *id = found.iter().map(|byte| format!("{byte:02x}")).collect();
        }
    }
    1
}

/// Notes are `name length | content length | type | name | content`, padded to four bytes.
pub(super) fn build_id_in(mut notes: &[u8]) -> Option<&[u8]> {
    loop {
        let (head, rest) = notes.split_at_checked(12)?;
        let word =
            |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (name_bytes, content_bytes) = (word(0) as usize, word(4) as usize);
        let (name, rest) = rest.split_at_checked(name_bytes.checked_next_multiple_of(4)?)?;
        let content = rest.get(..content_bytes)?;
        if word(8) == NT_GNU_BUILD_ID && name.starts_with(b"GNU\0") {
            return Some(content);
        }
        notes = rest.get(content_bytes.checked_next_multiple_of(4)?..)?;
    }
}
