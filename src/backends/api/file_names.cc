#include "backends/api/file_names.h"

#include <algorithm>

namespace codecfs {
namespace {

constexpr std::string_view kHdf5Names[] = {".h5",   ".hdf5", ".he5", ".nc",   ".nc4",   ".h5ad", ".h5mu",
                                           ".loom", ".nxs",  ".nwb", ".cool", ".mcool", ".fast5"};

}  // namespace

bool has_hdf5_name(std::string_view name) {
  return std::ranges::any_of(kHdf5Names, [&](std::string_view end) { return name.ends_with(end); });
}

}  // namespace codecfs
