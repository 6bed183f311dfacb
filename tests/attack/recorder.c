/* Records the calls that change files below one directory, in the order in which they happen: record.py replays them.

   A library for LD_PRELOAD. RECORDER_ROOT is the directory, RECORDER_TRACE the file that the calls are appended to,
   with what they wrote; RECORDER_LOCK a file of 4096 zeros, which all processes that are recorded map. A lock is held
   around each call and its record, so the trace has one order. A record: the struct below, two paths relative to the
   root, and the payload.

   The daemon makes the calls with names, and those that set attributes, for its sandboxed workers, each of which waits
   in the kernel meanwhile: they are recorded in the daemon, and a worker must not hold the lock while it waits. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

#define LONGEST (PATH_MAX + NAME_MAX + 2)

enum {
  kCreate = 1,
  kWrite,
  kTruncate,
  kAllocate,
  kSync,
  kDataSync,
  kRename,
  kExchange,
  kLink,
  kUnlink,
  kMkdir,
  kRmdir,
  kSymlink,
  kSetXattr,
  kRemoveXattr,
  kTimes,
  kSyncFilesystem
};

struct Record {
  uint32_t magic, operation;
  uint32_t path_bytes, other_bytes;
  uint64_t inode, offset, length, payload;
  int64_t mtime; /* of the file afterwards, in ns */
};

static char root[PATH_MAX];
static size_t root_length;
static int trace = -1;
static volatile int* lock_word;

#define REAL(name)                                                \
  __extension__({                                                 \
    static __typeof__(&name) real;                                \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name); \
    real;                                                         \
  })

__attribute__((constructor)) static void start(void) {
  const char* place = getenv("RECORDER_ROOT");
  const char* file = getenv("RECORDER_TRACE");
  const char* lock = getenv("RECORDER_LOCK");
  if (!place || !file || !lock) return;
  strncpy(root, place, sizeof root - 1);
  root_length = strlen(root);
  int fd = (int)syscall(SYS_openat, AT_FDCWD, lock, O_RDWR | O_CLOEXEC);
  if (fd < 0) abort();
  lock_word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (lock_word == MAP_FAILED) abort();
  syscall(SYS_close, fd);
  fd = (int)syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_APPEND | O_CLOEXEC);
  if (fd < 0) abort();
  trace = fcntl(fd, F_DUPFD_CLOEXEC, 900); /* where a program that closes all it knows does not come by */
  if (trace < 0)
    trace = fd;
  else
    syscall(SYS_close, fd);
}

enum { kFree = 0, kTaken = 1, kBroken = 2 };

/* For record.py too, which holds the lock while it kills: no call is done then and not recorded. */
void recorder_take(volatile int* word) {
  int none = kFree;
  while (!__atomic_compare_exchange_n(word, &none, kTaken, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
    if (none == kBroken) abort();
    none = kFree;
    sched_yield();
  }
}
void recorder_give(volatile int* word) { __atomic_store_n(word, kFree, __ATOMIC_RELEASE); }
static void take_lock(void) { recorder_take(lock_word); }
static void give_lock(void) { recorder_give(lock_word); }

/* Ends this process, and all that wait for the lock. */
static void give_up(const char* why) {
  __atomic_store_n(lock_word, kBroken, __ATOMIC_RELEASE);
  dprintf(STDERR_FILENO, "recorder: %s\n", why);
  abort();
}

/* A sandboxed worker may not even ask this. */
static int is_made_by_daemon(void) { return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0; }

/* The path below the root, or NULL. */
static const char* below(const char* path) {
  if (strncmp(path, root, root_length) != 0) return NULL;
  if (path[root_length] == '\0') return "";
  return path[root_length] == '/' ? path + root_length + 1 : NULL;
}

static const char* path_of_fd(int fd, char* buffer) {
  if (trace < 0) return NULL;
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, buffer, PATH_MAX - 1);
  if (length <= 0) return NULL;
  buffer[length] = '\0';
  return below(buffer);
}

