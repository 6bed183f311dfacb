#pragma once

#include <string>
#include <string_view>

namespace codecfs::hdf5 {

/// An HDF5 string as UTF-8: unchanged if it is valid UTF-8, else interpreted as Latin-1.
std::string as_utf8(std::string_view bytes);

}  // namespace codecfs::hdf5
