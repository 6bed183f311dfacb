#pragma once
// Converts JSON to values of an HDF5 type, exactly: a value that does not fit is not converted. All calls under a
// LibraryLock.

#include <hdf5.h>

#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/json.h"

namespace codecfs::hdf5 {

/// The lengths of nested lists.
using Dims = std::vector<hsize_t>;

bool is_ascii(std::string_view text);
/// Whether two values are equal, their numbers exactly and not only as doubles.
bool same_value(const Json& a, const Json& b);

/// The lengths of nested lists, determined by their first items.
Dims depth_of(const Json& value);
/// Collects the items of nested lists with these lengths; false if a list has another length.
bool flatten(const Json& value, std::span<const hsize_t> dims, std::vector<const Json*>& items);
/// The depth of lists that represents one element of the type in JSON.
size_t lists_in(hid_t type);

/// Sets `bytes` to the items as elements of the type `memory`; pointers in them refer to `texts`. False if an item does
/// not fit, or would change when libhdf5 converts it to the type `stored` and back.
bool encode_items(hid_t memory, hid_t stored, std::span<const Json* const> items, std::vector<std::byte>& bytes,
                  std::deque<std::string>& texts);

}  // namespace codecfs::hdf5
