#pragma once
// What tests of processes share: waiting for what must happen, and the files of /proc.

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>
#include <thread>

#include "base/unique_fd.h"

namespace codecfs {

/// Waits until the condition holds. False after a minute.
template <class Condition>
bool await(const Condition& condition) {
  for (const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1); !condition();) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// The content of a file. Empty if it does not exist or, in /proc, its process is gone.
inline std::string text_of(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  std::array<char, 4096> part{};
  for (ssize_t size = 0; (size = ::read(file.get(), part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<size_t>(size));
  return text;
}

}  // namespace codecfs
