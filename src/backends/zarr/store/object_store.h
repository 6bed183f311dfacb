#pragma once
// A store whose files are objects below a prefix of a bucket, or below a URL. Read-only.
//
// The look-up of a chunk is the request for its content, which is kept for the read that follows. Listings and opened
// files are used for kLifetime. Of an object, only the state is read that was the first (ESTALE otherwise).

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/zarr/store/object_texts.h"
#include "backends/zarr/store/store.h"
#include "base/lru_map.h"
#include "base/result.h"
#include "base/single_flight.h"
#include "remote/object_client.h"

namespace codecfs::zarr {

class ObjectStore final : public Store {
 public:
  static constexpr std::chrono::seconds kLifetime{5};

  /// `key`: of the store in the bucket. Errors of ObjectClient.
  static Result<std::unique_ptr<ObjectStore>> open(std::shared_ptr<remote::ObjectClient> client,
                                                   const std::string& key);

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

 private:
  using Clock = std::chrono::steady_clock;
  struct Listed {
    uint64_t bytes;
    std::string etag;
  };
  /// All files below a directory by key, which begins with that of the directory.
  struct Listing {
    Clock::time_point made;
    timespec changed;  // when it was made, for the directories in it
    std::map<std::string, Listed, std::less<>> sizes;
  };
  using ListingPtr = std::shared_ptr<const Listing>;
  struct File;
  struct OpenedFile;
  using PartPtr = std::shared_ptr<const remote::ObjectPart>;
  struct Size;
  struct ListedSoFar;

  ObjectStore(std::shared_ptr<remote::ObjectClient> client, std::string prefix);
  Result<> for_each_page(const std::string& prefix, bool delimited, ListedSoFar& so_far,
                         const std::function<size_t(const remote::ObjectList&)>& take) const;
  Result<> check_state(const std::string& key, const std::string& etag) const;
  Result<PartPtr> request(const std::string& key, const remote::ObjectRange& range) const;
  Result<PartPtr> first_part(const std::string& key) const;
  [[nodiscard]] ListingPtr listing_of(const std::string& key) const;
  Result<ListingPtr> list_all(const std::string& directory) const;
  Result<> list_into(Listing& listing, const std::string& directory) const;
  [[nodiscard]] std::vector<std::string> divided(const std::string& directory) const;
  Result<> list_group(const std::string& group,
                      const std::function<Result<>(const char* name, EntryType type)>& visit) const;

  const std::shared_ptr<remote::ObjectClient> client_;
  const std::string prefix_;  // empty, or ends with "/"
  mutable ObjectTexts texts_;
  struct stat status_ = {};
  mutable LruMap<std::string, remote::ObjectPart> kept_;  // read by locate() for read()
  mutable LruMap<std::string, Size> sizes_;               // of files that were read
  mutable LruMap<std::string, uint64_t> states_;  // of the objects that were read or listed: hashes of their ETags
  mutable SingleFlight<PartPtr> parts_under_way_;
  mutable SingleFlight<ListingPtr> listings_under_way_;
  mutable LruMap<std::string, Listing> listings_;  // by the key of the directory
  mutable LruMap<std::string, OpenedFile> opened_;
};

}  // namespace codecfs::zarr
