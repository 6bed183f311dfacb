/* Looks up functions of the caller's library. */
#define _GNU_SOURCE
#include "host_function.h"

#include <dlfcn.h>
#include <string.h>

bool host_function(const void* return_address, const char* name, void* pointer) {
  void* found = NULL;
  Dl_info caller;
  if (dladdr(return_address, &caller) && caller.dli_fname) {
    void* library = dlopen(caller.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (library) {
      found = dlsym(library, name);
      dlclose(library); /* releases our reference only: the caller is on the stack */
    }
  }
  if (!found) found = dlsym(RTLD_DEFAULT, name);
  /* POSIX guarantees that a function pointer fits void*, but ISO C has no conversion. */
  memcpy(pointer, &found, sizeof found);
  return found != NULL;
}
