// What ObjectWriter uses of a store, and how what is written becomes visible to readers.

#include <new>
#include <utility>

#include "backends/zarr/store/object_store.h"
#include "base/text_hash.h"

namespace codecfs::zarr {

/// What a listing has below a directory, with what was written there since it began.
ObjectStore::ListingPtr ObjectStore::with_own_writes(const std::string& directory, const ListingPtr& listing) const {
  const std::string prefix = directory.empty() ? "" : directory + "/";
  if (!own_.has_any(prefix, listing->began)) return listing;
  auto merged = std::make_shared<Listing>();
  for (auto at = listing->sizes.lower_bound(prefix); at != listing->sizes.end() && at->first.starts_with(prefix); ++at)
    merged->sizes.insert(merged->sizes.end(), *at);
  own_.for_each(prefix, listing->began, [&](const std::string& key, const OwnWrites::Write& write) {
    // One that has failed or is under way may have taken place: then a look-up finds it.
    if (write.outcome == OwnWrites::Write::Outcome::removed)
      merged->sizes.erase(key);
    else
      merged->sizes.insert_or_assign(key, Listed{.bytes = write.bytes, .etag = {}});
  });
  return merged;
}

Result<std::optional<remote::ObjectPart>> ObjectStore::read_now(const std::string& key, uint64_t limit) {
  adopt(key);
  const OwnWrites::Mark mark = own_.mark_of(key);
  CODECFS_ASSIGN(auto part, client_->get(object_key(key), {}, limit));
  if (part && own_.is_unchanged(key, mark)) CODECFS_TRY(check_state(key, part->etag));
  return part;
}

/// The state for an ETag: lists and headers may differ in the quotes.
uint64_t ObjectStore::state_of(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') etag = etag.substr(1, etag.size() - 2);
  return text_hash(etag) & ~kAdopted;
}

/// This program changes the object, so it uses each state of it, and tells of a new one.
void ObjectStore::adopt(const std::string& key) const {
  states_.update(key, [](uint64_t& known) { known |= kAdopted; });
}

/// Notes the state of what this program has written.
void ObjectStore::note_state(const std::string& key, const std::string& etag) const {
  if (etag.empty())
    states_.erase(key);
  else
    states_.put(key, std::make_shared<const uint64_t>(state_of(etag) | kAdopted));
}

/// While a write is underway nothing older is kept again.
void ObjectStore::forget_content(const std::string& key) const {
  kept_.erase(key);
  sizes_.erase(key);
  opened_.erase(key);
  expected_.forget(key);
}

Result<std::string> ObjectStore::put(const std::string& key, Bytes content,
                                     const remote::WriteCondition& condition) try {
  OwnWrites::Underway write(own_, key);
  auto etag = client_->put(object_key(key), content, condition);
  if (etag) note_state(key, *etag);
  forget_content(key);
  write.end(etag ? OwnWrites::Write::Outcome::stored : OwnWrites::Write::Outcome::unknown, content.size());
  if (!etag) return etag;
  const OwnWrites::Mark mark = own_.mark_of(key);
  sizes_.put_if(key, std::make_shared<const Size>(content.size(), Clock::now()), 0,
                [&] { return own_.is_unchanged(key, mark); });
  return etag;
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "{}: no memory to store it", key);
}

Result<> ObjectStore::remove(const std::string& key) try {
  OwnWrites::Underway write(own_, key);
  const Result<> removed = client_->remove(object_key(key));
  if (removed) states_.erase(key);
  forget_content(key);
  write.end(removed ? OwnWrites::Write::Outcome::removed : OwnWrites::Write::Outcome::unknown);
  return removed;
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "{}: no memory to remove it", key);
}

Result<std::vector<std::string>> ObjectStore::objects_below(const std::string& directory) const try {
  std::vector<std::string> keys;
  ListedSoFar so_far;
  CODECFS_TRY(for_each_page(prefix_ + directory + "/", false, so_far, [&](const remote::ObjectList& page) {
    for (const remote::ListedObject& object : page.objects) keys.push_back(object.key.substr(prefix_.size()));
    return keys.size();
  }));
  return keys;
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "{}: no memory to list what is in it", directory);
}

void ObjectStore::list_all_of(const std::string& array) {
  {
    const LockGuard lock(mutex_);
    undivided_.insert(array);
  }
  forget_lists();
}

void ObjectStore::forget_lists() {
  ++lists_generation_;
  listings_.clear();
  members_.clear();
}

}  // namespace codecfs::zarr
