"""The preloaded library notes every message, and the program does not notice."""

from __future__ import annotations

import signal
import subprocess

import pytest

from tiresias.observe.errors import ObserveError
from tiresias.observe.library import SOURCE, compiler, library

PAIR = """
import os, socket, threading
listening = socket.create_server(("127.0.0.1", 0))
a = socket.create_connection(listening.getsockname())
b = listening.accept()[0]

def drain(end):
    while end.recv(1 << 20):
        pass
reader = threading.Thread(target=drain, args=[b])
reader.start()
"""
CLOSE = "\na.close(); reader.join()\n"


def sizes(processes) -> list[list[int]]:
    """The messages of every flow that has some."""
    return [flow.sizes.tolist() for each in processes for flow in each.flows]


def test_every_call_that_sends_is_noted(recorded):
    program = (
        PAIR
        + """
import ctypes
a.send(b"x" * 1001)
a.sendall(b"x" * 1002)
a.sendmsg([b"x" * 1000, b"y" * 3])
os.write(a.fileno(), b"x" * 1004)
os.writev(a.fileno(), [b"x" * 1000, b"y" * 5])

class Part(ctypes.Structure):
    _fields_ = [("base", ctypes.c_char_p), ("len", ctypes.c_size_t)]

class Header(ctypes.Structure):
    _fields_ = [("name", ctypes.c_void_p), ("namelen", ctypes.c_uint), ("iov", ctypes.POINTER(Part)),
                ("iovlen", ctypes.c_size_t), ("control", ctypes.c_void_p), ("controllen", ctypes.c_size_t),
                ("flags", ctypes.c_int)]

class Message(ctypes.Structure):
    _fields_ = [("header", Header), ("len", ctypes.c_uint)]

parts = [Part(b"x" * 1006, 1006), Part(b"x" * 1007, 1007)]
messages = (Message * 2)(*[Message(Header(iov=ctypes.pointer(each), iovlen=1)) for each in parts])
libc = ctypes.CDLL(None)
assert libc.sendmmsg(a.fileno(), messages, 2, 0) == 2
assert libc.sendto(a.fileno(), b"x" * 1008, ctypes.c_size_t(1008), 0, None, 0) == 1008
"""
        + CLOSE
    )
    [process] = recorded(program)
    assert sizes([process]) == [[1001, 1002, 1003, 1004, 1005, 1006, 1007, 1008]]
    assert process.command[1] == "-c"


def test_both_ends_of_a_connection_are_recorded_and_which_accepted_it(recorded):
    program = PAIR + "b.sendall(b'answer'); a.sendall(b'question')" + CLOSE
    [process] = recorded(program)
    asked = next(flow for flow in process.flows if flow.sizes.tolist() == [8])
    answered = next(flow for flow in process.flows if flow.sizes.tolist() == [6])
    assert asked.local == answered.peer
    assert asked.peer == answered.local
    assert asked.local.ip == "127.0.0.1"
    assert (asked.was_accepted, answered.was_accepted) == (False, True)


def test_a_message_that_the_socket_takes_in_parts_is_one(recorded):
    """With a timeout a socket does not block: it takes what it has room for."""
    sends = "a.settimeout(60)\nfor size in (5_000_000, 70, 3_000_000): a.sendall(bytes(size))"
    program = PAIR + sends + CLOSE
    assert sizes(recorded(program)) == [[5_000_000, 70, 3_000_000]]


def test_what_is_written_to_files_and_pipes_is_not_noted(recorded):
    program = """
import os, tempfile
reading, writing = os.pipe()
os.write(writing, b"x" * 100)
with tempfile.TemporaryFile() as file:
    os.write(file.fileno(), b"y" * 100)
    os.writev(file.fileno(), [b"z"])
"""
    assert recorded(program) == []


def test_what_stays_on_the_machine_is_counted_apart(recorded):
    program = "import socket\na, b = socket.socketpair()\na.sendall(b'x' * 5000)\n"
    [process] = recorded(program)
    assert process.flows == []
    assert process.local_bytes == 5000


