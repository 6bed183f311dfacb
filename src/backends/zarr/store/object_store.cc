#include "backends/zarr/store/object_store.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <new>
#include <utility>
#include <vector>

#include "backends/zarr/metadata/metadata_files.h"
#include "base/interruption.h"
#include "base/mutex.h"
#include "base/text_hash.h"
#include "remote/expected_ranges.h"
#include "remote/request_threads.h"

namespace codecfs::zarr {
namespace {

constexpr uint64_t kFirstPart = uint64_t{8} << 20;   // bytes that the look-up of a file reads
constexpr uint64_t kTail = uint64_t{64} << 10;       // bytes: the index of a shard is at its end as a rule
constexpr uint64_t kKeptBytes = uint64_t{64} << 20;  // for files that were looked up
constexpr size_t kKeptFiles = 4096;
constexpr size_t kSizes = size_t{1} << 16;
constexpr size_t kStates = size_t{1} << 20;  // of objects, about 150 bytes each
constexpr size_t kListings = 16;
constexpr size_t kGroups = size_t{1} << 16;  // with known members
constexpr uint64_t kMembersBytes = uint64_t{32} << 20;
constexpr size_t kOpened = 256;
constexpr size_t kOpening = 16;                           // threads that open files ahead
constexpr size_t kThreads = 64;                           // that wait for parts of files
constexpr uint64_t kExpectedParts = uint64_t{128} << 20;  // bytes

std::unexpected<Error> unidentified(const std::string& key) {
  return fail(
      EOPNOTSUPP,
      "{}: the server sends neither ETag nor Last-Modified, so parts of different states could not be told apart", key);
}

}  // namespace

timespec time_now() {
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  return time;
}

/// Parts of one state of an object, also ahead of their readers.
class ObjectStore::Ranges {
 public:
  Ranges(std::shared_ptr<remote::ObjectClient> client, std::string key, const PartPtr& tail,
         std::shared_ptr<remote::RequestThreads> threads)
      : client_(std::move(client)),
        key_(std::move(key)),
        etag_(tail->etag),
        total_(tail->total),
        threads_(std::move(threads)),
        expected_([this](const remote::ByteRange& range) { return get_ahead(range); }, *threads_, kExpectedParts,
                  client_->statistics().expected_bytes) {}
  /// Ends requests that no reader waits for.
  ~Ranges() { is_ending_ = true; }
  Ranges(const Ranges&) = delete;
  Ranges& operator=(const Ranges&) = delete;

  [[nodiscard]] bool are_of(const remote::ObjectPart& part) const { return part.etag == etag_ && part.total == total_; }
  void expect(std::span<const remote::ByteRange> ranges) { expected_.expect(ranges); }
  Result<Buffer> read(const remote::ByteRange& range) {
    remote::RequestStatistics& statistics = client_->statistics();
    CODECFS_ASSIGN(auto expected, expected_.take(range));
    ++(expected ? statistics.memory_hits : statistics.memory_misses);
    if (expected) return *std::move(expected);
    return get(range);
  }

 private:
  [[nodiscard]] Result<Buffer> get(const remote::ByteRange& range) const {
    CODECFS_ASSIGN(auto part, client_->get(key_, remote::ObjectRange{.offset = range.offset, .size = range.size},
                                           range.size, etag_));
    if (!part) return fail(ESTALE, "{}: the object was removed since it was opened", key_);
    if (part->bytes.size() != range.size || part->total != total_)
      return fail(ESTALE, "{}: the object has another size than when it was opened", key_);
    return std::move(part->bytes);
  }
  Result<Buffer> get_ahead(const remote::ByteRange& range) const {
    const Interruption::Scope scope(&ends_);
    return get(range);
  }

