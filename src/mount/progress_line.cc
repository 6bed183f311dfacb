#include "mount/progress_line.h"

#include <fmt/core.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string_view>
#include <utility>

#include "base/interruptible_sleep.h"
#include "base/threads.h"

namespace codecfs::mount {
namespace {

void show(const std::string& path, const std::stop_token& stop) {
  constexpr std::chrono::milliseconds kPace{200};
  bool shown = false;
  while (sleep_unless_stopped(stop, kPace)) {
    char text[4096];
    const ssize_t size = getxattr(path.c_str(), "user._Progress", text, sizeof text);
    if (size <= 0 && !shown) continue;
    const std::string_view lines(text, static_cast<size_t>(std::max<ssize_t>(size, 0)));
    fmt::print(stderr, "\r\x1b[K{}", lines.substr(0, lines.find('\n')));
    shown = true;
  }
  if (shown) fmt::print(stderr, "\r\x1b[K");
}

}  // namespace

ProgressLine::ProgressLine(std::string path) {
  if (isatty(STDERR_FILENO) == 0) return;
  if (Result<std::jthread> started =
          start_thread([path = std::move(path)](const std::stop_token& stop) { show(path, stop); }))
    thread_ = *std::move(started);
}

ProgressLine::~ProgressLine() = default;

}  // namespace codecfs::mount
