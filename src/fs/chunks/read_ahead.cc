#include "fs/chunks/read_ahead.h"

#include <algorithm>
#include <system_error>

namespace codecfs::fs {
namespace {

constexpr size_t kStreams = 16;           // readers that are followed at a time, of all variables
constexpr unsigned kInRow = 3;            // chunks by which a reader is recognised
constexpr size_t kMaxTasks = 256;         // chunks that wait to be fetched, for all readers
constexpr size_t kNoted = 24;             // chunks that somebody came to most recently
constexpr uint64_t kMaxStep = 8;          // chunks from one to the next of who leaves others out
constexpr size_t kMaxBetween = 6;         // chunks that others come to between two of these
constexpr size_t kMaxChores = 2;          // that wait or are being done: each may hold a chunk
constexpr uint64_t kAheadOfEachCore = 4;  // chunks

/// The next of the numbers below `count` in the order of their decimal strings.
std::optional<uint64_t> next_string(uint64_t number, uint64_t count) {
  if (number != 0 && number <= (count - 1) / 10) return number * 10;
  while (number % 10 == 9 || number + 1 >= count) {
    number /= 10;
    if (number == 0) return std::nullopt;
  }
  return number + 1;
}

}  // namespace

std::optional<uint64_t> next_by_name(const ChunkGrid& grid, uint64_t number) {
  std::vector<uint64_t> place(grid.rank());
  grid.coordinates_of(number, place);
  for (size_t d = grid.rank(); d-- > 0;) {
    const auto next = next_string(place[d], grid.cells()[d]);
    place[d] = next.value_or(0);
    if (next) return grid.number_of(place);
  }
  return std::nullopt;
}

ReadAhead::ReadAhead(uint64_t budget)
    : budget_(budget), threads_wanted_(std::max(1U, std::thread::hardware_concurrency())) {}

void ReadAhead::stop() {
  std::vector<std::jthread> threads;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    tasks_.clear();
    chores_.clear();
    threads.swap(threads_);
  }
  for (std::jthread& thread : threads) thread.request_stop();
}

bool ReadAhead::have_threads() {
  if (stopped_) return false;
  try {
    while (threads_.size() < threads_wanted_) threads_.emplace_back([this](const std::stop_token& stop) { run(stop); });
  } catch (const std::system_error&) {
  }
  return !threads_.empty();
}

/// The step of who came to this chunk by three others, of which few came to anything in between; 1 where there is none.
uint64_t ReadAhead::step_to(uint64_t readers, uint64_t number) const {
  for (uint64_t step = 2; step <= kMaxStep; ++step) {
    uint64_t wanted = number - step;
    size_t found = 0;
    size_t between = 0;
    // The last of them is this one.
    for (auto at = std::next(noted_.rbegin()); at != noted_.rend() && between <= kMaxBetween && found < 3; ++at) {
      if (*at != std::pair(readers, wanted)) {
        ++between;
        continue;
      }
      ++found;
      between = 0;
      wanted -= step;
    }
    if (found == 3) return step;
  }
  return 1;
}

/// The reader that this chunk is the next of; null where it is nobody's, and may be the first of a new one.
ReadAhead::Stream* ReadAhead::match_stream(uint64_t readers, const ChunkGrid& grid, uint64_t number) {
  for (auto at = streams_.begin(); at != streams_.end(); ++at) {
    if (at->readers != readers) continue;
    const bool by_number = number == at->last + at->step;
    const bool by_name = at->step == 1 && next_by_name(grid, at->last) == number;
    if (!by_number && !by_name) continue;
    at->asked -= std::min<uint64_t>(at->asked, 1);
    if (by_number != by_name) {  // where it is the next in both orders, it tells nothing
      if (at->by_name != by_name) at->asked = 0;
      at->by_name = by_name;
      at->is_known = true;
    }
    ++at->in_row;
    at->last = number;
    streams_.splice(streams_.begin(), streams_, at);
    return &streams_.front();
  }
  const uint64_t step = step_to(readers, number);
  // The beginning of a variable counts as one more.
  const unsigned in_row = step > 1 ? kInRow : number == 0 ? kInRow - 1 : 1;
  streams_.push_front({++last_id_, readers, number, step, in_row, false, step > 1, 0});
  if (streams_.size() > kStreams) streams_.pop_back();
  return step > 1 ? &streams_.front() : nullptr;
}

void ReadAhead::note(uint64_t readers, const ChunkGrid& grid, uint64_t number, uint64_t chunk_bytes,
                     const std::function<void(uint64_t number)>& fetch) {
  const uint64_t most =
      std::min<uint64_t>(kAheadOfEachCore * threads_wanted_, budget_ / std::max<uint64_t>(chunk_bytes, 1));
  if (most == 0 || grid.rank() == 0) return;
  const std::lock_guard lock(mutex_);
  // A chunk is asked for by several requests, which come in no certain order.
  if (std::ranges::find(noted_, std::pair(readers, number)) != noted_.end()) return;
  noted_.emplace_back(readers, number);
  if (noted_.size() > kNoted) noted_.pop_front();
  Stream* const stream = match_stream(readers, grid, number);
  // What the reader has come to by himself.
  std::erase_if(tasks_, [&](const Task& task) {
    const bool is_behind = stream != nullptr && !stream->by_name && task.stream == stream->id && task.number < number;
    return is_behind || (task.readers == readers && task.number == number);
  });
  if (stream == nullptr || stream->in_row < kInRow || !have_threads()) return;
  uint64_t next = number;
  for (uint64_t i = 0; i < most && tasks_.size() < kMaxTasks; ++i) {
    if (!stream->is_known && next_by_name(grid, next) != next + 1) break;
    const auto after = stream->by_name ? next_by_name(grid, next) : std::optional(next + stream->step);
    if (!after || *after >= grid.count()) break;
    next = *after;
    if (i < stream->asked) continue;
    tasks_.push_back({stream->id, readers, next, fetch});
    stream->asked = i + 1;
  }
  work_.notify_all();
}

void ReadAhead::soon(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  if (chores_open_ >= kMaxChores || !have_threads()) return;
  chores_.push_back(std::move(work));
  ++chores_open_;
  work_.notify_one();
}

void ReadAhead::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (work_.wait(lock, stop, [&] { return !tasks_.empty() || !chores_.empty(); })) {
    if (stop.stop_requested()) return;
    std::function<void()> work;
    const bool is_chore = tasks_.empty();
    if (!is_chore) {
      work = [task = std::move(tasks_.front())] { task.fetch(task.number); };
      tasks_.pop_front();
    } else {
      work = std::move(chores_.front());
      chores_.pop_front();
    }
    lock.unlock();
    try {
      work();
    } catch (const std::exception&) {
      // Who asks for the chunk is told.
    }
    work = {};  // with what it holds
    lock.lock();
    if (is_chore) --chores_open_;
  }
}

}  // namespace codecfs::fs