  const std::shared_ptr<remote::ObjectClient> client_;
  const std::string key_;  // in the bucket
  const std::string etag_;
  const uint64_t total_;  // bytes
  std::atomic<bool> is_ending_ = false;
  const Interruption::Check ends_ = [this] { return is_ending_.load(); };
  const std::shared_ptr<remote::RequestThreads> threads_;
  remote::ExpectedRanges expected_;  // last: its requests use all above
};

/// One state of an object, with its end in memory.
struct ObjectStore::File final : public StoredFile {
  std::shared_ptr<remote::ObjectClient> client;
  std::string key;  // in the bucket
  PartPtr tail;
  std::shared_ptr<Ranges> ranges;

  [[nodiscard]] uint64_t size() const override { return tail->total; }
  [[nodiscard]] std::string version() const override { return tail->etag; }
  [[nodiscard]] Result<Buffer> read(uint64_t offset, uint64_t size) const override {
    if (offset > tail->total || size > tail->total - offset)
      return fail(EIO, "{}: has {} bytes, too few for {} at {}", key, tail->total, size, offset);
    const uint64_t tail_at = tail->total - tail->bytes.size();
    if (size == 0) return Buffer();
    if (offset < tail_at) return ranges->read({offset, size});
    ++client->statistics().memory_hits;
    return Buffer::copy_of(tail->bytes.bytes().subspan(offset - tail_at, size));
  }
  void expect(std::span<const remote::ByteRange> wanted) const override {
    const uint64_t tail_at = tail->total - tail->bytes.size();
    std::vector<remote::ByteRange> missing;
    for (const remote::ByteRange& range : wanted)
      if (range.size != 0 && range.offset < tail_at && range.size <= tail->total - range.offset)
        missing.push_back(range);
    if (!missing.empty()) ranges->expect(missing);
  }
};

struct ObjectStore::OpenedFile {
  std::shared_ptr<const File> file;
  Clock::time_point at;
};

/// Requests of files that will be opened.
struct ObjectStore::Opening {
  std::atomic<bool> is_ending = false;
  const Interruption::Check ends = [this] { return is_ending.load(); };
  remote::RequestThreads threads{kOpening};

