#include "backends/zarr/store/object_store.h"

#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstring>
#include <ctime>
#include <new>
#include <set>
#include <utility>
#include <vector>

#include "backends/zarr/metadata/metadata.h"
#include "backends/zarr/metadata/zarr3_metadata.h"
#include "backends/zarr/source/hierarchy.h"
#include "backends/zarr/store/listing_prefixes.h"
#include "base/mutex.h"
#include "remote/parallel_requests.h"

namespace codecfs::zarr {
namespace {

constexpr uint64_t kFirstPart = uint64_t{8} << 20;   // bytes that the look-up of a file reads
constexpr uint64_t kTail = uint64_t{64} << 10;       // bytes: the index of a shard is at its end as a rule
constexpr uint64_t kKeptBytes = uint64_t{64} << 20;  // for files that were looked up
constexpr size_t kKeptFiles = 4096;
constexpr size_t kSizes = size_t{1} << 16;
constexpr size_t kStates = size_t{1} << 20;  // of objects, about 150 bytes each
constexpr size_t kListings = 16;
constexpr size_t kOpened = 256;
constexpr uint64_t kMostListed = uint64_t{10'000'000};      // objects below one array, or members of a group
constexpr uint64_t kMostListedBytes = uint64_t{512} << 20;  // of their keys
constexpr unsigned kMostEmptyPages = 100;                   // of a list in a row: deleted objects can make some
constexpr unsigned kPagesInOrder = 2;                       // then the rest of a list is divided
constexpr uint64_t kKeysOfList = 4000;                      // of a part of it
constexpr size_t kMostLists = 64;                           // parts
constexpr size_t kListsAtOnce = 32;

std::unexpected<Error> unidentified(const std::string& key) {
  return fail(
      EOPNOTSUPP,
      "{}: the server sends neither ETag nor Last-Modified, so parts of different states could not be told apart", key);
}

/// A hash (FNV-1a): equal for equal keys of all stores.
ino_t number_of(std::string_view key) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : key) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

timespec now() {
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  return time;
}

}  // namespace

struct ObjectStore::Size {
  uint64_t bytes;
  Clock::time_point at;
};

/// What the requests of one list have found.
struct ObjectStore::ListedSoFar {
  std::atomic<uint64_t> bytes = 0;  // of keys
  unsigned most_pages = UINT_MAX;   // of each list; then it ends early
  std::atomic<bool> is_incomplete = false;
};

/// One state of an object, with its end in memory.
struct ObjectStore::File final : public StoredFile {
  std::shared_ptr<remote::ObjectClient> client;
  std::string key;  // in the bucket
  PartPtr tail;

  [[nodiscard]] uint64_t size() const override { return tail->total; }
  [[nodiscard]] std::string version() const override { return tail->etag; }
  [[nodiscard]] Result<Buffer> read(uint64_t offset, uint64_t size) const override {
    if (offset > tail->total || size > tail->total - offset)
      return fail(EIO, "{}: has {} bytes, too few for {} at {}", key, tail->total, size, offset);
    const uint64_t tail_at = tail->total - tail->bytes.size();
    remote::RequestStatistics& statistics = client->statistics();
    ++(offset >= tail_at ? statistics.memory_hits : statistics.memory_misses);
    if (offset >= tail_at) return Buffer::copy_of(tail->bytes.bytes().subspan(offset - tail_at, size));
    if (size == 0) return Buffer();
    CODECFS_ASSIGN(auto part, client->get(key, remote::ObjectRange{.offset = offset, .size = size}, size, tail->etag));
    if (!part) return fail(ESTALE, "{}: the object was removed since it was opened", key);
    if (part->bytes.size() != size || part->total != tail->total)
      return fail(ESTALE, "{}: the object has another size than when it was opened", key);
    return std::move(part->bytes);
  }
};

struct ObjectStore::OpenedFile {
  std::shared_ptr<const File> file;
  Clock::time_point at;
};

Result<std::unique_ptr<ObjectStore>> ObjectStore::open(std::shared_ptr<remote::ObjectClient> client,
                                                       const std::string& key) {
  std::string prefix = key;
  if (!prefix.empty() && !prefix.ends_with('/')) prefix += '/';
  std::unique_ptr<ObjectStore> store(new ObjectStore(std::move(client), std::move(prefix)));
  CODECFS_TRY(store->texts_.open());
  return store;
}

