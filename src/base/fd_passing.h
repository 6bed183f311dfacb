#pragma once
// Datagrams between processes that may carry open files (unix(7), SCM_RIGHTS).

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"

namespace codecfs {

inline constexpr size_t kMaxPassedFds = 5;

/// Returns false and sets errno if the other end is closed. Never raises SIGPIPE.
bool send_datagram(int socket, std::string_view bytes, std::span<const int> fds = {});

struct Datagram {
  std::string bytes;  // empty if the other end is closed
  std::vector<UniqueFd> fds;
};
/// Waits for a datagram of at most `most` bytes. What was sent before the other end was closed is received first. The
/// received descriptors get the lowest free numbers.
Datagram receive_datagram(int socket, size_t most);

}  // namespace codecfs
