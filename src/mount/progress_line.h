#pragma once
// The progress of a daemon's work on the terminal of a command.

#include <string>
#include <thread>

namespace codecfs::mount {

/// During its lifetime, shows user._Progress of a file in a mount as a line on stderr, if that is a terminal.
class ProgressLine {
 public:
  explicit ProgressLine(std::string path);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

 private:
  std::jthread thread_;
};

}  // namespace codecfs::mount
