#pragma once
// The objects below a prefix of a bucket as a folder: what precedes a "/" in their keys is a directory. Read-only.
// Thread-safe.
//
// An object is an HDF5 or netCDF-4 file by the end of its name, a directory a Zarr store by its metadata files, which
// are requested when the directory is first listed or looked up. Listings are used for kLifetime; then names are
// requested one by one, until a list costs few requests beside those.

#include <chrono>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/folder/folder_files.h"
#include "base/lru_map.h"
#include "base/single_flight.h"
#include "remote/object_client.h"

namespace codecfs::folder {

class BucketFiles final : public FolderFiles {
 public:
  static constexpr std::chrono::seconds kLifetime{5};

  /// Opens an object or, if `is_store`, the Zarr store with this key in the bucket.
  using OpenDataset = std::function<Result<std::unique_ptr<Source>>(const std::string& key, bool is_store)>;
  struct Place {
    std::shared_ptr<remote::ObjectClient> client;
    std::string prefix;  // of the keys; empty, or ends with "/"
    std::string name;    // of the folder, for messages: "s3://bucket/prefix"
    size_t connections = 64;
  };
  BucketFiles(Place place, OpenDataset open);

  [[nodiscard]] const struct stat& status() const override { return status_; }
  [[nodiscard]] struct statvfs filesystem() const override { return {}; }
  [[nodiscard]] size_t reads_at_once() const override { return 32; }
  [[nodiscard]] std::string path_of(const std::string& key) const override;
  [[nodiscard]] std::optional<std::string> key_of(const std::string&) const override { return std::nullopt; }
  [[nodiscard]] Result<std::optional<struct stat>> stat(const std::string& key) const override;
  [[nodiscard]] Result<std::optional<Found>> look(const std::string& key) const override;
  [[nodiscard]] Result<Names> list(const std::string& key, const std::optional<std::string>& except) const override;
  [[nodiscard]] Result<UniqueFd> open_file(const std::string& key) const override;
  [[nodiscard]] Result<std::shared_ptr<const ContentReader>> open_content(const std::string& key) const override;
  [[nodiscard]] Result<std::shared_ptr<Source>> open_dataset(const std::string& key, const Found& expected,
                                                             bool may_write) const override;

  /// Whether there is any object in the folder. EINVAL if it is an unfinished copy of a store, or an
  /// Icechunk repository.
  [[nodiscard]] Result<bool> has_any() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Listing {
    Clock::time_point made;
    std::map<std::string, std::optional<Found>, std::less<>> names;  // none: a directory
  };
  using ListingPtr = std::shared_ptr<const Listing>;
  struct Looked {
    Clock::time_point made;
    std::optional<Found> found;
  };
  /// Names of a directory that were requested one by one since it was listed.
  struct Misses {
    uint64_t count = 0;
    uint64_t pages = 0;  // requests that a list of it costs at least
  };
  struct Kind {
    Clock::time_point made;
    EntryKind kind;  // of a directory: folder, or of a store's root
  };

  [[nodiscard]] std::string prefix_of(const std::string& directory) const;
  [[nodiscard]] Found found_object(const std::string& key, const remote::ListedObject& object) const;
  [[nodiscard]] Result<Found> found_directory(const std::string& key) const;
  [[nodiscard]] Result<EntryKind> kind_of_directory(const std::string& key) const;
  [[nodiscard]] Result<ListingPtr> listing_of(const std::string& directory, uint64_t most_pages = UINT64_MAX) const;
  [[nodiscard]] Result<ListingPtr> request_listing(const std::string& directory, uint64_t most_pages) const;
  [[nodiscard]] ListingPtr known_listing(const std::string& directory) const;
  [[nodiscard]] Result<ListingPtr> list_if_misses_pay(const std::string& directory) const;
  [[nodiscard]] Result<std::optional<Found>> request_name(const std::string& key) const;

  const Place place_;
  const OpenDataset open_;
  struct stat status_ = {};
  mutable LruMap<std::string, Listing> listings_;
  mutable LruMap<std::string, Looked> looked_;
  mutable LruMap<std::string, Kind> kinds_;        // of directories
  mutable LruMap<std::string, timespec> refuted_;  // times of objects that have the name of a dataset, but are none
  mutable LruMap<std::string, Misses> misses_;     // by directory
  mutable SingleFlight<ListingPtr> listings_under_way_;
};

}  // namespace codecfs::folder
