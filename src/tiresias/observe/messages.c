/*
 * Records what a process sends over sockets, if it is preloaded:
 *
 *     LD_PRELOAD=libmessages.so TIRESIAS_OBSERVE_DIR=/some/directory  COMMAND
 *
 * Every process writes one file, <pid>-<n>.messages, made at its first send or accept: a header, a table of flows
 * (one per socket) and a ring of records (one per call). The file is mapped into memory, so what was recorded
 * remains however the process ends. records.py reads it; the two must agree on the structures below.
 *
 * Rules. The program must not be affected: no call behaves differently, errno is as the real call left it, no
 * file descriptor stays open, no signal is raised (the blocks of the file are allocated before it is mapped, and
 * its size is within the limit for files). There is no lock and no allocation, because calls come from any thread
 * and from signal handlers. Any failure here turns recording off, silently. Our own system calls are made with
 * syscall(), so that no hook calls another and no thread is cancelled in here.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_sendto
#error "this machine has no system call sendto; 64-bit Linux is needed"
#endif

#define PUBLIC __attribute__((visibility("default")))
#define MAGIC "TIRMSG1"
#define HEADER_BYTES 4096
#define COMMAND_BYTES 1024
#define FLOWS 1024          /* a power of two */
#define RECORDS (1u << 17)  /* a power of two; the newest are kept */
#define NO_FLOW UINT32_MAX
#define NO_SOCKET (UINT32_MAX - 1)
#define KNOWN 4096                /* file descriptors below this are cached */
#define KNOWN_NS (20 * 1000000u)  /* for this long, in case one changes without a call of a hook */

struct header {
    char magic[8]; /* written last */
    uint32_t flows, records;
    uint64_t pid;
    _Atomic uint64_t written; /* records so far, those overwritten included */
    char command[COMMAND_BYTES]; /* as in /proc/self/cmdline */
};

struct flow {
    _Atomic uint64_t inode; /* 0: unused. Distinguishes two sockets that had one file descriptor in turn */
    _Atomic uint32_t ready; /* the other fields may be read */
    uint16_t family, type, local_port, peer_port;
    uint8_t local[16], peer[16]; /* IPv6, or IPv4 mapped into it */
    _Atomic uint32_t accepted; /* whether this process accepted the connection, and did not make it */
    uint8_t rest[8];
};

struct record {
    uint64_t at_ns; /* CLOCK_MONOTONIC when the call began */
    uint64_t asked, sent; /* bytes */
    uint32_t flow;
    _Atomic uint32_t number; /* 1 for the first ever; written last */
};

struct file {
    union {
        struct header header;
        char page[HEADER_BYTES];
    };
    struct flow flows[FLOWS];
    struct record records[RECORDS];
};

enum { OFF, NOT_BEGUN, BEGINNING, READY };

static _Atomic int state = OFF; /* until the environment has been read */
static struct file *_Atomic map;
static char directory[PATH_MAX - 64];

/* The flow of each file descriptor, or NO_SOCKET; looked up again after KNOWN_NS. */
static struct {
    _Atomic uint64_t until_ns;
    _Atomic uint32_t flow;
} known[KNOWN];

static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_writev)(int, const struct iovec *, int);
static ssize_t (*real_send)(int, const void *, size_t, int);
static ssize_t (*real_sendto)(int, const void *, size_t, int, const struct sockaddr *, socklen_t);
static ssize_t (*real_sendmsg)(int, const struct msghdr *, int);
static int (*real_sendmmsg)(int, struct mmsghdr *, unsigned int, int);
static int (*real_accept)(int, struct sockaddr *, socklen_t *);
static int (*real_accept4)(int, struct sockaddr *, socklen_t *, int);
static int (*real_close)(int);
static int (*real_dup2)(int, int);
static int (*real_dup3)(int, int, int);

/* ---- the file ---- */

