#include "backends/isolation/scout.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <ranges>

#include "backends/api/source.h"
#include "base/log.h"

namespace codecfs::hdf5 {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kMaxCrashes = 64;             // per file; then no new operations are tried
constexpr unsigned kMaxCrashesPerCall = 16;      // per call
constexpr unsigned kMaxDamages = 1000;           // that libhdf5 reports, which takes milliseconds each; then as above
constexpr std::chrono::seconds kMaxCallTime{4};  // after which a crash ends the call
// Wall-clock time without a step. Longer than the limit of processor time, to allow for slow disks.
constexpr std::chrono::seconds kNoProgress{60};
constexpr size_t kMaxAhead = 64;  // objects
constexpr unsigned kMaxKills = 8;

uint64_t number_of(std::string_view text) { return std::hash<std::string_view>{}(text); }

std::string_view action(ScoutTask task) {
  switch (task) {
    case ScoutTask::open: return "when it opens";
    case ScoutTask::objects: return "when it reads";
    case ScoutTask::links:
    case ScoutTask::list: return "when it lists";
    case ScoutTask::find: return "when it searches a name in";
    case ScoutTask::places:
    case ScoutTask::numbering:
    case ScoutTask::everything: return "when it scans";
    case ScoutTask::name: return "when it searches the name of";
    case ScoutTask::attributes: return "when it reads the attributes of";
    case ScoutTask::way_to:
    case ScoutTask::index:
    case ScoutTask::stored_chunks: return "in the chunk index of";
    case ScoutTask::chunk: return "when it reads a chunk of";
  }
  return "in";
}

std::string cause_of(const ScoutTrace& trace) {
  switch (const int end = trace.end) {
    case 0: return "libhdf5 was killed";
    case SIGPROF: return "libhdf5 does not finish";
    case ScoutTrace::kOutOfMemory: return fmt::format("libhdf5 takes more than {} MiB of memory", kScoutMemory >> 20);
    case ScoutTrace::kDamage: return fmt::format("libhdf5 finds damage ({})", trace.reason.data());
    default: return fmt::format("libhdf5 crashes ({})", ::strsignal(end));
  }
}

// libhdf5 mostly reports unknown versions without an error code of their own.
std::string verdict_of(const ScoutTrace& trace) {
  const bool may_be_newer =
      trace.end == ScoutTrace::kDamage && std::string_view(trace.reason.data()).contains("version");
  return may_be_newer ? fmt::format("the file is damaged, or newer than {}", format_versions()) : "the file is damaged";
}

}  // namespace

Scout::Scout(std::string path, bool for_writing)
    : path_(std::move(path)),
      working_directory_([] {
        std::error_code error;
        return std::filesystem::current_path(error).string();
      }()),
      for_writing_(for_writing) {}

Result<std::unique_ptr<Scout>> Scout::start(const std::string& path, bool for_writing) {
  std::unique_ptr<Scout> scout(new Scout(path, for_writing));
  CODECFS_TRY(scout->be_ready());
  CODECFS_TRY(scout->opened_);
  return scout;
}

std::string Scout::name_of(uint64_t address) const {
  if (address == 0) return path_;
  std::string name = context_.name ? context_.name(address) : "";
  return name.empty() ? fmt::format("the object at {} of {}", address, path_) : name;
}

// Reads the cause of the crash and cleans up after the process.
Scout::Crash Scout::reap() {
  Crash crash;
  const bool was_signalled = process_.trace->end == 0;
  crash.is_reported = process_.trace->end == ScoutTrace::kDamage;
  crash.cause = cause_of(*process_.trace);
  crash.verdict = verdict_of(*process_.trace);
  crash.address = process_.trace->address;
  process_.kill();
  process_ = {};
  ahead_.clear();
  window_ = 1;
  ++(crash.is_reported ? damages_ : crashes_);
  crash.was_killed = was_signalled && ++kills_ <= kMaxKills;
  return crash;
}

// None if the scout crashed.
std::optional<Result<ScoutGift>> Scout::await_answer() {
  uint64_t steps = process_.trace->steps;
  Clock::time_point moved = Clock::now();
  while (true) {
    pollfd waiting{process_.socket.get(), POLLIN, 0};
    const int ready = ::poll(&waiting, 1, 1000);
    if (ready > 0) return receive_answer(process_.socket.get());
    if (ready < 0 && errno != EINTR) return std::nullopt;
    if (steps != process_.trace->steps) {
      steps = process_.trace->steps;
      moved = Clock::now();
    } else if (Clock::now() - moved > kNoProgress) {
      process_.trace->end = SIGPROF;
      return std::nullopt;
    }
  }
}

