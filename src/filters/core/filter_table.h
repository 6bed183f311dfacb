#pragma once
// The content of `.codecfs/filters`.

#include <string>

namespace codecfs::filters {

/// All filters known to this process, including those of plugins, one per line, in columns separated by two or more
/// spaces:
///
///   id          HDF5's, "-" for none
///   name
///   codec       numcodecs' id, "-" for none
///   origin      "built-in", "libhdf5", or the library; both if HDF5 filter and codec come from two libraries
///   hdf5 side   what the HDF5 filter can do: "read+write", "read", "write"; "-": there is none
///   codec side  "yes" if there is a mapping between JSON and parameters, else "-"
///   status      "usable", or what is not and why
///
/// Then, as comment lines: the directories that were searched, the libraries in use with the state of their worker
/// processes, and the libraries that are not used.
std::string filter_table();

}  // namespace codecfs::filters