static int make_file(void)
{
    char path[PATH_MAX];
    struct rlimit limit;
    if (syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, NULL, &limit) || limit.rlim_cur < sizeof(struct file))
        return -1; /* beyond the limit the kernel would send SIGXFSZ */
    for (int again = 0; again < 1000; again++) { /* a pid stays the same after exec */
        snprintf(path, sizeof path, "%s/%ld-%d.messages", directory, (long)getpid(), again);
        int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

/* Allocates the blocks of the whole file: a full disk must not cause a SIGBUS later. */
static int fill(int fd)
{
    static const char zeros[65536];
    if (syscall(SYS_fallocate, fd, 0, (off_t)0, (off_t)sizeof(struct file)) == 0)
        return 0;
    if (errno != EOPNOTSUPP && errno != ENOSYS)
        return -1;
    for (size_t done = 0; done < sizeof(struct file);) {
        size_t left = sizeof(struct file) - done;
        long now = syscall(SYS_write, fd, zeros, left < sizeof zeros ? left : sizeof zeros);
        if (now <= 0)
            return -1;
        done += (size_t)now;
    }
    return 0;
}

static void note_command(char *command)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return;
    syscall(SYS_read, fd, command, COMMAND_BYTES - 1);
    syscall(SYS_close, fd);
}

/* Only one caller may begin; calls of other threads and of signal handlers meanwhile are not recorded. */
static int begin(void)
{
    int expected = NOT_BEGUN;
    if (!atomic_compare_exchange_strong(&state, &expected, BEGINNING))
        return expected == READY;
    struct file *made = MAP_FAILED;
    int fd = make_file();
    if (fd >= 0) {
        if (fill(fd) == 0)
            made = mmap(NULL, sizeof *made, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        syscall(SYS_close, fd);
    }
    if (made == MAP_FAILED) {
        atomic_store(&state, OFF);
        return 0;
    }
    made->header.flows = FLOWS;
    made->header.records = RECORDS;
    made->header.pid = (uint64_t)getpid();
    note_command(made->header.command);
    atomic_thread_fence(memory_order_release);
    memcpy(made->header.magic, MAGIC, sizeof made->header.magic);
    atomic_store(&map, made);
    atomic_store(&state, READY);
    return 1;
}

/* ---- flows ---- */

static uint16_t note_address(const struct sockaddr_storage *from, uint8_t *to)
{
    if (from->ss_family == AF_INET) {
        const struct sockaddr_in *four = (const struct sockaddr_in *)from;
        to[10] = to[11] = 0xff;
        memcpy(to + 12, &four->sin_addr, 4);
        return ntohs(four->sin_port);
    }
    if (from->ss_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)from;
        memcpy(to, &six->sin6_addr, 16);
        return ntohs(six->sin6_port);
    }
    return 0;
}

static void describe(struct flow *flow, int fd)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    int type = 0;
    memset(&address, 0, sizeof address);
    if (syscall(SYS_getsockname, fd, &address, &length) == 0) {
        flow->family = address.ss_family;
        flow->local_port = note_address(&address, flow->local);
    }
    memset(&address, 0, sizeof address);
    length = sizeof address;
    if (syscall(SYS_getpeername, fd, &address, &length) == 0)
        flow->peer_port = note_address(&address, flow->peer);
    length = sizeof type;
    if (syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0)
        flow->type = (uint16_t)type;
    atomic_store_explicit(&flow->ready, 1, memory_order_release);
}

static uint32_t flow_of(struct file *file, int fd, uint64_t inode)
{
    uint32_t place = (uint32_t)(inode * 0x9E3779B97F4A7C15ull >> 32);
    for (uint32_t step = 0; step < FLOWS; step++, place++) {
        struct flow *flow = &file->flows[place & (FLOWS - 1)];
        uint64_t found = atomic_load_explicit(&flow->inode, memory_order_relaxed);
        if (found == 0 && atomic_compare_exchange_strong(&flow->inode, &found, inode)) {
            describe(flow, fd);
            return place & (FLOWS - 1);
        }
        if (found == inode) /* it was there, or another thread has just put it there */
            return place & (FLOWS - 1);
    }
    return NO_FLOW;
}

