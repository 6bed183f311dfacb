#include "backends/hdf5/compact/placeholder_filters.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "backends/hdf5/library/filter_registration.h"
#include "backends/hdf5/library/library_lock.h"

namespace codecfs::hdf5 {
namespace {

// Chunks are copied as stored, so a call of this filter is an attempt to decode or encode, which fails.
size_t refuse(unsigned, size_t, const unsigned*, size_t, size_t*, void**) { return 0; }

ssize_t link_value(const char*, const void* value, size_t size, void* to, size_t room) {
  if (to != nullptr && room > 0) std::memcpy(to, value, std::min(size, room));
  return static_cast<ssize_t>(size);
}

// The number of trailing identifier arguments depends on libhdf5's version.
template <class... Identifiers>
hid_t lead_nowhere(const char*, hid_t, const void*, size_t, Identifiers...) {
  return H5I_INVALID_HID;
}

/// Whether the filter is libhdf5's or ours, so that its class does not change parameters.
bool leaves_parameters(const FilterStage& stage) {
  if (stage.id <= H5Z_FILTER_SCALEOFFSET) return true;
  const filters::FilterPtr filter = filters::find_by_id(stage.id);
  return filter != nullptr && filter->make_coder && filter->hdf5_library.empty();
}

}  // namespace

PlaceholderFilters::~PlaceholderFilters() {
  const LibraryLock lock;
  for (const H5Z_filter_t id : filters_) H5Zunregister(id);
  for (const H5L_type_t type : links_) H5Lunregister(type);
}

Result<> PlaceholderFilters::register_filters(hid_t properties) {
  CODECFS_ASSIGN(const std::vector<FilterStage> chain, stored_chain(properties));
  for (const FilterStage& stage : chain) {
    const auto id = static_cast<H5Z_filter_t>(stage.id);
    if (leaves_parameters(stage)) {
      CODECFS_TRY(make_available(stage));
    } else if (!filters_.contains(id)) {
      H5Z_class2_t registration{};
      registration.version = H5Z_CLASS_T_VERS;
      registration.id = id;
      registration.encoder_present = 1;
      registration.decoder_present = 1;
      registration.name = nullptr;  // libhdf5 would store it if the dataset has no name
      registration.filter = refuse;
      if (H5Zregister(&registration) < 0) return fail_library(EIO, "filter {}", id);
      filters_.insert(id);
    }
  }
  return {};
}

Result<> PlaceholderFilters::provide_filters(hid_t properties) {
  CODECFS_ASSIGN(const std::vector<FilterStage> chain, stored_chain(properties));
  for (const FilterStage& stage : chain) {
    const auto id = static_cast<H5Z_filter_t>(stage.id);
    if (filters_.contains(id)) {
      if (H5Zunregister(id) < 0) return fail_library(EOPNOTSUPP, "filter {}", id);
      filters_.erase(id);
    }
    if (!leaves_parameters(stage) && !make_available(stage))
      return fail(EOPNOTSUPP, "filter {} is needed to copy it, and is neither built in nor a plugin's", id);
  }
  return {};
}

Result<> PlaceholderFilters::register_link(H5L_type_t type) {
  if (H5Lis_registered(type) > 0) return {};
  H5L_class_t registration{};
  registration.version = H5L_LINK_CLASS_T_VERS;
  registration.id = type;
  registration.comment = "copied as stored";
  registration.trav_func = lead_nowhere;
  registration.query_func = link_value;
  if (H5Lregister(&registration) < 0) return fail_library(EIO, "links of class {}", static_cast<int>(type));
  links_.insert(type);
  return {};
}

}  // namespace codecfs::hdf5
