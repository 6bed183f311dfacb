#pragma once
// A store whose files are objects below a prefix of a bucket, or below a URL.
//
// The look-up of a chunk is the request for its content, which is kept for the read that follows. Listings and opened
// files are used for kLifetime. In a store that may be written, look-ups of absent names, which new chunks have, are
// answered by a list as soon as it costs fewer requests. Of an object, only the state is read that was the first
// (ESTALE otherwise). A store that may be written is shared with other programs: of objects that this one changes, and
// of shards, later states are read too, and take_changed() tells of them. What was written here is read from then on,
// also where a list or a request that began before does not have it.

#include <atomic>
#include <chrono>
#include <climits>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "backends/zarr/store/expected_objects.h"
#include "backends/zarr/store/object_texts.h"
#include "backends/zarr/store/own_writes.h"
#include "backends/zarr/store/store.h"
#include "base/lru_map.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/single_flight.h"
#include "remote/object_client.h"

namespace codecfs::zarr {

/// The time of day.
timespec time_now();

class ObjectStore final : public Store {
 public:
  static constexpr std::chrono::seconds kLifetime{5};

  /// `key`: of the store in the bucket. `unwritable`: why nothing may be written. Errors of ObjectClient.
  static Result<std::unique_ptr<ObjectStore>> open(std::shared_ptr<remote::ObjectClient> client, const std::string& key,
                                                   std::optional<Error> unwritable);

  ~ObjectStore() override;
  ObjectStore(const ObjectStore&) = delete;
  ObjectStore& operator=(const ObjectStore&) = delete;

  [[nodiscard]] const struct stat& status() const override { return status_; }
  [[nodiscard]] struct statvfs filesystem() const override { return {}; }
  [[nodiscard]] Result<std::optional<struct stat>> stat(const std::string& key) const override;
  [[nodiscard]] size_t reads_at_once() const override { return 32; }
  [[nodiscard]] bool passes_link(const std::string&) const override { return false; }
  [[nodiscard]] Result<std::optional<Stored>> locate(const std::string& key) const override;
  [[nodiscard]] Result<std::optional<Buffer>> read(const std::string& key, uint64_t limit) const override;
  [[nodiscard]] Result<std::shared_ptr<const StoredFile>> open_file(const std::string& key) const override;
  [[nodiscard]] Result<> may_change(const std::string& key) const override;
  Result<> for_each(const std::string& key,
                    const std::function<Result<>(const char* name, EntryType type)>& visit) const override;
  [[nodiscard]] Result<std::unique_ptr<Store>> below(const std::string& key) const override;
  [[nodiscard]] Result<std::shared_ptr<const StoredFile>> reopen_file(const std::string& key) const override;
  bool take_changed(const std::string& key) const override;
  void expect(std::span<const std::string> keys, uint64_t most_bytes) const override;
  void expect_opened(std::span<const std::string> keys) const override;
  void expect_tree(const std::string& group) const override;

  // --- for ObjectWriter

  [[nodiscard]] ObjectTexts& texts() { return texts_; }
  [[nodiscard]] remote::ObjectClient& client() { return *client_; }
  /// The key in the bucket.
  [[nodiscard]] std::string object_key(const std::string& key) const { return client_->key_of(prefix_, key); }
  /// The whole content of a file as it is now; errors of read().
  Result<std::optional<remote::ObjectPart>> read_now(const std::string& key, uint64_t limit);
  /// Returns the new ETag. Errors of ObjectClient::put().
  Result<std::string> put(const std::string& key, Bytes content, const remote::WriteCondition& condition);
  Result<> remove(const std::string& key);
  /// The keys of all objects below a directory, as they are now, also those of metadata; relative to the store.
  Result<std::vector<std::string>> objects_below(const std::string& directory) const;
  /// Lists that were made before are not used any more.
  void forget_lists();
  /// See SharedStore.
  void list_all_of(const std::string& array);

 private:
  using Clock = std::chrono::steady_clock;
  struct Listed {
    uint64_t bytes;
    std::string etag;
  };
  /// All files below a directory by key, which begins with that of the directory.
  struct Listing {
    Clock::time_point began;  // what was written later may not be in it
    Clock::time_point made;
    timespec changed;  // when it was made, for the directories in it
    std::map<std::string, Listed, std::less<>> sizes;
  };
  using ListingPtr = std::shared_ptr<const Listing>;
  /// The directories in a group.
  struct Members {
    Clock::time_point began;  // what was written later may not be in it
    Clock::time_point made;
    std::set<std::string> names;
  };
  using MembersPtr = std::shared_ptr<const Members>;
  struct Size {
    uint64_t bytes;
    Clock::time_point at;
  };
  class Ranges;
  struct File;
  struct OpenedFile;
  using PartPtr = std::shared_ptr<const remote::ObjectPart>;
  /// What the requests of one list have found.
  struct ListedSoFar {
    std::atomic<uint64_t> bytes = 0;  // of keys
    unsigned most_pages = UINT_MAX;   // of each list; then it ends early
    std::atomic<bool> is_incomplete = false;
    std::atomic<uint64_t> pages = 0;  // of all lists
    uint64_t most_of_all = UINT64_MAX;
  };
  /// Look-ups in a directory that found no object, and what a list that answers the next ones costs.
  struct Absences {
    uint64_t count = 0;  // since the last list
    uint64_t cost = 1;   // requests
  };

