#include "backends/folder/bucket_files.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <ctime>
#include <new>

#include "backends/api/file_names.h"
#include "backends/api/source_copy.h"
#include "backends/zarr/metadata/zarr3_metadata.h"
#include "backends/zarr/source/hierarchy.h"
#include "base/parallel.h"
#include "base/text_hash.h"
#include "remote/object_file.h"

namespace codecfs::folder {
namespace {

constexpr size_t kListings = 64;
constexpr size_t kNames = size_t{1} << 16;
constexpr uint64_t kMaxListed = 1'000'000;
constexpr unsigned kMaxEmptyPages = 100;  // in a row
constexpr size_t kAtOnce = 32;            // requests
constexpr uint64_t kPagesForName = 10;    // requests of a list that may take the place of one for a name

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= NAME_MAX && name != "." && name != ".." && !name.contains('\0') &&
         !name.contains('/');
}

/// A plain object, in the state that it had when it was opened.
class ObjectContent final : public ContentReader {
 public:
  explicit ObjectContent(std::unique_ptr<remote::ObjectFile> file) : file_(std::move(file)) {}
  [[nodiscard]] uint64_t size() const override { return file_->size(); }
  [[nodiscard]] Result<Buffer> read(uint64_t offset, uint64_t size) const override {
    CODECFS_ASSIGN(Buffer bytes, Buffer::allocate(size));
    const uint64_t end = offset + size;
    // A sequential reader gets what follows, too. The kernel reads ahead by several requests, in any order.
    const uint64_t before = next_.exchange(end);
    const bool is_next = offset != 0 && offset <= before + kNear && before <= offset + kNear;
    if (is_next && end < file_->size())
      file_->fetch({end, std::min(kAhead, file_->size() - end)}, [](const Result<>&) {});
    CODECFS_TRY(file_->read_mirrored(offset, bytes.mutable_bytes()));
    return bytes;
  }

 private:
  static constexpr uint64_t kAhead = uint64_t{8} << 20;  // bytes
  static constexpr uint64_t kNear = uint64_t{2} << 20;   // bytes
  const std::unique_ptr<remote::ObjectFile> file_;
  mutable std::atomic<uint64_t> next_ = 0;
};

}  // namespace

BucketFiles::BucketFiles(Place place, OpenDataset open)
    : place_(std::move(place)),
      open_(std::move(open)),
      listings_(kListings),
      looked_(kNames),
      kinds_(kNames),
      refuted_(kNames),
      misses_(kNames) {
  status_.st_mode = S_IFDIR | 0555;
  status_.st_nlink = 1;
  status_.st_uid = ::geteuid();
  status_.st_gid = ::getegid();
  status_.st_ino = text_hash("");
  ::clock_gettime(CLOCK_REALTIME, &status_.st_mtim);
  status_.st_ctim = status_.st_atim = status_.st_mtim;
}

std::string BucketFiles::path_of(const std::string& key) const {
  return key.empty() ? place_.name : place_.name + "/" + key;
}

std::string BucketFiles::prefix_of(const std::string& directory) const {
  return directory.empty() ? place_.prefix : place_.prefix + directory + "/";
}

// --- what there is

