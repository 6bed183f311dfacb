#pragma once
// Temporary registrations of unknown filter and link classes while a file is copied, because libhdf5 creates datasets
// and links only with registered classes. The placeholder filters never process chunks and, unlike those of plugins, do
// not change parameters, which are copied exactly.
//
// All functions under a LibraryRead. Must be destroyed when no dataset of either file is open.

#include <hdf5.h>

#include <set>

#include "base/result.h"

namespace codecfs::hdf5 {

class PlaceholderFilters {
 public:
  PlaceholderFilters() = default;
  ~PlaceholderFilters();
  PlaceholderFilters(const PlaceholderFilters&) = delete;
  PlaceholderFilters& operator=(const PlaceholderFilters&) = delete;

  /// Permits the creation of datasets with these creation properties. EIO.
  Result<> register_filters(hid_t properties);
  /// Replaces the placeholders by the filters themselves, for H5Dread and H5Dwrite. No dataset that uses them may be
  /// open. EOPNOTSUPP if a filter is missing.
  Result<> provide_filters(hid_t properties);
  /// Permits reading and creating links of a user-defined class. EIO.
  Result<> register_link(H5L_type_t type);

 private:
  std::set<H5Z_filter_t> filters_;
  std::set<H5L_type_t> links_;
};

}  // namespace codecfs::hdf5
