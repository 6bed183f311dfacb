#include "backends/zarr/store/zip_snapshot.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <variant>

namespace codecfs::zarr {

ZipSnapshot ZipSnapshot::of(const ZipTree& tree) {
  ZipSnapshot snapshot;
  snapshot.archive_ = tree.archive;
  const mode_t files = tree.archive->status().st_mode & 0666;
  snapshot.collect(*tree.top, "", tree, files | (files & 0444) >> 2);
  snapshot.sort();
  return snapshot;
}

void ZipSnapshot::collect(const ZipDirectory& directory, const std::string& path, const ZipTree& tree, mode_t mode) {
  for (const auto& [name, member] : directory.members) {
    if (const auto* file = std::get_if<ZipFilePtr>(&member)) {
      NewZipEntry entry{.name = path + name, .bytes = {}, .mode = (*file)->mode};
      std::visit([&](const auto& place) { entry.bytes = place; }, (*file)->place);
      entries_.push_back(std::move(entry));
      owners_.emplace_back(member);
      continue;
    }
    const auto& below = std::get<ZipDirectoryPtr>(member);
    const std::string below_path = path + name + "/";
    if (below->entry) {
      entries_.push_back({.name = below_path, .bytes = *below->entry, .mode = 0});
      owners_.emplace_back(member);
    } else if (tree.has_directory_entries || below->members.empty()) {
      entries_.push_back({.name = below_path, .bytes = std::monostate(), .mode = mode});
      owners_.emplace_back(member);
    }
    collect(*below, below_path, tree, mode);
  }
}

void ZipSnapshot::sort() {
  std::vector<size_t> order(entries_.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto place = [&](size_t i) {
    const auto* archived = std::get_if<ArchivedBytes>(&entries_[i].bytes);
    return archived != nullptr ? archived->entry.central : UINT64_MAX;
  };
  std::ranges::stable_sort(order, {}, place);
  std::vector<NewZipEntry> sorted;
  std::vector<ZipMember> sorted_owners;
  sorted.reserve(order.size());
  sorted_owners.reserve(order.size());
  for (const size_t i : order) {
    sorted.push_back(std::move(entries_[i]));
    sorted_owners.push_back(std::move(owners_[i]));
  }
  entries_ = std::move(sorted);
  owners_ = std::move(sorted_owners);
}

void ZipSnapshot::move_to(const std::shared_ptr<const ZipArchive>& archive, const std::vector<ZipEntry>& places) {
  for (size_t i = 0; i < places.size(); ++i) {
    ArchivedBytes place{archive, places[i]};
    if (auto* owner = std::get_if<ZipFilePtr>(&owners_[i])) {
      (*owner)->place = std::move(place);
    } else {
      std::get<ZipDirectoryPtr>(owners_[i])->entry = std::move(place);
    }
  }
}

}  // namespace codecfs::zarr
