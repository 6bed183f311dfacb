// The lists of ObjectStore: which files are below a directory.

#include <algorithm>
#include <atomic>
#include <climits>
#include <new>
#include <utility>

#include "backends/zarr/metadata/metadata.h"
#include "backends/zarr/metadata/metadata_files.h"
#include "backends/zarr/metadata/zarr3_metadata.h"
#include "backends/zarr/store/listing_prefixes.h"
#include "backends/zarr/store/object_store.h"
#include "base/mutex.h"
#include "base/parallel.h"

namespace codecfs::zarr {
namespace {

constexpr uint64_t kMaxListed = uint64_t{10'000'000};      // objects below one array, or members of a group
constexpr uint64_t kMaxListedBytes = uint64_t{512} << 20;  // of their keys
constexpr unsigned kMaxEmptyPages = 100;                   // of a list in a row: deleted objects can make some
constexpr unsigned kPagesInOrder = 2;                      // then the rest of a list is divided
constexpr uint64_t kKeysOfList = 4000;                     // of a part of it
constexpr size_t kMaxLists = 64;                           // parts
constexpr size_t kListsAtOnce = 32;
constexpr size_t kMaxExpectedMembers = 20'000;       // of a tree, for which metadata is requested together
constexpr size_t kMaxExpectedDepth = 64;             // groups in groups
constexpr uint64_t kPagesOfExpected = 10;            // of the list of each group
constexpr size_t kMaxAbsences = 10'000;              // directories
constexpr uint64_t kPagesOfFirst = 2;                // of the first list that absent names cause
constexpr uint64_t kAbsencesAfterFailure = 100'000;  // before a list that failed is tried again

}  // namespace

ObjectStore::ListingPtr ObjectStore::listing_of(const std::string& key) const {
  for (std::string directory = key;; directory = holder_of(directory)) {
    if (ListingPtr listing = listings_.get(directory);
        listing && Clock::now() - listing->made < kLifetime && listing->began >= own_.known_since())
      return listing;
    if (directory.empty()) return nullptr;
  }
}

std::optional<std::optional<ObjectStore::Listed>> ObjectStore::listed(const std::string& key) const {
  const ListingPtr listing = listing_of(key);
  if (!listing) return std::nullopt;
  if (const auto write = own_.of(key, listing->began)) {
    if (write->outcome == OwnWrites::Write::Outcome::unknown) return std::nullopt;
    if (write->outcome == OwnWrites::Write::Outcome::removed) return std::optional<Listed>();
    return Listed{.bytes = write->bytes, .etag = {}};
  }
  const auto found = listing->sizes.find(key);
  return found == listing->sizes.end() ? std::optional<Listed>() : found->second;
}

/// The directories of chunks in which a file of an array is, and that of the array: the lowest first.
std::vector<std::string> ObjectStore::directories_of(const std::string& key) const {
  std::vector<std::string> directories{holder_of(key)};
  while (texts_.is_in_array(directories.back()).value_or(false)) directories.push_back(holder_of(directories.back()));
  return directories;
}

void ObjectStore::note_absent(const std::string& key) const {
  if (unwritable_) return;
  const std::vector<std::string> directories = directories_of(key);
  const LockGuard lock(mutex_);
  if (absences_.size() + directories.size() > kMaxAbsences) absences_.clear();
  for (const std::string& directory : directories) ++absences_[directory].count;
}

/// Lists a directory that has a file if as many look-ups there have found nothing since the last list as the list
/// costs: the highest one, as each chunk may have a directory of its own. Programs that write new chunks look up each
/// name before, so that the list saves most of these requests.
void ObjectStore::list_if_absences_pay(const std::string& key) const {
  if (unwritable_ || listing_of(key)) return;
  std::string directory;
  ListedSoFar so_far;
  {
    const std::vector<std::string> directories = directories_of(key);
    const LockGuard lock(mutex_);
    auto found = absences_.end();
    for (auto at = directories.rbegin(); at != directories.rend(); ++at) {
      found = absences_.find(*at);
      if (found != absences_.end() && found->second.count >= found->second.cost) break;
      found = absences_.end();
    }
    if (found == absences_.end()) return;
    directory = found->first;
    so_far.most_of_all = std::max(found->second.count, kPagesOfFirst);
    found->second.count = 0;
  }
  const Result<ListingPtr> listing = list_all(directory, so_far);
  if (!listing && listing.error().code == EINTR) return;
  const LockGuard lock(mutex_);
  Absences& absences = absences_[directory];
  // After another error than its length, for instance that lists are not allowed, it is not tried again soon.
  absences.cost = listing ? std::max<uint64_t>(so_far.pages, 1)
                          : std::max(2 * so_far.pages, listing.error().code == E2BIG ? 0 : kAbsencesAfterFailure);
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
    if (++so_far.pages > so_far.most_of_all) return fail(E2BIG, "{}: has more objects than were asked for", prefix);
    CODECFS_ASSIGN(remote::ObjectList page, client_->list(prefix, delimited, token));
    const size_t found = take(page);
    without_new = found == known ? without_new + 1 : 0;
    known = found;
    for (const auto& object : page.objects) so_far.bytes += object.key.size() + object.etag.size();
    for (const auto& below : page.prefixes) so_far.bytes += below.size();
    if (known > kMaxListed || so_far.bytes > kMaxListedBytes)
      return fail(EFBIG, "{}: has more than {} objects, or their names more than {} bytes", prefix, kMaxListed,
                  kMaxListedBytes);
    if (without_new > kMaxEmptyPages) return fail(EIO, "{}: the list of objects does not end", prefix);
    token = std::move(page.next);
  } while (!token.empty());
  return {};
}

