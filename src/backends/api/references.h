#pragma once
// What a source may refer to: the files that external storage and virtual datasets of an HDF5 file name.

#include <string>

namespace codecfs {

/// -o follow=
enum class Follow {
  all,      // every file that the user of the daemon may read
  beneath,  // files beneath the directory of the source
  none,     // no other file: not of -o follow, but of sources in object stores
};

struct ReferenceRules {
  Follow follow = Follow::all;
  std::string folder;      // Follow::beneath: the folder of datasets that is mounted; empty: the source is one file
  std::string mountpoint;  // what is in it is not followed: the daemon would wait for itself
};

/// Sets the rules for HDF5 files that are opened in a process of their own from now on. `folder`
/// and `mountpoint` are absolute paths without symbolic links.
void set_reference_rules(ReferenceRules rules);
ReferenceRules reference_rules();

}  // namespace codecfs
