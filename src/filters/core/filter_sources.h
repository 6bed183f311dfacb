#pragma once
// Where a filter that is missing can be had, by its number in the HDF Group's register.

#include <cstdint>
#include <string>

namespace codecfs::filters {

/// Its name in the register and what to install, as the end of an error's reason: "it is SZ3: ...". Also for numbers
/// that are not registered, where it tells whom to ask. Empty for 0.
std::string where_to_get(uint32_t id);

}  // namespace codecfs::filters