ObjectStore::ObjectStore(std::shared_ptr<remote::ObjectClient> client, std::string prefix)
    : client_(std::move(client)),
      prefix_(std::move(prefix)),
      texts_(client_, prefix_),
      kept_(kKeptFiles, kKeptBytes),
      sizes_(kSizes),
      states_(kStates),
      listings_(kListings),
      opened_(kOpened) {
  status_.st_mode = S_IFDIR | 0555;
  status_.st_nlink = 1;
  status_.st_uid = ::geteuid();
  status_.st_gid = ::getegid();
  status_.st_ino = number_of("");
  status_.st_mtim = status_.st_ctim = status_.st_atim = now();
}

Result<std::optional<struct stat>> ObjectStore::stat(const std::string& key) const {
  struct stat status = status_;
  if (key.empty()) return status;
  status.st_ino = number_of(key);
  const auto as_file = [&](uint64_t size) {
    status.st_mode = S_IFREG | 0444;
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
    status.st_mtim = listing ? listing->changed : now();
    return status;
  }
  if (listing) {
    if (const auto found = listing->sizes.find(key); found != listing->sizes.end()) return as_file(found->second.bytes);
    const auto below = listing->sizes.lower_bound(key + "/");
    if (below == listing->sizes.end() || !below->first.starts_with(key + "/")) return std::nullopt;
    return status;
  }
  CODECFS_ASSIGN(const auto file, locate(key));
  if (!file) return std::nullopt;
  return as_file(file->bytes);
}

ObjectStore::ListingPtr ObjectStore::listing_of(const std::string& key) const {
  for (std::string directory = key;; directory = holder_of(directory)) {
    if (ListingPtr listing = listings_.get(directory); listing && Clock::now() - listing->made < kLifetime)
      return listing;
    if (directory.empty()) return nullptr;
  }
}

/// All of a file, or its first kFirstPart bytes; null if it does not exist.
Result<ObjectStore::PartPtr> ObjectStore::first_part(const std::string& key) const {
  ++client_->statistics().memory_misses;
  return parts_under_way_.run("first part of " + key, [&]() -> Result<PartPtr> {
    CODECFS_ASSIGN(const PartPtr part, request(key, {.offset = 0, .size = kFirstPart}));
    if (part) sizes_.put(key, std::make_shared<const Size>(part->total, Clock::now()));
    return part;
  });
}

Result<ObjectStore::PartPtr> ObjectStore::request(const std::string& key, const remote::ObjectRange& range) const try {
  CODECFS_ASSIGN(auto part, client_->get(client_->key_of(prefix_, key), range, range.size));
  if (!part) return PartPtr();
  CODECFS_TRY(check_state(key, part->etag));
  return std::make_shared<const remote::ObjectPart>(std::move(*part));
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "{}: no memory to read it", key);
}

Result<std::optional<Store::Stored>> ObjectStore::locate(const std::string& key) const {
  if (is_metadata_key(key)) return Store::locate(key);
  if (const ListingPtr listing = listing_of(key)) {
    const auto found = listing->sizes.find(key);
    if (found == listing->sizes.end()) return std::nullopt;
    CODECFS_TRY(check_state(key, found->second.etag));
    return Stored{.bytes = found->second.bytes, .offset = 0};
  }
  if (const auto size = sizes_.get(key); size && Clock::now() - size->at < kLifetime)
    return Stored{.bytes = size->bytes, .offset = 0};
  CODECFS_ASSIGN(const PartPtr part, first_part(key));
  if (!part) return std::nullopt;
  kept_.put(key, part, part->bytes.capacity() + key.size());
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
  PartPtr part = kept_.take(key);
  if (part) {
    ++client_->statistics().memory_hits;
  } else {
    CODECFS_ASSIGN(part, first_part(key));
  }
  if (!part) return std::nullopt;
  if (part->total > limit)
    return fail(EIO, "{}: has {} bytes, more than the {} that it may have", key, part->total, limit);
  if (part->total == part->bytes.size()) {
    CODECFS_ASSIGN(Buffer bytes, Buffer::copy_of(part->bytes.bytes()));
    return bytes;
  }
  if (part->etag.empty()) return unidentified(key);
  CODECFS_ASSIGN(Buffer whole, Buffer::allocate(part->total));
  size_t done = part->bytes.size();
  std::memcpy(whole.data(), part->bytes.data(), done);
  while (done < whole.size()) {
    const uint64_t size = std::min<uint64_t>(kFirstPart, whole.size() - done);
    CODECFS_ASSIGN(const auto next, client_->get(client_->key_of(prefix_, key),
                                                 remote::ObjectRange{.offset = done, .size = size}, size, part->etag));
    if (!next || next->total != part->total || next->bytes.size() != size)
      return fail(ESTALE, "{}: the object was replaced while it was read", key);
    std::memcpy(whole.data() + done, next->bytes.data(), size);
    done += size;
  }
  return whole;
}

