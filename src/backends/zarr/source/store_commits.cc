#include "backends/zarr/source/store_commits.h"

#include "backends/zarr/metadata/consolidated.h"

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

/// Updates .zmetadata after the metadata that it copies is durable, or together with it.
Result<bool> StoreCommits::commit_with(const std::function<Result<bool>()>& commit) {
  const auto places = store_.changing_places();
  CODECFS_TRY(writer_.order());
  Result<> renewed;
  if (store_.take_changed()) {
    const auto lock = store_.using_keys();
    renewed = renew_consolidated();
    if (!renewed) store_.set_changed();
  }
  auto committed = commit();
  if (committed && !renewed) return pass_on(renewed);
  return committed;
}

/// Updates .zmetadata if it exists.
Result<> StoreCommits::renew_consolidated() {
  CODECFS_ASSIGN(const auto status, store_.files().stat(kConsolidatedFile));
  CODECFS_ASSIGN(const auto text, store_.hierarchy().read_text(kConsolidatedFile));
  if (!status || !text || store_.root().kind != EntryKind::group) return {};
  CODECFS_ASSIGN(const auto renewed, renewed_consolidated(store_.hierarchy(), *text));
  if (!renewed || *renewed == *text) return {};
  return writer_.write("", kConsolidatedFile, bytes_of(*renewed), status->st_mode & 0666);
}

}  // namespace codecfs::zarr
