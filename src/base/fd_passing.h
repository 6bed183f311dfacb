#pragma once
// Datagrams between processes that may carry open files (unix(7), SCM_RIGHTS).

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"

namespace codecfs {

inline constexpr size_t kMaxPassedFds = 2;

/// False, with errno, where nobody is there to receive it. No signal.
bool send_datagram(int socket, std::string_view bytes, std::span<const int> fds = {});

struct Datagram {
  std::string bytes;  // empty where the other end is gone
  std::vector<UniqueFd> fds;
};
/// Waits for one of `most` bytes at most. What it carries has the lowest numbers that are free.
Datagram receive_datagram(int socket, size_t most);

}  // namespace codecfs
