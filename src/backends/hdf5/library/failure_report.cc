#include "backends/hdf5/library/failure_report.h"

#include <algorithm>
#include <string_view>

#include "backends/hdf5/library/hdf5_version.h"

namespace codecfs::hdf5 {
namespace {

// Public API functions (H5Dget_type), as opposed to internal ones (H5D_open, H5D__open).
bool is_called_by_programs(std::string_view function) {
  return std::ranges::any_of(function.substr(0, function.find('_')), [](char c) { return c >= 'a' && c <= 'z'; });
}

// Errors that also occur in undamaged files: links to missing targets, cyclic links, links out of the file; unknown
// types and kinds of links; truncated files, which are opened for reading all the same; queries of a property that the
// object does not have; stale ids; chunks that are not stored.
bool is_of_sound_files(const H5E_error2_t& error) {
  for (const hid_t minor : {H5E_NOTFOUND, H5E_NLINKS, H5E_NOTREGISTERED, H5E_TRUNCATED, H5E_CALLBACK, H5E_UNSUPPORTED,
                            minor_of_bad_number()})
    if (error.min_num == minor) return true;
  if (error.func_name == nullptr) return false;
  if (reports_absence(error.func_name)) return true;
  // A stale id of ours: it finds the location of an id, before anything is read.
  if (error.maj_num == H5E_ARGS && std::string_view(error.func_name) == "H5G_loc") return true;
  // Internal functions also report a wrong argument if it came from the file, such as an address outside of it. libhdf5
  // has crashed soon after some of these errors.
  return error.maj_num == H5E_ARGS && (error.min_num == H5E_BADTYPE || is_called_by_programs(error.func_name));
}

herr_t keep_first(unsigned, const H5E_error2_t* entry, void* to) {
  *static_cast<H5E_error2_t*>(to) = *entry;
  return 1;
}

herr_t find_attributes(unsigned, const H5E_error2_t* error, void* found) {
  const std::string_view function = error->func_name == nullptr ? "" : error->func_name;
  if (function.starts_with("H5A_") || function.starts_with("H5O_attr") || function.starts_with("H5O__attr"))
    *static_cast<bool*>(found) = true;
  return 0;
}

}  // namespace

bool reports_absence(std::string_view function) { return function == "H5D__get_chunk_storage_size"; }

FailureReport report_failure(hid_t stack) {
  FailureReport report;
  H5E_error2_t error{};
  if (H5Ewalk2(stack, H5E_WALK_UPWARD, keep_first, &error) < 0 || error.desc == nullptr) return report;
  report.reason = error.desc;
  report.out_of_memory = error.maj_num == H5E_RESOURCE && error.min_num == H5E_NOSPACE;
  H5Ewalk2(stack, H5E_WALK_UPWARD, find_attributes, &report.in_attributes);
  report.is_damage = !is_of_sound_files(error);
  return report;
}

}  // namespace codecfs::hdf5
