"""Has the main thread of a process make system calls: call_within.py PID 'syscall(39)' ...

Prints the answer of each, -1 for an error. Only general registers are written, and one word of code
at the program's entry point, which nothing runs any more; both are put back.
"""
import ctypes
import os
import re
import signal
import struct
import sys

PEEKTEXT, POKETEXT, CONT, GETREGS, SETREGS, ATTACH, DETACH = 1, 4, 7, 12, 13, 16, 17
NAMES = ("r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss "
         "fs_base gs_base ds es fs gs").split()
# syscall; int3
CODE = b"\x0f\x05\xcc"
ALL_ONES = (1 << 64) - 1

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]


class Registers(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in NAMES]


def ptrace(request, pid, address=0, data=0):
    ctypes.set_errno(0)
    answer = libc.ptrace(request, pid, address, data)
    if answer == -1 and ctypes.get_errno():
        sys.exit(f"ptrace({request}): {os.strerror(ctypes.get_errno())}")
    return answer & ALL_ONES


def registers(pid):
    found = Registers()
    ptrace(GETREGS, pid, 0, ctypes.addressof(found))
    return found


def set_registers(pid, wanted):
    ptrace(SETREGS, pid, 0, ctypes.addressof(wanted))


def wait_for(pid, wanted):
    """Lets the process have its other signals."""
    while True:
        _, status = os.waitpid(pid, 0x40000000)  # __WALL
        if not os.WIFSTOPPED(status):
            sys.exit("the process has ended")
        if os.WSTOPSIG(status) == wanted:
            return
        ptrace(CONT, pid, 0, os.WSTOPSIG(status))


def entry_point(pid):
    with open(f"/proc/{pid}/auxv", "rb") as auxv:
        content = auxv.read()
    for at in range(0, len(content), 16):
        kind, value = struct.unpack_from("QQ", content, at)
        if kind == 9:  # AT_ENTRY
            return value
    sys.exit("the process has no entry point")


def write(pid, address, content):
    content += b"\0" * (-len(content) % 8)
    for at in range(0, len(content), 8):
        ptrace(POKETEXT, pid, address + at, int.from_bytes(content[at:at + 8], "little"))


def call(pid, before, entry, text):
    words = re.findall(r'"[^"]*"|[^,()\s]+', text.split("(", 1)[1])
    room, values = (before.rsp - 4096) & ~15, []
    for word in words:
        if word.startswith('"'):
            content = word[1:-1].encode() + b"\0"
            room -= (len(content) + 15) & ~15
            write(pid, room, content)
            values.append(room)
        elif re.fullmatch("0[0-7]+", word):
            values.append(int(word, 8))
        else:
            values.append(int(word, 0) & ALL_ONES)
    values += [0] * (7 - len(values))
    wanted = Registers.from_buffer_copy(before)
    wanted.rip, wanted.rsp, wanted.orig_rax = entry, room - 256, ALL_ONES
    (wanted.rax, wanted.rdi, wanted.rsi, wanted.rdx, wanted.r10, wanted.r8, wanted.r9) = values
    set_registers(pid, wanted)
    ptrace(CONT, pid)
    wait_for(pid, signal.SIGTRAP)
    answer = ctypes.c_long(registers(pid).rax).value
    return answer if answer >= 0 else -1


def main():
    pid = int(sys.argv[1])
    ptrace(ATTACH, pid)
    wait_for(pid, signal.SIGSTOP)
    before, entry = registers(pid), entry_point(pid)
    code = ptrace(PEEKTEXT, pid, entry)
    write(pid, entry, CODE + code.to_bytes(8, "little")[len(CODE):])
    for text in sys.argv[2:]:
        print(call(pid, before, entry, text))
    write(pid, entry, code.to_bytes(8, "little"))
    set_registers(pid, before)
    ptrace(DETACH, pid)


main()