Result<std::shared_ptr<const StoredFile>> ObjectStore::open_file(const std::string& key) const {
  if (const auto known = opened_.get(key); known && Clock::now() - known->at < kLifetime) return known->file;
  const auto file_of = [&](const PartPtr& tail) {
    auto file = std::make_shared<File>();
    file->client = client_;
    file->key = client_->key_of(prefix_, key);
    file->tail = tail;
    return file;
  };
  CODECFS_ASSIGN(const PartPtr tail, parts_under_way_.run("end of " + key, [&]() -> Result<PartPtr> {
    CODECFS_ASSIGN(PartPtr part, request(key, {.offset = 0, .size = kTail, .is_at_end = true}));
    // The index is kept, and must not be used for another state.
    if (part && part->etag.empty()) return unidentified(key);
    if (part) opened_.put(key, std::make_shared<const OpenedFile>(file_of(part), Clock::now()));
    return part;
  }));
  if (!tail) return std::shared_ptr<const StoredFile>();
  return file_of(tail);
}

Result<> ObjectStore::may_change(const std::string&) const {
  return fail(EROFS, "datasets in object stores are read-only");
}

Result<std::unique_ptr<Store>> ObjectStore::below(const std::string&) const {
  return fail(EROFS, "datasets in object stores are read-only");
}

/// `take` adds the content of a page to what was found before, and returns the number of all.
Result<> ObjectStore::for_each_page(const std::string& prefix, bool delimited, ListedSoFar& so_far,
                                    const std::function<size_t(const remote::ObjectList&)>& take) const {
  std::string token;
  size_t known = 0;
  unsigned without_new = 0;
  unsigned pages = 0;
  do {
    if (pages++ == so_far.most_pages) {
      so_far.is_incomplete = true;
      return {};
    }
    CODECFS_ASSIGN(remote::ObjectList page, client_->list(prefix, delimited, token));
    const size_t found = take(page);
    without_new = found == known ? without_new + 1 : 0;
    known = found;
    for (const auto& object : page.objects) so_far.bytes += object.key.size() + object.etag.size();
    for (const auto& below : page.prefixes) so_far.bytes += below.size();
    if (known > kMostListed || so_far.bytes > kMostListedBytes)
      return fail(EFBIG, "{}: has more than {} objects, or their names more than {} bytes", prefix, kMostListed,
                  kMostListedBytes);
    if (without_new > kMostEmptyPages) return fail(EIO, "{}: the list of objects does not end", prefix);
    token = std::move(page.next);
  } while (!token.empty());
  return {};
}

/// The kernel and our caches keep what was read of an object, so only one state of it may be read.
Result<> ObjectStore::check_state(const std::string& key, const std::string& etag) const {
  if (etag.empty()) return {};   // also of an empty object, which has no part that could be sent
  std::string_view text = etag;  // lists and headers may differ in the quotes
  if (text.starts_with("W/")) text.remove_prefix(2);
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') text = text.substr(1, text.size() - 2);
  const uint64_t state = number_of(text);
  uint64_t first = 0;
  states_.update(key, [&](uint64_t& known) { first = known == 0 ? known = state : known; });
  if (first != state)
    return fail(ESTALE,
                "{}: the object was replaced since it was first read: unmount and mount again to see what it is now",
                key);
  return {};
}

Result<ObjectStore::ListingPtr> ObjectStore::list_all(const std::string& directory) const {
  return listings_under_way_.run(directory, [&]() -> Result<ListingPtr> {
    try {
      auto listing = std::make_shared<Listing>();
      CODECFS_TRY(list_into(*listing, directory));
      listing->made = Clock::now();
      listing->changed = now();
      listings_.put(directory, listing);
      return listing;
    } catch (const std::bad_alloc&) {
      return fail(ENOMEM, "{}: no memory to list what is in it", directory);
    }
  });
}

/// The first pages in their order. If there are more, and the directory is that of an array's chunks, lists of parts of
/// the chunks are requested at the same time: what else is there is then left out.
Result<> ObjectStore::list_into(Listing& listing, const std::string& directory) const {
  Mutex mutex;
  const auto take = [&](const remote::ObjectList& page) {
    const LockGuard lock(mutex);
    for (const remote::ListedObject& object : page.objects)
      if (object.key.size() > prefix_.size() && !object.key.ends_with('/'))
        listing.sizes.emplace(object.key.substr(prefix_.size()), Listed{object.size, object.etag});
    return listing.sizes.size();
  };
  const std::string prefix = directory.empty() ? prefix_ : prefix_ + directory + "/";
  const std::vector<std::string> parts = divided(directory);
  ListedSoFar so_far{.most_pages = parts.empty() ? UINT_MAX : kPagesInOrder};
  CODECFS_TRY(for_each_page(prefix, false, so_far, take));
  if (!so_far.is_incomplete) return {};
  so_far.most_pages = UINT_MAX;
  std::atomic<bool> has_failed = false;
  Result<> first;
  remote::run_in_parallel(parts.size(), kListsAtOnce, [&](size_t i) {
    if (has_failed) return;
    Result<> listed;
    try {
      listed = for_each_page(prefix_ + parts[i], false, so_far, take);
    } catch (const std::bad_alloc&) {
      listed = std::unexpected(Error{ENOMEM, {}});
    }
    if (!listed && !has_failed.exchange(true)) first = std::move(listed);
  });
  return first;
}

