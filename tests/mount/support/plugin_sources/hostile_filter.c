/* An HDF5 filter that changes nothing, but misbehaves when it decodes data that starts with "BAD" and one of these
 * letters. */
#include <H5PLextern.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef ID
#define ID 32903
#endif

static void* do_nothing(void* argument) { return argument; }

static int dig(volatile char* above) {
  volatile char room[4096];
  room[0] = *above;
  return dig(room) + room[0];
}

/* Notes what a sandboxed process can do: one letter each, a capital if it is possible. */
static void try_everything(char* notes) {
  int fd = open("/etc/passwd", O_RDONLY);
  notes[0] = fd >= 0 ? 'O' : 'o';
  fd = open("/tmp/codecfs-hostile-plugin", O_WRONLY | O_CREAT, 0600);
  notes[1] = fd >= 0 ? 'W' : 'w';
  notes[2] = socket(AF_INET, SOCK_STREAM, 0) >= 0 ? 'S' : 's';
  notes[3] = socket(AF_UNIX, SOCK_STREAM, 0) >= 0 ? 'U' : 'u';
  const pid_t child = fork();
  if (child == 0) _exit(0);
  notes[4] = child > 0 ? 'F' : 'f';
  if (child > 0) waitpid(child, NULL, 0);
  char* const arguments[] = {"true", NULL};
  notes[5] = access("/bin/true", X_OK) == 0 ? 'A' : 'a';
  notes[6] = kill(1, 0) == 0 ? 'K' : 'k';
  notes[7] = ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0 ? 'P' : 'p';
  notes[8] = unlink("/tmp/codecfs-hostile-plugin") == 0 ? 'R' : 'r';
  pthread_t thread; /* allowed */
  notes[9] = pthread_create(&thread, NULL, do_nothing, NULL) == 0 && pthread_join(thread, NULL) == 0 ? 'T' : 't';
  execv("/bin/true", arguments);
  notes[10] = 'e'; /* still here */
}

/* Answers in place of the worker, on each socket that it has beside the first: with the second serial number, 5 bytes
 * of what is in the shared memory, and no bulk. */
static void answer_nonsense(void) {
  struct {
    uint32_t kind, head;
    uint64_t bulk;
  } header = {2, 5, 0};
  struct iovec data = {&header, sizeof header};
  struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
  for (int fd = 4; fd < 16; ++fd) sendmsg(fd, &message, MSG_NOSIGNAL);
}

static size_t hostile_filter(unsigned flags, size_t cd_nelmts, const unsigned cd_values[], size_t nbytes,
                             size_t* buf_size, void** buf) {
  (void)cd_nelmts, (void)cd_values, (void)buf_size;
  char* bytes = *buf;
  if (!(flags & H5Z_FLAG_REVERSE) || nbytes < 16 || memcmp(bytes, "BAD", 3) != 0) return nbytes;
  volatile int forever = 1;
  switch (bytes[3]) {
    case 'c': *(volatile int*)8 = 1; break; /* crash */
    case 'a': abort();
    case 'l':
      while (forever) continue; /* loop */
    case 's':
      for (;;) pause();                                                    /* sleep */
    case 'o': memset(bytes - 64, 0x5a, nbytes + ((size_t)4 << 30)); break; /* write out of bounds */
    case 'm':                                                              /* exhaust memory */
      for (;;) *(volatile char*)malloc(64 << 20) = 1;
    case 'd': return (size_t)dig(bytes); /* overflow the stack */
    case 'e': exit(3);
    case 'E': _exit(3);
    case 'k': raise(SIGKILL); break;
    case 'f':
      for (int fd = 0; fd < 100; ++fd) close(fd);
      break;
    case 'L': return SIZE_MAX; /* lie about the size */
    case 'i': answer_nonsense(); break;
    case 't': try_everything(bytes + 4); break;
    case 'n': /* take time */ {
      const struct timespec moment = {0, 20000000};
      nanosleep(&moment, NULL);
    }
  }
  return nbytes;
}

static const H5Z_class2_t hostile = {H5Z_CLASS_T_VERS, ID, 1, 1, "hostile", NULL, NULL, hostile_filter};
H5PL_type_t H5PLget_plugin_type(void) { return H5PL_TYPE_FILTER; }
const void* H5PLget_plugin_info(void) { return &hostile; }