Result<ObjectStore::ListingPtr> ObjectStore::list_all(const std::string& directory, ListedSoFar& so_far) const {
  // Callers that want a list that is newer than forget_lists() must not share one that began before.
  const uint64_t generation = lists_generation_;
  const std::string flight = fmt::format("{} {} {}", generation, so_far.most_of_all, directory);
  return listings_under_way_.run(flight, [&]() -> Result<ListingPtr> {
    try {
      auto listing = std::make_shared<Listing>();
      listing->began = Clock::now();
      CODECFS_TRY(list_into(*listing, directory, so_far));
      listing->made = Clock::now();
      listing->changed = time_now();
      listings_.put_if(directory, listing, 0, [&] { return lists_generation_ == generation; });
      return listing;
    } catch (const std::bad_alloc&) {
      return fail(ENOMEM, "{}: no memory to list what is in it", directory);
    }
  });
}

/// The first pages in their order. If there are more, and the directory is that of an array's chunks, lists of parts of
/// the chunks are requested at the same time: what else is there is then left out.
Result<> ObjectStore::list_into(Listing& listing, const std::string& directory, ListedSoFar& so_far) const {
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
  so_far.most_pages = parts.empty() ? UINT_MAX : kPagesInOrder;
  CODECFS_TRY(for_each_page(prefix, false, so_far, take));
  if (!so_far.is_incomplete) return {};
  so_far.most_pages = UINT_MAX;
  const ParallelOptions options{.threads = kListsAtOnce,
                                .memory_reason = fmt::format("{}: no memory to list what is in it", directory)};
  return parallel_for(parts.size(), options,
                      [&](uint64_t i) { return for_each_page(prefix_ + parts[i], false, so_far, take); });
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
  {
    const LockGuard lock(mutex_);
    if (undivided_.contains(array)) return {};
  }
  const auto text = texts_.get(join_key(array, texts_.is_v3() ? kZarr3File : kArrayFile));
  if (!text || !**text) return {};
  const std::string& json = ***text;
  const auto parsed = texts_.is_v3() ? parse_zarr3_array(json) : parse_array({.zarray = json, .zattrs = {}});
  if (!parsed || parsed->rectilinear) return {};
  const ChunkGrid& grid = parsed->shards ? parsed->shards->grid : parsed->variable.grid;
  std::vector<std::string> prefixes = listing_prefixes(grid, parsed->keys, kKeysOfList, kMaxLists);
  for (std::string& prefix : prefixes) prefix = array.empty() ? prefix : array + "/" + prefix;
  return prefixes;
}