  Opening() = default;
  ~Opening() {
    is_ending = true;
    threads.wait();
  }
  Opening(const Opening&) = delete;
  Opening& operator=(const Opening&) = delete;
};

ObjectStore::~ObjectStore() = default;

Result<std::unique_ptr<ObjectStore>> ObjectStore::open(std::shared_ptr<remote::ObjectClient> client,
                                                       const std::string& key, std::optional<Error> unwritable) {
  std::string prefix = key;
  if (!prefix.empty() && !prefix.ends_with('/')) prefix += '/';
  std::unique_ptr<ObjectStore> store(new ObjectStore(std::move(client), std::move(prefix), std::move(unwritable)));
  CODECFS_TRY(store->texts_.open());
  return store;
}

ObjectStore::ObjectStore(std::shared_ptr<remote::ObjectClient> client, std::string prefix,
                         std::optional<Error> unwritable)
    : client_(std::move(client)),
      prefix_(std::move(prefix)),
      unwritable_(std::move(unwritable)),
      texts_(client_, prefix_),
      kept_(kKeptFiles, kKeptBytes),
      sizes_(kSizes),
      states_(kStates),
      listings_(kListings),
      members_(kGroups, kMembersBytes),
      opened_(kOpened),
      threads_(std::make_shared<remote::RequestThreads>(kThreads)),
      expected_([this](const std::string& key) { return get_expected(key); }, client_->statistics()),
      opening_(std::make_unique<Opening>()) {
  status_.st_mode = S_IFDIR | (unwritable_ ? 0555 : 0755);
  status_.st_nlink = 1;
  status_.st_uid = ::geteuid();
  status_.st_gid = ::getegid();
  status_.st_ino = text_hash("");
  status_.st_mtim = status_.st_ctim = status_.st_atim = time_now();
}

Result<std::optional<struct stat>> ObjectStore::stat(const std::string& key) const {
  struct stat status = status_;
  if (key.empty()) return status;
  status.st_ino = text_hash(key);
  const auto as_file = [&](uint64_t size) {
    status.st_mode = S_IFREG | (unwritable_ ? 0444 : 0644);
    status.st_size = static_cast<off_t>(size);
    return status;
  };
  if (is_metadata_key(key)) {
    CODECFS_ASSIGN(const auto text, texts_.get(key));
    if (!*text) return std::nullopt;
    return as_file((*text)->size());
  }
  CODECFS_ASSIGN(const bool is_in_array, texts_.is_in_array(key));
  const ListingPtr listing = listing_of(key);
  if (!is_in_array) {
    CODECFS_ASSIGN(const bool is_node, texts_.is_node(key));
    if (!is_node) return std::nullopt;  // of files beside groups and arrays, none is asked for
    status.st_mtim = listing ? listing->changed : time_now();
    return status;
  }
  if (const auto known = listed(key)) {
    if (*known) return as_file((*known)->bytes);
    if (!listing) return std::nullopt;
    const auto below = listing->sizes.lower_bound(key + "/");
    const bool is_listed = below != listing->sizes.end() && below->first.starts_with(key + "/");
    if (is_listed || own_.has_any(key + "/", listing->began)) return status;
    return std::nullopt;
  }
  CODECFS_ASSIGN(const auto file, locate(key));
  if (!file) return std::nullopt;
  return as_file(file->bytes);
}

/// All of a file, or its first kFirstPart bytes; null if it does not exist. `mark`: taken before.
Result<ObjectStore::PartPtr> ObjectStore::first_part(const std::string& key, const OwnWrites::Mark& mark) const {
  ++client_->statistics().memory_misses;
  return parts_under_way_.run(fmt::format("first part {} of {}", mark.number, key), [&]() -> Result<PartPtr> {
    CODECFS_ASSIGN(const PartPtr part, request(key, {.offset = 0, .size = kFirstPart}));
    if (part)
      sizes_.put_if(key, std::make_shared<const Size>(part->total, Clock::now()), 0,
                    [&] { return own_.is_unchanged(key, mark); });
    return part;
  });
}

Result<ExpectedObjects::Found> ObjectStore::get_expected(const std::string& key) const {
  const OwnWrites::Mark mark = own_.mark_of(key);
  CODECFS_ASSIGN(PartPtr part, first_part(key, mark));
  return ExpectedObjects::Found{.part = std::move(part),
                                .is_current = [this, key, mark] { return own_.is_unchanged(key, mark); }};
}

void ObjectStore::expect(std::span<const std::string> keys, uint64_t most_bytes) const {
  std::vector<std::string> wanted;
  for (const std::string& key : keys) {
    const auto known = listed(key);
    const bool is_absent = known && !*known;
    if (!is_absent && kept_.get(key) == nullptr) wanted.push_back(key);
  }
  if (!wanted.empty()) expected_.expect(wanted, std::min(most_bytes, kFirstPart));
}

Result<ObjectStore::PartPtr> ObjectStore::request(const std::string& key, const remote::ObjectRange& range) const try {
  CODECFS_ASSIGN(auto part, client_->get(client_->key_of(prefix_, key), range, range.size));
  if (!part) return PartPtr();
  // In a store that may be written, only read() checks, so that a chunk that others have changed can be looked up, and
  // then written.
  if (unwritable_) CODECFS_TRY(check_state(key, part->etag));
  return std::make_shared<const remote::ObjectPart>(std::move(*part));
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "{}: no memory to read it", key);
}

