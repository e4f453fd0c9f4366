//! Steering by slots: an eBPF program and its two maps, by bpf(2) alone.

use super::{
    CidFormat, LONG_CID_AT, LONG_CID_LEN_AT, LONG_HEADER_BIT, MASK_BYTES, MASK_SHIFT, MIX_SHIFT,
    SAMPLE_BYTES, SHORT_CID_AT,
};
use crate::CheckReturn;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Slots of an address: as many as one byte of a connection id can name.
pub const MAX_SLOTS: u32 = 256;

/// The slots of an address. Several processes may have the same, by passing the descriptors on.
///
/// The program stays with the group of sockets as long as it exists. A socket that is closed by all
/// who have it leaves its slot; what names the slot then goes where new connections go.
#[derive(Debug)]
pub struct SlotSteering {
    /// Sockets by slot.
    sockets: OwnedFd,
    /// Which slots get new connections.
    current: OwnedFd,
    program: OwnedFd,
}

/// The only value of its map, as the program reads it.
#[repr(C)]
struct Current {
    first: u32,
    count: u32,
}

impl SlotSteering {
    /// Makes the maps and loads the program.
    ///
    /// # Errors
    ///
    /// `EPERM` without the privileges, `EINVAL` or `ENOSYS` where the kernel has no such programs.
    pub fn load(format: &CidFormat) -> io::Result<SlotSteering> {
        let word = size_of::<u32>() as u32;
        let pair = size_of::<Current>() as u32;
        let sockets = create_map(BPF_MAP_TYPE_REUSEPORT_SOCKARRAY, word, MAX_SLOTS)?;
        let current = create_map(BPF_MAP_TYPE_ARRAY, pair, 1)?;
        let program = load_program(&program(format, sockets.as_raw_fd(), current.as_raw_fd()))?;
        Ok(SlotSteering {
            sockets,
            current,
            program,
        })
    }

    /// What another process has loaded, from [`SlotSteering::descriptors`].
    pub fn from_descriptors([sockets, current, program]: [OwnedFd; 3]) -> SlotSteering {
        SlotSteering {
            sockets,
            current,
            program,
        }
    }

    /// What another process needs to have the same slots.
    pub fn descriptors(&self) -> [BorrowedFd<'_>; 3] {
        [
            self.sockets.as_fd(),
            self.current.as_fd(),
            self.program.as_fd(),
        ]
    }

    /// The group that the socket belongs to uses the program from now on.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the socket was not bound with `SO_REUSEPORT`.
    pub fn attach(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let program = self.program.as_raw_fd();
        // SAFETY: the kernel reads an integer of the length given; the descriptors are open.
        unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ATTACH_REUSEPORT_EBPF,
                (&raw const program).cast(),
                size_of_val(&program) as libc::socklen_t,
            )
        }
        .check()?;
        Ok(())
    }

    /// Gives a socket the slot, in place of another one if that has it.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the socket was not bound with `SO_REUSEPORT`, `EBUSY` if it has a slot.
    pub fn place(&self, slot: u8, socket: BorrowedFd<'_>) -> io::Result<()> {
        let socket = socket.as_raw_fd().cast_unsigned();
        update(&self.sockets, u32::from(slot), &socket)
    }

    /// Takes the socket out of the slot; it stays in its group.
    ///
    /// # Errors
    ///
    /// `ENOENT` if there is none.
    pub fn clear(&self, slot: u8) -> io::Result<()> {
        let key = u32::from(slot);
        let element = Element {
            map: self.sockets.as_raw_fd().cast_unsigned(),
            padding: 0,
            key: (&raw const key).addr() as u64,
            value: 0,
            flags: 0,
        };
        // SAFETY: the key is as long as that of the map, and outlives the call, which only reads.
        unsafe { bpf(BPF_MAP_DELETE_ELEM, &element) }?;
        Ok(())
    }

    /// New connections go to these slots, by the hash of their addresses; with a count of 0, and
    /// where the slot has no socket, to any socket of the group.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if there are no such slots.
    pub fn set_current(&self, first: u8, count: u32) -> io::Result<()> {
        let first = u32::from(first);
        if count > MAX_SLOTS - first {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        update(&self.current, 0, &Current { first, count })
    }
}

