#include "backends/zarr/source/store_commits.h"

#include "backends/zarr/source/consolidated.h"
#include "backends/zarr/store/shared_store.h"

namespace codecfs::zarr {

Result<> StoreCommits::commit(bool also_inherited) {
  if (also_inherited) CODECFS_TRY(writer_.sync_inherited());
  const auto done = commit_with([&]() -> Result<bool> {
    CODECFS_TRY(writer_.commit());
    return true;
  });
  if (!done) return std::unexpected(done.error());
  return {};
}

Result<bool> StoreCommits::commit_at_interval() {
  return commit_with([&] { return writer_.commit_at_interval(); });
}

/// Updates consolidated metadata after the metadata that it copies is durable, or together with it.
Result<bool> StoreCommits::commit_with(const std::function<Result<bool>()>& commit) {
  const auto places = store_.changing_places();
  Result<> shards;
  {
    const auto lock = store_.using_keys();
    shards = shards_.write_shards();
  }
  CODECFS_TRY(writer_.order());
  Result<> renewed;
  if (store_.take_changed()) {
    const auto lock = store_.using_keys();
    renewed = repeat_change([&] { return renew_consolidated(); });
    if (!renewed) store_.set_changed();
  }
  auto committed = commit();
  if (committed && !shards) return pass_on(shards);
  if (committed && !renewed) return pass_on(renewed);
  return committed;
}

/// Updates .zmetadata, or the consolidated metadata in the root's zarr.json, if there is any.
Result<> StoreCommits::renew_consolidated() {
  SharedStore* const shared = writer_.shared();
  if (shared != nullptr) CODECFS_TRY(shared->renew_consolidated());
  const char* const file = store_.hierarchy().format() == ZarrFormat::v3 ? kZarr3File : kConsolidatedFile;
  CODECFS_ASSIGN(const auto status, store_.files().stat(file));
  CODECFS_ASSIGN(const auto text, store_.hierarchy().read_text(file));
  if (!status || !text || store_.root().kind != EntryKind::group) return {};
  CODECFS_ASSIGN(const auto renewed, renewed_consolidated(store_.hierarchy(), *text));
  if (renewed && *renewed != *text) CODECFS_TRY(writer_.write("", file, bytes_of(*renewed), status->st_mode & 0666));
  if (shared != nullptr) shared->note_consolidated();
  return {};
}

}  // namespace codecfs::zarr
