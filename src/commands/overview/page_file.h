#pragma once
// The file of a page of an overview.

#include <string>
#include <string_view>

#include "base/result.h"

namespace codecfs::commands::overview {

/// EEXIST if there is a file that is no page of codecfs: it may be the source. "-" is stdout, and fine.
Result<> check_page_file(const std::string& path);

/// Writes the page; it replaces an earlier one when it is complete. Only users that may read `source` may read it.
Result<> write_page_file(const std::string& path, std::string_view page, const std::string& source);

}  // namespace codecfs::commands::overview
