#pragma once
// What a failure of libhdf5 says about the file. For the callback of H5Eset_auto2, whose error paths have been seen to
// free invalid memory.

#include <hdf5.h>

#include <string_view>

namespace codecfs::hdf5 {

struct FailureReport {
  bool out_of_memory = false;
  bool is_damage = false;        // the error does not occur in undamaged files
  bool in_attributes = false;    // it occurred while attributes were read
  const char* reason = nullptr;  // libhdf5's text, valid in the callback; null if there is none
};

/// `stack`: the argument of the callback. Under a LibraryLock.
FailureReport report_failure(hid_t stack);

/// Whether an error of this libhdf5 function only means that a chunk is not stored (before 1.12).
bool reports_absence(std::string_view function);

}  // namespace codecfs::hdf5
