#pragma once
// The latest messages of the log as a text that grows, for readers that follow it. Thread-safe.

#include <cstdint>
#include <string>

namespace codecfs::log {

struct RecentMessages {
  std::string text;    // one message per line, with its time
  uint64_t first = 0;  // number of the first of them: how many messages were logged before it
  uint64_t end = 0;    // how many messages were logged so far
};

/// The messages from number `from` on that are still kept (see recent() in log.h). The oldest half is dropped at once,
/// so that the length of all of them seldom decreases.
RecentMessages recent_messages(uint64_t from = 0);

}  // namespace codecfs::log
