#pragma once
// Where plugins were searched, and where to get a missing filter by its number in the HDF Group's register.

#include <cstdint>
#include <string>

namespace codecfs::filters {

/// The end of an error's reason: the filter's name in the register and what to install, as in "it is SZ3: ...". For
/// unregistered numbers it says how to find the filter's author. Empty for 0.
std::string where_to_get(uint32_t id);

/// What where_to_get() says, after the directories in which plugins were searched: "searched /a, /b; it is SZ3: ...".
std::string where_searched(uint32_t id);

}  // namespace codecfs::filters