/* ---- records ---- */

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void put(struct file *file, uint32_t flow, uint64_t at_ns, uint64_t asked, uint64_t sent)
{
    uint64_t place = atomic_fetch_add_explicit(&file->header.written, 1, memory_order_relaxed);
    struct record *record = &file->records[place & (RECORDS - 1)];
    atomic_store_explicit(&record->number, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    record->at_ns = at_ns;
    record->asked = asked;
    record->sent = sent;
    record->flow = flow;
    atomic_store_explicit(&record->number, (uint32_t)(place + 1), memory_order_release);
}

/* The flow of a socket (the file is mapped afterwards); NO_SOCKET also if nothing is to be recorded. */
static uint32_t ask(int fd)
{
    struct stat status;
    if (fstat(fd, &status) || !S_ISSOCK(status.st_mode))
        return NO_SOCKET;
    if (atomic_load_explicit(&state, memory_order_acquire) != READY && !begin())
        return NO_SOCKET;
    struct file *file = atomic_load_explicit(&map, memory_order_acquire);
    return file != NULL ? flow_of(file, fd, (uint64_t)status.st_ino) : NO_SOCKET;
}

static uint32_t known_flow(int fd, uint64_t at_ns)
{
    if (fd < 0 || fd >= KNOWN)
        return ask(fd);
    if (at_ns < atomic_load_explicit(&known[fd].until_ns, memory_order_acquire))
        return atomic_load_explicit(&known[fd].flow, memory_order_relaxed);
    uint32_t flow = ask(fd);
    atomic_store_explicit(&known[fd].flow, flow, memory_order_relaxed);
    atomic_store_explicit(&known[fd].until_ns, at_ns + KNOWN_NS, memory_order_release);
    return flow;
}

static void forget(int fd)
{
    if (fd >= 0 && fd < KNOWN)
        atomic_store_explicit(&known[fd].until_ns, 0, memory_order_release);
}

static void note(int fd, uint64_t at_ns, uint64_t asked, ssize_t sent)
{
    int before = errno;
    uint32_t flow = known_flow(fd, at_ns);
    struct file *file = atomic_load_explicit(&map, memory_order_acquire);
    if (flow != NO_SOCKET && file != NULL)
        put(file, flow, at_ns, asked, (uint64_t)sent);
    errno = before;
}

static void note_accepted(int fd)
{
    int before = errno;
    forget(fd);
    uint32_t flow = ask(fd);
    struct file *file = atomic_load_explicit(&map, memory_order_acquire);
    if (flow < FLOWS && file != NULL)
        atomic_store_explicit(&file->flows[flow].accepted, 1, memory_order_relaxed);
    errno = before;
}

static uint64_t total(const struct iovec *parts, size_t count)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += parts[i].iov_len;
    return bytes;
}

/* ---- hooks: the real call first; its arguments are read only after it has sent something ---- */

static int is_on(void)
{
    return atomic_load_explicit(&state, memory_order_relaxed) != OFF;
}

PUBLIC ssize_t write(int fd, const void *data, size_t size)
{
    uint64_t at_ns = is_on() ? now_ns() : 0;
    ssize_t sent = real_write ? real_write(fd, data, size) : syscall(SYS_write, fd, data, size);
    if (at_ns && sent > 0)
        note(fd, at_ns, size, sent);
    return sent;
}

PUBLIC ssize_t writev(int fd, const struct iovec *parts, int count)
{
    uint64_t at_ns = is_on() ? now_ns() : 0;
    ssize_t sent = real_writev ? real_writev(fd, parts, count) : syscall(SYS_writev, fd, parts, count);
    if (at_ns && sent > 0)
        note(fd, at_ns, total(parts, (size_t)count), sent);
    return sent;
}

PUBLIC ssize_t send(int fd, const void *data, size_t size, int flags)
{
    uint64_t at_ns = is_on() ? now_ns() : 0;
    ssize_t sent = real_send ? real_send(fd, data, size, flags)
                             : syscall(SYS_sendto, fd, data, size, flags, NULL, 0);
    if (at_ns && sent > 0)
        note(fd, at_ns, size, sent);
    return sent;
}

PUBLIC ssize_t sendto(int fd, const void *data, size_t size, int flags, const struct sockaddr *to, socklen_t length)
{
    uint64_t at_ns = is_on() ? now_ns() : 0;
    ssize_t sent = real_sendto ? real_sendto(fd, data, size, flags, to, length)
                               : syscall(SYS_sendto, fd, data, size, flags, to, length);
    if (at_ns && sent > 0)
        note(fd, at_ns, size, sent);
    return sent;
}

PUBLIC ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    uint64_t at_ns = is_on() ? now_ns() : 0;
    ssize_t sent = real_sendmsg ? real_sendmsg(fd, message, flags) : syscall(SYS_sendmsg, fd, message, flags);
    if (at_ns && sent > 0)
        note(fd, at_ns, total(message->msg_iov, message->msg_iovlen), sent);
    return sent;
}

