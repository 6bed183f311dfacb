#pragma once
// Quantities as people read them. Thread-safe.

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace codecfs {

/// "0 B", "1023 B", "1.50 KiB", "210 GiB": at most three digits with binary prefixes.
std::string human_bytes(uint64_t bytes);
/// "12 s", "3:05", "2:00:00".
std::string human_duration(std::chrono::seconds duration);
/// "1,048,576".
std::string human_count(uint64_t number);
/// "1 chunk", "2,000 chunks".
std::string counted(uint64_t number, std::string_view noun);

}  // namespace codecfs