Result<std::optional<Store::Stored>> ObjectStore::locate(const std::string& key) const {
  if (is_metadata_key(key)) return Store::locate(key);
  list_if_absences_pay(key);
  if (const auto known = listed(key)) {
    if (!*known) {
      note_absent(key);
      return std::nullopt;
    }
    if (unwritable_) CODECFS_TRY(check_state(key, (*known)->etag));
    return Stored{.bytes = (*known)->bytes, .offset = 0};
  }
  if (const auto size = sizes_.get(key); size && Clock::now() - size->at < kLifetime)
    return Stored{.bytes = size->bytes, .offset = 0};
  if (const auto write = own_.of(key, Clock::now() - kLifetime);
      write && write->outcome == OwnWrites::Write::Outcome::removed)
    return std::nullopt;
  CODECFS_ASSIGN(const auto expected, expected_.look(key));
  if (expected && !*expected) return std::nullopt;
  if (expected) return Stored{.bytes = (*expected)->total, .offset = 0};
  const OwnWrites::Mark mark = own_.mark_of(key);
  CODECFS_ASSIGN(const PartPtr part, first_part(key, mark));
  if (!part) {
    note_absent(key);
    return std::nullopt;
  }
  kept_.put_if(key, part, part->bytes.capacity() + key.size(), [&] { return own_.is_unchanged(key, mark); });
  return Stored{.bytes = part->total, .offset = 0};
}

Result<std::optional<Buffer>> ObjectStore::read(const std::string& key, uint64_t limit) const {
  if (is_metadata_key(key)) {
    CODECFS_ASSIGN(const auto text, texts_.get(key));
    if (!*text) return std::nullopt;
    if ((*text)->size() > limit) return fail(EIO, "{}: has more than {} bytes", key, limit);
    CODECFS_ASSIGN(Buffer bytes, Buffer::copy_of(std::as_bytes(std::span(**text))));
    return bytes;
  }
  OwnWrites::Mark mark = own_.mark_of(key);
  PartPtr part = kept_.take(key);
  if (!part) {
    CODECFS_ASSIGN(const auto expected, expected_.take(key));
    if (expected && !*expected) return std::nullopt;
    if (expected) part = *expected;
  }
  if (part) ++client_->statistics().memory_hits;
  for (unsigned attempt = 0;; ++attempt) {
    if (!part) {
      mark = own_.mark_of(key);
      CODECFS_ASSIGN(part, first_part(key, mark));
    }
    if (!part) return std::nullopt;
    if (!unwritable_ && own_.is_unchanged(key, mark)) CODECFS_TRY(check_state(key, part->etag));
    if (part->total > limit)
      return fail(EIO, "{}: has {} bytes, more than the {} that it may have", key, part->total, limit);
    auto whole = read_parts(key, part);
    // In a store that other programs write, the next state is read as well.
    if (whole || whole.error().code != ESTALE || unwritable_ || attempt == kMaxStates) return whole;
    part = nullptr;
  }
}

/// The whole of a file of which the first part was read. ESTALE.
Result<std::optional<Buffer>> ObjectStore::read_parts(const std::string& key, const PartPtr& first) const {
  if (first->total == first->bytes.size()) {
    CODECFS_ASSIGN(Buffer bytes, Buffer::copy_of(first->bytes.bytes()));
    return bytes;
  }
  if (first->etag.empty()) return unidentified(key);
  CODECFS_ASSIGN(Buffer whole, Buffer::allocate(first->total));
  size_t done = first->bytes.size();
  std::memcpy(whole.data(), first->bytes.data(), done);
  while (done < whole.size()) {
    const uint64_t size = std::min<uint64_t>(kFirstPart, whole.size() - done);
    CODECFS_ASSIGN(const auto next, client_->get(client_->key_of(prefix_, key),
                                                 remote::ObjectRange{.offset = done, .size = size}, size, first->etag));
    if (!next || next->total != first->total || next->bytes.size() != size)
      return fail(ESTALE, "{}: the object was replaced while it was read", key);
    std::memcpy(whole.data() + done, next->bytes.data(), size);
    done += size;
  }
  return whole;
}

Result<std::shared_ptr<const StoredFile>> ObjectStore::open_file(const std::string& key) const {
  if (auto known = opened(key)) return known;
  return open_anew(key);
}

