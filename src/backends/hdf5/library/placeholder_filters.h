#pragma once
// Classes of filters and of links that libhdf5 does not have, lent to it while a file is copied: it makes datasets and
// links of them only where the class is registered. The classes of filters do nothing to chunks and, unlike those of
// plugins, nothing to parameters, which are stored as they were.
//
// All functions under a LibraryRead; destroyed when no dataset of either file is open.

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

  /// Lets datasets with these creation properties be made. EIO.
  Result<> register_filters(hid_t properties);
  /// Puts the filters themselves in place, for H5Dread and H5Dwrite, when no dataset is open that has them.
  /// EOPNOTSUPP: nobody provides one.
  Result<> provide_filters(hid_t properties);
  /// Lets links of a user-defined class be read and made. EIO.
  Result<> register_link(H5L_type_t type);

 private:
  std::set<H5Z_filter_t> filters_;
  std::set<H5L_type_t> links_;
};

}  // namespace codecfs::hdf5
