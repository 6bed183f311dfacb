#pragma once
// Writes a store in an object store. There is no right to write that excludes other programs: a whole chunk is one PUT,
// which replaces what is there; all else is done on the condition that what it is based on has not changed.
//
// Each object is changed atomically, and durable when the call returns. No change of several objects is atomic: a group
// or array is there when its .zgroup, .zarray or zarr.json is, which is made first and removed last.

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/zarr/store/object_store.h"
#include "backends/zarr/store/shared_store.h"
#include "backends/zarr/store/store_writer.h"
#include "base/mutex.h"
#include "base/result.h"

namespace codecfs::zarr {

class ObjectWriter final : public StoreWriter, public SharedStore {
 public:
  /// `store` must outlive this object.
  explicit ObjectWriter(ObjectStore& store) : store_(store) {}

  [[nodiscard]] SharedStore* shared() override { return this; }

  // StoreWriter. EAGAIN from the functions that change metadata: another program has changed it.
  Result<> begin() override { return store_.may_change(""); }
  Result<> write(const std::string& array, const std::string& name, Bytes bytes, mode_t mode) override;
  Result<> write_parts(const std::string& array, const std::string& name, std::span<const StorePart> parts,
                       mode_t mode) override;
  Result<> remove(const std::string& array, const std::string& name) override;
  Result<std::unique_ptr<NewDirectory>> new_directory(const std::string& parent, const std::string& name,
                                                      mode_t mode) override;
  Result<std::unique_ptr<NewDirectory>> new_store(mode_t mode) override;
  Result<> exchange_store(NewDirectory& directory) override;
  Result<std::unique_ptr<NewDirectory>> remove_directory(const std::string& parent, const std::string& name) override;
  Result<> move(const std::string& from_parent, const std::string& from, const std::string& to_parent,
                const std::string& to) override;
  // Commits have nothing to do: each request is durable when it returns.

  // SharedStore
  Result<> begin_updates() override;
  Result<File> read_now(const std::string& key, uint64_t limit) override;
  Result<std::shared_ptr<const StoredFile>> open_now(const std::string& key) override;
  Result<std::string> replace(const std::string& key, const std::string& version,
                              std::span<const StorePart> parts) override;
  Result<> renew_consolidated() override { return store_.texts().renew_consolidated(); }
  void note_consolidated() override { store_.texts().note_consolidated(); }
  void forget_lists() override { store_.forget_lists(); }
  void list_all_of(const std::string& array) override { store_.list_all_of(array); }

 private:
  class NewObjects;

  Result<> check_without_members(const std::string& group) const;
  Result<> write_metadata(const std::string& key, Bytes bytes);
  Result<> remove_metadata(const std::string& key);

  ObjectStore& store_;
  Mutex probe_mutex_{LockRank::object_probe};  // held while the server is tried
  std::optional<Result<>> probed_ CODECFS_GUARDED_BY(probe_mutex_);
};

/// Creates an empty store below a key of a bucket: the metadata `file` of its root with this text. False if there is a
/// group or array already; EEXIST if there are other objects.
Result<bool> create_in_object_store(remote::ObjectClient& client, const std::string& key, const std::string& file,
                                    const std::string& text);

}  // namespace codecfs::zarr