// Ensures that a scout with the file open is running.
Result<> Scout::be_ready() {
  while (!process_.socket) {
    if (crashes_ >= kMaxCrashes || damages_ >= kMaxDamages)
      return fail(EIO, "{}: {} of its objects are damaged; no more are tried", path_, crashes_ + damages_);
    CODECFS_TRY(start_process());
  }
  return {};
}

Result<> Scout::start_process() {
  CODECFS_ASSIGN(process_, start_scout());
  ScoutRequest request;
  request.for_writing = for_writing_ ? 1 : 0;
  std::vector<uint64_t> damaged;
  for (const auto& [address, error] : damaged_) damaged.push_back(address);
  const std::string text = path_ + '\0' + working_directory_;
  request.strict = writing_ ? 0 : 1;
  if (send_request(process_.socket.get(), request, text, damaged)) {
    if (const auto answer = await_answer()) {
      opened_ = {};
      if (!*answer) opened_ = std::unexpected(answer->error());
      return {};
    }
  }
  const Crash crash = reap();
  if (crash.was_killed) return {};
  return refuse({ScoutTask::open, 0, 0}, crash);
}

// An error if the requested object caused the crash; success if another object did, which is skipped from now on.
Result<> Scout::refuse(const Question& question, const Crash& crash) {
  const bool met = crash.address != 0 && crash.address != question.address;
  const bool whole = question.task == ScoutTask::objects || met;
  const uint64_t address = whole && crash.address != 0 ? crash.address : question.address;
  Error error{EIO, fmt::format("{} {} {}; {}", crash.cause, action(met ? ScoutTask::objects : question.task),
                               name_of(address), crash.verdict)};
  log::warning("{}", error.reason);
  const bool is_new = whole ? damaged_.emplace(address, error).second : refused_.emplace(question, error).second;
  if (met && is_new) return {};
  return std::unexpected(std::move(error));
}

Result<ScoutGift> Scout::ask(const Question& question, std::string_view text) {
  if (const auto known = refused_.find(question); known != refused_.end()) return std::unexpected(known->second);
  const Clock::time_point began = Clock::now();
  unsigned crashes = 0;
  while (true) {
    CODECFS_TRY(be_ready());
    collect_ahead();
    if (!process_.socket) continue;
    ScoutRequest request;
    request.task = question.task;
    request.address = question.address;
    request.number = question.number;
    request.netcdf = context_.netcdf ? 1 : 0;
    request.strict = writing_ ? 0 : 1;
    if (send_request(process_.socket.get(), request, text, {})) {
      if (auto answer = await_answer()) return *std::move(answer);
    }
    Crash crash = reap();
    if (crash.was_killed) continue;
    if (!crash.is_reported) ++crashes;
    if (crashes > kMaxCrashesPerCall || Clock::now() - began > kMaxCallTime) crash.address = question.address;
    CODECFS_TRY(refuse(question, crash));
  }
}

Result<> Scout::check(const Question& question, std::string_view text) {
  if (all_checked_) return {};
  std::unordered_set<uint64_t>& checked = checked_[question.task];
  // spreads the bits, so that neighbouring numbers give different keys
  constexpr uint64_t kSpread = 0x9E3779B97F4A7C15;
  const uint64_t key = question.address ^ (question.number * kSpread);
  if (checked.contains(key)) return {};
  const auto answer = ask(question, text);
  if (!answer && refused_.contains(question)) return fail(EIO, "{}", answer.error().reason);
  if (!answer && !process_.socket) return fail(EIO, "{}", answer.error().reason);
  checked.insert(key);  // also after an ordinary error: the caller will get the same
  return {};
}

// --- objects, and those that follow