PUBLIC int sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags)
{
    uint64_t at_ns = is_on() ? now_ns() : 0;
    int done = real_sendmmsg ? real_sendmmsg(fd, messages, count, flags)
                             : (int)syscall(SYS_sendmmsg, fd, messages, count, flags);
    for (int i = 0; at_ns && i < done; i++) {
        const struct msghdr *each = &messages[i].msg_hdr;
        note(fd, at_ns, total(each->msg_iov, each->msg_iovlen), (ssize_t)messages[i].msg_len);
    }
    return done;
}

PUBLIC int accept(int fd, struct sockaddr *address, socklen_t *length)
{
    int made = real_accept ? real_accept(fd, address, length) : (int)syscall(SYS_accept, fd, address, length);
    if (made >= 0 && is_on())
        note_accepted(made);
    return made;
}

PUBLIC int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
    int made = real_accept4 ? real_accept4(fd, address, length, flags)
                            : (int)syscall(SYS_accept4, fd, address, length, flags);
    if (made >= 0 && is_on())
        note_accepted(made);
    return made;
}

/* A closed descriptor may become that of another socket. Its cache entry is dropped before the call, because
 * another thread may get the number at once, and after it, because another thread may have just sent over it. */
PUBLIC int close(int fd)
{
    forget(fd);
    int done = real_close ? real_close(fd) : (int)syscall(SYS_close, fd);
    forget(fd);
    return done;
}

static int plain_dup2(int from, int to)
{
#ifdef SYS_dup2
    return (int)syscall(SYS_dup2, from, to);
#else
    if (from == to)
        return syscall(SYS_fcntl, from, F_GETFD) < 0 ? -1 : to;
    return (int)syscall(SYS_dup3, from, to, 0);
#endif
}

PUBLIC int dup2(int from, int to)
{
    int made = real_dup2 ? real_dup2(from, to) : plain_dup2(from, to);
    forget(to);
    return made;
}

PUBLIC int dup3(int from, int to, int flags)
{
    int made = real_dup3 ? real_dup3(from, to, flags) : (int)syscall(SYS_dup3, from, to, flags);
    forget(to);
    return made;
}

/* ---- beginning ---- */

/* The child has the map of its parent: it needs its own file, which is made when it sends something. */
static void after_fork(void)
{
    struct file *parents = atomic_exchange(&map, NULL);
    if (parents != NULL)
        munmap(parents, sizeof *parents);
    for (int fd = 0; fd < KNOWN; fd++)
        forget(fd);
    if (is_on())
        atomic_store(&state, NOT_BEGUN);
}

__attribute__((constructor)) static void prepare(void)
{
    int before = errno;
    const char *named = getenv("TIRESIAS_OBSERVE_DIR");
    real_write = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    real_writev = (ssize_t (*)(int, const struct iovec *, int))dlsym(RTLD_NEXT, "writev");
    real_send = (ssize_t (*)(int, const void *, size_t, int))dlsym(RTLD_NEXT, "send");
    real_sendto = (ssize_t (*)(int, const void *, size_t, int, const struct sockaddr *, socklen_t))
        dlsym(RTLD_NEXT, "sendto");
    real_sendmsg = (ssize_t (*)(int, const struct msghdr *, int))dlsym(RTLD_NEXT, "sendmsg");
    real_sendmmsg = (int (*)(int, struct mmsghdr *, unsigned int, int))dlsym(RTLD_NEXT, "sendmmsg");
    real_accept = (int (*)(int, struct sockaddr *, socklen_t *))dlsym(RTLD_NEXT, "accept");
    real_accept4 = (int (*)(int, struct sockaddr *, socklen_t *, int))dlsym(RTLD_NEXT, "accept4");
    real_close = (int (*)(int))dlsym(RTLD_NEXT, "close");
    real_dup2 = (int (*)(int, int))dlsym(RTLD_NEXT, "dup2");
    real_dup3 = (int (*)(int, int, int))dlsym(RTLD_NEXT, "dup3");
    if (named != NULL && *named == '/' && strlen(named) < sizeof directory
        && pthread_atfork(NULL, NULL, after_fork) == 0) {
        strcpy(directory, named);
        atomic_store(&state, NOT_BEGUN);
    }
    errno = before;
}
