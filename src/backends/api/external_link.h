#pragma once

#include <string_view>

namespace codecfs {

/// How the target of an external link of HDF5 begins (Entry::target), before the name of the file and, behind a colon,
/// the path of the object. A folder of datasets replaces it where it has that file.
inline constexpr std::string_view kExternalLink = "external-link:";

}  // namespace codecfs
