#pragma once
// Says what a command waits for.

#include <chrono>
#include <string>
#include <thread>

namespace codecfs::mount {

/// Prints `text` on stderr, once, if this object lives for longer than `after`.
class WaitNotice {
 public:
  explicit WaitNotice(std::string text, std::chrono::seconds after = std::chrono::seconds(5));

  /// Prints such a line at once.
  static void print(const std::string& text);

 private:
  std::jthread thread_;
};

}  // namespace codecfs::mount
