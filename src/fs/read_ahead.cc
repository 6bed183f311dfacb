#include "fs/read_ahead.h"

#include <algorithm>
#include <system_error>

namespace codecfs::fs {
namespace {

constexpr size_t kStreams = 16;           // readers that are followed at a time, of all variables
constexpr size_t kMaxTasks = 256;         // chunks that wait to be fetched, for all readers
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

ReadAhead::~ReadAhead() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

/// The reader that this chunk is the next of; a new one where it is nobody's.
std::optional<ReadAhead::Stream> ReadAhead::follow(uint64_t readers, const ChunkGrid& grid, uint64_t number) {
  for (auto at = streams_.begin(); at != streams_.end(); ++at) {
    if (at->readers != readers) continue;
    const bool by_number = number == at->last + 1;
    const bool by_name = next_by_name(grid, at->last) == number;
    if (!by_number && !by_name) continue;
    if (by_number != by_name) {  // where it is the next in both orders, it tells nothing
      at->by_name = by_name;
      at->is_known = true;
    }
    ++at->in_row;
    at->last = number;
    streams_.splice(streams_.begin(), streams_, at);
    return streams_.front();
  }
  // The beginning of a variable counts as one more.
  streams_.push_front({readers, number, number == 0 ? 2U : 1U, false, false});
  if (streams_.size() > kStreams) streams_.pop_back();
  return std::nullopt;
}

void ReadAhead::note(uint64_t readers, const ChunkGrid& grid, uint64_t number, uint64_t chunk_bytes,
                     const std::function<void(uint64_t number)>& fetch) {
  const uint64_t most =
      std::min<uint64_t>(kAheadOfEachCore * threads_wanted_, budget_ / std::max<uint64_t>(chunk_bytes, 1));
  if (most == 0 || grid.rank() == 0) return;
  const std::lock_guard lock(mutex_);
  const std::optional<Stream> stream = follow(readers, grid, number);
  // What the reader has come to by itself.
  std::erase_if(tasks_, [&](const Task& task) {
    const bool is_behind = !(stream && stream->by_name) && task.number < number && number - task.number <= 2 * most;
    return task.readers == readers && (task.number == number || is_behind);
  });
  if (!stream || stream->in_row < 3) return;
  try {
    while (threads_.size() < threads_wanted_) threads_.emplace_back([this](const std::stop_token& stop) { run(stop); });
  } catch (const std::system_error&) {
    if (threads_.empty()) return;
  }
  uint64_t next = number;
  for (uint64_t i = 0; i < most && tasks_.size() < kMaxTasks; ++i) {
    if (!stream->is_known && next_by_name(grid, next) != next + 1) break;
    const auto after = stream->by_name ? next_by_name(grid, next) : std::optional(next + 1);
    if (!after || *after >= grid.count()) break;
    next = *after;
    const auto is_same = [&](const Task& task) { return task.readers == readers && task.number == next; };
    if (std::ranges::none_of(tasks_, is_same)) tasks_.push_back({readers, next, fetch});
  }
  work_.notify_all();
}

void ReadAhead::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (work_.wait(lock, stop, [&] { return !tasks_.empty(); })) {
    if (stop.stop_requested()) return;
    const Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    try {
      task.fetch(task.number);
    } catch (const std::exception&) {
      // Who asks for the chunk is told.
    }
    lock.lock();
  }
}

}  // namespace codecfs::fs
