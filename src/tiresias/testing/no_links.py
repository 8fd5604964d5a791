"""`python -m tiresias.testing.no_links COMMAND…`: a command for which no file system has hard links.

The kernel refuses it and its children the calls, with the error of a FAT file system. This stands for a
folder on such a file system, which many kernels cannot mount.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06  # of the classic packet filter
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
LINKS = {"x86_64": (86, 265), "aarch64": (37,)}  # the numbers of link and linkat


class _Program(ctypes.Structure):
    _fields_ = (("count", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def refuse_links() -> None:
    """From now on, for this process and its children. OSError if the kernel cannot."""
    numbers = LINKS[platform.machine()]
    steps = [struct.pack("HBBI", LOAD, 0, 0, 0)]  # the number of the call
    for left, number in zip(range(len(numbers), 0, -1), numbers, strict=True):
        steps.append(struct.pack("HBBI", JUMP_IF_EQUAL, left, 0, number))  # to the last step
    steps.append(struct.pack("HBBI", RETURN, 0, 0, ALLOW))
    steps.append(struct.pack("HBBI", RETURN, 0, 0, ERRNO | errno.EPERM))
    program = _Program(len(steps), b"".join(steps))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0
    ):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    refuse_links()
    os.execvp(sys.argv[1], sys.argv[1:])