def test_a_forked_child_has_records_of_its_own(recorded):
    program = (
        PAIR
        + """
a.sendall(b"p" * 111)
pid = os.fork()
if pid == 0:
    a.sendall(b"c" * 222)
    os._exit(0)
os.waitpid(pid, 0)
a.sendall(b"p" * 333)
"""
        + CLOSE
    )
    processes = recorded(program)
    assert sorted(sizes(processes)) == [[111, 333], [222]]
    assert len({each.pid for each in processes}) == 2


def test_a_program_that_executes_another_keeps_what_it_sent_before(recorded):
    program = (
        PAIR
        + """
import sys
a.sendall(b"x" * 111)
b.set_inheritable(True)
again = "import socket, sys; socket.socket(fileno=int(sys.argv[1])).sendall(bytes(222))"
os.execv(sys.executable, [sys.executable, "-c", again, str(b.fileno())])
"""
    )
    processes = recorded(program)
    assert sorted(sizes(processes)) == [[111], [222]]
    assert len({each.pid for each in processes}) == 1


THREADS = r"""
#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>
static void put(int end, int times)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    while (times--)
        sendto(end, "12345678", 8, 0, (struct sockaddr *)&to, sizeof to);
}
static void *push(void *end) { put(*(int *)end, 15000); return end; }
int main(void)
{
    pthread_t threads[8];
    int ends[8];
    for (int i = 0; i < 8; i++)
        ends[i] = socket(AF_INET, SOCK_DGRAM, 0);
    put(ends[0], 1); /* what is sent while the file is being made is not noted */
    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, push, &ends[i]);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
"""


def test_threads_that_send_at_the_same_time_lose_nothing(recorded, tmp_path):
    """In C, since threads of Python hardly ever send at the same time."""
    (tmp_path / "threads.c").write_text(THREADS)
    subprocess.run([*compiler(), "-O2", "-pthread", "-o", "threads", "threads.c"], cwd=tmp_path, check=True)
    program = "import os\nos.execv('./threads', ['threads'])"
    [process] = recorded(program)
    assert process.command == ("threads",)
    found = [flow.sizes.tolist() for flow in process.flows]
    assert sorted(len(each) for each in found) == [15_000] * 7 + [15_001]
    assert {size for each in found for size in each} == {8}


def test_what_was_sent_is_there_when_the_process_is_killed(recorded):
    program = PAIR + "a.sendall(bytes(12345)); os.kill(os.getpid(), 9)"
    assert sizes(recorded(program, code=-signal.SIGKILL)) == [[12345]]


def test_the_newest_records_are_kept_when_there_are_too_many(recorded):
    program = (
        PAIR
        + """
for size in (1, 2):
    for _ in range(100_000):
        a.send(b"x" * size)
"""
        + CLOSE
    )
    [process] = recorded(program)
    [found] = sizes([process])
    assert process.overwritten == 200_000 - 131_072
    assert len(found) == 131_072
    assert found.count(2) == 100_000


def test_two_connections_with_one_file_descriptor_in_turn_are_two_flows(recorded):
    program = (
        PAIR
        + """
first = a.fileno()
a.sendall(bytes(100))
a.close(); reader.join(); b.close()
a = socket.create_connection(listening.getsockname())
assert a.fileno() == first
a.sendall(bytes(200))
"""
    )
    assert sorted(sizes(recorded(program))) == [[100], [200]]


@pytest.mark.parametrize("inheritable", [True, False])
def test_a_connection_put_in_the_place_of_another_is_another_flow(recorded, inheritable):
    """By dup2, or by dup3."""
    program = (
        PAIR
        + f"""
a.sendall(bytes(100))
c = socket.create_connection(listening.getsockname())
os.dup2(c.fileno(), a.fileno(), {inheritable})
a.sendall(bytes(200))
c.close()
"""
        + CLOSE
    )
    assert sorted(sizes(recorded(program))) == [[100], [200]]