// From linux/bpf.h.
const BPF_MAP_CREATE: u32 = 0;
const BPF_MAP_UPDATE_ELEM: u32 = 2;
const BPF_MAP_DELETE_ELEM: u32 = 3;
const BPF_PROG_LOAD: u32 = 5;
const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_MAP_TYPE_REUSEPORT_SOCKARRAY: u32 = 20;
const BPF_PROG_TYPE_SK_REUSEPORT: u32 = 21;

/// The part of `union bpf_attr` that makes a map.
#[repr(C)]
struct MapToCreate {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    max_entries: u32,
}

/// The part of `union bpf_attr` that changes an element of a map.
#[repr(C)]
struct Element {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// The part of `union bpf_attr` that loads a program.
#[repr(C)]
struct ProgramToLoad {
    kind: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
}

/// bpf(2).
///
/// # Safety
///
/// The attributes are those of the command, and what they point at outlives the call and is as long
/// as the kernel takes it to be.
unsafe fn bpf<T>(command: u32, attributes: &T) -> io::Result<i64> {
    // SAFETY: the size is that of the attributes; for the rest, see above.
    unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_ref(attributes),
            size_of::<T>(),
        )
    }
    .check()
}

/// A new descriptor that the kernel has returned; those of bpf(2) are closed on exec.
fn owned(fd: i64) -> io::Result<OwnedFd> {
    let fd = RawFd::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: the kernel just returned this descriptor; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn create_map(kind: u32, value_bytes: u32, max_entries: u32) -> io::Result<OwnedFd> {
    let map = MapToCreate {
        kind,
        key_bytes: size_of::<u32>() as u32,
        value_bytes,
        max_entries,
    };
    // SAFETY: the attributes point at nothing.
    owned(unsafe { bpf(BPF_MAP_CREATE, &map) }?)
}

/// `T` is what the map has as values.
fn update<T>(map: &OwnedFd, key: u32, value: &T) -> io::Result<()> {
    let element = Element {
        map: map.as_raw_fd().cast_unsigned(),
        padding: 0,
        key: (&raw const key).addr() as u64,
        value: std::ptr::from_ref(value).addr() as u64,
        flags: 0,
    };
    // SAFETY: key and value are as long as those of the map, and outlive the call, which only
    // reads them.
    unsafe { bpf(BPF_MAP_UPDATE_ELEM, &element) }?;
    Ok(())
}

fn load_program(instructions: &[Instruction]) -> io::Result<OwnedFd> {
    let license = c"MIT";
    let program = ProgramToLoad {
        kind: BPF_PROG_TYPE_SK_REUSEPORT,
        instruction_count: u32::try_from(instructions.len()).map_err(io::Error::other)?,
        instructions: instructions.as_ptr().addr() as u64,
        license: license.as_ptr().addr() as u64,
        log_level: 0,
        log_bytes: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
    };
    // SAFETY: instructions and licence are as long as is said, or end with a zero, and outlive the
    // call, which only reads them.
    owned(unsafe { bpf(BPF_PROG_LOAD, &program) }?)
}

/// `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Instruction {
    code: u8,
    /// The destination in the lower half, the source in the upper one; the other way round where
    /// the upper half of a byte comes first.
    registers: u8,
    offset: i16,
    immediate: i32,
}