/// What was opened within kLifetime; else null.
std::shared_ptr<const ObjectStore::File> ObjectStore::opened(const std::string& key) const {
  const auto known = opened_.get(key);
  return known && Clock::now() - known->at < kLifetime ? known->file : nullptr;
}

void ObjectStore::expect_opened(std::span<const std::string> keys) const {
  for (const std::string& key : keys) {
    if (opened(key)) continue;
    // Not by way of the member, which may be null already while its destructor waits.
    opening_->threads.run([this, key, opening = opening_.get()] {
      try {
        const Interruption::Scope scope(&opening->ends);
        (void)open_file(key);  // an error shows when it is opened
      } catch (const std::bad_alloc&) {
      }
    });
  }
}

Result<std::shared_ptr<const StoredFile>> ObjectStore::reopen_file(const std::string& key) const {
  if (unwritable_) return open_file(key);
  opened_.erase(key);
  return open_anew(key);
}

Result<std::shared_ptr<const StoredFile>> ObjectStore::open_anew(const std::string& key) const {
  const auto file_of = [&](const PartPtr& tail) {
    auto file = std::make_shared<File>();
    file->client = client_;
    file->key = client_->key_of(prefix_, key);
    file->tail = tail;
    // What is expected of the same state goes on.
    const auto before = opened_.get(key);
    if (before && before->file->ranges->are_of(*tail))
      file->ranges = before->file->ranges;
    else
      file->ranges = std::make_shared<Ranges>(client_, file->key, tail, threads_);
    return file;
  };
  const OwnWrites::Mark mark = own_.mark_of(key);
  const std::string name = fmt::format("end {} of {}", mark.number, key);
  CODECFS_ASSIGN(const PartPtr tail, parts_under_way_.run(name, [&]() -> Result<PartPtr> {
    CODECFS_ASSIGN(PartPtr part, request(key, {.offset = 0, .size = kTail, .is_at_end = true}));
    if (part && !unwritable_) adopt(key);
    if (part && own_.is_unchanged(key, mark)) CODECFS_TRY(check_state(key, part->etag));
    // The index is kept, and must not be used for another state.
    if (part && part->etag.empty()) return unidentified(key);
    if (part)
      opened_.put_if(key, std::make_shared<const OpenedFile>(file_of(part), Clock::now()), 0,
                     [&] { return own_.is_unchanged(key, mark); });
    return part;
  }));
  if (!tail) return std::shared_ptr<const StoredFile>();
  return file_of(tail);
}

Result<> ObjectStore::may_change(const std::string&) const {
  if (unwritable_) return std::unexpected(*unwritable_);
  return {};
}

Result<std::unique_ptr<Store>> ObjectStore::below(const std::string& key) const {
  return fail(EOPNOTSUPP, "{}: a part of an object store cannot be opened by itself", key);
}

/// The kernel and our caches keep what was read of an object, so only one state of it may be read, or they must be
/// told.
Result<> ObjectStore::check_state(const std::string& key, const std::string& etag) const {
  if (etag.empty()) return {};  // also of an empty object, which has no part that could be sent
  const uint64_t state = state_of(etag);
  uint64_t first = 0;
  bool is_adopted = false;
  states_.update(key, [&](uint64_t& known) {
    first = known & ~kAdopted;
    is_adopted = (known & kAdopted) != 0;
    if (first == 0 || is_adopted) known = state | (known & kAdopted);
  });
  if (first == 0 || first == state) return {};
  if (!is_adopted)
    return fail(ESTALE,
                "{}: the object was replaced since it was first read: unmount and mount again to see what it is now",
                key);
  const LockGuard lock(mutex_);
  if (changed_.size() < kStates) changed_.insert(key);
  return {};
}

bool ObjectStore::take_changed(const std::string& key) const {
  const LockGuard lock(mutex_);
  return changed_.erase(key) > 0;
}

}  // namespace codecfs::zarr