@pytest.mark.parametrize("directory", [None, "/nowhere/at/all"])
def test_errors_are_those_of_the_call(recorded, directory):
    """Also where the library meets errors of its own."""
    program = """
import ctypes, errno, os, socket
libc = ctypes.CDLL(None, use_errno=True)
a, b = socket.socketpair()
ctypes.set_errno(77)
assert libc.send(a.fileno(), b"x", ctypes.c_size_t(1), 0) == 1
assert ctypes.get_errno() == 77, "a call that succeeds leaves errno alone"
assert libc.send(999, b"x", ctypes.c_size_t(1), 0) == -1
assert ctypes.get_errno() == errno.EBADF
a.setblocking(False)
try:
    while True:
        a.send(bytes(100_000))
except BlockingIOError as error:
    assert error.errno == errno.EAGAIN
b.close()
try:
    a.sendall(b"x")
    raise SystemExit("sent without an error although nobody reads")
except BrokenPipeError:
    pass
assert libc.writev(a.fileno(), ctypes.c_void_p(8), 1) == -1
assert ctypes.get_errno() == errno.EFAULT
"""
    recorded(program, directory=directory)


@pytest.mark.parametrize("directory", ["/nowhere/at/all", "relative", "/" + "x" * 5000])
def test_a_directory_that_cannot_be_used_only_means_that_nothing_is_noted(recorded, directory):
    assert recorded(PAIR + "a.sendall(bytes(100))" + CLOSE, directory=directory) == []


def test_a_limit_on_the_size_of_files_does_not_end_the_program(recorded):
    """Beyond the limit the kernel sends a signal, which Python ignores and other programs die of."""
    program = (
        """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
"""
        + PAIR
    )
    assert recorded(program + "a.sendall(bytes(100))" + CLOSE) == []


def test_a_limit_on_memory_does_not_end_the_program(recorded):
    program = """
import resource, socket
a, b = socket.socketpair()
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 1_000_000, used + 1_000_000))
assert a.send(b"x" * 100) == 100
"""
    assert recorded(program) == []


def test_no_file_descriptor_stays_open(recorded):
    program = """
import os, socket
a, b = socket.socketpair()
before = os.listdir("/proc/self/fd")
a.sendall(b"x")
assert os.listdir("/proc/self/fd") == before
"""
    recorded(program)


def test_a_library_that_is_there_is_not_built_again(built, monkeypatch):
    before = built.stat().st_mtime_ns
    assert library() == built
    assert built.stat().st_mtime_ns == before


def test_without_a_compiler_the_message_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(ObserveError, match=r"no cc, gcc, clang in PATH\. Install one .*apt install gcc"):
        library()
    monkeypatch.setenv("CC", "nonsuch -m64")
    with pytest.raises(ObserveError, match="CC='nonsuch -m64' is not in PATH"):
        library()


def test_a_compiler_that_fails_is_quoted(monkeypatch, tmp_path):
    fails = tmp_path / "cc"
    fails.write_text("#!/bin/sh\necho 'fatal error: netinet/in.h: no such file' >&2\nexit 1\n")
    fails.chmod(0o755)
    monkeypatch.setenv("CC", str(fails))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(ObserveError, match=r"could not compile messages.c:\nfatal error: netinet/in.h"):
        library()
    assert list((tmp_path / "cache/tiresias").iterdir()) == []


def test_a_cache_that_cannot_be_written_is_named(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    fake = tmp_path / "cc"
    fake.write_text("#!/bin/sh\n")
    fake.chmod(0o755)
    monkeypatch.setenv("CC", str(fake))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(ObserveError, match=r"file/tiresias: not a directory\. Name .* XDG_CACHE_HOME"):
        library()


def test_a_cache_that_cannot_be_preloaded_from_is_named(built, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "my cache"))
    with pytest.raises(ObserveError, match="my cache/tiresias: LD_PRELOAD takes no path with a space"):
        library()


def test_the_source_goes_with_the_package():
    assert SOURCE.read_text().startswith("/*\n * Records what a process sends over sockets")
