#pragma once
// The style sheet of the page of an overview.

#include <string>

namespace codecfs::commands::overview {

std::string page_css();

}  // namespace codecfs::commands::overview
