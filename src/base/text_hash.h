#pragma once
// A number for a text: FNV-1a of 64 bits, the same in every run and version. Not for texts that an attacker chooses to
// collide.

#include <cstdint>
#include <string_view>

namespace codecfs {

constexpr uint64_t text_hash(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace codecfs
