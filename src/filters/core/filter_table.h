#pragma once
// What `.codecfs/filters` tells.

#include <string>

namespace codecfs::filters {

/// All filters known to this process, those of plugins too, a line each with columns that two or more spaces separate:
///
///   id          HDF5's, "-" for none
///   name
///   codec       numcodecs' id, "-" for none
///   origin      "built-in", "libhdf5", or the library; both where the halves come from two libraries
///   hdf5 side   what the HDF5 half can do: "read+write", "read", "write"; "-": there is none
///   codec side  "yes" where there is a mapping between JSON and parameters, else "-"
///   status      "usable", or what is not and why
///
/// Below, as comments: the directories that were searched, and what was found there and is not used.
std::string filter_table();

}  // namespace codecfs::filters