  ObjectStore(std::shared_ptr<remote::ObjectClient> client, std::string prefix, std::optional<Error> unwritable);
  Result<> for_each_page(const std::string& prefix, bool delimited, ListedSoFar& so_far,
                         const std::function<size_t(const remote::ObjectList&)>& take) const;
  [[nodiscard]] std::shared_ptr<const File> opened(const std::string& key) const;
  Result<> check_state(const std::string& key, const std::string& etag) const;
  void note_state(const std::string& key, const std::string& etag) const;
  static constexpr uint64_t kAdopted = 1;  // in states_
  static uint64_t state_of(std::string_view etag);
  void adopt(const std::string& key) const;
  void forget_content(const std::string& key) const;
  Result<std::shared_ptr<const StoredFile>> open_anew(const std::string& key) const;
  /// What a list says of a file, with what was written since; null in it: there is none. None: no list knows it.
  [[nodiscard]] std::optional<std::optional<Listed>> listed(const std::string& key) const;
  [[nodiscard]] ListingPtr with_own_writes(const std::string& directory, const ListingPtr& listing) const;
  Result<PartPtr> request(const std::string& key, const remote::ObjectRange& range) const;
  Result<PartPtr> first_part(const std::string& key, const OwnWrites::Mark& mark) const;
  Result<ExpectedObjects::Found> get_expected(const std::string& key) const;
  Result<std::optional<Buffer>> read_parts(const std::string& key, const PartPtr& first) const;
  [[nodiscard]] ListingPtr listing_of(const std::string& key) const;
  Result<ListingPtr> list_all(const std::string& directory, ListedSoFar& so_far) const;
  Result<> list_into(Listing& listing, const std::string& directory, ListedSoFar& so_far) const;
  [[nodiscard]] std::vector<std::string> directories_of(const std::string& key) const;
  void note_absent(const std::string& key) const;
  void list_if_absences_pay(const std::string& key) const;
  [[nodiscard]] std::vector<std::string> divided(const std::string& directory) const;
  Result<MembersPtr> members_of(const std::string& group, uint64_t most_pages = UINT64_MAX) const;
  Result<> members_into(Members& members, const std::string& group, uint64_t most_pages) const;
  [[nodiscard]] std::vector<std::string> metadata_of(const std::string& group, const Members& members) const;

  const std::shared_ptr<remote::ObjectClient> client_;
  const std::string prefix_;  // empty, or ends with "/"
  const std::optional<Error> unwritable_;
  mutable ObjectTexts texts_;
  mutable OwnWrites own_;
  struct stat status_ = {};
  mutable LruMap<std::string, remote::ObjectPart> kept_;  // read by locate() for read()
  mutable LruMap<std::string, Size> sizes_;               // of files that were read
  mutable LruMap<std::string, uint64_t> states_;  // of the objects that were read or listed: hashes of their ETags
  mutable SingleFlight<PartPtr> parts_under_way_;
  mutable SingleFlight<ListingPtr> listings_under_way_;
  mutable SingleFlight<MembersPtr> members_under_way_;
  mutable LruMap<std::string, Listing> listings_;  // by the key of the directory
  mutable LruMap<std::string, Members> members_;   // by the key of the group
  mutable LruMap<std::string, OpenedFile> opened_;
  std::atomic<uint64_t> lists_generation_ = 0;  // increased by forget_lists()
  mutable Mutex mutex_;
  std::set<std::string> undivided_ CODECFS_GUARDED_BY(mutex_);                   // keys of arrays: see list_all_of()
  mutable std::set<std::string> changed_ CODECFS_GUARDED_BY(mutex_);             // see take_changed()
  mutable std::map<std::string, Absences> absences_ CODECFS_GUARDED_BY(mutex_);  // by the key of the directory
  const std::shared_ptr<remote::RequestThreads> threads_;                        // of expected parts of opened files
  // Last: their requests use all above.
  mutable ExpectedObjects expected_;
  struct Opening;
  const std::unique_ptr<Opening> opening_;
};

}  // namespace codecfs::zarr
