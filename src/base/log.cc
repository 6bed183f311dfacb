#include "base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/dist_sink.h>
#include <spdlog/sinks/ringbuffer_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/sinks/syslog_sink.h>

#include <memory>

namespace codecfs::log {
namespace {

struct Log {
  std::shared_ptr<spdlog::sinks::ringbuffer_sink_mt> ring =
      std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(kRecentMessages);
  std::shared_ptr<spdlog::sinks::dist_sink_mt> outlet = std::make_shared<spdlog::sinks::dist_sink_mt>();
  spdlog::logger logger{"codecfs", {ring, outlet}};

  Log() {
    ring->set_pattern("%Y-%m-%d %H:%M:%S %l: %v");
    send_to(std::make_shared<spdlog::sinks::stderr_sink_mt>());
  }
  void send_to(std::shared_ptr<spdlog::sinks::sink> sink) {
    outlet->set_sinks({std::move(sink)});
    outlet->set_pattern("codecfs: %l: %v");
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

void write(Level level, std::string_view message) { instance().logger.log(to_spdlog(level), message); }

void to_stderr() { instance().send_to(std::make_shared<spdlog::sinks::stderr_sink_mt>()); }

void to_syslog() {
  auto sink = std::make_shared<spdlog::sinks::syslog_sink_mt>("codecfs", 0, 0, /*enable_formatting=*/false);
  instance().send_to(std::move(sink));
}

void set_level(Level level) { instance().logger.set_level(to_spdlog(level)); }

std::string recent() {
  std::string text;
  for (const std::string& line : instance().ring->last_formatted()) text += line;
  return text;
}

}  // namespace codecfs::log