bool Scout::send_ahead(uint64_t address) {
  std::vector<uint64_t> batch =
      context_.following ? context_.following(address, window_ + 1) : std::vector<uint64_t>{address};
  next_ = batch.size() > window_ ? batch.back() : 0;
  if (batch.size() > window_) batch.pop_back();
  std::erase_if(batch, [&](uint64_t other) { return objects_.contains(other) || damaged_.contains(other); });
  if (batch.empty()) return true;
  ScoutRequest request;
  request.task = ScoutTask::objects;
  request.address = batch.front();
  request.netcdf = context_.netcdf ? 1 : 0;
  request.strict = writing_ ? 0 : 1;
  if (!send_request(process_.socket.get(), request, {}, batch)) return false;
  ahead_.push_back(std::move(batch));
  return true;
}

// Waits for the oldest outstanding batch.
void Scout::collect_one() {
  if (await_answer()) {
    objects_.insert(ahead_.front().begin(), ahead_.front().end());
    ahead_.pop_front();
  } else {
    const Crash crash = reap();
    if (!crash.was_killed) (void)refuse({ScoutTask::objects, crash.address, 0}, crash);
  }
}

void Scout::collect_ahead() {
  while (!ahead_.empty()) collect_one();
}

Result<> Scout::object(uint64_t address) {
  if (!damaged_.empty()) CODECFS_TRY(header(address));
  if (all_checked_ || objects_.contains(address)) return {};
  const auto is_asked_for = [&](const auto& batch) { return std::ranges::find(batch, address) != batch.end(); };
  while (!objects_.contains(address)) {
    CODECFS_TRY(be_ready());
    CODECFS_TRY(header(address));
    if (std::ranges::none_of(ahead_, is_asked_for)) {
      window_ = address == next_ ? std::min(2 * window_, kMaxAhead) : 1;
      if (!send_ahead(address) && !process_.socket) continue;
    }
    collect_one();
  }
  // Check the next objects while the caller uses these.
  if (window_ > 8 && ahead_.empty() && next_ != 0 && process_.socket) {
    window_ = std::min(2 * window_, kMaxAhead);
    (void)send_ahead(next_);
  }
  return {};
}

Result<> Scout::header(uint64_t address) {
  if (damaged_.empty()) return {};
  if (const auto known = damaged_.find(address); known != damaged_.end()) return std::unexpected(known->second);
  return {};
}

// --- the other questions

Result<> Scout::links(uint64_t address) {
  if (const auto listed = checked_.find(ScoutTask::list); listed != checked_.end() && listed->second.contains(address))
    return {};
  return check({ScoutTask::links, address, 0});
}
Result<> Scout::list(uint64_t address) { return check({ScoutTask::list, address, 0}); }
Result<> Scout::find(uint64_t address, std::string_view name) {
  if (checked_[ScoutTask::list].contains(address)) return {};
  return check({ScoutTask::find, address, number_of(name)}, name);
}
Result<> Scout::places() { return check({ScoutTask::places, 0, 0}); }
Result<> Scout::numbering() { return check({ScoutTask::numbering, 0, 0}); }
Result<> Scout::name(uint64_t address) { return check({ScoutTask::name, address, 0}); }
Result<> Scout::attributes(uint64_t address) { return check({ScoutTask::attributes, address, 0}); }
Result<> Scout::way_to(uint64_t address, uint64_t number) { return check({ScoutTask::way_to, address, number}); }
Result<> Scout::index(uint64_t address) { return check({ScoutTask::index, address, 0}); }

// While writing, only this process knows which chunks are stored, but the index must be checked all the same.
Result<std::optional<Buffer>> Scout::stored_chunks(uint64_t address) {
  if (all_checked_) return std::nullopt;
  if (!writing_) return ask({ScoutTask::stored_chunks, address, 0});
  CODECFS_TRY(check({ScoutTask::stored_chunks, address, 0}));
  return std::nullopt;
}

Result<std::optional<Buffer>> Scout::chunk(uint64_t address, uint64_t number, const std::string& name, uint64_t) {
  if (all_checked_) return std::nullopt;
  const Question question{ScoutTask::chunk, address, number};
  if (!writing_) return ask(question, name);
  const auto answer = ask(question, name);
  if (!answer && refused_.contains(question)) return std::unexpected(answer.error());
  return std::nullopt;
}

Result<> Scout::check_all() {
  if (all_checked_) return {};
  CODECFS_TRY(check({ScoutTask::everything, 0, 0}));
  all_checked_ = true;
  process_.kill();
  process_ = {};
  objects_ = {};
  checked_ = {};
  return {};
}

}  // namespace codecfs::hdf5