Result<> ObjectStore::for_each(const std::string& key,
                               const std::function<Result<>(const char* name, EntryType type)>& visit) const {
  CODECFS_ASSIGN(const bool is_in_array, texts_.is_in_array(key));
  bool is_array = false;
  if (!is_in_array) {
    CODECFS_ASSIGN(is_array, texts_.is_array(key));
    if (!is_array) {
      CODECFS_ASSIGN(const MembersPtr members, members_of(key));
      texts_.prepare(metadata_of(key, *members));
      for (const std::string& name : members->names) CODECFS_TRY(visit(name.c_str(), EntryType::directory));
      return {};
    }
  }
  ListingPtr listing = listing_of(key);
  if (!listing) {
    ListedSoFar so_far;
    CODECFS_ASSIGN(listing, list_all(key, so_far));
  }
  listing = with_own_writes(key, listing);
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

/// The directories in a group: what a list said within kLifetime, or a new one says.
Result<ObjectStore::MembersPtr> ObjectStore::members_of(const std::string& group, uint64_t most_pages) const {
  if (auto names = texts_.members(group))
    return std::make_shared<const Members>(Members{.began = {}, .made = {}, .names = std::move(*names)});
  const std::string prefix = group.empty() ? "" : group + "/";
  if (MembersPtr known = members_.get(group); known && Clock::now() - known->made < kLifetime &&
                                              known->began >= own_.known_since() && !own_.has_any(prefix, known->began))
    return known;
  const uint64_t generation = lists_generation_;
  // Neither a shorter list nor one that began before something was written here may be shared.
  const std::string flight = fmt::format("{} {} {} {}", generation, own_.count(), most_pages, group);
  return members_under_way_.run(flight, [&]() -> Result<MembersPtr> {
    try {
      auto members = std::make_shared<Members>();
      members->began = Clock::now();
      CODECFS_TRY(members_into(*members, group, most_pages));
      members->made = Clock::now();
      uint64_t weight = group.size();
      for (const std::string& name : members->names) weight += name.size() + sizeof(std::string);
      members_.put_if(group, members, weight, [&] { return lists_generation_ == generation; });
      return members;
    } catch (const std::bad_alloc&) {
      return fail(ENOMEM, "{}: no memory to list what is in it", group);
    }
  });
}

Result<> ObjectStore::members_into(Members& members, const std::string& group, uint64_t most_pages) const {
  const std::string prefix = group.empty() ? prefix_ : prefix_ + group + "/";
  ListedSoFar so_far;
  so_far.most_of_all = most_pages;
  return for_each_page(prefix, true, so_far, [&](const remote::ObjectList& page) {
    for (const std::string& listed : page.prefixes) {
      const std::string name = listed.substr(prefix.size(), listed.size() - prefix.size() - 1);
      if (!name.empty() && name != "." && name != ".." && !name.contains('\0')) members.names.insert(name);
    }
    return members.names.size();
  });
}

/// The files that describe each member of a group, or a part of it.
std::vector<std::string> ObjectStore::metadata_of(const std::string& group, const Members& members) const {
  std::vector<std::string> keys;
  for (const std::string& name : members.names) {
    const std::string member = join_key(group, name);
    if (texts_.is_v3()) {
      keys.push_back(join_key(member, kZarr3File));
    } else {
      keys.push_back(join_key(member, kArrayFile));
      keys.push_back(join_key(member, kGroupFile));
      keys.push_back(join_key(member, kAttributesFile));
    }
  }
  return keys;
}

/// Level by level: the lists of all groups of a level at the same time, then the metadata of all their members. Ends
/// while what it has found is still used; the rest is requested when it is described.
void ObjectStore::expect_tree(const std::string& group) const try {
  if (texts_.members(group)) return;
  const auto deadline = Clock::now() + kLifetime / 2;
  std::atomic<uint64_t> found = 0;
  std::vector<std::string> level{group};
  for (size_t depth = 0; !level.empty() && depth < kMaxExpectedDepth; ++depth) {
    std::vector<MembersPtr> members(level.size());
    const Result<> listed = parallel_for(level.size(), {.threads = kListsAtOnce}, [&](uint64_t i) -> Result<> {
      if (found > kMaxExpectedMembers || Clock::now() > deadline) return fail(ECANCELED, "enough was requested");
      CODECFS_ASSIGN(members[i], members_of(level[i], kPagesOfExpected));
      found += members[i]->names.size();
      return {};
    });
    if (!listed || found > kMaxExpectedMembers || Clock::now() > deadline) return;
    std::vector<std::string> keys;
    for (size_t i = 0; i < level.size(); ++i) {
      if (!texts_.is_v3()) keys.push_back(join_key(level[i], ".nczgroup"));
      const std::vector<std::string> more = metadata_of(level[i], *members[i]);
      keys.insert(keys.end(), more.begin(), more.end());
    }
    texts_.prepare(keys, deadline);
    if (Clock::now() > deadline) return;
    std::vector<std::string> below;
    for (size_t i = 0; i < level.size(); ++i)
      for (const std::string& name : members[i]->names)
        if (std::string key = join_key(level[i], name); texts_.is_known_group(key)) below.push_back(std::move(key));
    level = std::move(below);
  }
} catch (const std::bad_alloc&) {
  // Then each is requested when it is described.
}

}  // namespace codecfs::zarr