/// Prefixes of keys in the store that all chunks below the directory begin with; none if it is not that of all chunks
/// of an array, or they are few.
std::vector<std::string> ObjectStore::divided(const std::string& directory) const {
  std::string array = directory;
  // In this order, so that no metadata file is asked for below an array.
  if (texts_.is_in_array(directory).value_or(true)) {
    array = holder_of(directory);
    if (name_of(directory) != "c" || texts_.is_in_array(array).value_or(true)) return {};
  } else if (!texts_.is_array(directory).value_or(false)) {
    return {};
  }
  const auto text = texts_.get(join_key(array, texts_.is_v3() ? kZarr3File : kArrayFile));
  if (!text || !**text) return {};
  const std::string& json = ***text;
  const auto parsed = texts_.is_v3() ? parse_zarr3_array(json) : parse_array({.zarray = json, .zattrs = {}});
  if (!parsed || parsed->rectilinear) return {};
  const ChunkGrid& grid = parsed->shards ? parsed->shards->grid : parsed->variable.grid;
  std::vector<std::string> prefixes = listing_prefixes(grid, parsed->keys, kKeysOfList, kMostLists);
  for (std::string& prefix : prefixes) prefix = array.empty() ? prefix : array + "/" + prefix;
  return prefixes;
}

Result<> ObjectStore::for_each(const std::string& key,
                               const std::function<Result<>(const char* name, EntryType type)>& visit) const {
  CODECFS_ASSIGN(const bool is_in_array, texts_.is_in_array(key));
  bool is_array = false;
  if (!is_in_array) {
    CODECFS_ASSIGN(is_array, texts_.is_array(key));
    if (!is_array) return list_group(key, visit);
  }
  ListingPtr listing = listing_of(key);
  if (!listing) {
    CODECFS_ASSIGN(listing, list_all(key));
  }
  const std::string prefix = key.empty() ? "" : key + "/";
  auto at = listing->sizes.lower_bound(prefix);
  if (at == listing->sizes.end() || !at->first.starts_with(prefix))
    return is_array ? Result<>() : fail(ENOENT, "{}: there are no such objects", key);
  while (at != listing->sizes.end() && at->first.starts_with(prefix)) {
    const std::string_view rest = std::string_view(at->first).substr(prefix.size());
    const size_t slash = rest.find('/');
    const std::string name(rest.substr(0, slash));
    const bool is_valid = !name.empty() && name != "." && name != ".." && !name.contains('\0');
    if (is_valid) CODECFS_TRY(visit(name.c_str(), slash == rest.npos ? EntryType::file : EntryType::directory));
    // "0" is the character after "/".
    at = slash == rest.npos ? std::next(at) : listing->sizes.lower_bound(prefix + name + "0");
  }
  return {};
}

Result<> ObjectStore::list_group(const std::string& group,
                                 const std::function<Result<>(const char* name, EntryType type)>& visit) const {
  std::set<std::string> names;
  if (auto members = texts_.members(group)) {
    names = std::move(*members);
  } else {
    const std::string prefix = group.empty() ? prefix_ : prefix_ + group + "/";
    ListedSoFar so_far;
    CODECFS_TRY(for_each_page(prefix, true, so_far, [&](const remote::ObjectList& page) {
      for (const std::string& listed : page.prefixes) {
        const std::string name = listed.substr(prefix.size(), listed.size() - prefix.size() - 1);
        if (!name.empty() && name != "." && name != ".." && !name.contains('\0')) names.insert(name);
      }
      return names.size();
    }));
    std::vector<std::string> keys;
    for (const std::string& name : names) {
      const std::string member = join_key(group, name);
      if (texts_.is_v3()) {
        keys.push_back(join_key(member, "zarr.json"));
      } else {
        keys.push_back(join_key(member, ".zarray"));
        keys.push_back(join_key(member, ".zgroup"));
      }
    }
    texts_.prepare(keys);
  }
  for (const std::string& name : names) CODECFS_TRY(visit(name.c_str(), EntryType::directory));
  return {};
}

}  // namespace codecfs::zarr
