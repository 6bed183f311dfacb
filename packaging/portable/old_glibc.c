/* What Debian 12's static libraries call of glibc that glibc 2.28 has not. */
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of glibc 2.36; libexpat gets the salt of its hashes by it. */
void arc4random_buf(void* bytes, size_t size) {
  char* at = bytes;
  while (size > 0) {
    const ssize_t got = getrandom(at, size, 0);
    if (got < 0 && errno != EINTR) abort();
    if (got > 0) {
      at += got;
      size -= (size_t)got;
    }
  }
}
