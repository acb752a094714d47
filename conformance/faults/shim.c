/* A library that is loaded before libc and makes one of its calls fail, or kills the process at it.
 *
 *   ZARO_FAULT_CALLS   which calls count, by class: "write,rename" (empty: all)
 *   ZARO_FAULT_AT      the number of the call that fails, counted from 1 over all threads (0: none)
 *   ZARO_FAULT_TIMES   how many calls in a row fail (0: all from there on)
 *   ZARO_FAULT_ERRNO   the error number; -1: the process is killed before the call, -2: right after it
 *   ZARO_FAULT_UNDER   only calls on paths that begin so (and on files opened there) count
 *   ZARO_FAULT_REPORT  where "CLASS COUNT" lines are appended at exit
 *
 * Only calls that name a file below ZARO_FAULT_UNDER count, so that steps have the same numbers in each run as far as
 * threads allow, and so that nothing of the system's own start-up is disturbed.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define CLASSES X(open) X(read) X(write) X(rename) X(link) X(unlink) X(mkdir) X(sync) X(truncate) X(stat) X(list) X(chmod)
enum class {
#define X(name) C_##name,
    CLASSES
#undef X
    C_count
};
static const char *const names[] = {
#define X(name) #name,
    CLASSES
#undef X
};

static atomic_long seen[C_count], counted;
static int counts[C_count], error_number;
static long at, times;
static char under[PATH_MAX];
static size_t under_length;
/* Files opened below ZARO_FAULT_UNDER, by descriptor. */
static atomic_char ours[65536];

__attribute__((constructor)) static void begin(void) {
    const char *calls = getenv("ZARO_FAULT_CALLS"), *text;
    for (int c = 0; c < C_count; c++) {
        char wanted[32];
        snprintf(wanted, sizeof wanted, ",%s,", names[c]);
        char list[512];
        snprintf(list, sizeof list, ",%s,", calls ? calls : "");
        counts[c] = !calls || !*calls || strstr(list, wanted) != NULL;
    }
    at = (text = getenv("ZARO_FAULT_AT")) ? atol(text) : 0;
    times = (text = getenv("ZARO_FAULT_TIMES")) ? atol(text) : 1;
    error_number = (text = getenv("ZARO_FAULT_ERRNO")) ? atoi(text) : EIO;
    if ((text = getenv("ZARO_FAULT_UNDER"))) snprintf(under, sizeof under, "%s", text);
    under_length = strlen(under);
}

__attribute__((destructor)) static void end(void) {
    const char *path = getenv("ZARO_FAULT_REPORT");
    FILE *out = path ? fopen(path, "a") : NULL;
    if (!out) return;
    for (int c = 0; c < C_count; c++) fprintf(out, "%s %ld\n", names[c], atomic_load(&seen[c]));
    fclose(out);
}

static int below(const char *path) { return path && strncmp(path, under, under_length) == 0; }
static int mine(int fd) { return fd >= 0 && fd < 65536 && atomic_load(&ours[fd]); }
/* A path relative to an open folder is ours when the folder is; any other relative path is: work is done below. */
static int place(int dir, const char *path) {
    if (!path) return 0;
    if (path[0] == '/') return below(path);
    return dir == AT_FDCWD || mine(dir);
}
static int opened(int fd, int is_ours) {
    if (fd >= 0 && fd < 65536) atomic_store(&ours[fd], is_ours);
    return fd;
}

/* 0: go on; 1: fail with errno set; 2: go on, then die. */
static int fault(enum class c) {
    atomic_fetch_add(&seen[c], 1);
    if (!counts[c]) return 0;
    long n = atomic_fetch_add(&counted, 1) + 1;
    if (!at || n < at || (times && n >= at + times)) return 0;
    if (error_number == -2) return 2;
    if (error_number == -1) { kill(getpid(), SIGKILL); for (;;) pause(); }
    errno = error_number;
    return 1;
}

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)
/* Runs a call, after asking whether it is to fail. */
#define CALL(is_ours, c, failed, type, call) \
    int f_ = (is_ours) ? fault(c) : 0; \
    if (f_ == 1) return failed; \
    type r_ = (call); \
    if (f_ == 2) { kill(getpid(), SIGKILL); for (;;) pause(); } \
    return r_

static mode_t mode_of(int flags, va_list rest) {
    return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(rest, mode_t) : 0;
}

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        REAL(int, name, const char *, int, ...); \
        va_list rest; va_start(rest, flags); mode_t mode = mode_of(flags, rest); va_end(rest); \
        int o = place(AT_FDCWD, path); \
        CALL(o, C_open, -1, int, opened(real(path, flags, mode), o)); \
    }
#define OPENAT(name) \
    int name(int dir, const char *path, int flags, ...) { \
        REAL(int, name, int, const char *, int, ...); \
        va_list rest; va_start(rest, flags); mode_t mode = mode_of(flags, rest); va_end(rest); \
        int o = place(dir, path); \
        CALL(o, C_open, -1, int, opened(real(dir, path, flags, mode), o)); \
    }
OPEN(open) OPEN(open64) OPENAT(openat) OPENAT(openat64)

int close(int fd) {
    REAL(int, close, int);
    if (fd >= 0 && fd < 65536) atomic_store(&ours[fd], 0);
    return real(fd);
}

#define ON_FD(type, name, c, args, types, call) \
    type name args { REAL(type, name, types); CALL(mine(fd), c, -1, type, real call); }
