#include "fs/chunks/read_ahead.h"

#include <algorithm>
#include <cstddef>
#include <system_error>

#include "base/interruption.h"
#include "base/threads.h"
#include "fs/chunks/niceness.h"

namespace codecfs::fs {
namespace {

constexpr size_t kStreams = 16;            // concurrent readers that are tracked, for all variables
constexpr unsigned kSequentialReads = 3;   // consecutive chunks that identify a sequential reader
constexpr size_t kNoted = 24;              // most recently read chunks that are remembered
constexpr uint64_t kMaxStep = 8;           // maximum stride of a strided reader, in chunks
constexpr size_t kMaxBetween = 6;          // maximum number of other reads between two chunks of a strided reader
constexpr size_t kMaxBackground = 2;       // queued or running: each may hold a chunk
constexpr uint64_t kAheadPerThread = 4;    // chunks
constexpr uint64_t kExpected = 3;          // times the chunks that are decoded ahead
constexpr uint64_t kExpectGrowth = 8;      // times the chunks that were read in order
constexpr uint64_t kExpectedOfEither = 8;  // chunks of each order while both are possible

/// The next number below `count` in the lexicographic order of decimal strings.
std::optional<uint64_t> next_string(uint64_t number, uint64_t count) {
  if (number != 0 && number <= (count - 1) / 10) return number * 10;
  while (number % 10 == 9 || number + 1 >= count) {
    number /= 10;
    if (number == 0) return std::nullopt;
  }
  return number + 1;
}

/// How many chunks follow each other before all but the first dimensions are passed, or as many of the last ones as
/// have at most `most`. Writers store these beside each other, so they are one request.
uint64_t row_of(const ChunkGrid& grid, uint64_t most) {
  uint64_t row = 1;
  for (size_t axis = grid.rank(); axis-- > 1 && row <= most / std::max<uint64_t>(grid.cells()[axis], 1);)
    row *= grid.cells()[axis];
  return row;
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

ReadAhead::ReadAhead(uint64_t budget, size_t threads)
    : budget_(budget), threads_wanted_(threads != 0 ? threads : core_count()) {}

void ReadAhead::stop() {
  std::vector<std::jthread> threads;
  {
    const LockGuard lock(mutex_);
    stopped_ = true;
    tasks_.clear();
    background_.clear();
    threads.swap(threads_);
  }
  for (std::jthread& thread : threads) thread.request_stop();
}

bool ReadAhead::have_threads() {
  if (stopped_) return false;
  threads_.reserve(threads_wanted_);
  while (threads_.size() < threads_wanted_) {
    const bool is_last = !threads_.empty() && threads_.size() + 1 == threads_wanted_;
    Result<std::jthread> started = start_thread([this, is_last](const std::stop_token& stop) { run(stop, is_last); });
    if (!started) break;
    threads_.push_back(*std::move(started));
  }
  return !threads_.empty();
}

/// The stride at which this and three earlier chunks were read, with few other reads between them; 1 if there is none.
uint64_t ReadAhead::stride_of(uint64_t readers, uint64_t number) const {
  for (uint64_t step = 2; step <= kMaxStep; ++step) {
    uint64_t wanted = number - step;
    size_t found = 0;
    size_t between = 0;
    // Start before the last entry, which is this chunk.
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

/// The reader that is expected to read this chunk next; null if there is none, so that a new one may start here.
ReadAhead::Stream* ReadAhead::match_stream(uint64_t readers, const ChunkGrid& grid, uint64_t number) {
  for (auto at = streams_.begin(); at != streams_.end(); ++at) {
    if (at->readers != readers) continue;
    const bool by_number = number == at->last + at->step;
    const bool by_name = at->step == 1 && next_by_name(grid, at->last) == number;
    if (!by_number && !by_name) continue;
    if (by_number != by_name) {  // if the chunk is next in both orders, the order is still unknown
      if (at->by_name != by_name) at->asked = at->expected = 0;
      if (!at->is_known) at->expected = at->is_undecided ? kExpectedOfEither : 0;
      at->by_name = by_name;
      at->is_known = true;
    }
    at->is_told = at->expected > 0;
    at->asked -= std::min<uint64_t>(at->asked, 1);
    at->expected -= std::min<uint64_t>(at->expected, 1);
    ++at->in_row;
    at->last = number;
    streams_.splice(streams_.begin(), streams_, at);
    return &streams_.front();
  }
  const uint64_t step = stride_of(readers, number);
  // The first chunk of a variable counts twice.
  const unsigned in_row = step > 1 ? kSequentialReads : number == 0 ? kSequentialReads - 1 : 1;
  streams_.push_front(
      {.id = ++last_id_, .readers = readers, .last = number, .step = step, .in_row = in_row, .is_known = step > 1});
  if (streams_.size() > kStreams) streams_.pop_back();
  return step > 1 ? &streams_.front() : nullptr;
}

/// Up to `most` chunks that the reader will read next, as far as its order is known.
std::vector<uint64_t> ReadAhead::chunks_after(const Stream& stream, const ChunkGrid& grid, uint64_t most) {
  std::vector<uint64_t> numbers;
  for (uint64_t next = stream.last; numbers.size() < most; numbers.push_back(next)) {
    if (!stream.is_known && next_by_name(grid, next) != next + 1) break;
    const auto after = stream.by_name ? next_by_name(grid, next) : std::optional(next + stream.step);
    if (!after || *after >= grid.count()) break;
    next = *after;
  }
  return numbers;
}

/// What is to be fetched after this chunk was read, without its function: up to `most` chunks ahead. With `is_remote`,
/// more are expected, in large steps, so that their requests can be joined and are answered when they are fetched. No
/// chunk is expected twice while a reader keeps to its order, nor, while it makes one request at a time, after it may
/// have been fetched.
ReadAhead::Noted ReadAhead::tasks_after(uint64_t readers, const ChunkGrid& grid, uint64_t number, uint64_t most,
                                        bool is_remote) {
  // A chunk is read by several requests in no particular order.
  if (std::ranges::find(noted_, std::pair(readers, number)) != noted_.end()) return {};
  noted_.emplace_back(readers, number);
  if (noted_.size() > kNoted) noted_.pop_front();
  Stream* const stream = match_stream(readers, grid, number);
  // Drop tasks that the reader has reached or passed itself.
  std::erase_if(tasks_, [&](const Task& task) {
    const bool is_behind = stream != nullptr && !stream->by_name && task.stream == stream->id && task.number < number;
    return is_behind || (task.readers == readers && task.number == number);
  });
  if (stream == nullptr || stream->in_row < kSequentialReads) return {};
  Noted noted{.is_sequential = true, .tasks = {}, .expected = {}};
  const uint64_t expects = is_remote ? std::min(std::max(kExpectGrowth * stream->in_row, most), kExpected * most) : 0;
  const bool expects_more = stream->expected < (expects + 1) / 2;
  if ((stream->asked >= most && !expects_more) || !have_threads()) return noted;
  const std::vector<uint64_t> next = chunks_after(*stream, grid, expects_more ? expects : most);
  if (expects_more) noted.expected = expect_more(*stream, grid, next, expects, most);
  const uint64_t ready = is_remote ? stream->expected : next.size();  // may be fetched
  for (;
       stream->asked < std::min<uint64_t>({most, next.size(), ready}) && tasks_.size() + noted.tasks.size() < kMaxTasks;
       ++stream->asked)
    noted.tasks.push_back({stream->id, readers, next[stream->asked], {}});
  return noted;
}

/// What is to be expected beside what is expected already. `next`: the chunks that follow, `expects` if there are so
/// many.
std::vector<uint64_t> ReadAhead::expect_more(Stream& stream, const ChunkGrid& grid, std::span<const uint64_t> next,
                                             uint64_t expects, uint64_t most) {
  std::vector<uint64_t> expected;
  if (!stream.is_known && next.size() < expects && !stream.is_undecided) {
    // Both orders part here: a reader of all chunks needs those that it does not read now some time later.
    stream.is_undecided = true;
    for (const bool by_name : {false, true}) {
      Stream either = stream;
      either.last = next.empty() ? stream.last : next.back();
      either.by_name = by_name;
      either.is_known = true;
      const std::vector<uint64_t> some = chunks_after(either, grid, kExpectedOfEither);
      expected.insert(expected.end(), some.begin(), some.end());
    }
  }
  if (next.size() > stream.expected) {
    size_t end = next.size();
    if (stream.step == 1 && !stream.by_name) {
      const uint64_t row = row_of(grid, most / 2);
      while (end > stream.expected && (next[end - 1] + 1) % row != 0) --end;
      if (end == stream.expected) end = next.size();
    }
    const std::span<const uint64_t> more = next.subspan(stream.expected, end - stream.expected);
    expected.insert(expected.end(), more.begin(), more.end());
    stream.expected = end;
  }
  if (!stream.is_told && !expected.empty()) expected.insert(expected.begin(), stream.last);  // not requested yet
  return expected;
}

bool ReadAhead::note(uint64_t readers, const ChunkGrid& grid, uint64_t number, uint64_t chunk_bytes,
                     const std::function<void(uint64_t number)>& fetch, const Expect& expect) {
  const uint64_t most =
      std::min<uint64_t>(kAheadPerThread * threads_wanted_, budget_ / std::max<uint64_t>(chunk_bytes, 1));
  if (most == 0 || grid.rank() == 0) return false;
  UniqueLock lock(mutex_);
  auto [is_sequential, tasks, expected] = tasks_after(readers, grid, number, most, expect != nullptr);
  if (!expected.empty()) {
    lock.unlock();
    expect(expected);
    lock.lock();
    if (stopped_) return is_sequential;
  }
  for (Task& task : tasks) {
    task.fetch = fetch;
    tasks_.push_back(std::move(task));
  }
  work_.notify_all();
  return is_sequential;
}

void ReadAhead::fetch(uint64_t readers, std::span<const uint64_t> numbers,
                      const std::function<void(uint64_t number)>& fetch) {
  const LockGuard lock(mutex_);
  if (!have_threads()) return;
  for (const uint64_t number : numbers)
    if (tasks_.size() < kMaxTasks) tasks_.push_back({0, readers, number, fetch});
  work_.notify_all();
}

void ReadAhead::soon(std::function<void()> work) {
  const LockGuard lock(mutex_);
  if (background_open_ >= kMaxBackground || !have_threads()) return;
  background_.push_back({std::move(work), true});
  ++background_open_;
  work_.notify_one();
}

void ReadAhead::help(size_t count, const std::function<void()>& work) {
  static const size_t cores = core_count();  // asking takes long beside the decoding of a block
  const LockGuard lock(mutex_);
  if (!have_threads()) return;
  const size_t busy = working_ + tasks_.size() + background_.size();
  if (busy >= threads_.size()) return;
  // There may be more threads than cores, as they wait.
  const size_t asked = std::min({count, cores - 1, threads_.size() - busy});
  background_.insert(background_.end(), asked, Background{work, false});
  work_.notify_all();
}

void ReadAhead::run(const std::stop_token& stop, bool is_last) {
  std::optional<Niceness> niceness;
  if (is_last) niceness.emplace();
  const Interruption::Check ends = [&stop] { return stop.stop_requested(); };
  const Interruption::Scope scope(&ends);
  UniqueLock lock(mutex_);
  while (work_.wait(lock, stop, [&]() CODECFS_REQUIRES(mutex_) { return !tasks_.empty() || !background_.empty(); })) {
    if (stop.stop_requested()) return;
    // Taking them needs no memory, and no exception leaves the work: the thread stays, and the counts are right.
    Task task;
    Background next;
    if (!tasks_.empty()) {
      task = std::move(tasks_.front());
      tasks_.pop_front();
    } else {
      next = std::move(background_.front());
      background_.pop_front();
    }
    ++working_;
    lock.unlock();
    if (niceness) niceness->begin();
    try {
      if (task.fetch)
        task.fetch(task.number);
      else
        next.work();
    } catch (const std::exception&) {
      // The request for the chunk will report the error.
    }
    task.fetch = {};  // release their captures
    next.work = {};
    if (niceness) niceness->end();
    lock.lock();
    --working_;
    if (next.is_counted) --background_open_;
  }
}

}  // namespace codecfs::fs