/* Of a name in a directory. */
static const char* path_at(int directory, const char* name, char* buffer) {
  if (trace < 0 || !name || is_made_by_daemon()) return NULL;
  char place[PATH_MAX];
  char joined[2 * PATH_MAX];
  if (name[0] == '/') {
    snprintf(joined, sizeof joined, "%s", name);
  } else {
    if (directory == AT_FDCWD) {
      if (!getcwd(place, sizeof place)) return NULL;
    } else {
      char link[64];
      snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
      const ssize_t length = readlink(link, place, sizeof place - 1);
      if (length <= 0) return NULL;
      place[length] = '\0';
    }
    snprintf(joined, sizeof joined, "%s/%s", place, name);
  }
  /* The directory may be told by a link such as /proc/self/fd/N/name. */
  char* slash = strrchr(joined, '/');
  char last[NAME_MAX + 1];
  snprintf(last, sizeof last, "%s", slash + 1);
  *(slash == joined ? slash + 1 : slash) = '\0';
  char real_path[PATH_MAX];
  if (!realpath(joined, real_path)) return NULL;
  if (last[0] == '\0' || strcmp(last, ".") == 0)
    snprintf(buffer, LONGEST, "%s", real_path);
  else
    snprintf(buffer, LONGEST, "%s/%.255s", real_path, last);
  return below(buffer);
}

static int real_fstat(int fd, struct stat* status) {
  return (int)syscall(SYS_newfstatat, fd, "", status, AT_EMPTY_PATH);
}

static void put(uint32_t operation, const char* path, const char* other, const struct stat* status, uint64_t offset,
                uint64_t length, const struct iovec* parts, int count) {
  struct Record record = {0x43455253,
                          operation,
                          path ? (uint32_t)strlen(path) : 0,
                          other ? (uint32_t)strlen(other) : 0,
                          status ? status->st_ino : 0,
                          offset,
                          length,
                          0,
                          status ? status->st_mtim.tv_sec * 1000000000L + status->st_mtim.tv_nsec : 0};
  struct iovec all[3 + 64];
  int used = 3;
  uint64_t left = length;
  if (parts) {
    for (int i = 0; i < count && i < 64 && left > 0; ++i) {
      all[used] = parts[i];
      if (all[used].iov_len > left) all[used].iov_len = left;
      left -= all[used].iov_len;
      record.payload += all[used++].iov_len;
    }
  }
  all[0] = (struct iovec){&record, sizeof record};
  all[1] = (struct iovec){(void*)path, record.path_bytes};
  all[2] = (struct iovec){(void*)other, record.other_bytes};
  const size_t wanted = sizeof record + record.path_bytes + record.other_bytes + record.payload;
  if (syscall(SYS_writev, trace, all, used) != (long)wanted) give_up("cannot write the trace");
}

static void put_fd(uint32_t operation, int fd, const char* path, uint64_t offset, uint64_t length,
                   const struct iovec* parts, int count) {
  struct stat status;
  if (real_fstat(fd, &status) == 0) put(operation, path, NULL, &status, offset, length, parts, count);
}

/* --- files that are opened */

static int open_any(int directory, const char* name, int flags, mode_t mode) {
  char buffer[LONGEST];
  const char* path = NULL;
  if (trace >= 0 && (flags & (O_CREAT | O_TRUNC | __O_TMPFILE))) path = path_at(directory, name, buffer);
  if (!path) return (int)syscall(SYS_openat, directory, name, flags, mode);
  take_lock();
  struct stat before;
  const int was_there = (flags & __O_TMPFILE) != __O_TMPFILE && fstatat(directory, name, &before, 0) == 0;
  const int fd = (int)syscall(SYS_openat, directory, name, flags, mode);
  const int error = errno;
  if (fd >= 0) {
    if ((flags & __O_TMPFILE) == __O_TMPFILE)
      put_fd(kCreate, fd, NULL, 0, 0, NULL, 0);
    else if (!was_there)
      put_fd(kCreate, fd, path, 0, 0, NULL, 0);
    else if (flags & O_TRUNC)
      put_fd(kTruncate, fd, path, 0, 0, NULL, 0);
  }
  give_lock();
  errno = error;
  return fd;
}

#define MODE(flags, last)                  \
  mode_t mode = 0;                         \
  if ((flags) & (O_CREAT | __O_TMPFILE)) { \
    va_list list;                          \
    va_start(list, last);                  \
    mode = va_arg(list, mode_t);           \
    va_end(list);                          \
  }

