#pragma once
// How decoded chunks reach their readers.

#include <cstdint>
#include <optional>
#include <string_view>

namespace codecfs::fs {

enum class Transport : uint8_t {
  automatic,    // passthrough where the mount and the kernel permit it, else push
  passthrough,  // in files that the kernel reads in place of the mount's
  push,         // into the kernel's page cache, ahead of the reader
  read,         // in replies to READ requests
};

inline std::optional<Transport> transport_named(std::string_view name) {
  if (name == "auto") return Transport::automatic;
  if (name == "passthrough") return Transport::passthrough;
  if (name == "push") return Transport::push;
  if (name == "read") return Transport::read;
  return std::nullopt;
}

}  // namespace codecfs::fs
