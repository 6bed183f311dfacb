#include "base/log.h"

#include <fcntl.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/dist_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/sinks/syslog_sink.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "base/recent_log.h"
#include "base/unique_fd.h"

namespace codecfs::log {
namespace {

constexpr const char* kDatedPattern = "%Y-%m-%d %H:%M:%S %l: %v";

/// Writes each message with one write(2) in append mode, so that a file that is truncated (logrotate's copytruncate) or
/// that several mounts share stays intact.
class FileSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit FileSink(UniqueFd file) : file_(std::move(file)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    // There is no place to report that the log cannot be written.
    [[maybe_unused]] const ssize_t count = ::write(file_.get(), line.data(), line.size());
  }
  void flush_() override {}

  const UniqueFd file_;
};

/// Keeps the latest messages for .codecfs/log.
class RecentSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  RecentMessages from(uint64_t number) {
    const std::scoped_lock lock(mutex_);
    RecentMessages messages{{}, dropped_, dropped_ + lines_.size()};
    const uint64_t kept = std::clamp(number, messages.first, messages.end);
    for (uint64_t i = kept - dropped_; i < lines_.size(); ++i) messages.text += lines_[i];
    return messages;
  }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (lines_.size() == kRecentMessages) {
      lines_.erase(lines_.begin(), lines_.begin() + kRecentMessages / 2);
      dropped_ += kRecentMessages / 2;
    }
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    lines_.emplace_back(line.data(), line.size());
  }
  void flush_() override {}

  std::deque<std::string> lines_;
  uint64_t dropped_ = 0;
};

class FunctionSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit FunctionSink(std::function<void(Level, std::string_view)> function) : function_(std::move(function)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    Level level = Level::error;
    if (message.level <= spdlog::level::debug)
      level = Level::debug;
    else if (message.level == spdlog::level::info)
      level = Level::info;
    else if (message.level == spdlog::level::warn)
      level = Level::warning;
    function_(level, {message.payload.data(), message.payload.size()});
  }
  void flush_() override {}

  const std::function<void(Level, std::string_view)> function_;
};

struct Log {
  std::shared_ptr<RecentSink> recent = std::make_shared<RecentSink>();
  std::shared_ptr<spdlog::sinks::dist_sink_mt> outlet = std::make_shared<spdlog::sinks::dist_sink_mt>();
  spdlog::logger logger{"codecfs", {recent, outlet}};

  Log() {
    recent->set_pattern(kDatedPattern);
    send_to(std::make_shared<spdlog::sinks::stderr_sink_mt>());
  }
  void send_to(std::shared_ptr<spdlog::sinks::sink> sink, const char* pattern = "codecfs: %l: %v") {
    outlet->set_sinks({std::move(sink)});
    outlet->set_pattern(pattern);
  }
};

Log& instance() {
  static Log& log = *new Log;  // never destroyed: threads may still log at exit
  return log;
}

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::debug: return spdlog::level::debug;
    case Level::info: return spdlog::level::info;
    case Level::warning: return spdlog::level::warn;
    case Level::error: break;
  }
  return spdlog::level::err;
}

}  // namespace

void write(Level level, std::string_view message) noexcept {
  try {
    instance().logger.log(to_spdlog(level), message);
  } catch (...) {  // spdlog has caught all but what its first call, or its own report of an error, has thrown
  }
}

void print(Level level, fmt::string_view format, fmt::format_args arguments) noexcept {
  try {
    write(level, fmt::vformat(format, arguments));
  } catch (...) {
  }
}

void to_stderr() { instance().send_to(std::make_shared<spdlog::sinks::stderr_sink_mt>()); }

void to_function(std::function<void(Level, std::string_view)> function) {
  instance().send_to(std::make_shared<FunctionSink>(std::move(function)));
}

void to_syslog() {
  auto sink = std::make_shared<spdlog::sinks::syslog_sink_mt>("codecfs", 0, 0, /*enable_formatting=*/false);
  instance().send_to(std::move(sink));
}

Result<> to_file(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0644));
  if (!file) return fail_errno(errno, "cannot open the log file {}", path);
  instance().send_to(std::make_shared<FileSink>(std::move(file)), kDatedPattern);
  return {};
}

std::optional<Level> level_named(std::string_view name) {
  if (name == "debug") return Level::debug;
  if (name == "info") return Level::info;
  if (name == "warning") return Level::warning;
  if (name == "error") return Level::error;
  return std::nullopt;
}

void set_level(Level level) { instance().logger.set_level(to_spdlog(level)); }

bool is_logged(Level level) { return instance().logger.should_log(to_spdlog(level)); }

std::string recent() { return recent_messages().text; }

RecentMessages recent_messages(uint64_t from) { return instance().recent->from(from); }

}  // namespace codecfs::log
