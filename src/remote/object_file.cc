#include "remote/object_file.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace codecfs::remote {
namespace {

constexpr uint64_t kFirst = uint64_t{4} << 20;        // bytes, requested when an object is opened
constexpr uint64_t kSmall = uint64_t{8} << 20;        // a smaller object is requested as a whole
constexpr uint64_t kLeast = uint64_t{64} << 10;       // bytes of a request
constexpr uint64_t kMaxGrown = uint64_t{1} << 20;     // bytes of a request for a sequential reader
constexpr uint64_t kMaxOfMany = uint64_t{2} << 20;    // bytes of a request for the nodes of whole indexes
constexpr uint64_t kMaxBytes = uint64_t{8} << 20;     // of a request
constexpr uint64_t kMirrored = uint64_t{256} << 20;   // bytes, of all objects
constexpr uint64_t kOwn = uint64_t{16} << 20;         // bytes of it that each object may have in any case
constexpr uint64_t kBesideHints = uint64_t{8} << 20;  // bytes that are requested in vain, if no hint errs
constexpr uint64_t kExpected = uint64_t{128} << 20;   // bytes, of all objects
constexpr uint64_t kPage = SharedMirror::kPage;

uint64_t round_down(uint64_t offset, uint64_t unit) { return offset / unit * unit; }
uint64_t round_up(uint64_t offset, uint64_t unit) { return (offset + unit - 1) / unit * unit; }

/// The beginning of the object: from the cache, if the server says that it has not changed. `cached` is null afterwards
/// if this state cannot be cached.
Result<ObjectPart> get_first(ObjectClient& client, const std::string& key, const std::string& name,
                             std::unique_ptr<DiskCache::Object>& cached) {
  const auto known = cached ? cached->state() : std::nullopt;
  std::optional<Buffer> head;
  if (known) {
    cached->use(*known);
    head = cached->find({0, std::min(known->size, kFirst)});
  }
  const ObjectRange range{.offset = 0, .size = kFirst};
  auto first = head ? client.get_if_changed(key, range, known->etag) : client.get(key, range, kFirst);
  if (!first) return pass_on(first);
  if (!*first) return fail(ENOENT, "{}: there is no such object", name);
  ObjectPart part = **std::move(first);
  if (head && part.bytes.empty() && part.etag == known->etag) {
    part.bytes = *std::move(head);
    part.total = known->size;
    part.modified = known->modified;
    return part;
  }
  if (cached && !is_strong_etag(part.etag)) cached.reset();
  if (cached) {
    cached->use({part.etag, part.total, part.modified});
    cached->store({0, part.bytes.size()}, part.bytes.bytes());
  }
  return part;
}

}  // namespace

/// A call of fetch() that waits for extents.
struct ObjectFile::Waiter {
  size_t left = 0;  // extents; guarded by mutex_, as `error`
  std::optional<Error> error;
  Done done;

  void finish() const {
    if (done) done(error ? Result<>(std::unexpected(*error)) : Result<>());
  }
};

Result<std::unique_ptr<ObjectFile>> ObjectFile::open(std::shared_ptr<ObjectClient> client, const std::string& key,
                                                     const std::string& name, size_t connections,
                                                     std::shared_ptr<DiskCache> cache) {
  auto cached = cache ? cache->object(client->identity_of(key)) : nullptr;
  CODECFS_ASSIGN(const ObjectPart first, get_first(*client, key, name, cached));
  if (first.bytes.size() != std::min(first.total, kFirst))
    return fail(EIO, "{}: the server sent {} bytes of {}", name, first.bytes.size(), first.total);
  if (first.etag.empty() && first.total > first.bytes.size())
    return fail(EOPNOTSUPP,
                "{}: the server sends neither ETag nor Last-Modified, so parts of different states could not be told "
                "apart: copy the file here",
                name);
  CODECFS_ASSIGN(SharedMirror mirror, SharedMirror::make(first.total));
  std::unique_ptr<ObjectFile> file(new ObjectFile(std::move(client), key, name, std::move(mirror), connections));
  file->cache_ = std::move(cache);
  file->cached_ = std::move(cached);
  file->etag_ = first.etag;
  file->modified_ = first.modified;
  if (first.bytes.empty()) return file;
  CODECFS_TRY(file->mirror_.store(0, first.bytes.bytes()));
  const LockGuard lock(file->mutex_);
  Extent& extent = file->extents_[0];
  extent.end = first.bytes.size();
  extent.is_there = true;  // and never dropped: it has no age
  return file;
}

