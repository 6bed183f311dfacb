#pragma once
// A store whose files are objects below a prefix of a bucket, or below a URL. Read-only.
//
// The look-up of a chunk is the request for its content, which is kept for the read that follows. Listings and opened
// files are used for kLifetime; whatever is read of one object is of one state of it (ESTALE otherwise).

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "backends/zarr/store/object_texts.h"
#include "backends/zarr/store/store.h"
#include "base/lru_map.h"
#include "base/result.h"
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
  /// All files below a directory: sizes in bytes by key, which begins with that of the directory.
  struct Listing {
    Clock::time_point made;
    timespec changed;  // when it was made, for the directories in it
    std::map<std::string, uint64_t, std::less<>> sizes;
  };
  using ListingPtr = std::shared_ptr<const Listing>;
  struct File;
  struct OpenedFile;
  struct Kept;

  ObjectStore(std::shared_ptr<remote::ObjectClient> client, std::string prefix);
  [[nodiscard]] ListingPtr listing_of(const std::string& key) const;
  Result<ListingPtr> list_all(const std::string& directory) const;
  Result<> list_group(const std::string& group,
                      const std::function<Result<>(const char* name, EntryType type)>& visit) const;

  const std::shared_ptr<remote::ObjectClient> client_;
  const std::string prefix_;  // empty, or ends with "/"
  mutable ObjectTexts texts_;
  struct stat status_ = {};
  mutable LruMap<std::string, Kept> kept_;            // read by locate() for read()
  mutable LruMap<std::string, Listing> listings_;     // by the key of the directory
  mutable LruMap<std::string, OpenedFile> opened_;
};

}  // namespace codecfs::zarr
