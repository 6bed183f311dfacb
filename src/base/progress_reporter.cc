#include "base/progress_reporter.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/human.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/terminal_text.h"

namespace codecfs {
namespace {

std::atomic<int> terminal = -1;  // -1: none
std::atomic<int> lines_to = -1;  // of a command without a terminal; -1: none

void print(int fd, std::string_view text) {
  // The work goes on even if the terminal is gone.
  [[maybe_unused]] const ssize_t count = ::write(fd, text.data(), text.size());
}

Mutex all_mutex;
std::vector<const ProgressReporter*> all CODECFS_GUARDED_BY(all_mutex);  // running ones
std::map<std::pair<const void*, uint64_t>, std::string> remote CODECFS_GUARDED_BY(all_mutex);

void (*forward)(uint64_t id, const std::string& line) = nullptr;
std::atomic<uint64_t> latest_id = 0;

/// "compacting .../big.h5": the end of a long path tells more than its beginning.
std::string shortened(const std::string& what, size_t columns) {
  if (what.size() <= columns) return what;
  constexpr size_t kLeast = 12;  // of the path
  const std::string verb = what.substr(0, what.find(' ') + 1) + "...";
  const size_t kept = std::max(kLeast, columns - std::min(columns, verb.size()));
  return verb + what.substr(what.size() - std::min(what.size(), kept));
}

}  // namespace

thread_local ProgressReporter* ProgressReporter::current_ = nullptr;

ProgressReporter::ProgressReporter(std::string what, const Pace& pace, Unit unit)
    : what_(std::move(what)),
      unit_(unit),
      pace_(terminal >= 0 ? pace.terminal : pace.log),
      outer_(std::exchange(current_, this)),
      id_(++latest_id),
      next_report_((Clock::now() + pace_).time_since_epoch().count()) {
  {
    const LockGuard lock(all_mutex);
    all.push_back(this);
  }
  forward_if_due();
}

ProgressReporter::~ProgressReporter() {
  {
    const LockGuard lock(all_mutex);
    std::erase(all, this);
  }
  current_ = outer_;
  if (forward != nullptr) forward(id_, "");
  // Clear the line even if this process has not written it: a child process that runs libhdf5 may have.
  if (terminal >= 0)
    print(terminal, "\r\x1b[K");
  else if (reported_ && lines_to < 0)
    log::info("{}: ended", what_);
}

void ProgressReporter::at(uint64_t done, uint64_t total) {
  done_.store(done, std::memory_order_relaxed);
  total_.store(total, std::memory_order_relaxed);
  report_if_due();
}

void ProgressReporter::add(uint64_t more) {
  done_.fetch_add(more, std::memory_order_relaxed);
  report_if_due();
}

void ProgressReporter::forward_if_due() {
  if (forward == nullptr) return;
  constexpr std::chrono::milliseconds kInterval{5};
  const Clock::time_point now = Clock::now();
  Clock::rep next = next_forward_.load(std::memory_order_relaxed);
  const Clock::rep after = (now + kInterval).time_since_epoch().count();
  if (now.time_since_epoch().count() >= next && next_forward_.compare_exchange_strong(next, after))
    forward(id_, line());
}

void ProgressReporter::report_if_due() {
  forward_if_due();
  const Clock::rep now = Clock::now().time_since_epoch().count();
  Clock::rep next = next_report_.load(std::memory_order_relaxed);
  if (now < next || !next_report_.compare_exchange_strong(next, now + pace_.count())) return;
  reported_ = true;
  if (lines_to >= 0)
    print(lines_to, "codecfs: " + line_of_command() + "\n");
  else if (terminal < 0)
    log::info("{}", line());
  else
    print(terminal, "\r\x1b[K" + line_of_command());
}

std::string ProgressReporter::amounts(uint64_t done, uint64_t total) const {
  if (unit_ == Unit::bytes) return fmt::format(", {} of {}", human_bytes(done), human_bytes(total));
  if (unit_ == Unit::chunks) return fmt::format(", {} of {} chunks", human_count(done), human_count(total));
  return "";
}

std::string ProgressReporter::line_of_command() const {
  const uint64_t total = total_;
  const uint64_t done = std::min<uint64_t>(done_, total);
  std::string text = line().substr(what_.size());  // ": 37 %"
  if (total != 0) {
    constexpr size_t kBar = 20;
    const auto filled =
        static_cast<size_t>(static_cast<double>(kBar) * static_cast<double>(done) / static_cast<double>(total));
    if (terminal >= 0) text += fmt::format(" [{:#<{}}{:.<{}}]", "", filled, "", kBar - filled);
    text += amounts(done, total);
    const double seconds = std::chrono::duration<double>(Clock::now() - begun_).count();
    // A rate of less than a second means little.
    if (done > 0 && seconds >= 1) {
      const double rate = static_cast<double>(done) / seconds;
      if (unit_ == Unit::bytes) text += fmt::format(", {}/s", human_bytes(static_cast<uint64_t>(rate)));
      if (unit_ == Unit::chunks) text += fmt::format(", {:.{}f}/s", rate, rate < 10 ? 1 : 0);
      const auto left = static_cast<int64_t>(static_cast<double>(total - done) / rate + 0.5);
      text += fmt::format(", {} left", human_duration(std::chrono::seconds(left)));
    }
  }
  // A line that is broken cannot be redrawn.
  const size_t width = terminal >= 0 ? terminal_columns(terminal) : 0;
  if (width < 2) return printable(what_) + text;
  text = printable(shortened(what_, width - 1 - std::min(width - 1, text.size()))) + text;
  if (text.size() >= width) text.resize(width - 1);
  return text;
}

std::string ProgressReporter::line() const {
  const uint64_t done = done_;
  const uint64_t total = total_;
  if (total == 0) return what_ + ": begun";
  return fmt::format("{}: {} %", what_, static_cast<uint64_t>(100.0 * std::min(1.0, double(done) / double(total))));
}

std::string ProgressReporter::under_way() {
  const LockGuard lock(all_mutex);
  std::string lines;
  for (const ProgressReporter* work : all) lines += (lines.empty() ? "" : "\n") + work->line();
  for (const auto& [id, line] : remote) lines += (lines.empty() ? "" : "\n") + line;
  return lines;
}

void ProgressReporter::add_to_current(uint64_t more) {
  if (current_ != nullptr) current_->add(more);
}

void ProgressReporter::show_remote(const void* process, uint64_t id, std::string line) {
  const LockGuard lock(all_mutex);
  if (line.empty())
    remote.erase({process, id});
  else
    remote[{process, id}] = std::move(line);
}

void ProgressReporter::forget_remote(const void* process) {
  const LockGuard lock(all_mutex);
  std::erase_if(remote, [&](const auto& work) { return work.first.first == process; });
}

void ProgressReporter::forward_to(void (*to)(uint64_t id, const std::string& line)) { forward = to; }

void ProgressReporter::show_on_terminal(int fd) { terminal = fd; }

void ProgressReporter::show_on(int fd) {
  if (isatty(fd) != 0)
    show_on_terminal(fd);
  else
    lines_to = fd;
}

}  // namespace codecfs