ObjectFile::ObjectFile(std::shared_ptr<ObjectClient> client, std::string key, std::string name, SharedMirror mirror,
                       size_t connections)
    : client_(std::move(client)),
      key_(std::move(key)),
      name_(std::move(name)),
      mirror_(std::move(mirror)),
      request_bytes_(kLeast),
      threads_(connections),
      expected_([this](const ByteRange& range) { return get_in_thread(range); }, threads_, kExpected,
                client_->statistics().expected_bytes) {}

ObjectFile::~ObjectFile() {
  is_ending_ = true;
  threads_.wait();
  const LockGuard lock(mutex_);
  client_->statistics().mirrored_bytes -= mirrored_;
}

void ObjectFile::use_hints(Hints hints) {
  {
    const LockGuard lock(mutex_);
    hints_ = std::make_shared<const Hints>(std::move(hints));
  }
  const uint64_t first = std::min(kFirst, size());
  auto bytes = Buffer::allocate(first);
  const auto is_read = bytes ? mirror_.read(0, bytes->mutable_bytes()) : false;
  if (is_read && *is_read) fetch_hinted(hints_of({0, first}, bytes->bytes()));
}

/// Exactly these bytes.
Result<Buffer> ObjectFile::get(const ByteRange& range) const {
  RequestStatistics& statistics = client_->statistics();
  if (cached_) {
    auto bytes = cached_->find(range);
    ++(bytes ? statistics.disk_hits : statistics.disk_misses);
    if (bytes) return *std::move(bytes);
  }
  CODECFS_ASSIGN(auto part, client_->get(key_, ObjectRange{range.offset, range.size}, range.size, etag_));
  if (!part) return fail(ESTALE, "{}: the object was removed since it was opened", name_);
  if (part->total != size()) return fail(ESTALE, "{}: the object was replaced since it was opened", name_);
  if (part->bytes.size() != range.size)
    return fail(EIO, "{}: the server sent {} bytes instead of {}", name_, part->bytes.size(), range.size);
  if (cached_) cached_->store(range, part->bytes.bytes());
  return std::move(part->bytes);
}

void ObjectFile::count_read(bool was_in_memory) const {
  RequestStatistics& statistics = client_->statistics();
  ++(was_in_memory ? statistics.memory_hits : statistics.memory_misses);
}

/// As get(), for more than one reader, also those that come later: only the end of this object interrupts it.
Result<Buffer> ObjectFile::get_in_thread(const ByteRange& range) const {
  const Interruption::Scope scope(&ends_);
  return get(range);
}

// --- the mirror

/// What to request for missing bytes: more for a sequential reader.
ByteRange ObjectFile::grown(ByteRange missing) {
  if (size() <= kSmall) return {0, size()};
  const bool is_next = missing.offset <= end_of_latest_ + kPage && missing.offset >= end_of_latest_;
  request_bytes_ = is_next && end_of_latest_ != 0 ? std::min(request_bytes_ * 2, kMaxGrown) : kLeast;
  const uint64_t begin = is_next ? missing.offset : round_down(missing.offset, kLeast);
  const uint64_t end = std::max(round_up(missing.end(), kLeast), begin + request_bytes_);
  end_of_latest_ = std::min(end, size());
  return {begin, end_of_latest_ - begin};
}

