/* Records what a process, and those that it starts, do to the files below a folder, in its order.

   Loaded before the C library (LD_PRELOAD): Python, delta-rs, DuckDB and the JVM all call it. POWER_ROOT names
   the folder, POWER_TRACE the file that is written. Each record is a line of words, then as many bytes as its
   third word says. What is written is read back from the file: so it is there however it came there. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(result, name, ...) \
    static result (*real)(__VA_ARGS__); \
    if (!real) real = dlsym(RTLD_NEXT, name)

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static int trace = -1;
static const char *root;

__attribute__((constructor)) static void begin(void) {
    const char *file = getenv("POWER_TRACE");
    root = getenv("POWER_ROOT");
    if (!file || !root) return;
    trace = open(file, O_WRONLY | O_APPEND | O_CLOEXEC);
}

/* One at a time, in all processes: the order of the records is that of what they say. */
static void enter(void) {
    pthread_mutex_lock(&guard);
    if (trace >= 0) flock(trace, LOCK_EX);
}

static void leave(void) {
    int kept = errno;
    if (trace >= 0) flock(trace, LOCK_UN);
    pthread_mutex_unlock(&guard);
    errno = kept;
}

static int within(const char *path) {
    size_t length = root ? strlen(root) : 0;
    return trace >= 0 && length && !strncmp(path, root, length) && (path[length] == '/' || !path[length]);
}

static const char *target_of(int fd, char *into) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, into, PATH_MAX - 1);
    into[length < 0 ? 0 : length] = 0;
    return into;
}

static const char *absolute(int folder, const char *path, char *into) {
    char base[PATH_MAX] = "";
    if (path[0] == '/') return path;
    if (folder != AT_FDCWD) target_of(folder, base);
    else if (!getcwd(base, sizeof base)) return path;
    snprintf(into, PATH_MAX, "%s/%s", base, path);
    return into;
}

static void note(const char *what, ino_t inode, const char *path, const char *other, off_t at, const void *bytes,
                 size_t count) {
    int kept = errno;
    char head[2 * PATH_MAX + 128];
    int length = snprintf(head, sizeof head, "%s\t%lu\t%zu\t%ld\t%s\t%s\n", what, (unsigned long)inode, count,
                          (long)at, path, other);
    struct iovec parts[2] = {{head, length}, {(void *)bytes, count}};
    static ssize_t (*real)(int, const struct iovec *, int);
    if (!real) real = dlsym(RTLD_NEXT, "writev");
    if (real(trace, parts, 2) != (ssize_t)(length + count)) abort();
    errno = kept;
}

static void note_names(const char *what, ino_t inode, int from, const char *path, int to, const char *other) {
    char one[PATH_MAX], two[PATH_MAX];
    const char *first = absolute(from, path, one);
    const char *second = other ? absolute(to, other, two) : "";
    if (within(first) || within(second)) note(what, inode, first, second, 0, "", 0);
}

static ino_t inode_at(int folder, const char *path) {
    struct stat found;
    return fstatat(folder, path, &found, AT_SYMLINK_NOFOLLOW) ? 0 : found.st_ino;
}

/* Whether a descriptor is of a file or folder of ours; its inode. */
static ino_t ours(int fd, int kinds_too) {
    struct stat found;
    char path[PATH_MAX];
    int kept = errno;
    ino_t inode = 0;
    if (trace >= 0 && fd != trace && !fstat(fd, &found) &&
        (S_ISREG(found.st_mode) || (kinds_too && S_ISDIR(found.st_mode))) && within(target_of(fd, path)))
        inode = found.st_ino;
    errno = kept;
    return inode;
}

/* The file has count bytes more before its offset at + count; at < 0: those before where it stands. */
static void note_written(int fd, off_t at, ssize_t count) {
    int kept = errno;
    ino_t inode = count > 0 ? ours(fd, 0) : 0;
    if (inode) {
        char link[64];
        if (at < 0) at = lseek(fd, 0, SEEK_CUR) - count;
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        static int (*opened)(const char *, int, ...);
        if (!opened) opened = dlsym(RTLD_NEXT, "open");
        int again = opened(link, O_RDONLY | O_CLOEXEC);
        void *bytes = malloc(count);
        if (again < 0 || pread(again, bytes, count, at) != count) abort();
        note("write", inode, "", "", at, bytes, count);
        free(bytes);
        close(again);
    }
    errno = kept;
}

static int opening(int folder, const char *path, int flags, mode_t mode) {
    REAL(int, "openat", int, const char *, int, ...);
    if (trace < 0 || !(flags & (O_CREAT | O_TRUNC)) || (flags & O_TMPFILE) == O_TMPFILE)
        return real(folder, path, flags, mode);
    enter();
    int fd = real(folder, path, flags, mode);
    ino_t inode = fd < 0 ? 0 : ours(fd, 0);
    if (inode && (flags & O_CREAT)) note_names("create", inode, folder, path, 0, NULL);
    if (inode && (flags & O_TRUNC)) note("truncate", inode, "", "", 0, "", 0);
    leave();
    return fd;
}

static mode_t mode_of(int flags, va_list rest) {
    return flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0;
}

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = mode_of(flags, rest); \
        va_end(rest); \
        return opening(AT_FDCWD, path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name) \
    int name(int folder, const char *path, int flags, ...) { \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = mode_of(flags, rest); \
        va_end(rest); \
        return opening(folder, path, flags, mode); \
    }
