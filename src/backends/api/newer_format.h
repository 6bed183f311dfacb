#pragma once
// What a newer version of a format's library wrote, so that the linked one cannot read it: it is not damaged.

#include <cerrno>
#include <string>
#include <string_view>

namespace codecfs {

/// The code of such errors.
inline constexpr int kNewerFormat = EPROTONOSUPPORT;

/// Whether an error says that something can never be read: it is damaged, or newer.
constexpr bool is_unreadable(int code) { return code == EIO || code == kNewerFormat; }

/// "libhdf5 1.10.8": the library that is used.
std::string hdf5_version();

/// The reason of such an error about HDF5. `what`: "datatype version 4".
std::string newer_hdf5_reason(std::string_view what);

}  // namespace codecfs