// Opcodes, from linux/bpf.h and linux/bpf_common.h.
const LOAD_MAP: u8 = 0x18; // LD | IMM | DW
const LOAD_BYTE: u8 = 0x71; // LDX | MEM | B
const LOAD_WORD: u8 = 0x61; // LDX | MEM | W
const STORE_WORD: u8 = 0x63; // STX | MEM | W
const STORE_VALUE: u8 = 0x62; // ST | MEM | W
const MOVE: u8 = 0xbf; // ALU64 | MOV | X
const MOVE_VALUE: u8 = 0xb7; // ALU64 | MOV | K
const ADD_VALUE: u8 = 0x07; // ALU64 | ADD | K
const ADD32: u8 = 0x0c; // ALU | ADD | X
const MOVE32: u8 = 0xbc; // ALU | MOV | X
const MULTIPLY32_VALUE: u8 = 0x24; // ALU | MUL | K
const SHIFT32_RIGHT_VALUE: u8 = 0x74; // ALU | RSH | K
const XOR32: u8 = 0xac; // ALU | XOR | X
const MODULO32: u8 = 0x9c; // ALU | MOD | X
const TO_BIG_ENDIAN: u8 = 0xdc; // ALU | END | TO_BE
const JUMP: u8 = 0x05; // JMP | JA
const JUMP_IF_EQUAL: u8 = 0x15; // JMP | JEQ | K
const JUMP_IF_NOT_EQUAL: u8 = 0x55; // JMP | JNE | K
const JUMP_IF_BITS: u8 = 0x45; // JMP | JSET | K
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// The immediate of [`LOAD_MAP`] is the descriptor of a map.
const PSEUDO_MAP_FD: u8 = 1;
/// Functions that programs can call.
const MAP_LOOKUP_ELEM: i32 = 1;
const SKB_LOAD_BYTES: i32 = 26;
const SK_SELECT_REUSEPORT: i32 = 82;
/// The datagram is to be delivered: to the socket that was selected, or to one of the kernel's
/// choice.
const SK_PASS: i32 = 1;
/// Where `struct sk_reuseport_md` has the hash of the addresses.
const HASH_AT: i16 = 32;
/// Programs see the header of UDP, too.
const UDP_HEADER_BYTES: i32 = 8;

// Places on the stack, below the register of its end.
/// The key of a map.
const KEY_AT: i16 = -4;
/// The sample: the slot, and what hides it, which is aligned.
const MASK_AT: i16 = -8;
const SLOT_AT: i16 = -9;
/// The invariant bytes of a header.
const HEADER_AT: i16 = -16;

/// Registers that calls leave alone, and the end of the stack.
const CONTEXT: u8 = 6;
const VALUE: u8 = 7;
const MIXED: u8 = 8;
const OTHER: u8 = 9;
const STACK: u8 = 10;

/// Builds a program whose jumps go to places that are known later.
#[derive(Default)]
struct Builder {
    instructions: Vec<Instruction>,
    /// Jumps to where new connections are dealt with, and to the end.
    to_current: Vec<usize>,
    to_end: Vec<usize>,
}

impl Builder {
    fn add(&mut self, code: u8, to: u8, from: u8, offset: i16, immediate: i32) {
        let registers = match cfg!(target_endian = "little") {
            true => to | from << 4,
            false => from | to << 4,
        };
        self.instructions.push(Instruction {
            code,
            registers,
            offset,
            immediate,
        });
    }

    /// With an immediate value.
    fn value(&mut self, code: u8, to: u8, immediate: i32) {
        self.add(code, to, 0, 0, immediate);
    }

    /// With two registers.
    fn registers(&mut self, code: u8, to: u8, from: u8) {
        self.add(code, to, from, 0, 0);
    }

    /// Register `to` becomes a place on the stack.
    fn stack(&mut self, to: u8, at: i16) {
        self.registers(MOVE, to, STACK);
        self.value(ADD_VALUE, to, at.into());
    }

    fn map(&mut self, to: u8, fd: RawFd) {
        self.add(LOAD_MAP, to, PSEUDO_MAP_FD, 0, fd);
        self.add(0, 0, 0, 0, 0); // the upper half
    }

    /// Copies `count` bytes of the datagram, from the place in register 2, onto the stack. New
    /// connections are dealt with if it is shorter.
    fn load_bytes(&mut self, at: i16, count: u8) {
        self.registers(MOVE, 1, CONTEXT);
        self.stack(3, at);
        self.value(MOVE_VALUE, 4, count.into());
        self.value(CALL, 0, SKB_LOAD_BYTES);
        self.to_current.push(self.instructions.len());
        self.value(JUMP_IF_NOT_EQUAL, 0, 0);
    }

    /// Selects the socket whose slot is the key on the stack. Ends if there is one.
    fn select(&mut self, sockets: RawFd) {
        self.registers(MOVE, 1, CONTEXT);
        self.map(2, sockets);
        self.stack(3, KEY_AT);
        self.value(MOVE_VALUE, 4, 0);
        self.value(CALL, 0, SK_SELECT_REUSEPORT);
        self.to_end.push(self.instructions.len());
        self.value(JUMP_IF_EQUAL, 0, 0);
    }

