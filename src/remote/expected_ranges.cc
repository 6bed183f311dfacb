#include "remote/expected_ranges.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "base/interruption.h"

namespace codecfs::remote {
namespace {

constexpr std::chrono::seconds kUnread{10};  // a reader that has not come by then has stopped

// A reader and the threads that read ahead of it ask for the same ranges, in this order and a moment later.
constexpr std::chrono::seconds kMoment{2};
constexpr size_t kMaxTaken = 512;

bool contains(const ByteRange& outer, const ByteRange& inner) {
  return inner.offset >= outer.offset && inner.end() <= outer.end();
}

bool has(const std::vector<ByteRange>& ranges, const ByteRange& range) {
  return std::ranges::find(ranges, range) != ranges.end();
}

}  // namespace

/// All objects: what readers of one have left is dropped where another needs the memory.
class ExpectedRanges::Instances {
 public:
  static void add(ExpectedRanges* one) {
    const LockGuard lock(mutex());
    all().push_back(one);
  }
  static void remove(ExpectedRanges* one) {
    const LockGuard lock(mutex());
    std::erase(all(), one);
  }
  /// Drops what was not read of those that are not in use right now: `one` is locked, and others that are may wait for
  /// it.
  static void drop_unread(const ExpectedRanges* one, uint64_t needed) CODECFS_NO_THREAD_SAFETY_ANALYSIS {
    const LockGuard lock(mutex());
    for (ExpectedRanges* const other : all()) {
      if (other == one || &other->all_bytes_ != &one->all_bytes_ || !other->mutex_.try_lock()) continue;
      other->drop_unread(needed);
      other->mutex_.unlock();
    }
  }

 private:
  static Mutex& mutex() {
    static auto* mutex = new Mutex(LockRank::all_expected_ranges);  // never destroyed: objects may be destroyed as late
    return *mutex;
  }
  static std::vector<ExpectedRanges*>& all() {
    static auto* all = new std::vector<ExpectedRanges*>;
    return *all;
  }
};

ExpectedRanges::ExpectedRanges(Get get, RequestThreads& threads, uint64_t most_bytes, std::atomic<uint64_t>& all_bytes)
    : get_(std::move(get)), threads_(threads), most_bytes_(most_bytes), all_bytes_(all_bytes) {
  Instances::add(this);
}

ExpectedRanges::~ExpectedRanges() {
  Instances::remove(this);
  UniqueLock lock(mutex_);
  arrived_.wait(lock, [&]() CODECFS_REQUIRES(mutex_) { return running_ == 0; });
  all_bytes_ -= bytes_;
}

bool ExpectedRanges::has_room(uint64_t bytes) const {
  return all_bytes_ + bytes <= most_bytes_ || (bytes_ == 0 && all_bytes_ <= 2 * most_bytes_);
}

void ExpectedRanges::change_bytes(int64_t difference) {
  bytes_ += static_cast<uint64_t>(difference);
  all_bytes_ += static_cast<uint64_t>(difference);
}

void ExpectedRanges::drop(const WindowPtr& window) {
  if (std::erase(windows_, window) != 0) change_bytes(-static_cast<int64_t>(window->range.size));
}

void ExpectedRanges::make_room(uint64_t needed) {
  drop_unread(needed);
  if (all_bytes_ + needed > most_bytes_) Instances::drop_unread(this, needed);
}

// What readers have left, until there is room.
void ExpectedRanges::drop_unread(uint64_t needed) {
  const auto now = Clock::now();
  for (auto at = windows_.begin(); at != windows_.end() && all_bytes_ + needed > most_bytes_;) {
    const Window& window = **at;
    if (window.content && window.readers == 0 && now - window.made > kUnread) {
      change_bytes(-static_cast<int64_t>(window.range.size));
      at = windows_.erase(at);
    } else {
      ++at;
    }
  }
}

bool ExpectedRanges::is_known(const ByteRange& range) const {
  return std::ranges::any_of(taken_, [&](const Taken& taken) { return taken.range == range; }) ||
         std::ranges::any_of(windows_, [&](const WindowPtr& window) { return has(window->expected, range); });
}

void ExpectedRanges::expect(std::span<const ByteRange> ranges) {
  std::vector<WindowPtr> made;
  {
    const LockGuard lock(mutex_);
    std::vector<ByteRange> wanted;
    const auto now = Clock::now();
    while (!taken_.empty() && now - taken_.front().when > kMoment) taken_.pop_front();
    std::ranges::copy_if(ranges, std::back_inserter(wanted),
                         [&](const ByteRange& range) CODECFS_REQUIRES(mutex_) { return !is_known(range); });
    for (const ByteRange& request : plan_requests(wanted)) {
      make_room(request.size);
      if (!has_room(request.size)) break;
      auto window = std::make_shared<Window>();
      window->range = request;
      window->made = Clock::now();
      for (const ByteRange& range : wanted)
        if (contains(request, range)) window->expected.push_back(range);
      if (window->expected.empty()) continue;  // of a range in several pieces, which its reader requests itself
      windows_.push_back(window);
      change_bytes(static_cast<int64_t>(request.size));
      ++running_;
      made.push_back(std::move(window));
    }
  }
  for (WindowPtr& window : made) threads_.run([this, moved = std::move(window)] { run(moved); });
}

void ExpectedRanges::run(const WindowPtr& window) {
  Result<Buffer> content = get_(window->range);
  const LockGuard lock(mutex_);
  window->content = std::move(content);
  --running_;
  arrived_.notify_all();
}

Result<std::optional<Buffer>> ExpectedRanges::take(const ByteRange& range) {
  UniqueLock lock(mutex_);
  taken_.push_back({range, Clock::now()});
  if (taken_.size() > kMaxTaken) taken_.pop_front();
  const auto found =
      std::ranges::find_if(windows_, [&](const WindowPtr& window) { return has(window->expected, range); });
  if (found == windows_.end()) return std::nullopt;
  const WindowPtr window = *found;
  ++window->readers;
  const bool has_arrived = Interruption::wait(arrived_, lock, [&]() { return window->content.has_value(); });
  --window->readers;
  if (!has_arrived) return Interruption::error();
  std::erase(window->expected, range);
  if (window->expected.empty() || !*window->content) drop(window);
  if (!*window->content) return fail(window->content->error().code, "{}", window->content->error().reason);
  lock.unlock();
  // The content is never changed once it has arrived.
  CODECFS_ASSIGN(Buffer bytes, Buffer::allocate(range.size));
  std::memcpy(bytes.data(), (*window->content)->data() + (range.offset - window->range.offset), range.size);
  return bytes;
}

}  // namespace codecfs::remote
