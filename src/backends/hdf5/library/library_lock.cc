// The lock for libhdf5, and the conversion of its error stack to text.

#include "backends/hdf5/library/library_lock.h"

#include <hdf5.h>

#include <atomic>

namespace codecfs::hdf5 {
namespace {

// Never destroyed: static handles may be closed at exit.
RecursiveMutex*& library_mutex() {
  static auto* mutex = new RecursiveMutex(LockRank::library);
  return mutex;
}

std::atomic<bool> out_of_memory = false;

// Takes the first entry of a walk from the innermost function outwards.
herr_t take_first(unsigned, const H5E_error2_t* entry, void* to) {
  auto& error = *static_cast<H5E_error2_t*>(to);
  error = *entry;
  return 1;
}

}  // namespace

void reset_library_lock() { library_mutex() = new RecursiveMutex(LockRank::library); }

LibraryLock::LibraryLock() : guard_(*library_mutex()) {
  // Disable libhdf5's plugin loading, which does not check the owner of a plugin file. We register our plugins with it
  // (filter_registration.h).
  static const bool loads_none = H5PLset_loading_state(0) >= 0;
  (void)loads_none;
  thread_local bool quiet = false;
  if (!quiet) quiet = H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) >= 0;
}

bool library_ran_out_of_memory() { return out_of_memory; }

// Clears the stack, because libhdf5 leaks its texts when the thread ends.
LibraryFailure latest_failure() {
  H5E_error2_t error{};
  LibraryFailure failure{"", "libhdf5 gives no reason"};
  if (H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_first, &error) >= 0 && error.desc != nullptr) {
    if (error.maj_num == H5E_RESOURCE && error.min_num == H5E_NOSPACE) out_of_memory = true;
    failure.reason = error.desc;
    if (error.func_name != nullptr) failure.function = error.func_name;
  }
  H5Eclear2(H5E_DEFAULT);
  return failure;
}

}  // namespace codecfs::hdf5