int open(const char* name, int flags, ...) { MODE(flags, flags) return open_any(AT_FDCWD, name, flags, mode); }
int open64(const char* name, int flags, ...) { MODE(flags, flags) return open_any(AT_FDCWD, name, flags, mode); }
int openat(int directory, const char* name, int flags, ...) {
  MODE(flags, flags) return open_any(directory, name, flags, mode);
}
int openat64(int directory, const char* name, int flags, ...) {
  MODE(flags, flags) return open_any(directory, name, flags, mode);
}
int creat(const char* name, mode_t mode) { return open_any(AT_FDCWD, name, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int __open_2(const char* name, int flags) { return open_any(AT_FDCWD, name, flags, 0); }
int __open64_2(const char* name, int flags) { return open_any(AT_FDCWD, name, flags, 0); }
int __openat_2(int directory, const char* name, int flags) { return open_any(directory, name, flags, 0); }
int __openat64_2(int directory, const char* name, int flags) { return open_any(directory, name, flags, 0); }

static int temporary(char* name, int suffix, int flags) {
  char buffer[LONGEST];
  static int (*real)(char*, int, int);
  if (!real) real = (int (*)(char*, int, int))dlsym(RTLD_NEXT, "mkostemps");
  if (trace < 0 || is_made_by_daemon()) return real(name, suffix, flags);
  take_lock();
  const int fd = real(name, suffix, flags);
  const int error = errno;
  const char* path = fd >= 0 ? path_of_fd(fd, buffer) : NULL;
  if (path) put_fd(kCreate, fd, path, 0, 0, NULL, 0);
  give_lock();
  errno = error;
  return fd;
}
int mkstemp(char* name) { return temporary(name, 0, 0); }
int mkstemp64(char* name) { return temporary(name, 0, 0); }
int mkostemp(char* name, int flags) { return temporary(name, 0, flags); }
int mkostemp64(char* name, int flags) { return temporary(name, 0, flags); }
int mkostemps(char* name, int suffix, int flags) { return temporary(name, suffix, flags); }

/* --- bytes */

static ssize_t write_any(int fd, const struct iovec* parts, int count, off_t offset, int has_offset) {
  char buffer[LONGEST];
  const char* path = path_of_fd(fd, buffer);
  if (!path)
    return has_offset ? syscall(SYS_pwritev, fd, parts, count, offset, 0) : syscall(SYS_writev, fd, parts, count);
  take_lock();
  struct stat status;
  if (!has_offset) {
    offset = lseek(fd, 0, SEEK_CUR);
    if (fcntl(fd, F_GETFL) & O_APPEND && real_fstat(fd, &status) == 0) offset = status.st_size;
  }
  const ssize_t done =
      has_offset ? syscall(SYS_pwritev, fd, parts, count, offset, 0) : syscall(SYS_writev, fd, parts, count);
  const int error = errno;
  if (done > 0) put_fd(kWrite, fd, path, (uint64_t)offset, (uint64_t)done, parts, count);
  give_lock();
  errno = error;
  return done;
}

#define ONE(data, size) (&(struct iovec){(void*)(data), size})
ssize_t write(int fd, const void* data, size_t size) {
  char buffer[LONGEST];
  if (fd == trace || !path_of_fd(fd, buffer)) return syscall(SYS_write, fd, data, size);
  return write_any(fd, ONE(data, size), 1, 0, 0);
}
ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  return write_any(fd, ONE(data, size), 1, offset, 1);
}
ssize_t pwrite64(int fd, const void* data, size_t size, off_t offset) {
  return write_any(fd, ONE(data, size), 1, offset, 1);
}
ssize_t writev(int fd, const struct iovec* parts, int count) {
  return write_any(fd, parts, count > 64 ? 64 : count, 0, 0);
}
ssize_t pwritev(int fd, const struct iovec* parts, int count, off_t offset) {
  return write_any(fd, parts, count > 64 ? 64 : count, offset, 1);
}
ssize_t pwritev64(int fd, const struct iovec* parts, int count, off_t offset) {
  return write_any(fd, parts, count > 64 ? 64 : count, offset, 1);
}

/* Callers fall back to reading and writing. */
ssize_t copy_file_range(int from, off_t* at, int to, off_t* to_at, size_t size, unsigned flags) {
  char buffer[LONGEST];
  if (path_of_fd(to, buffer)) {
    errno = EOPNOTSUPP;
    return -1;
  }
  return syscall(SYS_copy_file_range, from, at, to, to_at, size, flags);
}
ssize_t sendfile(int to, int from, off_t* at, size_t size) {
  char buffer[LONGEST];
  if (path_of_fd(to, buffer)) {
    errno = EINVAL;
    return -1;
  }
  return syscall(SYS_sendfile, to, from, at, size);
}

#define ON_FD(type, call, record)            \
  char buffer[LONGEST];                      \
  const char* path = path_of_fd(fd, buffer); \
  if (!path) return (type)(call);            \
  take_lock();                               \
  const type done = (type)(call);            \
  const int error = errno;                   \
  if (done == 0) record;                     \
  give_lock();                               \
  errno = error;                             \
  return done;

int ftruncate(int fd, off_t size) {
  ON_FD(int, syscall(SYS_ftruncate, fd, size), put_fd(kTruncate, fd, path, 0, (uint64_t)size, NULL, 0))
}
int ftruncate64(int fd, off_t size) {
  ON_FD(int, syscall(SYS_ftruncate, fd, size), put_fd(kTruncate, fd, path, 0, (uint64_t)size, NULL, 0))
}
static void put_allocation(int fd, const char* path, int mode, off_t offset, off_t size) {
  struct stat status;
  char other[16];
  snprintf(other, sizeof other, "%d", mode);
  if (real_fstat(fd, &status) == 0) put(kAllocate, path, other, &status, (uint64_t)offset, (uint64_t)size, NULL, 0);
}
static int allocate(int fd, int mode, off_t offset, off_t size) {
  ON_FD(int, syscall(SYS_fallocate, fd, mode, offset, size), put_allocation(fd, path, mode, offset, size))
}
int fallocate(int fd, int mode, off_t offset, off_t size) { return allocate(fd, mode, offset, size); }
int fallocate64(int fd, int mode, off_t offset, off_t size) { return allocate(fd, mode, offset, size); }
int posix_fallocate(int fd, off_t offset, off_t size) { return allocate(fd, 0, offset, size) == 0 ? 0 : errno; }
int posix_fallocate64(int fd, off_t offset, off_t size) { return allocate(fd, 0, offset, size) == 0 ? 0 : errno; }
int fsync(int fd) { ON_FD(int, syscall(SYS_fsync, fd), put_fd(kSync, fd, path, 0, 0, NULL, 0)) }
int fdatasync(int fd) { ON_FD(int, syscall(SYS_fdatasync, fd), put_fd(kDataSync, fd, path, 0, 0, NULL, 0)) }
int syncfs(int fd) { ON_FD(int, syscall(SYS_syncfs, fd), put_fd(kSyncFilesystem, fd, path, 0, 0, NULL, 0)) }
int futimens(int fd, const struct timespec times[2]) {
  ON_FD(int, syscall(SYS_utimensat, fd, NULL, times, 0), put_fd(kTimes, fd, path, 0, 0, NULL, 0))
}
int utimensat(int directory, const char* name, const struct timespec times[2], int flags) {
  const int done = (int)syscall(SYS_utimensat, directory, name, times, flags);
  char buffer[LONGEST];
  struct stat status;
  const char* path = done == 0 ? path_at(directory, name, buffer) : NULL;
  if (path && syscall(SYS_newfstatat, directory, name, &status, flags) == 0) {
    take_lock();
    put(kTimes, path, NULL, &status, 0, 0, NULL, 0);
    give_lock();
  }
  return done;
}
int fsetxattr(int fd, const char* name, const void* value, size_t size, int flags) {
  struct stat status;
  if (is_made_by_daemon()) return (int)syscall(SYS_fsetxattr, fd, name, value, size, flags);
  ON_FD(int, syscall(SYS_fsetxattr, fd, name, value, size, flags),
        if (real_fstat(fd, &status) == 0) put(kSetXattr, path, name, &status, 0, size, ONE(value, size), 1))
}
int fremovexattr(int fd, const char* name) {
  struct stat status;
  if (is_made_by_daemon()) return (int)syscall(SYS_fremovexattr, fd, name);
  ON_FD(int, syscall(SYS_fremovexattr, fd, name),
        if (real_fstat(fd, &status) == 0) put(kRemoveXattr, path, name, &status, 0, 0, NULL, 0))
}
int setxattr(const char* name, const char* key, const void* value, size_t size, int flags) {
  const int fd = (int)syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
  if (fd < 0) return -1;
  const int done = fsetxattr(fd, key, value, size, flags);
  const int error = errno;
  syscall(SYS_close, fd);
  errno = error;
  return done;
}
int removexattr(const char* name, const char* key) {
  const int fd = (int)syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
  if (fd < 0) return -1;
  const int done = fremovexattr(fd, key);
  const int error = errno;
  syscall(SYS_close, fd);
  errno = error;
  return done;
}

/* Workers close all that they inherit, with a system call that is made as such. */
static long close_others(unsigned first, unsigned last, unsigned flags) {
  const unsigned kept = (unsigned)trace;
  if (trace < 0 || kept < first || kept > last) return REAL(syscall)(SYS_close_range, first, last, flags);
  if (kept > first && REAL(syscall)(SYS_close_range, first, kept - 1, flags) != 0) return -1;
  return kept < last ? REAL(syscall)(SYS_close_range, kept + 1, last, flags) : 0;
}
int close_range(unsigned first, unsigned last, int flags) { return (int)close_others(first, last, (unsigned)flags); }

long syscall(long number, ...) {
  long arguments[6];
  va_list list;
  va_start(list, number);
  for (int i = 0; i < 6; ++i) arguments[i] = va_arg(list, long);
  va_end(list);
  if (number == SYS_close_range)
    return close_others((unsigned)arguments[0], (unsigned)arguments[1], (unsigned)arguments[2]);
  return REAL(syscall)(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
}

/* --- names */

static int on_names(uint32_t operation, const char* path, const char* other, int fd_of_file, long (*call)(void*),
                    void* arguments) {
  take_lock();
  struct stat status;
  const int has_status = fd_of_file >= 0 && real_fstat(fd_of_file, &status) == 0;
  const int done = (int)call(arguments);
  const int error = errno;
  if (done == 0) put(operation, path, other, has_status ? &status : NULL, 0, 0, NULL, 0);
  give_lock();
  errno = error;
  return done;
}
struct Names {
  int from;
  const char* name;
  int to;
  const char* other;
  long flags;
  long call;
};
static long call_names(void* given) {
  const struct Names* names = given;
  if (names->call == SYS_renameat2)
    return syscall(SYS_renameat2, names->from, names->name, names->to, names->other, names->flags);
  if (names->call == SYS_linkat)
    return syscall(SYS_linkat, names->from, names->name, names->to, names->other, names->flags);
  if (names->call == SYS_symlinkat) return syscall(SYS_symlinkat, names->name, names->to, names->other);
  return syscall(names->call, names->from, names->name, names->flags);
}

static int rename_any(int from, const char* name, int to, const char* other, unsigned flags) {
  char one[LONGEST], two[PATH_MAX];
  const char* path = path_at(from, name, one);
  const char* target = path_at(to, other, two);
  struct Names names = {from, name, to, other, flags, SYS_renameat2};
  if (!path && !target) return (int)call_names(&names);
  return on_names(flags & RENAME_EXCHANGE ? kExchange : kRename, path, target, -1, call_names, &names);
}
int rename(const char* name, const char* other) { return rename_any(AT_FDCWD, name, AT_FDCWD, other, 0); }
int renameat(int from, const char* name, int to, const char* other) { return rename_any(from, name, to, other, 0); }
int renameat2(int from, const char* name, int to, const char* other, unsigned flags) {
  return rename_any(from, name, to, other, flags);
}
int linkat(int from, const char* name, int to, const char* other, int flags) {
  char two[LONGEST];
  const char* target = path_at(to, other, two);
  struct Names names = {from, name, to, other, flags, SYS_linkat};
  if (!target) return (int)call_names(&names);
  int file = -1;
  if (flags & AT_EMPTY_PATH && !*name)
    file = dup(from);
  else
    file = (int)syscall(SYS_openat, from, name, O_PATH | O_CLOEXEC | (flags & AT_SYMLINK_FOLLOW ? 0 : O_NOFOLLOW), 0);
  const int done = on_names(kLink, "", target, file, call_names, &names);
  const int error = errno;
  if (file >= 0) syscall(SYS_close, file);
  errno = error;
  return done;
}
int link(const char* name, const char* other) { return linkat(AT_FDCWD, name, AT_FDCWD, other, 0); }
#define ONE_NAME(operation, call_number, directory, name, argument)       \
  char one[LONGEST];                                                      \
  const char* path = path_at(directory, name, one);                       \
  struct Names names = {directory, name, 0, NULL, argument, call_number}; \
  return path ? on_names(operation, path, NULL, -1, call_names, &names) : (int)call_names(&names);
int unlinkat(int directory, const char* name, int flags) {
  ONE_NAME(flags & AT_REMOVEDIR ? kRmdir : kUnlink, SYS_unlinkat, directory, name, flags)
}
int unlink(const char* name) { return unlinkat(AT_FDCWD, name, 0); }
int rmdir(const char* name) { return unlinkat(AT_FDCWD, name, AT_REMOVEDIR); }
int remove(const char* name) {
  const int done = unlinkat(AT_FDCWD, name, 0);
  return done != 0 && errno == EISDIR ? unlinkat(AT_FDCWD, name, AT_REMOVEDIR) : done;
}
int mkdirat(int directory, const char* name, mode_t mode) { ONE_NAME(kMkdir, SYS_mkdirat, directory, name, mode) }
int mkdir(const char* name, mode_t mode) { return mkdirat(AT_FDCWD, name, mode); }
int symlinkat(const char* target, int directory, const char* name) {
  char one[LONGEST];
  const char* path = path_at(directory, name, one);
  struct Names names = {0, target, directory, name, 0, SYS_symlinkat};
  return path ? on_names(kSymlink, path, target, -1, call_names, &names) : (int)call_names(&names);
}
int symlink(const char* target, const char* name) { return symlinkat(target, AT_FDCWD, name); }