/// Adds the waiter to what is under way of a range, and new extents for what is missing, which it returns.
std::vector<ByteRange> ObjectFile::plan(const ByteRange& range, Growth growth, const WaiterPtr& waiter) {
  const uint64_t begin = round_down(range.offset, kPage);
  const uint64_t end = std::min(round_up(range.end(), kPage), size());
  std::vector<ByteRange> missing;  // of the range
  uint64_t at = begin;
  auto next = extents_.upper_bound(begin);
  if (next != extents_.begin() && std::prev(next)->second.end > begin) --next;
  for (; at < end; ++next) {
    const bool is_last = next == extents_.end() || next->first >= end;
    if (const uint64_t until = is_last ? end : next->first; at < until) missing.push_back({at, until - at});
    if (is_last) break;
    if (!next->second.is_there && waiter) {
      next->second.waiters.push_back(waiter);
      ++waiter->left;
    }
    at = next->second.end;
  }
  std::vector<ByteRange> requests;
  for (const ByteRange& part : missing) {
    ByteRange whole = growth == Growth::sequential ? grown(part) : part;
    if (growth == Growth::blocks && beside_hints_ < kBesideHints) {
      whole.offset = round_down(part.offset, kLeast);
      whole.size = std::min(round_up(part.end(), kLeast), size()) - whole.offset;
      beside_hints_ += whole.size - part.size;
    }
    // Not what is there or under way: neighbours of the part bound it.
    const auto after = extents_.upper_bound(part.offset);
    if (after != extents_.end() && after->first < whole.end()) whole.size = after->first - whole.offset;
    if (after != extents_.begin()) {
      const uint64_t before = std::prev(after)->second.end;
      if (before > whole.offset) whole = {before, whole.end() - before};
    }
    for (uint64_t done = 0; done < whole.size;) {
      const ByteRange request{whole.offset + done, std::min(kMaxBytes, whole.size - done)};
      Extent& extent = extents_[request.offset];
      extent.end = request.end();
      if (waiter && request.offset < part.end() && part.offset < request.end()) {
        extent.waiters.push_back(waiter);
        ++waiter->left;
      }
      requests.push_back(request);
      done += request.size;
    }
  }
  return requests;
}

void ObjectFile::fetch(const ByteRange& range, Done done) {
  if (range.offset > size() || range.size > size() - range.offset)
    return done(fail(EIO, "{}: has {} bytes, and {} at {} are asked for", name_, size(), range.size, range.offset));
  const auto waiter = std::make_shared<Waiter>();
  waiter->done = std::move(done);
  std::vector<ByteRange> requests;
  bool is_complete = false;
  {
    const LockGuard lock(mutex_);
    requests = plan(range, Growth::sequential, waiter);
    is_complete = waiter->left == 0;
  }
  count_read(requests.empty());
  if (is_complete) waiter->finish();
  start(requests);
}

void ObjectFile::start(const std::vector<ByteRange>& extents) {
  for (const ByteRange& extent : extents) start(Request{.range = extent, .extents = {extent}});
}

void ObjectFile::start(Request request) {
  threads_.run([this, moved = std::move(request)] { run(moved); });
}

void ObjectFile::run(const Request& request) {
  const auto content = get_in_thread(request.range);
  std::vector<Result<>> stored;
  std::vector<ByteRange> hinted;
  for (const ByteRange& extent : request.extents) {
    if (!content) {
      stored.emplace_back(std::unexpected(content.error()));
      continue;
    }
    const Bytes bytes = content->bytes().subspan(extent.offset - request.range.offset, extent.size);
    stored.push_back(mirror_.store(extent.offset, bytes));
    if (!stored.back()) continue;
    const std::vector<ByteRange> further = hints_of(extent, bytes);
    hinted.insert(hinted.end(), further.begin(), further.end());
  }
  fetch_hinted(std::move(hinted));
  std::vector<WaiterPtr> complete;
  {
    const LockGuard lock(mutex_);
    for (size_t i = 0; i < stored.size(); ++i) {
      const auto extent = extents_.find(request.extents[i].offset);
      for (const WaiterPtr& waiter : extent->second.waiters) {
        if (!stored[i]) waiter->error = stored[i].error();
        if (--waiter->left == 0) complete.push_back(waiter);
      }
      extent->second.waiters.clear();
      if (stored[i])
        note_arrival(extent);
      else
        extents_.erase(extent);
    }
  }
  for (const WaiterPtr& waiter : complete) waiter->finish();
}

