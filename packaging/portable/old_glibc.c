/* What the static libraries of Debian 12 and 14 call of glibc that glibc 2.28 has not. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* Of glibc 2.32; libfuse puts it into messages. */
const char* strerrordesc_np(int code) { return strerror(code); }

/* Of glibc 2.38: these take binary numbers ("0b1") too, which no format of HDF5's or libfuse's has. */
long __isoc23_strtol(const char* text, char** end, int base) { return strtol(text, end, base); }
long long __isoc23_strtoll(const char* text, char** end, int base) { return strtoll(text, end, base); }
unsigned long __isoc23_strtoul(const char* text, char** end, int base) { return strtoul(text, end, base); }
unsigned long long __isoc23_strtoull(const char* text, char** end, int base) { return strtoull(text, end, base); }
int __isoc23_sscanf(const char* text, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int count = vsscanf(text, format, arguments);
  va_end(arguments);
  return count;
}