    /// The jumps at these places go to what follows.
    fn arrive(&mut self, from: &[usize]) {
        let here = self.instructions.len();
        for jump in from {
            let distance = i16::try_from(here - jump - 1).expect("the program is short");
            self.instructions[*jump].offset = distance;
        }
    }
}

/// Selects the socket whose slot [`CidFormat::slot_of_datagram`] finds. Without one, selects the
/// socket of a current slot.
fn program(format: &CidFormat, sockets: RawFd, current: RawFd) -> Vec<Instruction> {
    let mut code = Builder::default();
    code.registers(MOVE, CONTEXT, 1);
    find_slot(&mut code, format);
    code.select(sockets);

    let jumps = std::mem::take(&mut code.to_current);
    code.arrive(&jumps);
    code.add(STORE_VALUE, STACK, 0, KEY_AT, 0);
    code.map(1, current);
    code.stack(2, KEY_AT);
    code.value(CALL, 0, MAP_LOOKUP_ELEM);
    code.to_end.push(code.instructions.len());
    code.value(JUMP_IF_EQUAL, 0, 0);
    code.add(LOAD_WORD, VALUE, 0, 0, 0);
    code.add(LOAD_WORD, MIXED, 0, size_of::<u32>() as i16, 0);
    code.to_end.push(code.instructions.len());
    code.value(JUMP_IF_EQUAL, MIXED, 0);
    code.add(LOAD_WORD, OTHER, CONTEXT, HASH_AT, 0);
    code.registers(MODULO32, OTHER, MIXED);
    code.registers(ADD32, OTHER, VALUE);
    code.add(STORE_WORD, STACK, OTHER, KEY_AT, 0);
    code.select(sockets);

    let jumps = std::mem::take(&mut code.to_end);
    code.arrive(&jumps);
    code.value(MOVE_VALUE, 0, SK_PASS);
    code.value(EXIT, 0, 0);
    code.instructions
}

/// Leaves the slot on the stack as a key.
fn find_slot(code: &mut Builder, format: &CidFormat) {
    let slot_in = |cid_at: u8| UDP_HEADER_BYTES + i32::from(cid_at) + i32::from(format.slot_at);
    code.value(MOVE_VALUE, 2, UDP_HEADER_BYTES);
    code.load_bytes(HEADER_AT, LONG_CID_AT);
    code.value(MOVE_VALUE, 2, slot_in(SHORT_CID_AT));
    code.add(LOAD_BYTE, VALUE, STACK, HEADER_AT, 0);
    code.add(JUMP_IF_BITS, VALUE, 0, 1, LONG_HEADER_BIT.into());
    let short = code.instructions.len();
    code.value(JUMP, 0, 0);
    let cid_len_at = HEADER_AT + i16::from(LONG_CID_LEN_AT);
    code.add(LOAD_BYTE, VALUE, STACK, cid_len_at, 0);
    code.to_current.push(code.instructions.len());
    code.value(JUMP_IF_NOT_EQUAL, VALUE, format.cid_bytes.into());
    code.value(MOVE_VALUE, 2, slot_in(LONG_CID_AT));
    code.arrive(&[short]);

    code.load_bytes(SLOT_AT, SAMPLE_BYTES);
    code.add(LOAD_BYTE, VALUE, STACK, SLOT_AT, 0);
    code.add(LOAD_WORD, MIXED, STACK, MASK_AT, 0);
    code.value(TO_BIG_ENDIAN, MIXED, i32::from(MASK_BYTES) * 8);
    code.value(MULTIPLY32_VALUE, MIXED, format.key[0].cast_signed());
    code.registers(MOVE32, OTHER, MIXED);
    code.value(SHIFT32_RIGHT_VALUE, OTHER, MIX_SHIFT.cast_signed());
    code.registers(XOR32, MIXED, OTHER);
    code.value(MULTIPLY32_VALUE, MIXED, format.key[1].cast_signed());
    code.value(SHIFT32_RIGHT_VALUE, MIXED, MASK_SHIFT.cast_signed());
    code.registers(XOR32, VALUE, MIXED);
    code.add(STORE_WORD, STACK, VALUE, KEY_AT, 0);
}