OPENAT(openat)
OPENAT(openat64)

int creat(const char *path, mode_t mode) {
    return opening(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}
int creat64(const char *path, mode_t mode) { return creat(path, mode); }

/* Sockets and pipes may block for long: what they are told is not held up, nor noted. */
#define WRITE(name, at, declared, types, given) \
    ssize_t name declared { \
        static ssize_t(*real) types; \
        if (!real) real = dlsym(RTLD_NEXT, #name); \
        if (!ours(fd, 0)) return real given; \
        enter(); \
        ssize_t done = real given; \
        note_written(fd, at, done); \
        leave(); \
        return done; \
    }
WRITE(write, -1, (int fd, const void *bytes, size_t count), (int, const void *, size_t), (fd, bytes, count))
WRITE(writev, -1, (int fd, const struct iovec *parts, int count), (int, const struct iovec *, int),
      (fd, parts, count))
WRITE(pwrite, at, (int fd, const void *bytes, size_t count, off_t at), (int, const void *, size_t, off_t),
      (fd, bytes, count, at))
WRITE(pwrite64, at, (int fd, const void *bytes, size_t count, off_t at), (int, const void *, size_t, off_t),
      (fd, bytes, count, at))
WRITE(pwritev, at, (int fd, const struct iovec *parts, int count, off_t at),
      (int, const struct iovec *, int, off_t), (fd, parts, count, at))
WRITE(pwritev64, at, (int fd, const struct iovec *parts, int count, off_t at),
      (int, const struct iovec *, int, off_t), (fd, parts, count, at))
WRITE(sendfile, -1, (int fd, int from, off_t *at, size_t count), (int, int, off_t *, size_t),
      (fd, from, at, count))
WRITE(sendfile64, -1, (int fd, int from, off_t *at, size_t count), (int, int, off_t *, size_t),
      (fd, from, at, count))
WRITE(copy_file_range, to ? *to - done : -1,
      (int from, off_t *at, int fd, off_t *to, size_t count, unsigned int flags),
      (int, off_t *, int, off_t *, size_t, unsigned int), (from, at, fd, to, count, flags))

#define TRUNCATE(name) \
    int name(int fd, off_t length) { \
        REAL(int, #name, int, off_t); \
        enter(); \
        int failed = real(fd, length); \
        ino_t inode = failed ? 0 : ours(fd, 0); \
        if (inode) note("truncate", inode, "", "", length, "", 0); \
        leave(); \
        return failed; \
    }
TRUNCATE(ftruncate)
TRUNCATE(ftruncate64)

#define FORCE(name) \
    int name(int fd) { \
        REAL(int, #name, int); \
        ino_t inode = ours(fd, 1); \
        if (!inode) return real(fd); \
        enter(); \
        int failed = real(fd); \
        if (!failed) note("force", inode, "", "", 0, "", 0); \
        leave(); \
        return failed; \
    }
FORCE(fsync)
FORCE(fdatasync)

#define NAMES(name, what, declared, types, given, inode, from, path, to, other) \
    int name declared { \
        static int(*real) types; \
        if (!real) real = dlsym(RTLD_NEXT, #name); \
        enter(); \
        int failed = real given; \
        if (!failed) note_names(what, inode, from, path, to, other); \
        leave(); \
        return failed; \
    }
NAMES(rename, "rename", (const char *a, const char *b), (const char *, const char *), (a, b), 0, AT_FDCWD, a,
      AT_FDCWD, b)
NAMES(renameat, "rename", (int d, const char *a, int e, const char *b), (int, const char *, int, const char *),
      (d, a, e, b), 0, d, a, e, b)
NAMES(renameat2, "rename", (int d, const char *a, int e, const char *b, unsigned int flags),
      (int, const char *, int, const char *, unsigned int), (d, a, e, b, flags), 0, d, a, e, b)
NAMES(link, "link", (const char *a, const char *b), (const char *, const char *), (a, b), 0, AT_FDCWD, a,
      AT_FDCWD, b)
NAMES(linkat, "link", (int d, const char *a, int e, const char *b, int flags),
      (int, const char *, int, const char *, int), (d, a, e, b, flags), 0, d, a, e, b)
NAMES(unlink, "unlink", (const char *a), (const char *), (a), 0, AT_FDCWD, a, 0, NULL)
NAMES(unlinkat, "unlink", (int d, const char *a, int flags), (int, const char *, int), (d, a, flags), 0, d, a, 0,
      NULL)
NAMES(rmdir, "unlink", (const char *a), (const char *), (a), 0, AT_FDCWD, a, 0, NULL)
NAMES(remove, "unlink", (const char *a), (const char *), (a), 0, AT_FDCWD, a, 0, NULL)
NAMES(mkdir, "mkdir", (const char *a, mode_t mode), (const char *, mode_t), (a, mode), inode_at(AT_FDCWD, a), AT_FDCWD, a,
      0, NULL)
NAMES(mkdirat, "mkdir", (int d, const char *a, mode_t mode), (int, const char *, mode_t), (d, a, mode),
      inode_at(d, a), d, a, 0, NULL)