#define T(...) __VA_ARGS__
ON_FD(ssize_t, read, C_read, (int fd, void *b, size_t n), T(int, void *, size_t), (fd, b, n))
ON_FD(ssize_t, pread, C_read, (int fd, void *b, size_t n, off_t o), T(int, void *, size_t, off_t), (fd, b, n, o))
ON_FD(ssize_t, pread64, C_read, (int fd, void *b, size_t n, off64_t o), T(int, void *, size_t, off64_t), (fd, b, n, o))
ON_FD(ssize_t, readv, C_read, (int fd, const struct iovec *v, int n), T(int, const struct iovec *, int), (fd, v, n))
ON_FD(ssize_t, write, C_write, (int fd, const void *b, size_t n), T(int, const void *, size_t), (fd, b, n))
ON_FD(ssize_t, pwrite, C_write, (int fd, const void *b, size_t n, off_t o), T(int, const void *, size_t, off_t), (fd, b, n, o))
ON_FD(ssize_t, pwrite64, C_write, (int fd, const void *b, size_t n, off64_t o), T(int, const void *, size_t, off64_t), (fd, b, n, o))
ON_FD(ssize_t, writev, C_write, (int fd, const struct iovec *v, int n), T(int, const struct iovec *, int), (fd, v, n))
ON_FD(int, fsync, C_sync, (int fd), int, (fd))
ON_FD(int, fdatasync, C_sync, (int fd), int, (fd))
ON_FD(int, ftruncate, C_truncate, (int fd, off_t n), T(int, off_t), (fd, n))
ON_FD(int, ftruncate64, C_truncate, (int fd, off64_t n), T(int, off64_t), (fd, n))
ON_FD(int, fchmod, C_chmod, (int fd, mode_t m), T(int, mode_t), (fd, m))
ON_FD(int, fstat64, C_stat, (int fd, struct stat64 *s), T(int, struct stat64 *), (fd, s))

ssize_t copy_file_range(int in, off64_t *io, int fd, off64_t *oo, size_t n, unsigned flags) {
    REAL(ssize_t, copy_file_range, int, off64_t *, int, off64_t *, size_t, unsigned);
    CALL(mine(fd), C_write, -1, ssize_t, real(in, io, fd, oo, n, flags));
}

#define ON_PATH(type, name, c, dir, path, args, types, call) \
    type name args { REAL(type, name, types); CALL(place(dir, path), c, -1, type, real call); }
ON_PATH(int, rename, C_rename, AT_FDCWD, b, (const char *a, const char *b), T(const char *, const char *), (a, b))
ON_PATH(int, renameat, C_rename, e, b, (int d, const char *a, int e, const char *b), T(int, const char *, int, const char *), (d, a, e, b))
ON_PATH(int, renameat2, C_rename, e, b, (int d, const char *a, int e, const char *b, unsigned f), T(int, const char *, int, const char *, unsigned), (d, a, e, b, f))
ON_PATH(int, link, C_link, AT_FDCWD, b, (const char *a, const char *b), T(const char *, const char *), (a, b))
ON_PATH(int, linkat, C_link, e, b, (int d, const char *a, int e, const char *b, int f), T(int, const char *, int, const char *, int), (d, a, e, b, f))
ON_PATH(int, unlink, C_unlink, AT_FDCWD, a, (const char *a), const char *, (a))
ON_PATH(int, rmdir, C_unlink, AT_FDCWD, a, (const char *a), const char *, (a))
ON_PATH(int, unlinkat, C_unlink, d, a, (int d, const char *a, int f), T(int, const char *, int), (d, a, f))
ON_PATH(int, mkdir, C_mkdir, AT_FDCWD, a, (const char *a, mode_t m), T(const char *, mode_t), (a, m))
ON_PATH(int, mkdirat, C_mkdir, d, a, (int d, const char *a, mode_t m), T(int, const char *, mode_t), (d, a, m))
ON_PATH(int, chmod, C_chmod, AT_FDCWD, a, (const char *a, mode_t m), T(const char *, mode_t), (a, m))
ON_PATH(int, stat64, C_stat, AT_FDCWD, a, (const char *a, struct stat64 *s), T(const char *, struct stat64 *), (a, s))
ON_PATH(int, lstat64, C_stat, AT_FDCWD, a, (const char *a, struct stat64 *s), T(const char *, struct stat64 *), (a, s))
ON_PATH(int, fstatat64, C_stat, d, a, (int d, const char *a, struct stat64 *s, int f), T(int, const char *, struct stat64 *, int), (d, a, s, f))

int statx(int d, const char *a, int f, unsigned m, struct statx *s) {
    REAL(int, statx, int, const char *, int, unsigned, struct statx *);
    int o = *a ? place(d, a) : mine(d);
    CALL(o, C_stat, -1, int, real(d, a, f, m, s));
}

/* Of a folder's listing, a part is given and the rest fails. */
struct dirent64 *readdir64(DIR *dir) {
    REAL(struct dirent64 *, readdir64, DIR *);
    CALL(mine(dirfd(dir)), C_list, NULL, struct dirent64 *, real(dir));
}
DIR *opendir(const char *path) {
    REAL(DIR *, opendir, const char *);
    int o = place(AT_FDCWD, path);
    int f = o ? fault(C_open) : 0;
    if (f == 1) return NULL;
    DIR *dir = real(path);
    if (dir) opened(dirfd(dir), o);
    if (f == 2) { kill(getpid(), SIGKILL); for (;;) pause(); }
    return dir;
}