/// The state of the object is in the time and the number, by which datasets are told apart.
Found BucketFiles::found_object(const std::string& key, const remote::ListedObject& object) const {
  Found found;
  found.status = status_;
  found.status.st_mode = S_IFREG | 0444;
  found.status.st_ino = text_hash(key);
  found.status.st_size = static_cast<off_t>(object.size);
  found.status.st_blocks = static_cast<blkcnt_t>((object.size + 511) / 512);
  found.status.st_mtim = {.tv_sec = object.modified,
                          .tv_nsec = static_cast<long>(text_hash(object.etag) % 1'000'000'000)};
  found.status.st_ctim = found.status.st_atim = found.status.st_mtim;
  const auto refuted = refuted_.get(key);
  const bool is_refuted =
      refuted && refuted->tv_sec == found.status.st_mtim.tv_sec && refuted->tv_nsec == found.status.st_mtim.tv_nsec;
  found.kind = has_hdf5_name(key) && object.size > 0 && !is_refuted ? EntryKind::group : EntryKind::file;
  return found;
}

Result<Found> BucketFiles::found_directory(const std::string& key) const {
  Found found;
  CODECFS_ASSIGN(found.kind, kind_of_directory(key));
  found.status = status_;
  found.status.st_ino = text_hash(key + "/");
  return found;
}

/// By its metadata files, which are requested at the same time.
Result<EntryKind> BucketFiles::kind_of_directory(const std::string& key) const {
  if (const auto known = kinds_.get(key))
    if (known->kind != EntryKind::folder || Clock::now() - known->made < kLifetime) return known->kind;
  constexpr std::array kFiles{zarr::kZarr3File, zarr::kArrayFile, zarr::kGroupFile};
  std::array<Result<std::optional<remote::ObjectPart>>, kFiles.size()> parts;
  CODECFS_TRY(parallel_for(kFiles.size(), {.threads = kFiles.size()}, [&](uint64_t i) -> Result<> {
    auto part = place_.client->get(prefix_of(key) + kFiles.at(i), std::nullopt, zarr::kMaxMetadataBytes, {});
    if (!part && part.error().code != EFBIG) return pass_on(part);
    parts.at(i) = std::move(part);
    return {};
  }));
  const auto has = [](const auto& part) { return !part || part->has_value(); };
  EntryKind kind = EntryKind::folder;
  if (parts[0] && *parts[0]) {
    const Buffer& text = (*parts[0])->bytes;
    kind = zarr::zarr3_node_type({reinterpret_cast<const char*>(text.data()), text.size()}).value_or(EntryKind::folder);
  } else if (has(parts[1])) {
    kind = EntryKind::variable;
  } else if (has(parts[2])) {
    kind = EntryKind::group;
  }
  kinds_.put(key, std::make_shared<const Kind>(Clock::now(), kind));
  return kind;
}

BucketFiles::ListingPtr BucketFiles::known_listing(const std::string& directory) const {
  auto known = listings_.get(directory);
  return known && Clock::now() - known->made < kLifetime ? known : nullptr;
}

/// Null if a list has more pages.
Result<BucketFiles::ListingPtr> BucketFiles::listing_of(const std::string& directory, uint64_t most_pages) const {
  if (auto known = known_listing(directory)) return known;
  const bool is_whole = most_pages == UINT64_MAX;
  return listings_under_way_.run((is_whole ? "all of " : "some of ") + directory, [&]() -> Result<ListingPtr> {
    try {
      return request_listing(directory, most_pages);
    } catch (const std::bad_alloc&) {
      return fail(ENOMEM, "{}: no memory to list it", path_of(directory));
    }
  });
}

Result<BucketFiles::ListingPtr> BucketFiles::request_listing(const std::string& directory, uint64_t most_pages) const {
  const std::string prefix = prefix_of(directory);
  auto listing = std::make_shared<Listing>();
  std::string token;
  uint64_t pages = 0;
  unsigned without_new = 0;
  do {
    if (pages++ == most_pages) {
      // Not tried again before twice as many names were requested.
      misses_.update(directory, [&](Misses& misses) { misses.pages = 2 * most_pages; });
      return ListingPtr();
    }
    CODECFS_ASSIGN(const remote::ObjectList page, place_.client->list(prefix, true, token));
    const size_t before = listing->names.size();
    for (const remote::ListedObject& object : page.objects)
      if (const std::string name = object.key.substr(prefix.size()); is_name(name))
        listing->names.emplace(name, found_object(join(directory, name), object));
    for (const std::string& below : page.prefixes)
      if (const std::string name = below.substr(prefix.size(), below.size() - prefix.size() - 1); is_name(name))
        listing->names.insert_or_assign(name, std::nullopt);  // an object of the same name is hidden
    const size_t found = listing->names.size();
    without_new = found == before ? without_new + 1 : 0;
    if (found > kMaxListed) return fail(EFBIG, "{}: has more than {} names", path_of(directory), kMaxListed);
    if (without_new > kMaxEmptyPages) return fail(EIO, "{}: the list of objects does not end", path_of(directory));
    token = page.next;
  } while (!token.empty());
  misses_.put(directory, std::make_shared<const Misses>(Misses{.pages = pages}));
  listing->made = Clock::now();
  listings_.put(directory, listing);
  return listing;
}

/// Before a name is requested alone: a list of its directory, if that costs few requests beside those for names that
/// were not in a list. Null if not.
Result<BucketFiles::ListingPtr> BucketFiles::list_if_misses_pay(const std::string& directory) const {
  Misses now;
  misses_.update(directory, [&](Misses& misses) {
    ++misses.count;
    now = misses;
  });
  const uint64_t most_pages = now.count * kPagesForName;
  if (now.count < 2 || now.pages > most_pages) return ListingPtr();
  auto listing = listing_of(directory, most_pages);
  // What is wrong with the list need not be wrong with the name.
  if (!listing && listing.error().code != EINTR) return ListingPtr();
  return listing;
}

/// By lists of the keys that begin with this one, of which it is the first: 1 request as a rule, 2 at most.
Result<std::optional<Found>> BucketFiles::request_name(const std::string& key) const {
  const std::string whole = place_.prefix + key;
  CODECFS_ASSIGN(const remote::ObjectList page, place_.client->list(whole, true, {}));
  bool is_directory = std::ranges::find(page.prefixes, whole + "/") != page.prefixes.end();
  if (!is_directory && !page.next.empty()) {
    CODECFS_ASSIGN(const remote::ObjectList below, place_.client->list(whole + "/", true, {}));
    is_directory = !below.objects.empty() || !below.prefixes.empty();
  }
  if (is_directory) {
    CODECFS_ASSIGN(const Found found, found_directory(key));
    return found;
  }
  const auto object = std::ranges::find(page.objects, whole, &remote::ListedObject::key);
  if (object == page.objects.end()) return std::nullopt;
  return found_object(key, *object);
}

Result<std::optional<Found>> BucketFiles::look(const std::string& key) const {
  if (key.empty()) return Found{EntryKind::folder, status_, {}};
  const size_t slash = key.rfind('/');
  const std::string holder = slash == key.npos ? "" : key.substr(0, slash);
  const std::string name = key.substr(slash + 1);
  if (!is_name(name)) return std::nullopt;
  const auto in = [&](const Listing& listing) -> Result<std::optional<Found>> {
    const auto found = listing.names.find(name);
    if (found == listing.names.end()) return std::nullopt;
    if (found->second) return found->second;
    return found_directory(key);
  };
  if (const auto listing = known_listing(holder)) return in(*listing);
  if (const auto known = looked_.get(key); known && Clock::now() - known->made < kLifetime) return known->found;
  CODECFS_ASSIGN(const ListingPtr listing, list_if_misses_pay(holder));
  if (listing) return in(*listing);
  CODECFS_ASSIGN(const auto found, request_name(key));
  looked_.put(key, std::make_shared<const Looked>(Clock::now(), found));
  return found;
}

Result<std::optional<struct stat>> BucketFiles::stat(const std::string& key) const {
  CODECFS_ASSIGN(const auto found, look(key));
  if (!found) return std::nullopt;
  return found->status;
}

Result<FolderFiles::Names> BucketFiles::list(const std::string& key, const std::optional<std::string>&) const {
  CODECFS_ASSIGN(const ListingPtr listing, listing_of(key));
  std::vector<std::string> directories;
  for (const auto& [name, found] : listing->names)
    if (!found) directories.push_back(name);
  std::vector<Found> found(directories.size());
  const ParallelOptions options{.threads = kAtOnce,
                                .memory_reason = fmt::format("{}: no memory to list it", path_of(key))};
  CODECFS_TRY(parallel_for(directories.size(), options, [&](uint64_t i) -> Result<> {
    CODECFS_ASSIGN(found[i], found_directory(join(key, directories[i])));
    return {};
  }));
  Names names;
  auto directory = found.begin();
  for (const auto& [name, object] : listing->names) names.emplace_back(name, object ? *object : *directory++);
  return names;
}

Result<bool> BucketFiles::has_any() const {
  CODECFS_ASSIGN(const remote::ObjectList page, place_.client->list(place_.prefix, true, {}));
  if (std::ranges::find(page.objects, place_.prefix + kPartialNote, &remote::ListedObject::key) != page.objects.end())
    return fail(EINVAL, "{}: no Zarr store: codecfs convert --resume completes it, or remove its objects", path_of(""));
  const auto has = [&](const char* name) {
    const std::string key = place_.prefix + name;
    return std::ranges::find(page.prefixes, key) != page.prefixes.end() ||
           std::ranges::find(page.objects, key, &remote::ListedObject::key) != page.objects.end();
  };
  // Format 1 has an object for each branch, 2 one for all.
  bool is_icechunk = has("snapshots/") && has("transactions/") && has("repo");
  if (!is_icechunk && has("snapshots/") && has("refs/")) {
    CODECFS_ASSIGN(const remote::ObjectList branch, place_.client->list(place_.prefix + "refs/branch.main/", true, {}));
    is_icechunk = !branch.objects.empty();
  }
  if (is_icechunk) return fail(EINVAL, "{}: {}", path_of(""), kIcechunk);
  return !page.objects.empty() || !page.prefixes.empty() || !page.next.empty();
}

// --- what is in it

Result<UniqueFd> BucketFiles::open_file(const std::string& key) const {
  return fail(EOPNOTSUPP, "{}: is no file of this machine", path_of(key));
}

Result<std::shared_ptr<const ContentReader>> BucketFiles::open_content(const std::string& key) const {
  CODECFS_ASSIGN(auto file,
                 remote::ObjectFile::open(place_.client, place_.prefix + key, path_of(key), place_.connections));
  return std::make_shared<ObjectContent>(std::move(file));
}

Result<std::shared_ptr<Source>> BucketFiles::open_dataset(const std::string& key, const Found& expected, bool) const {
  const bool is_store = S_ISDIR(expected.status.st_mode);
  auto opened = open_(place_.prefix + key, is_store);
  if (opened) {
    std::shared_ptr<Source> source = *std::move(opened);
    if (source->root().kind != expected.kind) return fail(ESTALE, "{}: is another dataset now", path_of(key));
    return source;
  }
  // From the next look-up on, it is shown as a file.
  if (!is_store && opened.error().code == EINVAL)
    refuted_.put(key, std::make_shared<const timespec>(expected.status.st_mtim));
  return pass_on(opened);
}

}  // namespace codecfs::folder