std::vector<ByteRange> ObjectFile::hints_of(const ByteRange& range, Bytes bytes) {
  std::shared_ptr<const Hints> hints;
  {
    const LockGuard lock(mutex_);
    hints = hints_;
  }
  return hints ? (*hints)(range.offset, bytes) : std::vector<ByteRange>();
}

void ObjectFile::fetch_many_hinted(std::vector<ByteRange> wanted) {
  hints_are_many_ = true;
  fetch_hinted(std::move(wanted));
}

void ObjectFile::fetch_hinted(std::vector<ByteRange> wanted) {
  std::vector<ByteRange> missing;
  for (size_t i = 0; i < wanted.size(); ++i) {
    ByteRange part = wanted[i];
    if (part.offset >= size()) continue;
    part.size = std::min(part.size, size() - part.offset);
    auto present = Buffer::allocate(mirror_.has(part.offset, part.size) ? part.size : 0);
    const auto is_read = present && !present->empty() ? mirror_.read(part.offset, present->mutable_bytes()) : false;
    if (is_read && *is_read) {
      const std::vector<ByteRange> further = hints_of(part, present->bytes());
      wanted.insert(wanted.end(), further.begin(), further.end());
    } else {
      missing.push_back(part);
    }
  }
  if (missing.empty()) return;
  if (size() <= kSmall) return fetch({0, size()}, [](const Result<>&) {});
  std::vector<Request> requests;
  std::vector<WaiterPtr> complete;
  {
    const LockGuard lock(mutex_);
    requests = plan_hinted(std::move(missing), complete);
  }
  for (Request& request : requests) start(std::move(request));
  for (const WaiterPtr& waiter : complete) waiter->finish();
}

std::vector<ObjectFile::Request> ObjectFile::plan_hinted(std::vector<ByteRange> parts,
                                                         std::vector<WaiterPtr>& complete) {
  std::vector<ByteRange> extents;
  std::vector<ByteRange> ranges;
  if (hints_are_many_) {
    for (const ByteRange& part : parts)
      for (const ByteRange& extent : plan(part, Growth::none, nullptr)) extents.push_back(extent);
    ranges = plan_requests(extents, {.gap = kLeast, .request = kMaxOfMany, .whole = kMaxBytes, .amplification = 4});
  } else {
    // What is beside a node is often pointed at by the next one, and a block costs no more time than a node.
    const PlanLimits limits{.gap = kLeast, .request = kMaxGrown, .whole = kMaxBytes, .amplification = 24};
    for (const ByteRange& joined : plan_requests(parts, limits))
      for (const ByteRange& extent : plan(joined, Growth::blocks, nullptr)) extents.push_back(extent);
    ranges = extents;
  }
  std::ranges::sort(extents, {}, &ByteRange::offset);
  std::ranges::sort(ranges, {}, &ByteRange::offset);
  std::vector<Request> requests;
  auto next = extents.begin();
  for (const ByteRange& range : ranges) {
    Request& request = requests.emplace_back(Request{.range = range, .extents = {}});
    for (; next != extents.end() && next->end() <= range.end(); ++next) request.extents.push_back(*next);
  }
  // A part of which other requests have some bytes is followed when all of them are there.
  for (const ByteRange& part : parts) {
    const auto after = std::ranges::upper_bound(extents, part.offset, {}, &ByteRange::offset);
    if (after != extents.begin() && std::prev(after)->end() >= part.end()) continue;
    const auto waiter = std::make_shared<Waiter>();
    waiter->done = [this, part](const Result<>& result) {
      if (result) fetch_hinted({part});
    };
    (void)plan(part, Growth::none, waiter);
    if (waiter->left == 0) complete.push_back(waiter);
  }
  return requests;
}

void ObjectFile::note_arrival(Extents::iterator extent) {
  extent->second.is_there = true;
  extent->second.age = ages_.insert(ages_.end(), extent->first);
  mirrored_ += extent->second.end - extent->first;
  client_->statistics().mirrored_bytes += extent->second.end - extent->first;
  drop_oldest();
}

void ObjectFile::drop_oldest() {
  RequestStatistics::Counter& all = client_->statistics().mirrored_bytes;
  while (all > kMirrored && mirrored_ > kOwn && ages_.size() > 1) {
    const auto extent = extents_.find(ages_.front());
    ages_.pop_front();
    const uint64_t bytes = extent->second.end - extent->first;
    mirrored_ -= bytes;
    all -= bytes;
    mirror_.drop(extent->first, bytes);
    extents_.erase(extent);
  }
}

Result<> ObjectFile::read_mirrored(uint64_t offset, MutableBytes to) {
  for (; to.size() > kMaxBytes; offset += kMaxBytes, to = to.subspan(kMaxBytes))
    CODECFS_TRY(read_mirrored(offset, to.first(kMaxBytes)));
  if (offset > size() || to.size() > size() - offset)
    return fail(EIO, "{}: has {} bytes, and {} at {} are asked for", name_, size(), to.size(), offset);
  for (;;) {
    CODECFS_ASSIGN(const bool was_there, mirror_.read(offset, to));
    if (was_there) return {};
    struct Wait {
      Mutex mutex;
      ConditionVariable ended;
      std::optional<Result<>> result;
    };
    const auto wait = std::make_shared<Wait>();
    fetch({offset, to.size()}, [wait](const Result<>& done) {
      const LockGuard lock(wait->mutex);
      wait->result = done;
      wait->ended.notify_all();
    });
    UniqueLock lock(wait->mutex);
    if (!Interruption::wait(wait->ended, lock, [&] { return wait->result.has_value(); })) return Interruption::error();
    CODECFS_TRY(*wait->result);
  }
}

// --- data

Result<Buffer> ObjectFile::read(uint64_t offset, uint64_t size) {
  if (offset > this->size() || size > this->size() - offset)
    return fail(EIO, "{}: has {} bytes, and {} at {} are asked for", name_, this->size(), size, offset);
  const bool is_small = this->size() <= kSmall;
  if (is_small || mirror_.has(offset, size)) {
    CODECFS_ASSIGN(Buffer bytes, Buffer::allocate(size));
    CODECFS_ASSIGN(const bool was_there, mirror_.read(offset, bytes.mutable_bytes()));
    if (!was_there && is_small) CODECFS_TRY(read_mirrored(offset, bytes.mutable_bytes()));
    if (was_there) count_read(true);
    if (was_there || is_small) return bytes;
  }
  const ByteRange range{offset, size};
  CODECFS_ASSIGN(auto expected, expected_.take(range));
  count_read(expected.has_value());
  if (expected) return *std::move(expected);
  const std::vector<ByteRange> requests = plan_requests({range});
  if (requests.size() <= 1) return get(range);
  expected_.expect(requests);  // all at a time
  CODECFS_ASSIGN(Buffer bytes, Buffer::allocate(size));
  for (const ByteRange& request : requests) {
    CODECFS_ASSIGN(auto piece, expected_.take(request));
    if (!piece) {
      CODECFS_ASSIGN(piece, get(request));
    }
    std::memcpy(bytes.data() + (request.offset - offset), piece->data(), request.size);
  }
  return bytes;
}

void ObjectFile::expect(std::span<const ByteRange> ranges) {
  std::vector<ByteRange> missing;
  for (const ByteRange& range : ranges)
    if (range.offset <= size() && range.size <= size() - range.offset && !mirror_.has(range.offset, range.size))
      missing.push_back(range);
  if (missing.empty()) return;
  if (size() <= kSmall) return fetch({0, size()}, [](const Result<>&) {});
  expected_.expect(missing);
}

}  // namespace codecfs::remote
